import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { trackChildren } from '../../../scripts/embedded/children.ts'
import { reservePorts } from '../../../scripts/embedded/ports.ts'
import { requireMongod, requireRedis } from '../../../scripts/embedded/programs.ts'
import { startRedis } from '../../../scripts/embedded/redis.ts'
import type { EmbeddedServer } from '../../../scripts/embedded/server.ts'
import { supervise, type SupervisedChild } from '../../../scripts/embedded/supervise.ts'
import { waitFor } from '../../../scripts/embedded/wait.ts'
import { compileCacheDir } from '../../../scripts/prepare.mjs'
import { ensureSealKey } from '../../../shared/ledger/seal-key.ts'
import { QUEUE_NAMES, queueRow, type QueueName } from '../../../shared/platform/queues.ts'
import type { Coins } from './coins.ts'
import { openGate, type Gate } from './gate.ts'
import type { Monero } from './monero.ts'
import { isOutageText } from '../auditor/outage-text.ts'
import { QUICK_RESTART, startMongoSet, type MongoSet } from './mongo-set.ts'
import { checkOutOther } from './other-version.ts'
import { makeServerClock, type ServerClock } from './server-clock.ts'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const CLOCK = fileURLToPath(new URL('shifted-clock.ts', import.meta.url))
const UP_LIMIT_MS = 180_000
/** pino's number for an error. */
const ERROR_LEVEL = 50

/** The group of worker processes that serves each pool of queues; sealing and signing share one. */
const GROUP_OF_POOL = {
  shares: 'shares',
  ledger: 'ledger',
  signer: 'ledger',
  sweep: 'sweep',
  payments: 'coins',
} as const

/** A process of the service; a supervisor restarts it when it dies. */
export interface Part {
  readonly name: string
  readonly child: SupervisedChild
  /** Sets by how much its clock is wrong, in this life and those after a restart. */
  shiftClock(shiftMs: number): void
  /** From its next start on it runs the code in this folder, or the present one again. */
  useCode(root: string | undefined): void
  /** Lines that it logged as an error or worse, and output that isn't a log line. */
  readonly errors: readonly string[]
  /**
   * When it last logged that it is up (performance.now()); undefined if it never did. It changes with each
   * restart.
   */
  upAtMs(): number | undefined
  /** The last lines that it logged. */
  lastLines(): readonly string[]
}

/** A running network. */
export interface Stack {
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
  /**
   * Stops the service's processes by SIGTERM.
   *
   * @returns a sentence for each that took too long, and for each error that one logged
   */
  stopParts(): Promise<string[]>
  /** Stops the rest and removes the folder. */
  stop(): Promise<void>
}

export interface StackOptions {
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
export async function startStack({
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
}: StackOptions): Promise<Stack> {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-torture-'))
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
    fs.writeFileSync(seedFile, `${'7a'.repeat(32)}\n`, { mode: 0o600 })
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
    const start: Stack['start'] = (name, script, args, more) => {
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
    await whenServing().catch((error: unknown) => {
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
      async stopParts() {
        const wrong: string[] = []
        await Promise.all(
          parts.map(async ({ name, child, errors }) => {
            const [before, startedAt] = [errors.length, performance.now()]
            await child.stop()
            if (performance.now() - startedAt > STOP_IN_TIME_MS)
              wrong.push(`${name} took more than ${STOP_IN_TIME_MS / 1_000} s to stop`)
            const said = errors.slice(before).filter((line) => !isOutageText(line))
            wrong.push(...said.map((line) => `${name} logged as it stopped: ${line}`))
          }),
        )
        return wrong
      },
    }
  } catch (error) {
    await stop()
    throw error
  }
}

const STOP_IN_TIME_MS = 30_000

/** The queues of each group of GROUP_OF_POOL. */
const workerGroups = (): Record<string, QueueName[]> =>
  Object.groupBy(QUEUE_NAMES, (name) => GROUP_OF_POOL[queueRow(name).pool])

/** Whether an API answers the feed with 200 now. */
export async function isServing(url: string): Promise<boolean> {
  const answer = await fetch(`${url}/api/v1/feed`, { signal: AbortSignal.timeout(3_000) }).catch(
    () => undefined, // not up yet
  )
  await answer?.body?.cancel()
  return answer?.status === 200
}

const KEPT_LINES = 8

/**
 * Starts a process of the service under supervision, with a clock that can be shifted, and appends what it
 * prints to NAME.log in `folder`. It does not wait until the process is up.
 *
 * @param options `script`: its path in the project; `report`: called with what the supervisor says of it
 */
export function startPart(options: {
  name: string
  script: string
  args: readonly string[]
  env: Record<string, string>
  folder: string
  children: ReturnType<typeof trackChildren>
  report: (line: string) => void
}): Part {
  const { name, script, args, env, folder, children, report } = options
  const clockFile = path.join(folder, `${name}.clock`)
  const log = fs.createWriteStream(path.join(folder, `${name}.log`), { flags: 'a' })
  const errors: string[] = []
  const lastLines: string[] = []
  let upAtMs: number | undefined
  const onLine = (line: string): void => {
    log.write(`${line}\n`)
    lastLines.push(line.slice(0, 400))
    if (lastLines.length > KEPT_LINES) lastLines.shift()
    if (isErrorLine(line)) errors.push(line)
    if (line.includes('"msg":"the API listens"') || line.includes('"msg":"the workers work"'))
      upAtMs = performance.now()
  }
  const scriptIn = (root = ROOT): string => path.join(root, script)
  const words = ['--import', CLOCK, scriptIn(), ...args]
  const child = supervise(
    {
      name,
      command: process.execPath,
      args: words,
      env: {
        PATH: process.env.PATH,
        HOME: process.env.HOME,
        NODE_COMPILE_CACHE: compileCacheDir(process.env),
        CLOCK_FILE: clockFile,
        ...env,
      },
      onLine,
      onErrorLine: onLine,
      stopLimitMs: 40_000,
      backOff: QUICK_RESTART,
    },
    report,
    children,
  )
  return {
    name,
    child,
    errors,
    upAtMs: () => upAtMs,
    lastLines: () => lastLines,
    useCode: (root) => void words.splice(2, 1, scriptIn(root)),
    shiftClock(shiftMs) {
      fs.writeFileSync(clockFile, String(shiftMs))
      const pid = child.pid()
      if (pid !== undefined) process.kill(pid, 'SIGUSR2')
    },
  }
}

/** Whether a line is logged as an error or worse, or is no log line, such as a stack trace. */
function isErrorLine(line: string): boolean {
  if (!line.startsWith('{'))
    return line.trim() !== '' && !/ExperimentalWarning|Use `node --trace-warnings/.test(line)
  try {
    return (JSON.parse(line) as { level: number }).level >= ERROR_LEVEL
  } catch {
    return false // incomplete: the process was killed while it wrote the line
  }
}

/**
 * Makes a folder, and mounts a small tmpfs there.
 *
 * @returns its path, or undefined if this user may not mount
 */
function mountSmallDisk(place: string, size: string): string | undefined {
  fs.mkdirSync(place, { recursive: true, mode: 0o700 })
  const { status } = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${size},mode=700`, 'tmpfs', place], {
    stdio: 'ignore',
  })
  return status === 0 ? place : undefined
}
