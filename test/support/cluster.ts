import { spawn, type ChildProcess } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { Redis } from 'ioredis'
import mongoose from 'mongoose'
import { trackChildren } from '../../scripts/embedded/children.ts'
import { reservePort } from '../../scripts/embedded/ports.ts'
import { requireMongod, requireRedis } from '../../scripts/embedded/programs.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { PATIENCE_MS } from './patience.ts'
import { serverFolder } from './server-folder.ts'

const HOST = '127.0.0.1'
const LIMIT = { limitMs: PATIENCE_MS, everyMs: 50 }
/** For a command that is given once: a machine that stands still for seconds must not have it refused. */
const COMMAND_LIMIT_MS = 30_000
const SLOTS = 16_384
const NODES = [0, 1, 2] as const

interface Server {
  port: number
  /** SIGKILL, and resolves when it is gone. */
  kill(): Promise<void>
  /** The same again, on the same data. */
  restart(): Promise<void>
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

export interface Farm {
  startReplicaSet(): Promise<ReplicaSet>
  startRedisCluster(): Promise<RedisNodes>
  /** A primary, a replica of it, and a sentinel that replaces one by the other. */
  startSentinel(): Promise<RedisNodes>
  stop(): Promise<void>
}

/** Servers on this machine in numbers, each with its folder below one that is removed at the end. */
export function openFarm(): Farm {
  const folder = fs.mkdtempSync(path.join(serverFolder(), 'farm-'))
  const children = trackChildren(folder, (line) => console.error(line), true)
  const running = new Set<ChildProcess>()
  let number = 0

  function startServer(program: string, args: (own: string, port: number) => string[], port: number): Server {
    const own = path.join(folder, String(number++))
    fs.mkdirSync(own)
    const given = args(own, port)
    let child: ChildProcess
    const start = () => {
      child = spawn(program, given, { stdio: 'ignore' })
      running.add(child)
      const { pid } = child
      if (pid !== undefined) children.add(path.basename(program), pid)
      child.once('exit', () => {
        running.delete(child)
        if (pid !== undefined) children.remove(pid)
      })
    }
    start()
    return {
      port,
      async kill() {
        const gone = new Promise((resolve) => child.once('exit', resolve))
        child.kill('SIGKILL')
        await gone
      },
      async restart() {
        start()
        await Promise.resolve()
      },
    }
  }

  const startRedis = async (
    lines: (own: string) => readonly string[],
    args: readonly string[] = [],
    findPort: () => Promise<number> = reservePort,
  ): Promise<Server> => {
    const port = await findPort()
    const program = requireRedis()
    const toFile = (own: string): string[] => {
      const file = path.join(own, 'redis.conf')
      fs.writeFileSync(
        file,
        [`bind ${HOST}`, `port ${port}`, `dir ${own}`, 'save ""', ...lines(own)].join('\n'),
      )
      return [file, ...args]
    }
    return startServer(program, toFile, port)
  }

  return {
    async startReplicaSet() {
      const program = requireMongod()
      const members: Server[] = []
      for (const _ of NODES) {
        const args = (own: string, port: number) => [
          ...[
            '--dbpath',
            own,
            '--port',
            String(port),
            '--bind_ip',
            HOST,
            '--nounixsocket',
            '--replSet',
            'farm',
          ],
          ...[
            '--wiredTigerCacheSizeGB',
            '0.25',
            '--oplogSize',
            '64',
            '--logpath',
            path.join(own, 'mongod.log'),
          ],
          ...[
            '--setParameter',
            'diagnosticDataCollectionEnabled=false',
            '--setParameter',
            'transactionLifetimeLimitSeconds=10',
          ],
        ]
        members.push(startServer(program, args, await reservePort()))
      }
      const ports = members.map(({ port }) => port)
      await initiate(ports)
      const primary = () => findPrimary(ports)
      return {
        url: `mongodb://${ports.map((port) => `${HOST}:${port}`).join(',')}/farm?replicaSet=farm`,
        members,
        primary,
        async stepDown() {
          const before = await primary()
          return waitFor(
            'the next primary',
            async () => {
              // The connection breaks with the step; and it is refused while no other has caught up.
              await onAdmin(
                before,
                { replSetStepDown: 10, secondaryCatchUpPeriodSecs: 5 },
                COMMAND_LIMIT_MS,
              ).catch((error: unknown) => {
                if (!(error instanceof mongoose.mongo.MongoError)) throw error
              })
              const next = await primary()
              return next === before ? undefined : next
            },
            LIMIT,
          )
        },
        async setElectionTimeout(ms) {
          const change = async (): Promise<true> => {
            const port = await primary()
            const { config } = (await onAdmin(port, { replSetGetConfig: 1 }, COMMAND_LIMIT_MS)) as {
              config: { version: number; settings: object }
            }
            const settings = { ...config.settings, electionTimeoutMillis: ms }
            await onAdmin(
              port,
              { replSetReconfig: { ...config, version: config.version + 1, settings } },
              COMMAND_LIMIT_MS,
            )
            return true
          }
          // Refused by one that has just ceased to be the primary, and while a member that was started again
          // catches up.
          const changed = () =>
            change().catch((error: unknown) =>
              error instanceof mongoose.mongo.MongoError ? undefined : Promise.reject(error),
            )
          await waitFor('the election timeout', changed, LIMIT)
        },
      }
    },

    async startRedisCluster() {
      const nodes: Server[] = []
      for (const _ of NODES)
        nodes.push(
          await startRedis(
            () => [
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
        await onRedis(port, 'farm-word', (redis) => redis.call('CLUSTER', 'ADDSLOTS', ...slots))
        await onRedis(port, 'farm-word', (redis) => redis.call('CLUSTER', 'MEET', HOST, nodes[0]?.port ?? 0))
      }
      for (const { port } of nodes)
        await waitFor(
          'a cluster that is whole',
          () =>
            onRedis(port, 'farm-word', async (redis) => isWhole(String(await redis.call('CLUSTER', 'INFO')))),
          LIMIT,
        )
      return {
        url: `redis+cluster://:farm-word@${nodes.map(({ port }) => `${HOST}:${port}`).join(',')}`,
        nodes,
      }
    },

    async startSentinel() {
      const primary = await startRedis(() => ['appendonly yes', 'maxmemory-policy noeviction'])
      const replica = await startRedis(() => [
        'appendonly yes',
        'maxmemory-policy noeviction',
        `replicaof ${HOST} ${primary.port}`,
      ])
      const inSync = async (redis: Redis) =>
        (await redis.info('replication')).includes('state=online') ? true : undefined
      await waitFor('a replica', () => onRedis(primary.port, undefined, inSync), LIMIT)
      const sentinel = await startRedis(
        () => [
          `sentinel monitor farm ${HOST} ${primary.port} 1`,
          'sentinel down-after-milliseconds farm 1000',
          'sentinel failover-timeout farm 5000',
        ],
        ['--sentinel'],
      )
      const knowsReplica = async (redis: Redis) =>
        (await redis.info('sentinel')).includes('slaves=1') ? true : undefined
      await waitFor(
        'a sentinel that knows both',
        () => onRedis(sentinel.port, undefined, knowsReplica),
        LIMIT,
      )
      return { url: `redis+sentinel://${HOST}:${sentinel.port}/farm`, nodes: [primary, replica, sentinel] }
    },

    async stop() {
      await Promise.all(
        [...running].map((child) => {
          const gone = new Promise((resolve) => child.once('exit', resolve))
          child.kill('SIGKILL')
          return gone
        }),
      )
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
  password: string | undefined,
  work: (redis: Redis) => Promise<T>,
): Promise<T | undefined> {
  const redis = new Redis(port, HOST, {
    ...(password === undefined ? {} : { password }),
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

async function onAdmin(port: number, command: object, limitMs = 1_000): Promise<Record<string, unknown>> {
  const client = new mongoose.mongo.MongoClient(`mongodb://${HOST}:${port}/?directConnection=true`, {
    serverSelectionTimeoutMS: limitMs,
  })
  try {
    return await client.db('admin').command({ ...command })
  } finally {
    await client.close()
  }
}

async function initiate(ports: readonly number[]): Promise<void> {
  const [first = 0] = ports
  for (const port of ports)
    await waitFor('a mongod', () => onAdmin(port, { ping: 1 }).catch(() => undefined), LIMIT)
  const config = {
    _id: 'farm',
    members: ports.map((port, _id) => ({ _id, host: `${HOST}:${port}` })),
    settings: { electionTimeoutMillis: 2_000 },
  }
  await onAdmin(first, { replSetInitiate: config }, COMMAND_LIMIT_MS)
  await findPrimary(ports)
}

async function findPrimary(ports: readonly number[]): Promise<number> {
  return waitFor(
    'a primary',
    async () => {
      for (const port of ports) {
        const hello = await onAdmin(port, { hello: 1 }).catch(() => undefined)
        if (hello?.['isWritablePrimary'] === true) return port
      }
      return undefined
    },
    LIMIT,
  )
}
