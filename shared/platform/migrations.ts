import { randomUUID } from 'node:crypto'
import mongoose, { Schema, type Connection } from 'mongoose'
import { describeBuild } from './build.ts'
import type { Log } from './log.ts'
import { StartError } from './process.ts'
import { SECOND_MS, unixSeconds } from './time.ts'
import { isDuplicateKey } from './database.ts'
import { leaveToOthers } from './indexes.ts'
import { NotYetMade } from './not-yet-made.ts'

/*
 * Which shape the database has, in one document. A process looks at it before anything else: it brings an
 * older database to its own shape, and starts on no newer one. Migrations run forward, in order, each once;
 * one process runs them, under a lease, while the others wait. One that was cut is run again, so each must
 * find what it has done already.
 */

export interface Migration {
  /** The version that the database has once it is done. */
  to: number
  /** What it does, for the log: "texts are split into words". */
  what: string
  run(connection: Connection): Promise<void>
}

export interface SchemaRecord {
  _id: 'schema'
  version: number
  /** Unix seconds: since when the database has this version. */
  since: number
  /** Which program made it so. */
  by: string
  lock?: { holder: string; until: Date }
}

const schemaSchema = new Schema(
  {
    _id: { type: String, required: true },
    version: Number,
    since: Number,
    by: String,
    lock: { type: Schema.Types.Mixed },
    // Of a copy, see copy.ts.
    restored_at: Number,
    backup_at: Number,
    cluster_time: String,
    promoted_at: Number,
  },
  { collection: 'schema', strict: 'throw', versionKey: false },
)

const LOCK_MS = 15 * SECOND_MS
const RENEW_EVERY_MS = 3 * SECOND_MS

export const defineSchemaModel = (connection: Connection) => connection.model('Schema', schemaSchema)

const collectionOf = (connection: Connection) => connection.collection<SchemaRecord>('schema')

/** The schema's document; undefined in a new database. */
export const readSchema = async (connection: Connection): Promise<SchemaRecord | undefined> =>
  (await collectionOf(connection).findOne({ _id: 'schema' })) ?? undefined

export const latestVersion = (migrations: readonly Migration[]): number => migrations.at(-1)?.to ?? 0

/**
 * Brings the database to the last migration's version, or waits until another process has.
 *
 * @throws NotYetMade while another process is at it; StartError if it has a newer one
 */
export async function migrate(
  connection: Connection,
  migrations: readonly Migration[],
  log: Log,
): Promise<void> {
  if ((await refuseNewer(connection, migrations))?.version === latestVersion(migrations)) return
  await leaveToOthers(
    runMigrations(connection, migrations, log),
    'the database is to be upgraded by a process that may write all of it',
  )
}

/**
 * Checks that the database has just the version of this program; changes nothing.
 *
 * @throws StartError if it has another, or none
 */
export async function expectSchema(connection: Connection, migrations: readonly Migration[]): Promise<void> {
  const found = await refuseNewer(connection, migrations)
  if (found?.version === latestVersion(migrations)) return
  const isEmpty = (await connection.listCollections()).length === 0
  throw new StartError(
    isEmpty
      ? `There is no network in the database "${connection.name}": MONGODB_URL names another one, or nothing was ever started on it.`
      : `The database "${connection.name}" has schema ${found?.version ?? 0} and this program, ${describeBuild()}, needs ${latestVersion(migrations)}: start the network with this program, and it upgrades it.`,
  )
}

/**
 * Checks that the database isn't newer than this program, before anything is made or changed.
 *
 * @returns its schema; undefined if it has none yet
 * @throws StartError if it is newer
 */
export async function refuseNewer(
  connection: Connection,
  migrations: readonly Migration[],
): Promise<SchemaRecord | undefined> {
  const schema = await readSchema(connection)
  if (schema === undefined || schema.version <= latestVersion(migrations)) return schema
  throw new StartError(
    `The database has schema ${schema.version}, made by ${schema.by}, and this program, ${describeBuild()}, knows ${latestVersion(migrations)} at most: start a newer program, or restore a backup from before the upgrade.`,
  )
}

/**
 * Runs the migrations that the database lacks, in order, under a lock.
 *
 * @throws NotYetMade if another process does
 */
async function runMigrations(
  connection: Connection,
  migrations: readonly Migration[],
  log: Log,
): Promise<void> {
  const holder = randomUUID()
  if (!(await takeLock(connection, holder))) throw new NotYetMade('another process is upgrading the database')
  const renewing = setInterval(() => void takeLock(connection, holder).catch(() => false), RENEW_EVERY_MS)
  try {
    let version = (await readSchema(connection))?.version ?? 0
    for (const { to, what, run } of migrations) {
      if (to <= version) continue
      await run(connection)
      const done = { version: to, since: unixSeconds(Date.now()), by: describeBuild() }
      const { matchedCount } = await collectionOf(connection).updateOne(
        { _id: 'schema', version, 'lock.holder': holder },
        { $set: done },
      )
      if (matchedCount !== 1) throw new NotYetMade('another process has taken over the upgrade')
      log.info({ from: version, to, what }, 'the database was upgraded')
      version = to
    }
  } finally {
    clearInterval(renewing)
    await collectionOf(connection)
      .updateOne({ _id: 'schema', 'lock.holder': holder }, { $unset: { lock: '' } })
      .catch(() => undefined) // it ends by itself
  }
}

/**
 * Takes the lock on the schema, or goes on holding it, by the server's clock alone. A database without the
 * document gets one of version 0.
 *
 * @returns whether `holder` has it then
 */
async function takeLock(connection: Connection, holder: string): Promise<boolean> {
  const isFree = { $or: [{ $eq: ['$lock.holder', holder] }, { $lt: ['$lock.until', '$$NOW'] }] }
  const lock = { holder, until: { $add: ['$$NOW', LOCK_MS] } }
  try {
    const record = await collectionOf(connection).findOneAndUpdate(
      { _id: 'schema' },
      [{ $set: { version: { $ifNull: ['$version', 0] }, lock: { $cond: [isFree, lock, '$lock'] } } }],
      { upsert: true, returnDocument: 'after' },
    )
    return record?.lock?.holder === holder
  } catch (error) {
    if (isDuplicateKey(error) || error instanceof mongoose.mongo.MongoWriteConcernError) return false
    throw error
  }
}
