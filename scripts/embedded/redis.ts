import fs from 'node:fs'
import path from 'node:path'
import { redisUser } from './access.ts'
import { ensureSecret } from './data-dir.ts'
import { readLastLines, rotateLogFile } from './log-file.ts'
import { replaceFile } from '../../shared/platform/durable-file.ts'
import { findFreePort, isPortAnswering } from './ports.ts'
import {
  ensurePasswords,
  HOST,
  setupOf,
  superviseServer,
  type EmbeddedServer,
  type ServerOptions,
} from './server.ts'
import type { BackOff } from './supervise.ts'

const STOP_LIMIT_MS = 15_000

export interface RedisOptions extends ServerOptions {
  /** Begins the names of the queues that the users reach. */
  queuePrefix?: string
  backOff?: BackOff
}

/**
 * Starts a Redis of our own, which is started again if it ends, and waits until it answers. It writes every
 * command to a file, synced each second. Nothing is ever evicted, and no memory limit is set. Other users of
 * the machine reach the loopback address too and a Redis takes files and commands from anyone it trusts, so
 * there is a password, kept in the data folder.
 */
export async function startRedis(options: RedisOptions): Promise<EmbeddedServer> {
  const folder = path.join(options.dataDir, 'redis')
  const logFile = path.join(options.dataDir, 'logs', 'redis.log')
  fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
  rotateLogFile(logFile)
  const adminPassword = ensureSecret(path.join(options.dataDir, 'redis-password'))
  const users = ensurePasswords('redis', options)
  const port = await findFreePort()
  const configFile = path.join(folder, 'redis.conf')
  const settings = [
    `bind ${HOST}`,
    `port ${port}`,
    'protected-mode yes',
    `requirepass ${adminPassword}`,
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
  // In a file, because a command line can be read by every user of the machine.
  replaceFile(configFile, `${settings.join('\n')}\n`)
  const urlOf = (user: string, password: string): string => `redis://${user}:${password}@${HOST}:${port}/0`
  const url = urlOf('', adminPassword)
  const setup = await setupOf(options)
  const child = await superviseServer(
    {
      name: 'redis',
      args: [configFile],
      readLastWords: () => readLastLines(logFile).slice(-5),
      stopLimitMs: STOP_LIMIT_MS,
      backOff: options.backOff,
    },
    options,
    'Redis',
    async () => ((await isPortAnswering(port, HOST)) && (await setup.answersPing(url)) ? true : undefined),
    20,
  )
  const urls = Object.fromEntries(users.map(({ name, password }) => [name, urlOf(name, password)]))
  return { url, urls, port, child }
}
