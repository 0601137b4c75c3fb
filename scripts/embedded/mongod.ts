import fs from 'node:fs'
import path from 'node:path'
import mongoose from 'mongoose'
import { z } from 'zod'
import { replaceFile } from '../../shared/foundation/durable-file.ts'
import type { AccessName } from './access.ts'
import type { ChildTracker } from './children.ts'
import { readSecret } from './data-dir.ts'
import { readLastLines, rotateLogFile } from './log-file.ts'
import { ADMIN, dropDatabases, dropOtherUsers, ensureAdmin, ensureUsers } from './mongo-users.ts'
import { findFreePort } from './ports.ts'
import { StartError } from '../../shared/foundation/process.ts'
import { HOUR_MS } from '../../shared/foundation/time.ts'
import { supervise, whenUp, type SupervisedChild } from './supervise.ts'

const REPLICA_SET = 'agent-network'
const DATABASE = 'agent_network'
const HOST = '127.0.0.1'
/** A large journal is replayed before the first answer. */
const READY_LIMIT_MS = 120_000
const STOP_LIMIT_MS = 30_000
/** A server that has answered may be slow on a busy machine; one that starts is tried again and again. */
const CONNECT_LIMIT_MS = 10_000
const TRY_LIMIT_MS = 500

// Codes of the server's error_codes.yml.
const NOT_YET_INITIALIZED = 94
const INVALID_REPLICA_SET_CONFIG = 93
const AUTHENTICATION_FAILED = 18

export interface Mongod {
  /** For who may do everything. */
  readonly url: string
  /** For each of the users that were asked for. */
  readonly urls: Readonly<Record<string, string>>
  readonly port: number
  readonly child: SupervisedChild
}

export interface MongodOptions {
  /** The program, as findMongod gives it. */
  binary: string
  /** Data goes to its `mongo`, the log to its `logs`. */
  dataDir: string
  /** GB of cache; the server's own default is half of the machine's memory. */
  cacheGb?: number
  /**
   * Who may connect, beside who starts it; none: everybody may, and may do everything. Passwords are kept in
   * the folder.
   */
  users?: readonly AccessName[]
  children: ChildTracker
  report: (line: string) => void
  /** Told of the child before it answers, so that a stop in the meantime can reach it. */
  onStarted?: (child: SupervisedChild) => void
  /** Ends the wait. */
  signal?: AbortSignal | undefined
  /** How often its log is looked at, and from which length on it is put aside; hourly and 20 MB if absent. */
  rotateLog?: { everyMs: number; limitBytes: number } | undefined
}

/**
 * Starts a MongoDB of our own and waits until it takes writes: a replica set of one member, since
 * transactions need a set, journaled as it is by default. It listens on the loopback address and on nothing
 * else. Unless `users` is empty, who connects must be one of its users: a folder from before there were users
 * is started without once, given an administrator, and started again.
 */
export async function startMongod(options: MongodOptions): Promise<Mongod> {
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

  const { users = [] } = options
  if (users.length === 0) {
    const child = await runMongod(options, port, undefined)
    return { url: urlOf('', ''), urls: {}, port, child }
  }
  const admin = readSecret(path.join(options.dataDir, 'mongo-password'))
  // There once the administrator is.
  const madeFile = path.join(options.dataDir, 'mongo-users')
  const isNew = fs.readdirSync(dbPath).length === 0
  if (!fs.existsSync(madeFile)) {
    const open = await runMongod(options, port, undefined)
    await withClient(port, undefined, (client) => ensureAdmin(client, admin))
    await open.stop()
    replaceFile(madeFile, `${ADMIN}\n`)
  }
  const child = await runMongod(options, port, admin)
  const known = users.map((name) => ({
    name,
    password: readSecret(path.join(options.dataDir, `mongo-password-${name}`)),
  }))
  await withClient(port, admin, async (client) => {
    await dropOtherUsers(client, [ADMIN, ...users])
    if (isNew) await dropDatabases(client)
    await ensureUsers(client, DATABASE, known)
  })
  const urls = Object.fromEntries(
    known.map(({ name, password }) => [name, urlOf(`${name}:${password}@`, '&authSource=admin')]),
  )
  return { url: urlOf(`${ADMIN}:${admin}@`, '&authSource=admin'), urls, port, child }
}

