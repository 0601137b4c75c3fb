import { setTimeout as sleep } from 'node:timers/promises'
import mongoose, { type Connection } from 'mongoose'
import { endWaitsAtClose } from './closed-sockets.ts'
import { CLOCK_SAMPLE_EVERY_MS, createDatabaseClock, type DatabaseClock } from './database-clock.ts'
import { describeAway, tryPrimary } from './database-reason.ts'
import { freeBytesOf } from './disk-space.ts'
import { NotYetMade } from './not-yet-made.ts'
import { Refusal } from './errors.ts'
import type { Log } from './log.ts'
import { StartError } from './process.ts'
import { throwIfOver } from './scope.ts'
import { createSerializer, type Serialize } from './serializer.ts'
import { inSpan } from './tracing.ts'

/** A client session inside a transaction; absent if one write stands alone. */
export type Session = mongoose.mongo.ClientSession

/**
 * Thrown by a write, which stores nothing then, if a record that it rests on has changed since it was read. Inside
 * change() it makes the work begin again.
 */
export class Overtaken extends Error {
  override name = 'Overtaken'
}

/**
 * Waits for a write, or a transaction, that rests on records which were read before.
 *
 * @param field counts only a refusal by the unique index that begins with this field
 * @returns what the write gives
 * @throws Overtaken if a unique index refused it: another was faster; any other error of the write
 */
export async function orOvertaken<Stored>(write: Promise<Stored>, field?: string): Promise<Stored> {
  try {
    return await write
  } catch (error) {
    if (!isDuplicateKey(error, field)) throw error
    throw new Overtaken('another has stored such a record since what it rests on was read', { cause: error })
  }
}

/** Waits for an insert. @returns whether it was stored: false if a unique index refused it */
export async function unlessDuplicate(insert: Promise<unknown>): Promise<boolean> {
  try {
    await insert
    return true
  } catch (error) {
    if (isDuplicateKey(error)) return false
    throw error
  }
}

/** For reads that lead to writes or are published: only what a majority has, so no election takes it back. */
export const MAJORITY = { readConcern: { level: 'majority' } } as const

/** The options that run a query or write in a session; none if it stands alone. */
export const within = (session: Session | undefined): { session?: Session } =>
  session === undefined ? {} : { session }

export interface Database {
  readonly connection: Connection
  /**
   * True from when the first connection stands and every index exists (before that nothing is unique) until it
   * is closed.
   */
  isReady(): boolean
  /** Resolves when isReady() becomes true. */
  whenReady(): Promise<void>
  /**
   * Runs `work` in one transaction (snapshot, majority) and returns its result; in the session `own` if that
   * is given. The driver runs `work` again on a conflict, so it must have no effects other than its writes
   * through the session.
   *
   * @throws what `work` throws; Refusal `unavailable` if it is tried in vain for too long
   */
  transaction<T>(work: (session: Session) => Promise<T>, own?: Session): Promise<T>
  /** Keeps transactions of this process from conflicting; each use prefixes its keys by a word of its own. */
  readonly serialize: Serialize
  /** Opens a session; the caller ends it. */
  openSession(): Session
  /**
   * Runs `work`, whose reads through the session each see at least what those before them saw, and returns
   * its result. Without the session, a new primary may know less at first than the one that answered before.
   */
  inOrder<T>(work: (session: Session) => Promise<T>): Promise<T>
  /**
   * Now by the primary's clock, in milliseconds since the epoch.
   *
   * @throws Refusal `unavailable` if it is not known
   */
  now(): number
  /** Free bytes of the database's disk; undefined if the server doesn't say. */
  freeDiskBytes(): Promise<number | undefined>
  /** The same, and what the database's own files, collections and indexes, take of the disk; in bytes. */
  readDiskUse(): Promise<{ freeBytes: number | undefined; storedBytes: number }>
  /**
   * The members of the replica set as its primary sees them; none if this user may not ask, or a router
   * answers.
   */
  members(): Promise<SetMember[]>
  close(): Promise<void>
}

