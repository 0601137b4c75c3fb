import { createHash } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import mongoose from 'mongoose'
import { z } from 'zod'
import { readJsonFile, syncFolder, textWithSum } from '../platform/durable-file.ts'
import { StartError } from '../platform/process.ts'
import { unixSeconds } from '../platform/time.ts'
import { readBuild } from '../platform/build.ts'
import type { CopyRecord } from '../platform/copy.ts'

/*
 * A backup is a folder: `database/NAME.bson`, the documents of each collection one after another as mongodump
 * writes them, and `manifest.json`, written last. All collections are read at one cluster time, so that they
 * agree with each other.
 */

const { BSON } = mongoose.mongo
type Db = mongoose.mongo.Db
type Timestamp = mongoose.mongo.Timestamp
type ClientSession = mongoose.mongo.ClientSession

const MANIFEST = 'manifest.json'
/** The path of a collection's file within the backup's folder. */
const fileOf = (name: string): string => path.join('database', `${name}.bson`)

const manifestForm = z.object({
  format: z.literal(1),
  version: z.string(),
  commit: z.string(),
  schema: z.int().min(0),
  /** Unix seconds. */
  at: z.int(),
  /** Of MongoDB: seconds, and the number within them. */
  cluster_time: z.string(),
  database: z.string(),
  collections: z.array(
    z.object({
      name: z.string(),
      documents: z.int(),
      bytes: z.int(),
      sha256: z.string(),
      indexes: z.array(z.record(z.string(), z.unknown())),
    }),
  ),
  /** What belongs to it and is not in the database. */
  keys: z.array(z.object({ name: z.string(), file: z.string(), copied: z.boolean() })),
})
export type Manifest = z.output<typeof manifestForm>

/** The server's error code for a time that it no longer knows in full. */
const SNAPSHOT_TOO_OLD = 239
/** A try fails if it takes longer than the server keeps the past, which depends on the load. */
const MAX_TRIES = 3
/** After a start or an election the server has nothing to read until a majority has agreed on a write. */
const SNAPSHOT_UNAVAILABLE = 246
const MAX_WAITS = 80
const WAIT_MS = 250
const BATCH = 2_000
/** The read that fixes the time fails after this long, if its member is cut off from a majority. */
const SURELY_WITHIN_MS = 15_000

/**
 * Writes every collection of a database into a folder, as it was at one cluster time, and then the manifest.
 * The time is not before the call, so that all that was acknowledged by then is in it. Begins again if the server has forgotten that time, at most MAX_TRIES times, and while it knows none yet.
 *
 * @param keys files that belong to the network and are not in the database, for the manifest
 * @returns the manifest
 * @throws StartError if the server forgets the past faster than the collections can be read
 */
export async function writeBackup(db: Db, folder: string, keys: Manifest['keys']): Promise<Manifest> {
  fs.mkdirSync(path.join(folder, 'database'), { recursive: true, mode: 0o700 })
  for (let tries = 1, waits = 0; ;) {
    const session = db.client.startSession({ snapshot: true })
    try {
      const time = await fixTime(db, session)
      return await tryBackup(db, session, time, folder, keys)
    } catch (error) {
      const code = error instanceof mongoose.mongo.MongoServerError ? error.code : undefined
      if (code === SNAPSHOT_UNAVAILABLE && waits++ < MAX_WAITS) {
        await sleep(WAIT_MS)
        continue
      }
      if (code !== SNAPSHOT_TOO_OLD) throw error
      if (tries++ === MAX_TRIES)
        throw new StartError(
          'MongoDB forgets the past faster than the backup can read it; set minSnapshotHistoryWindowInSeconds of mongod to more than the backup takes.',
          { cause: error },
        )
    } finally {
      await session.endSession()
    }
  }
}

/**
 * Has a session read at a cluster time after everything that was acknowledged before the call. A snapshot
 * whose time the server chooses may lack some of that: it is as new as the member that is read, which for a
 * moment after an election may be one that took writes before.
 *
 * @returns the time
 */
