import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { trackChildren } from '../../../scripts/embedded/children.ts'
import { reservePorts } from '../../../scripts/embedded/ports.ts'
import { requireMongod, requireRedis } from '../../../scripts/embedded/programs.ts'
import { startRedis } from '../../../scripts/embedded/redis.ts'
import type { EmbeddedServer } from '../../../scripts/embedded/server.ts'
import type { SupervisedChild } from '../../../scripts/embedded/supervise.ts'
import { waitFor } from '../../../scripts/embedded/wait.ts'
import { ensureSealKey } from '../../../shared/ledger/seal-key.ts'
import { QUEUE_NAMES, queueRow, type QueueName } from '../../../shared/platform/queue-table.ts'
import { TREASURY_SEED, type Coins } from './coins.ts'
import { openGate, type Gate } from './gate.ts'
import type { Monero } from './monero.ts'
import { mountSmallDisk } from './disk.ts'
import { QUICK_RESTART } from './kept-process.ts'
import { startMongoSet, type MongoSet } from './mongo-set.ts'
import { checkOutOther } from './other-version.ts'
import { startPart, type Part } from './part.ts'
import { makeServerClock, type ServerClock } from './server-clock.ts'

const UP_LIMIT_MS = 180_000

/** The group of worker processes that serves each pool of queues; sealing and signing share one. */
const GROUP_OF_POOL = {
  shares: 'shares',
  ledger: 'ledger',
  signer: 'ledger',
  sweep: 'sweep',
  payments: 'coins',
} as const

/** A running network. */
export interface Testbed {
  /** The settings for a process of this network. */
  readonly env: Readonly<Record<string, string>>
  readonly folder: string
  readonly mongo: MongoSet
  readonly redis: EmbeddedServer
  readonly redisGate: Gate
  /** Before the coin node's RPC, if there is a coin. */
  readonly coinGate: Gate | undefined
  /** Redis's folder, if it is a small file system of its own that can be filled. */
  readonly redisDisk: string | undefined
  /** The first mongod's folder, if it is a small file system of its own. */
  readonly mongoDisk: string | undefined
  /** Redis's clock, if it can be set. */
  readonly redisClock: ServerClock | undefined
  /** The folder with the code of another version, if there is one. */
  readonly otherVersion: string | undefined
  readonly coins: Coins | undefined
  readonly monero: Monero | undefined
  /** Base URLs of the API processes. */
  readonly urls: readonly string[]
  readonly apis: readonly Part[]
  readonly workers: readonly Part[]
  /**
   * Starts one more process, which is stopped with the others; `more` are settings beside those of the
   * network.
   */
  start(name: string, script: string, args: readonly string[], more: Record<string, string>): Part
  /** Resolves when each API serves the feed. @throws TimeoutError after three minutes */
  whenServing(): Promise<void>
  /** Copies MongoDB's data, which is stopped meanwhile; the copy replaces an earlier one. */
  backUp(): Promise<void>
  /**
   * Stops the service and MongoDB, calls `onStopped`, puts the last copy in place of MongoDB's data, and starts
   * everything again.
   */
  restore(onStopped: () => void): Promise<void>
  /** Stops the service's processes by SIGTERM. */
  stopParts(): Promise<Stopped[]>
  /** Stops the rest and removes the folder. */
  stop(): Promise<void>
}

/** How the stop of a process went. */
export interface Stopped {
  name: string
  tookMs: number
  /** What it logged as errors meanwhile. */
  errors: readonly string[]
}

export interface TestbedOptions {
  /** Members of the MongoDB set. */
  members: number
  /** API processes, and processes of each group of workers. */
  each: number
  /** Settings that replace those of every run. */
  env?: Readonly<Record<string, string>>
  /** Which queues each group of workers serves, by its name; by GROUP_OF_POOL if absent. */
  groups?: Readonly<Record<string, readonly QueueName[]>>
  /** Whether Redis's clock can be set, and another version is at hand: what takes longer to start. */
  isFull?: boolean
  /** Whether the clocks of MongoDB's members can be set. */
  hasMongoClocks?: boolean
  /** Gives the first mongod a file system of this size, in mount's notation such as `64m`. */
  mongoDiskSize?: string
  coins?: Coins | undefined
  /** A second coin. */
  monero?: Monero | undefined
  /** Called with what the supervisor says of its processes. */
  report: (line: string) => void
}