/** @param admin the administrator's password; without one the server asks nobody who it is */
async function runMongod(
  options: MongodOptions,
  port: number,
  admin: string | undefined,
): Promise<SupervisedChild> {
  const logFile = path.join(options.dataDir, 'logs', 'mongod.log')
  const keyFile = path.join(options.dataDir, 'mongo-keyfile')
  rotateLogFile(logFile)
  // Members of a set show it to each other; here its one purpose is that there are users.
  if (admin !== undefined) readSecret(keyFile)
  const child = supervise(
    {
      name: 'mongod',
      command: options.binary,
      args: [
        ...[
          '--dbpath',
          path.join(options.dataDir, 'mongo'),
          '--port',
          String(port),
          '--bind_ip',
          HOST,
          '--nounixsocket',
        ],
        ...['--replSet', REPLICA_SET, ...(admin === undefined ? [] : ['--keyFile', keyFile])],
        ...[
          '--logpath',
          logFile,
          '--logappend',
          // At SIGUSR1 it opens the file of that name, and renames none.
          ...['--logRotate', 'reopen'],
          // No lines for each connection and each checkpoint, which are 10 MB a day of an idle network.
          ...['--quiet', '--wiredTigerEngineConfigString', 'verbose=[recovery_progress]'],
          '--wiredTigerCacheSizeGB',
          String(options.cacheGb ?? 0.5),
          '--oplogSize',
          '512',
        ],
        // Nothing here runs JavaScript in the server or is far enough away to be worth compressing for.
        ...['--noscripting', '--networkMessageCompressors', 'disabled'],
        ...['--setParameter', 'diagnosticDataCollectionEnabled=false'],
        // A line for each operation that takes 0.1 s would fill the disk under
        // an attack.
        ...['--slowms', '5000'],
        // A transaction whose worker was killed keeps its documents to itself until then, and half as long
        // again at the worst; ours take milliseconds.
        ...['--setParameter', 'transactionLifetimeLimitSeconds=3'],
        // Old versions fill the cache for so long; the one reader of the past is a backup.
        ...['--setParameter', 'minSnapshotHistoryWindowInSeconds=60'],
        // A primary waits 15 s at SIGTERM for its clients to find another one; there is no other.
        ...['--setParameter', 'shutdownTimeoutMillisForSignaledShutdown=100'],
      ],
      env: { PATH: process.env.PATH, HOME: process.env.HOME, TZ: process.env.TZ },
      readLastWords: () => readErrors(logFile),
      stopLimitMs: STOP_LIMIT_MS,
    },
    options.report,
    options.children,
  )
  try {
    options.onStarted?.(child)
    await becomePrimary(port, admin, child, options.signal)
    return rotating(child, logFile, options.rotateLog)
  } catch (error) {
    await child.stop()
    throw error
  }
}

const ROTATE_EVERY_MS = HOUR_MS