async function fixTime(db: Db, session: ClientSession): Promise<Timestamp> {
  const { operationTime, $clusterTime } = await db.command(
    {
      ...{ find: 'schema', filter: { _id: 'schema' }, limit: 1, singleBatch: true },
      ...{ readConcern: { level: 'linearizable' }, maxTimeMS: SURELY_WITHIN_MS },
    },
    { readPreference: 'primary' },
  )
  if (!(operationTime instanceof mongoose.mongo.Timestamp))
    throw new Error('MongoDB has not said at which time it was read')
  // A member that hasn't heard of the time yet refuses to read at it, unless it is told the cluster's.
  session.advanceClusterTime($clusterTime)
  // The driver has each read of such a session ask for this time.
  Object.assign(session, { snapshotTime: operationTime })
  return operationTime
}

/**
 * Writes the collections and the manifest once.
 *
 * @param time the one that the session reads at
 * @throws MongoServerError if the server forgets the past
 */
async function tryBackup(
  db: Db,
  session: ClientSession,
  time: Timestamp,
  folder: string,
  keys: Manifest['keys'],
): Promise<Manifest> {
  const schema = await db
    .collection<{ _id: string; version?: number }>('schema')
    .findOne({ _id: 'schema' }, { session })
  const listed = await db
    .listCollections({ type: 'collection' }, { nameOnly: true, readPreference: 'primary' })
    .toArray()
  const names = listed.map(({ name }) => name).filter((name) => !name.startsWith('system.'))
  const collections: Manifest['collections'] = []
  for (const name of names.toSorted()) {
    const written = await writeCollection(db, name, path.join(folder, fileOf(name)), session)
    const indexes = (await db.collection(name).listIndexes().toArray())
      .filter(({ name: index }) => index !== '_id_')
      .map(({ v: _v, ...index }) => BSON.EJSON.serialize(index) as Record<string, unknown>)
    collections.push({ name, ...written, indexes })
  }
  syncFolder(path.join(folder, 'database'))
  const [seconds, increment] = [time.getHighBits() >>> 0, time.getLowBits() >>> 0]
  const manifest: Manifest = {
    format: 1,
    ...readBuild(),
    schema: schema?.version ?? 0,
    at: seconds,
    cluster_time: `${seconds}.${increment}`,
    database: db.databaseName,
    collections,
    keys,
  }
  fs.writeFileSync(path.join(folder, MANIFEST), textWithSum(manifest, 2), { mode: 0o600, flush: true })
  for (const synced of [folder, path.dirname(folder)]) syncFolder(synced)
  return manifest
}

/**
 * Writes a collection's documents as BSON into a file and syncs it.
 *
 * @returns how much it wrote, and its hash
 */
async function writeCollection(
  db: Db,
  name: string,
  file: string,
  session: ClientSession,
): Promise<{ documents: number; bytes: number; sha256: string }> {
  const out = fs.openSync(file, 'w', 0o600)
  const hash = createHash('sha256')
  let [documents, bytes] = [0, 0]
  try {
    const cursor = db.collection(name).find<Uint8Array>({}, { raw: true, session, batchSize: BATCH })
    for await (const raw of cursor) {
      fs.writeSync(out, raw)
      hash.update(raw)
      documents++
      bytes += raw.length
    }
    fs.fsyncSync(out)
  } finally {
    fs.closeSync(out)
  }
  return { documents, bytes, sha256: hash.digest('hex') }
}

/**
 * Reads a backup's manifest, and compares every file with its SHA-256 there.
 *
 * @throws StartError if the folder isn't a complete backup, or was changed
 */
