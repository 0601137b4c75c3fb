import fs from 'node:fs'
import path from 'node:path'
import { Redis } from 'ioredis'
import mongoose from 'mongoose'
import { trackChildren } from '../../scripts/embedded/children.ts'
import { reservePort } from '../../scripts/embedded/ports.ts'
import { requireMongod, requireRedis } from '../../scripts/embedded/programs.ts'
import type { SupervisedChild } from '../../scripts/embedded/supervise.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { keepProcess, type KeptProcess } from '../harness/testbed/kept-process.ts'
import { startMongoSet, type MongoSet } from '../harness/testbed/mongo-set.ts'
import { PATIENCE_MS } from './patience.ts'
import { serverFolder } from './server-folder.ts'

const HOST = '127.0.0.1'
const LIMIT = { limitMs: PATIENCE_MS, everyMs: 50 }
const STOP_LIMIT_MS = 20_000
const SLOTS = 16_384
const NODES = [0, 1, 2] as const

interface Server {
  port: number
  /** SIGKILL, and resolves when it is gone. */
  kill(): Promise<void>
  /** Starts it again, on the same data. */
  restart(): void
}

export interface ReplicaSet {
  url: string
  members: readonly Server[]
  /** The port of the member that takes writes now. */
  primary(): Promise<number>
  /** Tells the primary to step down, and resolves with the port of the next one. */
  stepDown(): Promise<number>
  /**
   * From now on a primary that has lost the others goes on for so long, and those that have lost it wait for
   * so long.
   */
  setElectionTimeout(ms: number): Promise<void>
}

export interface RedisNodes {
  url: string
  nodes: readonly Server[]
}

/** How a primary, its replica and their sentinel are guarded. */
interface Guard {
  /** Of a user of Redis who may read its state. */
  login: Login
  sentinelPassword?: string
  /** Lines of the configuration of both, and of the sentinel. */
  lines: readonly string[]
  sentinelLines: readonly string[]
}
type Login = { username?: string; password: string }

/** One password for everybody at Redis, and one at the sentinel. */
export const guardByPasswords = (password: string, sentinelPassword: string): Guard => ({
  login: { password },
  sentinelPassword,
  lines: [`requirepass ${password}`, `masterauth ${password}`],
  sentinelLines: [`sentinel auth-pass farm ${password}`, `requirepass ${sentinelPassword}`],
})

export interface Farm {
  startReplicaSet(): Promise<ReplicaSet>
  startRedisCluster(): Promise<RedisNodes>
  /** A primary, a replica of it, and a sentinel that replaces one by the other. */
  startSentinel(guard?: Guard): Promise<RedisNodes>
  stop(): Promise<void>
}