/** A member of the replica set, as the primary sees it. */
export interface SetMember {
  /** `host:port`. */
  name: string
  /** As MongoDB calls it: PRIMARY, SECONDARY, ARBITER, RECOVERING, `(not reachable/healthy)` and so on. */
  state: string
  isUp: boolean
  /** How far what it has stored is behind the primary, in seconds; absent for who stores nothing. */
  lagSeconds?: number
  /** What the primary was told when it last asked in vain. */
  message?: string
}

export interface DatabaseOptions {
  url: string
  log: Log
  /**
   * The machine's clock, in milliseconds since the epoch. If a test puts the present somewhere else, the
   * database's goes with it.
   */
  now(): number
  /** Creates every index, and whatever else must exist; called once after the first connection. */
  prepare(connection: Connection): Promise<void>
  /** Longest wait for a server and for a connection to it; workers wait longer than the API. */
  timeoutMs: number
  /** How long a transaction that conflicts is tried again; `timeoutMs` if absent. */
  transactionMs?: number
}

/**
 * Connects in the background and keeps trying, so that a process can start before its database. Writes are
 * acknowledged by a majority with its journal: with less, a killed primary loses acknowledged writes.
 */
export function openDatabase(options: DatabaseOptions): Database {
  const { transactionMs = options.timeoutMs } = options
  endWaitsAtClose()
  const connection = mongoose.createConnection()
  refuseAfterRequest(connection)
  connection.set('bufferCommands', false)
  connection.set('strictQuery', 'throw')
  const clock = createDatabaseClock()
  const readStats = () => connection.getClient().db().command({ dbStats: 1 })
  return {
    connection,
    ...connectInBackground(connection, options, clock),
    transaction(work, own) {
      const deadlineMs = performance.now() + transactionMs
      const run = (session: Session) => {
        return session.withTransaction(() => {
          // The caller has been told that the request failed, so nothing more may be written.
          if (performance.now() >= deadlineMs) throw unavailable()
          return work(session).then((result) => {
            throwIfOver()
            return result
          })
        }, TRANSACTION)
      }
      return inSpan('commit', () => (own === undefined ? connection.getClient().withSession(run) : run(own)))
    },
    serialize: createSerializer(),
    openSession: () => connection.getClient().startSession(),
    inOrder: (work) => connection.getClient().withSession({ causalConsistency: true }, work),
    now: () => clock.now() + options.now() - Date.now(),
    freeDiskBytes: async () => freeBytesOf(await readStats()),
    async readDiskUse() {
      const stats = await readStats()
      return {
        freeBytes: freeBytesOf(stats),
        storedBytes: Number(stats['storageSize']) + Number(stats['indexSize']),
      }
    },
    members: () => readMembers(connection),
  }
}

/** The pause before another try to connect. */
const TRY_AGAIN_MS = 250

/**
 * Connects, again and again until it stands and the database is prepared, or it is closed. From then on the clock
 * is set by the primary's.
 */
function connectInBackground(
  connection: Connection,
  options: DatabaseOptions,
  clock: DatabaseClock,
): Pick<Database, 'isReady' | 'whenReady' | 'close'> {
  const { log, url, timeoutMs } = options
  let isReady = false
  let isClosed = false
  let sampling: NodeJS.Timeout | undefined
  const away = createAwayLog(log)
  // The connection may wait for much longer: until then the log would say nothing.
  const early =
    timeoutMs > SAY_AFTER_MS
      ? setTimeout(
          () =>
            void tryPrimary(url, SAY_LIMIT_MS).catch((error: unknown) => {
              if (!isReady && !isClosed) away.say(error)
            }),
          SAY_AFTER_MS,
        ).unref()
      : undefined
  const sampleClock = () => clock.sample(() => readPrimaryTime(connection))
  const becomeReady = (async () => {
    while (!isClosed) {
      try {
        await connectOnce(connection, options)
        while (!(await sampleClock()));
        if (isClosed) break
        sampling = setInterval(
          () =>
            // The clock itself refuses once its last sample is too old.
            void sampleClock().catch((error: unknown) =>
              log.debug({ err: error }, "the database's clock could not be read"),
            ),
          CLOCK_SAMPLE_EVERY_MS,
        ).unref()
        isReady = true
        clearTimeout(early)
        away.sayEnd()
        return
      } catch (error) {
        if (isClosed) break
        if (!isOutage(error)) throw error
        away.say(error)
        await connection.close().catch(() => {})
        await sleep(TRY_AGAIN_MS)
      }
    }
    // It was closed before it was ready, so whoever waits for that goes on waiting.
    await forEver()
  })()
  becomeReady.catch((error: unknown) => {
    // Whoever waits for the database shows a StartError to the operator.
    if (!(error instanceof StartError)) log.fatal({ err: error }, 'MongoDB cannot be used')
  })
  return {
    isReady: () => isReady && !isClosed,
    whenReady: () => becomeReady,
    async close() {
      isClosed = true
      clearTimeout(early)
      clearInterval(sampling)
      const closing = connection.close()
      // Before the first connection nothing is under way but a try, which would be waited for.
      if (isReady) await closing
      else closing.catch(() => {})
    },
  }
}