export async function verifyBackup(folder: string): Promise<Manifest> {
  const file = path.join(folder, MANIFEST)
  const broken = (cause: unknown) =>
    new StartError(
      `${file} is not what "operator backup" wrote there. Take another backup, or another copy of this one.`,
      { cause },
    )
  const manifest = readJsonFile(file, manifestForm, broken)
  if (manifest === undefined)
    throw new StartError(
      `${folder} is not a backup, or an unfinished one: it has no ${MANIFEST}. Take another one.`,
    )
  for (const { name, sha256 } of manifest.collections) {
    const found = await hashFile(path.join(folder, fileOf(name)))
    if (found === sha256) continue
    const why = found === undefined ? 'is missing' : 'has changed since the backup: its SHA-256 differs'
    throw new StartError(
      `In ${folder}, ${fileOf(name)} ${why}. Take another backup, or another copy of this one.`,
    )
  }
  return manifest
}

/** The SHA-256 of a file, as hex; undefined if there is no such file. */
async function hashFile(file: string): Promise<string | undefined> {
  if (!fs.existsSync(file)) return undefined
  const hash = createHash('sha256')
  for await (const chunk of fs.createReadStream(file)) hash.update(chunk as Uint8Array)
  return hash.digest('hex')
}

/**
 * Writes a backup into an empty database, and marks that as a copy: until it is promoted, nothing is signed
 * or sent from it, and no address is given out.
 *
 * @throws StartError if the database isn't empty, or a file has another number of documents than the manifest
 */
export async function restoreBackup(db: Db, folder: string, manifest: Manifest): Promise<void> {
  const present = await db.listCollections({}, { nameOnly: true }).toArray()
  if (present.length > 0)
    throw new StartError(
      `The database "${db.databaseName}" holds ${present.length} collections already, and a backup is restored into an empty one alone.`,
    )
  // The mark comes first: a restore that is interrupted must not be taken for the network.
  await db.collection<CopyRecord>('schema').insertOne({
    _id: 'copy',
    restored_at: unixSeconds(Date.now()),
    backup_at: manifest.at,
    cluster_time: manifest.cluster_time,
  })
  for (const { name, indexes, documents: expected } of manifest.collections) {
    if (name !== 'schema') await db.createCollection(name)
    const collection = db.collection(name)
    if (indexes.length > 0)
      await collection.createIndexes(
        indexes.map((index) => BSON.EJSON.deserialize(index) as mongoose.mongo.IndexDescription),
      )
    let count = 0
    for await (const batch of readDocuments(path.join(folder, fileOf(name)))) {
      // A backup of a copy has a mark of its own, which the one above replaces.
      const documents = name === 'schema' ? batch.filter(({ _id }) => _id !== 'copy') : batch
      if (documents.length > 0) await collection.insertMany(documents, { ordered: true })
      count += batch.length
    }
    if (count !== expected)
      throw new StartError(`${fileOf(name)} has ${count} documents, and the manifest says ${expected}.`)
  }
}

/**
 * Options of the BSON parser under which every value keeps its type: a whole number that was a double stays
 * one.
 */
const AS_STORED = {
  promoteValues: false,
  promoteLongs: false,
  promoteBuffers: false,
  bsonRegExp: true,
} as const
const LENGTH_BYTES = 4

/** Reads the documents of a collection's file, in batches. @throws StartError if the last one is cut off */
async function* readDocuments(file: string): AsyncGenerator<mongoose.mongo.Document[]> {
  let rest = Buffer.alloc(0)
  for await (const chunk of fs.createReadStream(file, { highWaterMark: 1 << 20 })) {
    rest = Buffer.concat([rest, chunk as Buffer])
    const batch: mongoose.mongo.Document[] = []
    let at = 0
    while (rest.length - at >= LENGTH_BYTES) {
      const length = rest.readInt32LE(at)
      if (rest.length - at < length) break
      batch.push(BSON.deserialize(rest.subarray(at, at + length), AS_STORED))
      at += length
    }
    rest = rest.subarray(at)
    if (batch.length > 0) yield batch
  }
  if (rest.length > 0) throw new StartError(`${file} ends in the middle of a document.`)
}
