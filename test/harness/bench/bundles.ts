import mongoose from 'mongoose'
import { startServers } from '../../../scripts/embedded/temporary.ts'
import { readConfig } from '../../../shared/platform/config.ts'
import { closeContext, openContext } from '../../../shared/context.ts'
import { canonicalJson } from '../../../shared/crypto/canonical-json.ts'
import { hashLeafTexts } from '../../../shared/crypto/merkle.ts'
import { createLogTree } from '../../../shared/crypto/log-tree.ts'
import { computeLeaves, viewEntry } from '../../../shared/ledger/entry.ts'
import type { PendingEntry } from '../../../shared/ledger/pending.ts'
import { sequencePending } from '../../../shared/ledger/sequencer.ts'
import { createLog } from '../../../shared/platform/log.ts'
import { SECOND_MS } from '../../../shared/platform/time.ts'
import { compareInTurns, type Figure } from './figure.ts'
import { databaseUrl } from './processes.ts'
import { readUsage } from './proc.ts'
import { dropDatabase, storePosts } from './seal.ts'

/*
 * A prototype, which nothing else uses: the ledger in bundles of 256 entries in place of one document an entry, as
 * docs/architecture.md argues it. Measured beside today's path over the same pending entries: what has to be done to
 * number them, take them off their records, read them again and grow the log.
 *
 * And what clearing costs: entries that wait on their records beside entries that wait in a collection of their own.
 */

const ENTRIES = 60_000
const ROUNDS = 3
const BUNDLE = 256
/** Records that are written at once. */
const GROUP = 250
const TEXT = 'x'.repeat(310)
const HASH = 'ab'.repeat(32)
/** Records read at once, as the sequencer does. */
const BATCH = 8 * BUNDLE
const DURABLE = { writeConcern: { w: 'majority' as const, j: true } }

/** 256 entries side by side; the numbers follow from the bundle's own. */
interface Bundle {
  _id: number
  /** Unique over all bundles; within one, whoever writes it sees to that. */
  sources: string[]
  /** The record of each, by which receipts are found. */
  records: string[]
  /** The canonical form of each entry as it is published, a line each: what the leaves cover. */
  lines: string
}

/** Compares entries numbered, read again and hashed, by a second of processor time of Node and mongod together. */
export async function benchBundles(): Promise<Figure[]> {
  const servers = await startServers(() => undefined, { cacheGb: 1 })
  const mongodPid = servers.mongod.child.pid() ?? 0
  let round = 0
  const usedMs = (): number => readUsage(mongodPid).cpuMs + readUsage(process.pid).cpuMs
  /** Entries a second of processor time. */
  const sampleOf = (work: (url: string) => Promise<number>) => async (): Promise<number> => {
    const url = databaseUrl(servers.mongod.url, `bundles${round++}`)
    await storePosts(url, ENTRIES, 'a')
    const before = usedMs()
    const count = await work(url)
    const after = usedMs()
    if (count !== ENTRIES) throw new Error(`${count} of ${ENTRIES} entries were numbered`)
    await dropDatabase(url)
    return (ENTRIES / (after - before)) * SECOND_MS
  }
  /** Records stored and cleared a second of processor time. */
  const sampleOfWrites =
    (store: (client: mongoose.mongo.MongoClient, ids: readonly string[]) => Promise<void>) =>
    async (): Promise<number> => {
      const url = databaseUrl(servers.mongod.url, `bundles${round++}`)
      const client = await new mongoose.mongo.MongoClient(url).connect()
      await client.db().collection('posts').createIndex({ 'pending.source': 1 })
      await client.db().createCollection('outbox')
      const before = usedMs()
      for (let start = 0; start < ENTRIES; start += GROUP)
        await store(
          client,
          Array.from({ length: GROUP }, (_, place) => `pst_${String(start + place).padStart(26, '0')}`),
        )
      const after = usedMs()
      await client.close()
      await dropDatabase(url)
      return (ENTRIES / (after - before)) * SECOND_MS
    }
  try {
    return [
      await compareInTurns(
        ROUNDS,
        {
          name: 'one document an entry, as today',
          sample: sampleOf((url) => numberAsToday(url, servers.redis.url)),
        },
        {
          name: 'bundles: entries numbered, read again and hashed, prototype',
          sample: sampleOf(numberInBundles),
          unit: 'entries/s of processor time',
          better: 'higher',
        },
      ),
      await compareInTurns(
        ROUNDS,
        { name: 'pending entries on their records, cleared', sample: sampleOfWrites(storeOnRecords) },
        {
          name: 'outbox: records and entries in a transaction, deleted, prototype',
          sample: sampleOfWrites(storeInOutbox),
          unit: 'records/s of processor time',
          better: 'higher',
        },
      ),
    ]
  } finally {
    await servers.stop()
  }
}