/** Creates what logs once that the database is out of reach, and once that it is reached after all. */
function createAwayLog(log: Log): { say(error: unknown): void; sayEnd(): void } {
  let isSaid = false
  return {
    say(error) {
      if (isSaid) return
      isSaid = true
      // At the first start of all, each process waits for what another one makes.
      if (error instanceof NotYetMade)
        log.info({ waits_for: error.message }, 'waiting until another process has made the collections')
      else log.warn({ err: error, reason: describeAway(error) }, 'MongoDB is out of reach; trying on')
    },
    sayEnd() {
      if (isSaid) log.info('MongoDB is reached')
    },
  }
}

/**
 * Connects once and prepares the database.
 *
 * @throws StartError if the server can't be used by us; an error that isOutage() tells if another try may succeed
 */
async function connectOnce(
  connection: Connection,
  { url, timeoutMs, prepare }: DatabaseOptions,
): Promise<void> {
  try {
    await connection.openUri(url, {
      ...(namesDatabase(url) ? {} : { dbName: DEFAULT_DATABASE }),
      // Set on the connection, mongoose takes no notice of them: it makes all that it has a model of.
      autoIndex: false,
      autoCreate: false,
      serverSelectionTimeoutMS: timeoutMs,
      connectTimeoutMS: Math.min(timeoutMs, CONNECT_TIMEOUT_MS),
      waitQueueTimeoutMS: timeoutMs,
      socketTimeoutMS: SOCKET_TIMEOUT_MS,
      maxPoolSize: 100,
      writeConcern: { w: 'majority', journal: true },
      readPreference: 'primary',
      // All that is stored is UTF-8 that a driver has written: to look through each text again took half as long as
      // to read it.
      enableUtf8Validation: false,
      appName: 'agent-network',
    })
    await assertReplicaSet(connection)
    await prepare(connection)
  } catch (error) {
    if (!isRefusedLogin(error)) throw error
    throw new StartError(
      'MongoDB does not take the user and the password of MONGODB_URL; see "Users of the servers" in docs/set-up.md, and `authSource` if the user is of another database.',
      { cause: error },
    )
  }
}

const forEver = (): Promise<never> => new Promise<never>(() => {})

/** Every way to the server that a store uses. */
const OPERATIONS = [
  ...(['find', 'findOne', 'aggregate', 'distinct', 'countDocuments', 'estimatedDocumentCount'] as const),
  ...([
    'insertOne',
    'insertMany',
    'updateOne',
    'updateMany',
    'replaceOne',
    'deleteOne',
    'deleteMany',
    'bulkWrite',
  ] as const),
  ...(['findOneAndUpdate', 'findOneAndReplace', 'findOneAndDelete'] as const),
]

/**
 * Makes each operation on the connection's collections throw if the request that it is done for is over, so
 * that no loop outlives its request and nothing is written after a 503. The driver's own signal isn't used:
 * it closes the connection under a command, and callers who leave would empty the pool.
 */
function refuseAfterRequest(connection: Connection): void {
  const open = connection.collection.bind(connection)
  connection.collection = ((...named: Parameters<typeof open>) => {
    const collection = open(...named)
    if (Object.hasOwn(collection, 'find')) return collection
    for (const name of OPERATIONS) {
      const perform = collection[name] as (...given: unknown[]) => unknown
      Object.defineProperty(collection, name, {
        value: (...given: unknown[]) => {
          throwIfOver()
          return perform.apply(collection, given)
        },
      })
    }
    return collection
  }) as typeof connection.collection
}