/** Servers on this machine in numbers, each with its folder below one that is removed at the end. */
export function openFarm(): Farm {
  const folder = fs.mkdtempSync(path.join(serverFolder(), 'farm-'))
  const report = (line: string): void => console.error(line)
  const children = trackChildren(folder, report, true)
  const started: SupervisedChild[] = []
  const sets: MongoSet[] = []

  /** A server as the tests see it. */
  const serverOf = (child: KeptProcess, port: number): Server => ({
    port,
    async kill() {
      child.kill()
      await child.stop()
    },
    restart: () => child.start(),
  })

  const startRedis = async (
    lines: readonly string[],
    args: readonly string[] = [],
    findPort: () => Promise<number> = reservePort,
  ): Promise<Server> => {
    const port = await findPort()
    const name = `redis-${port}`
    const own = path.join(folder, name)
    fs.mkdirSync(own)
    const file = path.join(own, 'redis.conf')
    fs.writeFileSync(file, [`bind ${HOST}`, `port ${port}`, `dir ${own}`, 'save ""', ...lines].join('\n'))
    const child = keepProcess(
      { name, command: requireRedis(), args: [file, ...args], env: process.env, stopLimitMs: STOP_LIMIT_MS },
      report,
      children,
    )
    started.push(child)
    return serverOf(child, port)
  }

  return {
    async startReplicaSet() {
      const set = await startMongoSet({
        ...{ binary: requireMongod(), folder, size: 3, isDirect: true, children, report },
        onStarted: (child) => void started.push(child),
      })
      sets.push(set)
      const primaryIndex = () => waitFor('a primary', set.findPrimary, LIMIT)
      const primary = async () => set.members[await primaryIndex()]?.port ?? 0
      /** Undefined if the command is refused, or its connection breaks. */
      const tryOnPrimary = async (command: object): Promise<mongoose.mongo.Document | undefined> =>
        set.command(await primaryIndex(), command).catch((error: unknown) => {
          if (!(error instanceof mongoose.mongo.MongoError)) throw error
          return undefined
        })
      return {
        url: set.url,
        members: set.members.map(({ child, port }) => serverOf(child, port)),
        primary,
        async stepDown() {
          const before = await primary()
          const next = async () => {
            // The connection breaks with the step; and it is refused while no other has caught up.
            await tryOnPrimary({ replSetStepDown: 10, secondaryCatchUpPeriodSecs: 5 })
            const now = await primary()
            return now === before ? undefined : now
          }
          return waitFor('the next primary', next, LIMIT)
        },
        async setElectionTimeout(ms) {
          // Refused by one that has just ceased to be the primary, and while a member that was started again
          // catches up.
          const change = async () => {
            const { config } = (await tryOnPrimary({ replSetGetConfig: 1 })) ?? {}
            if (config === undefined) return undefined
            const settings = { ...config.settings, electionTimeoutMillis: ms }
            return tryOnPrimary({ replSetReconfig: { ...config, version: config.version + 1, settings } })
          }
          await waitFor('the election timeout', change, LIMIT)
        },
      }
    },

    async startRedisCluster() {
      const nodes: Server[] = []
      for (const _ of NODES)
        nodes.push(
          await startRedis(
            [
              'requirepass farm-word',
              'masterauth farm-word',
              'appendonly yes',
              'maxmemory-policy noeviction',
              'cluster-enabled yes',
              'cluster-node-timeout 2000',
              'cluster-require-full-coverage no',
            ],
            [],
            findClusterPort,
          ),
        )
      const share = Math.ceil(SLOTS / nodes.length)
      for (const [index, { port }] of nodes.entries()) {
        const slots = Array.from(
          { length: Math.min(share, SLOTS - index * share) },
          (_, slot) => index * share + slot,
        )
        await onRedis(port, { password: 'farm-word' }, (redis) => redis.call('CLUSTER', 'ADDSLOTS', ...slots))
        await onRedis(port, { password: 'farm-word' }, (redis) =>
          redis.call('CLUSTER', 'MEET', HOST, nodes[0]?.port ?? 0),
        )
      }
      for (const { port } of nodes)
        await waitFor(
          'a cluster that is whole',
          () =>
            onRedis(port, { password: 'farm-word' }, async (redis) =>
              isWhole(String(await redis.call('CLUSTER', 'INFO'))),
            ),
          LIMIT,
        )
      return {
        url: `redis+cluster://:farm-word@${nodes.map(({ port }) => `${HOST}:${port}`).join(',')}`,
        nodes,
      }
    },

    async startSentinel(guard) {
      const lines = ['appendonly yes', 'maxmemory-policy noeviction', ...(guard?.lines ?? [])]
      const primary = await startRedis(lines)
      const replica = await startRedis([...lines, `replicaof ${HOST} ${primary.port}`])
      const inSync = async (redis: Redis) =>
        (await redis.info('replication')).includes('state=online') ? true : undefined
      await waitFor('a replica', () => onRedis(primary.port, guard?.login, inSync), LIMIT)
      const sentinel = await startRedis(
        [
          `sentinel monitor farm ${HOST} ${primary.port} 1`,
          'sentinel down-after-milliseconds farm 1000',
          'sentinel failover-timeout farm 5000',
          ...(guard?.sentinelLines ?? []),
        ],
        ['--sentinel'],
      )
      const sentinelLogin =
        guard?.sentinelPassword === undefined ? undefined : { password: guard.sentinelPassword }
      const knowsReplica = async (redis: Redis) =>
        (await redis.info('sentinel')).includes('slaves=1') ? true : undefined
      await waitFor(
        'a sentinel that knows both',
        () => onRedis(sentinel.port, sentinelLogin, knowsReplica),
        LIMIT,
      )
      return { url: `redis+sentinel://${HOST}:${sentinel.port}/farm`, nodes: [primary, replica, sentinel] }
    },

    async stop() {
      await Promise.all(started.map((child) => child.stop()))
      await Promise.all(sets.map((set) => set.closeGates()))
      children.close()
      fs.rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** How far above its own port a node of a cluster talks to the others. */
const BUS_OFFSET = 10_000
/** Ports from here on are given to outgoing connections. */
const FIRST_OUTGOING = 32_768

/** A port whose bus port is free too, and stays so. */
async function findClusterPort(): Promise<number> {
  for (;;) {
    const port = await reservePort()
    const bus = port + BUS_OFFSET
    if (bus < FIRST_OUTGOING && (await reservePort(bus)) === bus) return port
  }
}

const isWhole = (info: string): true | undefined =>
  info.includes('cluster_state:ok') &&
  info.includes('cluster_known_nodes:3') &&
  info.includes('cluster_size:3')
    ? true
    : undefined

/** One command or a few on a connection of their own. Undefined while the server is not up. */
async function onRedis<T>(
  port: number,
  login: Login | undefined,
  work: (redis: Redis) => Promise<T>,
): Promise<T | undefined> {
  const redis = new Redis(port, HOST, {
    ...login,
    lazyConnect: true,
    retryStrategy: () => null,
  })
  redis.on('error', () => undefined) // each failure also rejects the calls below
  try {
    const connect = () =>
      redis.connect().then(
        () => true as const,
        () => undefined, // not up yet
      )
    await waitFor('Redis', connect, LIMIT)
    return await work(redis)
  } finally {
    redis.disconnect()
  }
}
