import mongoose from 'mongoose'
import { startServers } from '../embedded/temporary.ts'
import { compareInTurns, type Figure } from './figure.ts'

const CONNECTIONS = 64
const SAMPLE_MS = 3_000

/**
 * Compares two ways to store a record with its pending ledger entry, in records a second: one insert with the
 * entry as a field, and a transaction of two inserts.
 */
export async function benchEntry(): Promise<Figure[]> {
  const servers = await startServers(() => undefined, { cacheGb: 1 })
  const client = await new mongoose.mongo.MongoClient(servers.mongod.url, {
    writeConcern: { w: 'majority', journal: true },
    maxPoolSize: 100,
  }).connect()
  try {
    const db = client.db('bench')
    const whole = db.collection<Record<string, unknown>>('whole')
    const records = db.collection<Record<string, unknown>>('records')
    const outbox = db.collection<Record<string, unknown>>('outbox')
    await whole.createIndex(
      { 'pending.source': 1 },
      { partialFilterExpression: { 'pending.source': { $exists: true } } },
    )
    await outbox.createIndex({ source: 1 }, { unique: true })
    let count = 0
    const insertWhole = () => whole.insertOne({ ...makeRecord(++count), pending: [makeEntry(count)] })
    const insertBoth = () => {
      const id = ++count
      return client.withSession((session) =>
        session.withTransaction(async () => {
          await records.insertOne(makeRecord(id), { session })
          await outbox.insertOne(makeEntry(id), { session })
        }),
      )
    }
    const name = 'entry: a record with its pending entry as a field, one insert'
    return [
      await compareInTurns(
        3,
        { name: 'a transaction of two inserts', sample: () => rateFor(insertBoth) },
        { name, sample: () => rateFor(insertWhole), unit: 'records/s', better: 'higher' },
      ),
    ]
  } finally {
    await client.close()
    await servers.stop()
  }
}

/** Repeats a write over CONNECTIONS connections for one sample. @returns writes per second */
async function rateFor(write: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now()
  let done = 0
  const writeInTurn = async (): Promise<void> => {
    for (; performance.now() - startedAt < SAMPLE_MS; done++) await write()
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, writeInTurn))
  return (done / (performance.now() - startedAt)) * 1_000
}

const makeRecord = (id: number) => ({
  number: id,
  agent_id: 'agt_bench',
  at: 1,
  body: 'x'.repeat(200),
  salt: 'a'.repeat(64),
})
const makeEntry = (id: number) => ({
  source: `pst_${id}/post`,
  at: 1,
  kind: 'post',
  data: { post_id: `pst_${id}`, agent_id: 'agt_bench', content_hash: 'a'.repeat(64) },
})