const SAY_AFTER_MS = 2_000
const SAY_LIMIT_MS = 1_000

/** Whether the server refused the user or password; the second code is a hosted MongoDB's. */
const isRefusedLogin = (error: unknown): boolean =>
  error instanceof mongoose.mongo.MongoServerError && [18, 8_000].includes(Number(error.code))

/**
 * A server that accepts a connection or a heartbeat and stays silent is given up by then: waiting longer
 * would outlast an election.
 */
const CONNECT_TIMEOUT_MS = 3_000

/** A server that fell silent under a command is given up by then, so that its connections come back. */
const SOCKET_TIMEOUT_MS = 30_000

/**
 * The database, if MONGODB_URL names none: what `npm start`, docker-compose.yml and the units of systemd call it.
 * The driver's own default is called test.
 */
const DEFAULT_DATABASE = 'agent_network'

/** Whether a URL names a database: there is something behind the host and before any `?`. */
function namesDatabase(url: string): boolean {
  return /^mongodb(\+srv)?:\/\/[^/]+\/[^?]+/.test(url)
}

/** The server's codes for a command that this user, or a router, doesn't have. */
const NOT_TO_BE_ASKED = new Set([13, 59])

interface MemberStatus {
  name: string
  stateStr: string
  health: number
  optimeDate?: Date
  lastHeartbeatMessage?: string
}

/** Reads the members of the replica set by `replSetGetStatus`. */
async function readMembers(connection: Connection): Promise<SetMember[]> {
  const status = await connection
    .getClient()
    .db('admin')
    .command({ replSetGetStatus: 1 })
    .catch((error: unknown) => {
      const isRefused =
        error instanceof mongoose.mongo.MongoServerError && NOT_TO_BE_ASKED.has(Number(error.code))
      if (isRefused) return { members: [] }
      throw error
    })
  const members = status['members'] as MemberStatus[]
  const primary = members.find(({ stateStr }) => stateStr === 'PRIMARY')
  return members.map(({ name, stateStr, health, optimeDate, lastHeartbeatMessage = '' }) => {
    const lagMs = (primary?.optimeDate?.getTime() ?? NaN) - (optimeDate?.getTime() ?? NaN)
    return {
      name,
      state: stateStr,
      isUp: health === 1,
      ...(Number.isNaN(lagMs) || health !== 1 ? {} : { lagSeconds: Math.max(0, Math.round(lagMs / 1_000)) }),
      ...(lastHeartbeatMessage === '' ? {} : { message: lastHeartbeatMessage }),
    }
  })
}

/**
 * Reads the clock of the primary that has the money, in milliseconds since the epoch. A router answers `hello` with a
 * clock of its own; statistics of a collection come from the primary of the shard that has it, and `schema` is where
 * money is (docs/run.md, "More machines").
 */
async function readPrimaryTime(connection: Connection): Promise<number> {
  const [stats] = await connection
    .collection('schema')
    .aggregate<{ localTime: Date }>([{ $collStats: {} }])
    .toArray()
  // A router has none before the database is there; then there is no money yet either.
  return (stats?.localTime ?? ((await readHello(connection))['localTime'] as Date)).getTime()
}

/** Asks the primary, or a router, for its `hello`: its set, its clock and so on. */
const readHello = (connection: Connection) => connection.getClient().db().admin().command({ hello: 1 })

/**
 * @throws StartError if the server is of no replica set, and no router of a cluster: it has no transactions
 */
async function assertReplicaSet(connection: Connection): Promise<void> {
  const hello = await readHello(connection)
  if (hello['setName'] === undefined && hello['msg'] !== 'isdbgrid') {
    throw new StartError(
      'MONGODB_URL leads to a MongoDB that is no replica set, so it has no transactions; start it with --replSet (one member is enough).',
    )
  }
}

const TRANSACTION = {
  readConcern: { level: 'snapshot' },
  writeConcern: { w: 'majority', journal: true },
  readPreference: 'primary',
} as const