/** Its append-only file is rewritten only from 64 MiB on, with the old one still there. */
const REDIS_DISK = '256m'

/**
 * Starts the whole network in real processes, MongoDB and Redis behind gates, and waits until it serves.
 *
 * @throws Error with the processes' last errors if it does not come up; then nothing is left running
 */
export async function startTestbed({
  members,
  each,
  env: extra = {},
  groups = workerGroups(),
  mongoDiskSize,
  isFull = false,
  hasMongoClocks = false,
  coins,
  monero,
  report,
}: TestbedOptions): Promise<Testbed> {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-testbed-'))
  const children = trackChildren(folder, report, true)
  const redisHome = path.join(folder, 'redis-home')
  fs.mkdirSync(path.join(redisHome, 'logs'), { recursive: true })
  const redisDisk = mountSmallDisk(path.join(redisHome, 'redis'), REDIS_DISK)
  const mongoDisk =
    mongoDiskSize === undefined ? undefined : mountSmallDisk(path.join(folder, 'mongo-0'), mongoDiskSize)
  const toStop: (() => Promise<unknown>)[] = []
  const stop = async (): Promise<void> => {
    for (const stopOne of toStop.splice(0).reverse()) await stopOne()
    children.close()
    for (const disk of [redisDisk, mongoDisk]) if (disk !== undefined) spawnSync('umount', [disk])
    fs.rmSync(folder, { recursive: true, force: true })
  }
  try {
    const onStarted = (child: SupervisedChild): void => void toStop.push(() => child.stop())
    const redisClock = isFull ? makeServerClock(folder, 'redis', requireRedis(), true) : undefined
    const otherVersion = isFull ? checkOutOther(folder) : undefined
    const binary = requireMongod()
    const [mongo, redis] = await Promise.all([
      startMongoSet({
        binary,
        folder,
        size: members,
        hasClocks: hasMongoClocks,
        children,
        report,
        onStarted,
      }),
      startRedis({
        binary: redisClock?.binary ?? requireRedis(),
        dataDir: redisHome,
        children,
        report,
        onStarted,
        backOff: QUICK_RESTART,
      }),
    ])
    toStop.push(() => mongo.closeGates())
    const redisGate = await openGate(redis.port)
    toStop.push(() => redisGate.close())
    const coinGate = coins === undefined ? undefined : await openGate(Number(new URL(coins.node.rpcUrl).port))
    if (coinGate !== undefined) toStop.push(() => coinGate.close())
    const redisUrl = new URL(redis.url)
    redisUrl.port = String(redisGate.port)
    ensureSealKey(path.join(folder, 'seal-key'))
    const seedFile = path.join(folder, 'nano-seed')
    fs.writeFileSync(seedFile, `${TREASURY_SEED}\n`, { mode: 0o600 })
    const env = {
      MONGODB_URL: mongo.url,
      REDIS_URL: redisUrl.href,
      CHALLENGE_SECRET: 'c0'.repeat(32),
      SEAL_KEY_FILE: path.join(folder, 'seal-key'),
      SEAL_MEMORY_FILE: path.join(folder, 'seal-memory'),
      DATA_DIR: folder,
      FREE_UNTIL: 'none',
      REGISTER_BITS: '4',
      SHARE_BITS: '6',
      SHARES_PER_DAY: '3',
      SWEEP_SECONDS: '1',
      SEAL_INTERVAL_SECONDS: '3',
      OPERATOR_PORT: '0',
      ...(coins === undefined ? {} : { ...coins.env, NANO_SEED_FILE: seedFile }),
      ...(coinGate === undefined ? {} : { NANO_RPC_URL: `http://127.0.0.1:${coinGate.port}` }),
      ...monero?.env,
      ...extra,
    }
    const parts: Part[] = []
    const start: Testbed['start'] = (name, script, args, more) => {
      const part = startPart({ name, script, args, env: { ...env, ...more }, folder, children, report })
      parts.push(part)
      return part
    }
    toStop.push(() => Promise.all(parts.map(({ child }) => child.stop())))
    const ports = await reservePorts(each)
    const apis = ports.map((port, index) => start(`api-${index}`, 'api/main.ts', [], { PORT: String(port) }))
    const workers = Object.entries(groups).flatMap(([group, queues]) =>
      Array.from({ length: each }, (_, index) =>
        start(`${group}-${index}`, 'workers/main.ts', ['--queues', queues.join(',')], {}),
      ),
    )
    const urls = ports.map((port) => `http://127.0.0.1:${port}`)
    const whenServing = async (): Promise<void> => {
      for (const url of urls)
        await waitFor(`an answer from ${url}`, async () => ((await isServing(url)) ? true : undefined), {
          limitMs: UP_LIMIT_MS,
        })
    }
    const whenUp = async (): Promise<void> => {
      await whenServing()
      await Promise.all(parts.map((part) => part.whenUpAgain(undefined)))
    }
    await whenUp().catch((error: unknown) => {
      const lastErrors = parts.flatMap(({ name, errors }) =>
        errors.slice(-3).map((line) => `${name}: ${line.slice(0, 500)}`),
      )
      throw new Error(`the network did not come up\n${lastErrors.join('\n')}`, { cause: error })
    })
    return {
      env,
      folder,
      mongo,
      redis,
      redisGate,
      coinGate,
      redisDisk,
      mongoDisk,
      redisClock,
      otherVersion,
      coins,
      monero,
      urls,
      apis,
      workers,
      start,
      whenServing,
      stop,
      async backUp() {
        await Promise.all(mongo.members.map(({ child }) => child.stop()))
        for (const { folder: data } of mongo.members) replaceFolder(`${data}-copy`, data)
        for (const { child } of mongo.members) child.start()
        await mongo.whenWritable()
      },
      async restore(onStopped) {
        const before = parts.map((part) => [part, part.upAtMs()] as const)
        await Promise.all(parts.map(({ child }) => child.stop()))
        onStopped()
        await Promise.all(mongo.members.map(({ child }) => child.stop()))
        for (const { folder: data } of mongo.members) replaceFolder(data, `${data}-copy`)
        for (const { child } of mongo.members) child.start()
        await mongo.whenWritable()
        for (const { child } of parts) child.start()
        await Promise.all(before.map(([part, upAtMs]) => part.whenUpAgain(upAtMs)))
        await whenServing()
      },
      stopParts: () =>
        Promise.all(
          parts.map(async ({ name, child, errors }) => {
            const [before, startedAt] = [errors.length, performance.now()]
            await child.stop()
            return { name, tookMs: performance.now() - startedAt, errors: errors.slice(before) }
          }),
        ),
    }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Puts a copy of a folder in the place of another one. */
function replaceFolder(place: string, from: string): void {
  fs.rmSync(place, { recursive: true, force: true })
  fs.cpSync(from, place, { recursive: true })
}

/** The queues of each group of GROUP_OF_POOL; doorbells are no part of a testbed. */
const workerGroups = (): Record<string, QueueName[]> =>
  Object.fromEntries(
    Map.groupBy(
      QUEUE_NAMES.filter((name) => queueRow(name).pool !== 'doorbells'),
      (name) => GROUP_OF_POOL[queueRow(name).pool as keyof typeof GROUP_OF_POOL],
    ),
  )

/** Whether an API answers the feed with 200 now. */
async function isServing(url: string): Promise<boolean> {
  const answer = await fetch(`${url}/api/v1/feed`, { signal: AbortSignal.timeout(3_000) }).catch(
    () => undefined, // not up yet
  )
  await answer?.body?.cancel()
  return answer?.status === 200
}
