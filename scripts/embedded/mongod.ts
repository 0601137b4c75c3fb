import fs from 'node:fs'
import path from 'node:path'
import { z } from 'zod'
import { replaceFile } from '../../shared/platform/durable-file.ts'
import { ensureSecret } from './data-dir.ts'
import { readLastLines, rotateLogFile } from './log-file.ts'
import { ADMIN, DATABASE } from './mongo-users.ts'
import { findFreePort, isPortAnswering } from './ports.ts'
import { HOUR_MS } from '../../shared/platform/time.ts'
import {
  ensurePasswords,
  HOST,
  REPLICA_SET,
  setupOf,
  superviseServer,
  type EmbeddedServer,
  type ServerOptions,
} from './server.ts'
import type { SupervisedChild } from './supervise.ts'

const STOP_LIMIT_MS = 30_000
/** How often it is looked whether a server that starts is up. */
const LOOK_EVERY_MS = 20

/** Without `users` everybody on this machine may connect, and may do everything. */
export interface MongodOptions extends ServerOptions {
  /** GB of cache; the server's own default is half of the machine's memory. */
  cacheGb?: number
  /** How often its log is looked at, and from which length on it is put aside; hourly and 20 MB if absent. */
  rotateLog?: { everyMs: number; limitBytes: number } | undefined
}

/**
 * Starts a MongoDB of our own and waits until it takes writes: a replica set of one member, since
 * transactions need a set, journaled as it is by default. It listens on the loopback address and on nothing
 * else. Unless `users` is empty, who connects must be one of its users: a folder from before there were users
 * is started without once, given an administrator, and started again.
 */
export async function startMongod(options: MongodOptions): Promise<EmbeddedServer> {
  const dbPath = path.join(options.dataDir, 'mongo')
  const portFile = path.join(options.dataDir, 'mongo-port')
  fs.mkdirSync(dbPath, { recursive: true, mode: 0o700 })
  // The port of the last time spares the set a new configuration. Another will do too, though a start then
  // takes up to 30 s longer if a silent server sits on the old one, since mongod asks there whether that is
  // itself.
  const port = await findFreePort(readPort(portFile))
  fs.writeFileSync(portFile, `${port}\n`)
  const urlOf = (login: string, query: string): string =>
    `mongodb://${login}${HOST}:${port}/${DATABASE}?replicaSet=${REPLICA_SET}${query}`

  const users = ensurePasswords('mongo', options)
  if (users.length === 0) {
    const child = await runMongod(options, port, undefined)
    return { url: urlOf('', ''), urls: {}, port, child }
  }
  const adminPassword = ensureSecret(path.join(options.dataDir, 'mongo-password'))
  // This file exists once the administrator does.
  const adminMadeFile = path.join(options.dataDir, 'mongo-users')
  const isNew = fs.readdirSync(dbPath).length === 0
  if (!fs.existsSync(adminMadeFile)) {
    const openServer = await runMongod(options, port, undefined)
    await (await setupOf(options)).makeAdmin(port, adminPassword)
    await openServer.stop()
    replaceFile(adminMadeFile, `${ADMIN}\n`)
  }
  const child = await runMongod(options, port, adminPassword)
  await (await setupOf(options)).makeUsers(port, adminPassword, users, isNew)
  const urlFor = (name: string, password: string): string =>
    urlOf(`${name}:${password}@`, '&authSource=admin')
  const urls = Object.fromEntries(users.map(({ name, password }) => [name, urlFor(name, password)]))
  return { url: urlFor(ADMIN, adminPassword), urls, port, child }
}

/**
 * Runs mongod and waits until it takes writes.
 *
 * @param adminPassword if undefined, the server asks nobody for a login
 */