const OUTAGE_ERRORS = new Set([
  'NotYetMade',
  'MongoServerSelectionError',
  'MongoNetworkError',
  'MongoNetworkTimeoutError',
  'MongoOperationTimeoutError',
  'MongoPoolClearedError',
  'MongoPoolClosedError',
  'PoolClearedOnNetworkError',
  'MongoServerClosedError',
  'MongoNotConnectedError',
  'MongoTopologyClosedError',
  'MongoClientClosedError',
  // A closed client ends the sessions of what it still tries again.
  'MongoExpiredSessionError',
  'MongoWaitQueueTimeoutError',
  'MongooseServerSelectionError',
  'MongooseNotConnectedError',
])

/** Server codes of a node that is stepping down, starting, or shutting down; and of a time limit passed. */
const OUTAGE_CODES = new Set([
  6, 7, 50, 64, 89, 91, 100, 112, 134, 189, 246, 262, 9001, 10_058, 10_107, 11_600, 11_602, 13_435, 13_436,
])

/** Codes by the name that the server gives with them, of MongoDB 8 and newer: it has too much under way. */
const OUTAGE_CODE_NAMES = new Set(['IngressRequestRateLimitExceeded', 'TooManyOpenTransactions'])

/** Labels of errors after which the same may succeed later. */
const OUTAGE_LABELS = [
  'RetryableWriteError',
  'TransientTransactionError',
  'SystemOverloadedError',
  'RetryableError',
]

/** What the driver says if a client is closed while one of its transactions is being aborted. */
const ENDED_TWICE = '[TRANSACTION_ABORTED] to [TRANSACTION_ABORTED]'

/**
 * Whether an error comes from the database being out of reach, not from what was asked of it: a write may or
 * may not have been stored. Also true for a write conflict of a transaction, which has stored nothing and may
 * be retried.
 */
export function isOutage(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if (OUTAGE_ERRORS.has(error.name)) return true
  if (error instanceof mongoose.mongo.MongoError && OUTAGE_LABELS.some((label) => error.hasErrorLabel(label)))
    return true
  if (
    error instanceof mongoose.mongo.MongoServerError &&
    (OUTAGE_CODES.has(Number(error.code)) || OUTAGE_CODE_NAMES.has(error.codeName ?? ''))
  )
    return true
  if (
    error.name === 'MongooseError' &&
    /before initial connection|not connected|buffering/i.test(error.message)
  )
    return true
  if (error.name === 'MongoRuntimeError' && error.message.includes(ENDED_TWICE)) return true
  // An insert of many wraps what ended it.
  if (error instanceof mongoose.mongo.MongoBulkWriteError && isOutage(error.errorResponse)) return true
  return error.cause !== undefined && isOutage(error.cause)
}

/** The server's code for a write that a unique index refused. */
export const DUPLICATE_KEY = 11_000

/**
 * Whether an error says that a unique index refused a write; with `field`, only the index that begins with
 * it. An insert of many has the index in its message alone.
 */
export function isDuplicateKey(error: unknown, field?: string): boolean {
  if (!(error instanceof mongoose.mongo.MongoServerError) || error.code !== DUPLICATE_KEY) return false
  return field === undefined || / dup key: \{ ([\w.]+):/.exec(error.message)?.[1] === field
}

/** Makes the refusal of a request that takes too long. */
export function tookTooLong(): Refusal {
  return new Refusal(
    'unavailable',
    'The service did not finish this request in time and stopped working on it. A write in it may have been stored: read before you send it again.',
    { countedAs: 'too_long' },
  )
}

/** Makes the refusal of a request while the database is out of reach. */
export function unavailable(cause?: unknown): Refusal {
  return new Refusal(
    'unavailable',
    'The service cannot reach its database now. A write in this request may have been stored: read before you send it again.',
    { cause, countedAs: 'database' },
  )
}

/**
 * Makes the refusal `unavailable` for a record that was read a moment ago and is not there any more: an
 * election has rolled back its write. The work has to begin again.
 *
 * @param what the record, in words
 */
export const rolledBack = (what: string): Refusal =>
  unavailable(new Error(`${what} was there and is gone: an election has rolled it back`))
