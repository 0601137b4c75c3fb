import { createHash } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import mongoose from 'mongoose'
import { z } from 'zod'
import { syncFolder } from '../foundation/durable-file.ts'
import { StartError } from '../foundation/process.ts'
import { unixSeconds } from '../foundation/time.ts'
import { readBuild } from '../foundation/build.ts'

/*
 * A backup is a folder: `database/NAME.bson`, the documents of each collection one after another as mongodump
 * writes them, and `manifest.json`, written last. All collections are read at one time of the cluster, so
 * that what one says of another holds.
 */

const { BSON } = mongoose.mongo
type Db = mongoose.mongo.Db
type MongoClient = mongoose.mongo.MongoClient

export const MANIFEST = 'manifest.json'
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

/** The server's codes for a time that it no longer, or not yet, knows in full. */
const SNAPSHOT_GONE = new Set([239, 246])
/** What the replica set keeps of the past bounds how long a backup may take. */
const TRIES = 3
const BATCH = 2_000

/**
 * Writes every collection as it was at one time of the cluster.
 *
 * @throws StartError if the server forgets the past faster than the collections can be read
 */
export async function writeBackup(
  db: Db,
  client: MongoClient,
  folder: string,
  keys: Manifest['keys'],
): Promise<Manifest> {
  fs.mkdirSync(path.join(folder, 'database'), { recursive: true, mode: 0o700 })
  for (let left = TRIES; ; left--) {
    try {
      return await tryBackup(db, client, folder, keys)
    } catch (error) {
      if (!(error instanceof mongoose.mongo.MongoServerError) || !SNAPSHOT_GONE.has(Number(error.code)))
        throw error
      if (left > 1) continue
      throw new StartError(
        'MongoDB forgets the past faster than the backup can read it; set minSnapshotHistoryWindowInSeconds of mongod to more than the backup takes.',
        { cause: error },
      )
    }
  }
}

async function tryBackup(
  db: Db,
  client: MongoClient,
  folder: string,
  keys: Manifest['keys'],
): Promise<Manifest> {
  const session = client.startSession({ snapshot: true })
  try {
    // The first read fixes the time for all that follow.
    const schema = await db
      .collection<{ _id: string; version?: number }>('schema')
      .findOne({ _id: 'schema' }, { session })
    const names = (await db.listCollections({ type: 'collection' }, { nameOnly: true }).toArray())
      .map(({ name }) => name)
      .filter((name) => !name.startsWith('system.'))
      .toSorted()
    const collections: Manifest['collections'] = []
    for (const name of names) {
      const written = await writeCollection(db, name, path.join(folder, fileOf(name)), session)
      const indexes = await db.collection(name).listIndexes().toArray()
      collections.push({
        name,
        ...written,
        indexes: indexes
          .filter(({ name: index }) => index !== '_id_')
          .map(({ v: _v, ...index }) => BSON.EJSON.serialize(index) as Record<string, unknown>),
      })
    }
    const time = (session as unknown as { snapshotTime?: mongoose.mongo.Timestamp }).snapshotTime
    if (time === undefined) throw new Error('MongoDB has not said at which time it was read')
    const manifest: Manifest = {
      format: 1,
      ...readBuild(),
      schema: schema?.version ?? 0,
      at: time.getHighBits() >>> 0,
      cluster_time: `${time.getHighBits() >>> 0}.${time.getLowBits() >>> 0}`,
      database: db.databaseName,
      collections,
      keys,
    }
    fs.writeFileSync(path.join(folder, MANIFEST), `${JSON.stringify(manifest, null, 2)}\n`, {
      mode: 0o600,
      flush: true,
    })
    syncFolder(folder)
    return manifest
  } finally {
    await session.endSession()
  }
}

async function writeCollection(
  db: Db,
  name: string,
  file: string,
  session: mongoose.mongo.ClientSession,
): Promise<{ documents: number; bytes: number; sha256: string }> {
  const out = fs.openSync(file, 'w', 0o600)
  const hash = createHash('sha256')
  let [documents, bytes] = [0, 0]
  try {
    const cursor = db.collection(name).find({}, { raw: true, session, batchSize: BATCH })
    for await (const document of cursor) {
      const raw = document as unknown as Uint8Array
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

/** @throws StartError if it is no backup, or not as it was written */
export async function readManifest(folder: string): Promise<Manifest> {
  const file = path.join(folder, MANIFEST)
  if (!fs.existsSync(file))
    throw new StartError(`${folder} is no backup, or one that was not finished: it has no ${MANIFEST}.`)
  const manifest = manifestForm.safeParse(JSON.parse(fs.readFileSync(file, 'utf8')))
  if (!manifest.success) throw new StartError(`${file} is not what "operator backup" writes.`)
  for (const { name, sha256 } of manifest.data.collections)
    if ((await hashFile(path.join(folder, fileOf(name)))) !== sha256)
      throw new StartError(`${fileOf(name)} in ${folder} is not as it was written: its SHA-256 differs.`)
  return manifest.data
}

async function hashFile(file: string): Promise<string | undefined> {
  if (!fs.existsSync(file)) return undefined
  const hash = createHash('sha256')
  for await (const chunk of fs.createReadStream(file)) hash.update(chunk as Uint8Array)
  return hash.digest('hex')
}

/**
 * Puts a backup into a database that holds nothing, as a copy that knows it is one.
 *
 * @throws StartError if the database holds something
 */
export async function restoreBackup(db: Db, folder: string, manifest: Manifest): Promise<void> {
  const present = await db.listCollections({}, { nameOnly: true }).toArray()
  if (present.length > 0)
    throw new StartError(
      `The database "${db.databaseName}" holds ${present.length} collections already, and a backup is restored into an empty one alone.`,
    )
  // First: what is interrupted must not be taken for the network.
  await db
    .collection<{ _id: string; restored_at: number; backup_at: number; cluster_time: string }>('schema')
    .insertOne({
      _id: 'copy',
      restored_at: unixSeconds(Date.now()),
      backup_at: manifest.at,
      cluster_time: manifest.cluster_time,
    })
  for (const { name, indexes, documents } of manifest.collections) {
    if (name !== 'schema') await db.createCollection(name)
    const collection = db.collection(name)
    if (indexes.length > 0)
      await collection.createIndexes(
        indexes.map((index) => BSON.EJSON.deserialize(index) as mongoose.mongo.IndexDescription),
      )
    let count = 0
    for await (const batch of readDocuments(path.join(folder, fileOf(name)))) {
      // It is a copy of a copy at most; that it is one now is what counts.
      const fresh = name === 'schema' ? batch.filter((one) => one['_id'] !== 'copy') : batch
      if (fresh.length > 0) await collection.insertMany(fresh, { ordered: true })
      count += batch.length
    }
    if (count !== documents)
      throw new StartError(`${fileOf(name)} has ${count} documents, and the manifest says ${documents}.`)
  }
}

/** Every value keeps its type: a whole number that was a double stays one. */
const AS_STORED = {
  promoteValues: false,
  promoteLongs: false,
  promoteBuffers: false,
  bsonRegExp: true,
} as const
const LENGTH_BYTES = 4

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