const recordOf = (_id: string) => ({ _id, agent_id: 'agt_00000000000000000000000000', body: TEXT, at: 1 })
const entryOf = (id: string) => ({ source: `${id}/post`, kind: 'post', at: 1, data: { content_hash: HASH } })

/** As today: a record carries its entry, which is taken off it once it has a number. */
async function storeOnRecords(client: mongoose.mongo.MongoClient, ids: readonly string[]): Promise<void> {
  const posts = client.db().collection<{ _id: string; pending: object[] }>('posts')
  const records = ids.map((id) => ({ ...recordOf(id), pending: [entryOf(id)] }))
  await posts.insertMany(records, { ordered: false, ...DURABLE })
  await posts.find({ 'pending.source': { $gt: '' } }, { projection: { pending: 1 } }).toArray()
  const sources = ids.map((id) => entryOf(id).source)
  await posts.updateMany(
    { _id: { $in: [...ids] } },
    { $pull: { pending: { source: { $in: sources } } } },
    DURABLE,
  )
}

/** The other way: entries wait in a collection of their own, and are deleted from it. */
async function storeInOutbox(client: mongoose.mongo.MongoClient, ids: readonly string[]): Promise<void> {
  const posts = client.db().collection<{ _id: string }>('posts')
  const outbox = client.db().collection<{ _id: string }>('outbox')
  await client.withSession((session) =>
    session.withTransaction(
      async () => {
        await posts.insertMany(ids.map(recordOf), { ordered: false, session })
        const entries = ids.map((id) => ({ ...entryOf(id), _id: entryOf(id).source }))
        await outbox.insertMany(entries, { ordered: false, session })
      },
      { readConcern: { level: 'snapshot' }, ...DURABLE },
    ),
  )
  await outbox.find().toArray()
  await outbox.deleteMany({ _id: { $in: ids.map((id) => entryOf(id).source) } }, DURABLE)
}

async function numberAsToday(mongodbUrl: string, redisUrl: string): Promise<number> {
  const env = { MONGODB_URL: mongodbUrl, REDIS_URL: redisUrl, QUEUE_PREFIX: 'bundles' }
  const ctx = openContext(readConfig(env, 'workers'), createLog('bench', 'silent'), {
    databaseTimeoutMs: 30_000,
  })
  try {
    await ctx.database.whenReady()
    while ((await sequencePending(ctx)) > 0);
    const log = createLogTree()
    for await (const page of ctx.entries.pages(1)) log.append(computeLeaves(page).leaves)
    return log.size
  } finally {
    await closeContext(ctx)
  }
}

async function numberInBundles(url: string): Promise<number> {
  const client = await new mongoose.mongo.MongoClient(url).connect()
  try {
    const posts = client.db().collection<{ _id: string; pending: PendingEntry[] }>('posts')
    const bundles = client.db().collection<Bundle>('bundles')
    await bundles.createIndex({ sources: 1 }, { unique: true })
    await bundles.createIndex({ records: 1 })
    let after = ''
    let next = 0
    let clearing: Promise<unknown> = Promise.resolve()
    for (;;) {
      const records = await posts
        .find(
          { 'pending.source': { $gt: after } },
          { projection: { pending: 1 }, readConcern: { level: 'majority' } },
        )
        .hint({ 'pending.source': 1 })
        .limit(BATCH)
        .toArray()
      if (records.length === 0) break
      const entries = records.flatMap(({ pending }) => pending)
      const made = makeBundles(entries, next)
      await bundles.insertMany(made, { ordered: true, ...DURABLE })
      await clearing
      const sources = entries.map(({ source }) => source)
      const ids = records.map(({ _id }) => _id)
      clearing = posts.updateMany(
        { _id: { $in: ids } },
        { $pull: { pending: { source: { $in: sources } } } },
        DURABLE,
      )
      next += made.length
      after = sources.at(-1) ?? after
    }
    await clearing
    const log = createLogTree()
    for await (const { lines } of bundles.find().sort({ _id: 1 }).batchSize(8))
      log.append(hashLeafTexts(lines.split('\n')))
    return log.size
  } finally {
    await client.close()
  }
}

function makeBundles(entries: readonly PendingEntry[], first: number): Bundle[] {
  return Array.from({ length: Math.ceil(entries.length / BUNDLE) }, (_, place) => {
    const _id = first + place
    const part = entries.slice(place * BUNDLE, (place + 1) * BUNDLE)
    const sources = part.map(({ source }) => source)
    const records = sources.map((source) => source.slice(0, source.indexOf('/')))
    const views = part.map((entry, index) =>
      viewEntry({ ...entry, _id: _id * BUNDLE + index + 1, record: records[index] ?? '' }),
    )
    const lines = views.map((view) => canonicalJson(view)).join('\n')
    return { _id, sources, records, lines }
  })
}