async function runMongod(
  options: MongodOptions,
  port: number,
  adminPassword: string | undefined,
): Promise<SupervisedChild> {
  const logFile = path.join(options.dataDir, 'logs', 'mongod.log')
  const keyFile = path.join(options.dataDir, 'mongo-keyfile')
  rotateLogFile(logFile)
  // Members of a set show it to each other; here its one purpose is to turn logins on.
  if (adminPassword !== undefined) ensureSecret(keyFile)
  const setup = await setupOf(options)
  const child = await superviseServer(
    {
      name: 'mongod',
      args: [
        ['--dbpath', path.join(options.dataDir, 'mongo')],
        ['--port', String(port), '--bind_ip', HOST, '--nounixsocket'],
        ['--replSet', REPLICA_SET, ...(adminPassword === undefined ? [] : ['--keyFile', keyFile])],
        // At SIGUSR1 it opens the file of that name, and renames none.
        ['--logpath', logFile, '--logappend', '--logRotate', 'reopen'],
        // No lines for each connection and each checkpoint, which are 10 MB a day of an idle network.
        ['--quiet', '--wiredTigerEngineConfigString', 'verbose=[recovery_progress]'],
        ['--wiredTigerCacheSizeGB', String(options.cacheGb ?? 0.5), '--oplogSize', '512'],
        // Nothing here runs JavaScript in the server or is far enough away to be worth compressing for.
        ['--noscripting', '--networkMessageCompressors', 'disabled'],
        ['--setParameter', 'diagnosticDataCollectionEnabled=false'],
        // A line for each operation that takes 0.1 s would fill the disk under an attack.
        ['--slowms', '5000'],
        // A transaction whose worker was killed keeps its documents to itself until then, and half as long
        // again at the worst; ours take milliseconds.
        ['--setParameter', 'transactionLifetimeLimitSeconds=3'],
        // Old versions fill the cache for so long; the one reader of the past is a backup.
        ['--setParameter', 'minSnapshotHistoryWindowInSeconds=60'],
        // A primary waits 15 s at SIGTERM for its clients to find another one; there is no other.
        ['--setParameter', 'shutdownTimeoutMillisForSignaledShutdown=100'],
      ].flat(),
      readLastWords: () => readErrors(logFile),
      stopLimitMs: STOP_LIMIT_MS,
    },
    options,
    'MongoDB',
    // A client would wait half a second before it tries a closed port again.
    async () =>
      (await isPortAnswering(port, HOST)) && (await setup.becomePrimary(port, adminPassword))
        ? true
        : undefined,
    LOOK_EVERY_MS,
  )
  return withLogRotation(child, logFile, options.rotateLog)
}

/** The same child, whose log is rotated at times until it is stopped. */
function withLogRotation(
  child: SupervisedChild,
  logFile: string,
  { everyMs = HOUR_MS, limitBytes }: { everyMs?: number; limitBytes?: number } = {},
): SupervisedChild {
  const timer = setInterval(() => {
    const pid = child.pid()
    if (pid !== undefined && rotateLogFile(logFile, limitBytes)) process.kill(pid, 'SIGUSR1')
  }, everyMs).unref()
  return {
    ...child,
    stop() {
      clearInterval(timer)
      return child.stop()
    },
  }
}

/** The port in a file; undefined if there is no file, or no port in it. */
function readPort(file: string): number | undefined {
  if (!fs.existsSync(file)) return undefined
  const port = Number(fs.readFileSync(file, 'utf8').trim())
  return Number.isInteger(port) && port > 0 && port < 65_536 ? port : undefined
}

const logEntry = z.object({ s: z.string(), msg: z.string(), attr: z.unknown().optional() })

/**
 * The last errors in the tail of mongod's log, five at most, a line each. The log's lines are JSON: `s` is
 * the severity (F is fatal, E is error), `msg` and `attr` say what happened.
 */
function readErrors(logFile: string): string[] {
  const errors: string[] = []
  for (const line of readLastLines(logFile)) {
    try {
      const { s: severity, msg, attr = {} } = logEntry.parse(JSON.parse(line))
      if (severity === 'F' || severity === 'E') errors.push(`${msg} ${JSON.stringify(attr).slice(0, 300)}`)
    } catch {
      // A stack trace or half a line: what matters stands in whole entries.
    }
  }
  return errors.slice(-5)
}
