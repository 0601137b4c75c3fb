import fs from 'node:fs'
import path from 'node:path'
import { Redis } from 'ioredis'
import { redisUser, type AccessName } from './access.ts'
import type { ChildTracker } from './children.ts'
import { readSecret } from './data-dir.ts'
import { readLastLines, rotateLogFile } from './log-file.ts'
import { replaceFile } from '../../shared/foundation/durable-file.ts'
import { findFreePort } from './ports.ts'
import { supervise, whenUp, type BackOff, type SupervisedChild } from './supervise.ts'

const HOST = '127.0.0.1'
/** A large append-only file is loaded before the first answer. */
const READY_LIMIT_MS = 120_000
const STOP_LIMIT_MS = 15_000

export interface EmbeddedRedis {
  /** For who may do everything; holds the password. */
  readonly url: string
  /** For each of the users that were asked for. */
  readonly urls: Readonly<Record<string, string>>
  readonly port: number
  readonly child: SupervisedChild
}

export interface RedisOptions {
  /** The program, as findRedis gives it. */
  binary: string
  /** Data goes to its `redis`, the log to its `logs`. */
  dataDir: string
  /** Who may connect, beside who starts it, and the prefix of the queues that they reach. */
  users?: readonly AccessName[]
  queuePrefix?: string
  children: ChildTracker
  report: (line: string) => void
  /** Told of the child before it answers, so that a stop in the meantime can reach it. */
  onStarted?: (child: SupervisedChild) => void
  /** Ends the wait. */
  signal?: AbortSignal | undefined
  backOff?: BackOff
}

/**
 * Starts a Redis of our own, which is started again if it ends, and waits until it answers. It writes every
 * command to a file, synced each second. Nothing is ever evicted, and no memory limit is set. Other users of the machine reach the
 * loopback address too and a Redis takes files and commands from anyone it trusts, so there is a password,
 * kept in the data folder.
 */
export async function startRedis(options: RedisOptions): Promise<EmbeddedRedis> {
  const folder = path.join(options.dataDir, 'redis')
  const logFile = path.join(options.dataDir, 'logs', 'redis.log')
  fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
  rotateLogFile(logFile)
  const password = readSecret(path.join(options.dataDir, 'redis-password'))
  const users = (options.users ?? []).map((name) => ({
    name,
    password: readSecret(path.join(options.dataDir, `redis-password-${name}`)),
  }))
  const port = await findFreePort()
  const configFile = path.join(folder, 'redis.conf')
  // In a file, because a command line can be read by every user of the machine.
  replaceFile(
    configFile,
    [
      `bind ${HOST}`,
      `port ${port}`,
      'protected-mode yes',
      `requirepass ${password}`,
      ...users.map(({ name, password }) => redisUser(name, password, options.queuePrefix ?? '')),
      `dir ${JSON.stringify(folder)}`,
      `logfile ${JSON.stringify(logFile)}`,
      'daemonize no',
      'appendonly yes',
      'appendfsync everysec',
      'save ""',
      'maxmemory-policy noeviction',
      'always-show-logo no',
    ]
      .map((line) => `${line}\n`)
      .join(''),
  )
  const child = supervise(
    {
      name: 'redis',
      command: options.binary,
      args: [configFile],
      env: { PATH: process.env.PATH, HOME: process.env.HOME, TZ: process.env.TZ },
      readLastWords: () => readLastLines(logFile).slice(-5),
      stopLimitMs: STOP_LIMIT_MS,
      ...(options.backOff === undefined ? {} : { backOff: options.backOff }),
    },
    options.report,
    options.children,
  )
  const url = `redis://:${password}@${HOST}:${port}/0`
  try {
    options.onStarted?.(child)
    const isUp = async () => ((await answersPing(url)) ? true : undefined)
    await whenUp(child, 'Redis', isUp, { limitMs: READY_LIMIT_MS, everyMs: 20, signal: options.signal })
  } catch (error) {
    await child.stop()
    throw error
  }
  const urls = Object.fromEntries(
    users.map(({ name, password }) => [name, `redis://${name}:${password}@${HOST}:${port}/0`]),
  )
  return { url, urls, port, child }
}

/** False while it does not listen yet or is still loading its file. */
async function answersPing(url: string): Promise<boolean> {
  const connection = new Redis(url, {
    lazyConnect: true,
    retryStrategy: () => null,
    maxRetriesPerRequest: 0,
    enableReadyCheck: false,
    connectTimeout: 2_000,
  })
  // Each failure also rejects the calls below.
  connection.on('error', () => undefined)
  try {
    await connection.connect()
    return (await connection.ping()) === 'PONG'
  } catch (error) {
    if (error instanceof Error && /WRONGPASS|NOAUTH/.test(error.message)) throw error
    return false
  } finally {
    connection.disconnect()
  }
}