function rotating(
  child: SupervisedChild,
  logFile: string,
  { everyMs = ROTATE_EVERY_MS, limitBytes }: { everyMs?: number; limitBytes?: number } = {},
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

/** A client whose first connection failed stays closed for good, so each try has one of its own. */
async function withClient<T>(
  port: number,
  admin: string | undefined,
  work: (client: mongoose.mongo.MongoClient) => Promise<T>,
  limitMs = CONNECT_LIMIT_MS,
): Promise<T> {
  const client = new mongoose.mongo.MongoClient(`mongodb://${HOST}:${port}/?directConnection=true`, {
    serverSelectionTimeoutMS: limitMs,
    appName: 'start',
    ...(admin === undefined ? {} : { auth: { username: ADMIN, password: admin } }),
  })
  try {
    return await work(client)
  } finally {
    await client.close()
  }
}

/**
 * Makes the one-member set if there is none, puts its member right if the port has changed, and waits for
 * writes.
 */
async function becomePrimary(
  port: number,
  admin: string | undefined,
  child: SupervisedChild,
  signal: AbortSignal | undefined,
): Promise<void> {
  const host = `${HOST}:${port}`
  const isPrimary = async (): Promise<true | undefined> => {
    try {
      const look = async (client: mongoose.mongo.MongoClient): Promise<true | undefined> => {
        const hello = await client.db('admin').command({ hello: 1 })
        // Whether the password is right is seen by a command that asks for it.
        if (admin !== undefined) await client.db('admin').command({ connectionStatus: 1 })
        if (hello['isWritablePrimary'] === true && hello['me'] === host) return true
        await configure(client, host)
        return undefined
      }
      return await withClient(port, admin, look, TRY_LIMIT_MS)
    } catch (error) {
      if (error instanceof mongoose.mongo.MongoServerError && error.code === AUTHENTICATION_FAILED)
        throw new StartError(
          'MongoDB refuses the password in DATA_DIR/mongo-password. If the data was replaced, remove DATA_DIR/mongo-users, and the next start makes its users anew.',
        )
      // Not up yet, in an election, or being configured already.
      if (!(error instanceof mongoose.mongo.MongoError)) throw error
      return undefined
    }
  }
  await whenUp(child, 'MongoDB', isPrimary, { limitMs: READY_LIMIT_MS, signal })
}

async function configure(client: mongoose.mongo.MongoClient, host: string): Promise<void> {
  const admin = client.db('admin')
  const state = await admin.command({ replSetGetStatus: 1 }).then(
    () => 'a member',
    (error: unknown) =>
      error instanceof mongoose.mongo.MongoServerError ? error.code : Promise.reject(error),
  )
  if (state === NOT_YET_INITIALIZED) {
    await admin.command({ replSetInitiate: { _id: REPLICA_SET, members: [{ _id: 0, host }] } })
    return
  }
  // Without a member that is itself, the server answers nothing about the set, so the stored configuration is
  // read.
  if (state !== INVALID_REPLICA_SET_CONFIG && state !== 'a member') return
  const stored = await client
    .db('local')
    .collection('system.replset')
    .findOne({}, { readPreference: 'nearest' })
  const config = storedConfig.safeParse(stored)
  if (!config.success || (config.data.members.length === 1 && config.data.members[0]?.host === host)) return
  const member = { ...config.data.members[0], host }
  // Forced, because a member that is not in its own set cannot be elected to agree to anything.
  await admin.command({
    replSetReconfig: { ...config.data, version: config.data.version + 1, members: [member] },
    force: true,
  })
}

const storedConfig = z.looseObject({
  version: z.int(),
  members: z.array(z.looseObject({ host: z.string() })).min(1),
})

function readPort(file: string): number | undefined {
  if (!fs.existsSync(file)) return undefined
  const port = Number(fs.readFileSync(file, 'utf8').trim())
  return Number.isInteger(port) && port > 0 && port < 65_536 ? port : undefined
}

/**
 * The errors at the end of mongod's log, whose lines are JSON: `s` is the severity, `msg` and `attr` say what
 * happened.
 */
function readErrors(logFile: string): string[] {
  const entry = z.object({ s: z.string(), msg: z.string(), attr: z.unknown().optional() })
  return readLastLines(logFile)
    .flatMap((line) => {
      try {
        const parsed = entry.safeParse(JSON.parse(line))
        if (!parsed.success) return []
        return parsed.data.s === 'F' || parsed.data.s === 'E'
          ? [`${parsed.data.msg} ${JSON.stringify(parsed.data.attr ?? {}).slice(0, 300)}`]
          : []
      } catch {
        // A stack trace or the half of a line: what matters stands in the lines that are whole.
        return []
      }
    })
    .slice(-5)
}
