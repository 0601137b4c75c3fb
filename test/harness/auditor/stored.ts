import mongoose from 'mongoose'
import type { LedgerEntry } from '../../../shared/crypto/receipt.ts'

export interface StoredAgent {
  _id: string
  handle?: string
  salt: string
  ref?: string
  first_paid_at?: number
  challenge: string
  profile?: { name?: string; dm_key?: string }
  pass_until_ms?: number
  banned_at?: number
  referrals: { paying: number }
  record: { claims: Record<string, number>; verdicts: Record<string, number> }
}
export interface StoredPost {
  _id: string
  agent_id: string
  body: string
  topic?: string
  salt: string
  hidden_at?: number
}
export interface StoredClaim {
  _id: string
  agent_id: string
  statement: string
  kind: string
  resolve_by?: number
  salt: string
  status: string
  standing: { true: number; false: number; void: number }
}
export interface StoredVerdict {
  _id: string
  claim_id: string
  agent_id: string
  outcome: 'true' | 'false' | 'void'
  evidence?: string
  by_author: boolean
  superseded: boolean
}
export interface StoredMessage {
  _id: string
  from: string
  to: string
  box: string
}
export interface StoredReport {
  _id: string
  agent_id: string
  post_id: string
  rule: string
}
export interface StoredOrder {
  _id: string
  agent_id: string
  days: number
  shares_per_day: number
  shares_required: number
  difficulty_bits: number
  prefix: string
  shares_accepted: number
  credited_days: number
}

/** The evidence of every verdict: the marker by which the call that gave it is known. */
export const evidenceIn = ({ verdicts }: Stored): ReadonlySet<string> =>
  new Set(verdicts.flatMap(({ evidence }) => evidence ?? []))

/** The records in MongoDB, read directly and with majority read concern. */
export interface Stored {
  agents: StoredAgent[]
  posts: StoredPost[]
  claims: StoredClaim[]
  verdicts: StoredVerdict[]
  messages: StoredMessage[]
  reports: StoredReport[]
  orders: StoredOrder[]
  /** Nonces that counted, by order. */
  counted: Map<string, string[]>
  waitingBatches: number
  /** Entries that have no number yet, by source. */
  pending: string[]
  entries: (LedgerEntry & { source: string })[]
  seals: { seq: number; to_id: number; signed: boolean; pubkey?: string }[]
  unsignedAnnouncements: number
}

export type Db = mongoose.mongo.Db

/**
 * Opens a connection to the database with majority read concern for the time of `work`.
 *
 * @param limits how long to wait for MongoDB: 20 s for a server, and for its answers without a limit
 */
export async function withDatabase<T>(
  url: string,
  work: (db: Db, client: mongoose.mongo.MongoClient) => Promise<T>,
  limits: Pick<mongoose.mongo.MongoClientOptions, 'serverSelectionTimeoutMS' | 'socketTimeoutMS'> = {},
): Promise<T> {
  const client = new mongoose.mongo.MongoClient(url, {
    readConcernLevel: 'majority',
    serverSelectionTimeoutMS: 20_000,
    ...limits,
  })
  try {
    return await work(client.db(), client)
  } finally {
    await client.close()
  }
}

/** A function that reads every record of a collection, by their ids, at a session's moment if there is one. */
export const readerOf =
  (db: Db, session?: mongoose.mongo.ClientSession) =>
  <T>(name: string): Promise<T[]> =>
    db
      .collection(name)
      .find({}, session === undefined ? {} : { session })
      .sort({ _id: 1 })
      .toArray() as unknown as Promise<T[]>

/** Collections whose records carry ledger entries that have no number yet. */
export const LEDGERED = [
  'journal',
  'agents',
  'posts',
  'claims',
  'verdicts',
  'work_orders',
  'announcements',
  'seal_adoptions',
  'invoices',
  'offers',
  'orders',
  'payouts',
  'payments',
  'reconciliations',
  'operator_acts',
] as const

/** Reads the service's work that is left: `pending` is empty and all counts are 0 once everything is done. */
export async function readBacklog(url: string): Promise<{
  pending: string[]
  waitingBatches: number
  unsealed: number
  unsigned: number
  unsignedAnnouncements: number
}> {
  return withDatabase(url, async (db) => {
    const pending = await readPending(db)
    const [last] = await db.collection<{ _id: number }>('entries').find().sort({ _id: -1 }).limit(1).toArray()
    const [seal] = await db
      .collection<{ _id: number; to_id: number }>('seals')
      .find()
      .sort({ _id: -1 })
      .limit(1)
      .toArray()
    return {
      pending,
      waitingBatches: await db.collection('work_batches').countDocuments({ state: 'waiting' }),
      unsealed: (last?._id ?? 0) - (seal?.to_id ?? 0),
      unsigned: await db.collection('seals').countDocuments({ signed: false }),
      unsignedAnnouncements: await db
        .collection('announcements')
        .countDocuments({ signature: { $exists: false } }),
    }
  })
}

/** An entry that has no number yet. */
export type PendingEntry = Omit<LedgerEntry, 'id'> & { source: string }

/** The sources of all entries that have no number yet. */
const readPending = async (db: Db): Promise<string[]> =>
  (await readPendingEntries(db)).map(({ source }) => source)

/** All entries that have no number yet. */
export async function readPendingEntries(db: Db): Promise<PendingEntry[]> {
  const records = await Promise.all(
    LEDGERED.map((name) =>
      db
        .collection<{ pending: PendingEntry[] }>(name)
        .find({ 'pending.source': { $exists: true } })
        .toArray(),
    ),
  )
  return records.flat().flatMap(({ pending }) => pending)
}

/** Reads everything that the checks compare; not at one moment, so the network has to be at rest. */
export async function readStored(url: string): Promise<Stored> {
  return withDatabase(url, async (db) => {
    const all = readerOf(db)
    const pages = await all<{ order_id: string; nonces: string }>('share_pages')
    const counted = new Map<string, string[]>()
    for (const { order_id: order, nonces } of pages)
      counted.set(order, [
        ...(counted.get(order) ?? []),
        ...nonces.split(' ').filter((nonce) => nonce !== ''),
      ])
    return {
      agents: await all<StoredAgent>('agents'),
      posts: await all<StoredPost>('posts'),
      claims: await all<StoredClaim>('claims'),
      verdicts: await all<StoredVerdict>('verdicts'),
      messages: await all<StoredMessage>('messages'),
      reports: await all<StoredReport>('reports'),
      orders: await all<StoredOrder>('work_orders'),
      counted,
      waitingBatches: await db.collection('work_batches').countDocuments({ state: 'waiting' }),
      pending: await readPending(db),
      entries: (
        await all<{ _id: number; source: string; at: number; kind: string; data: LedgerEntry['data'] }>(
          'entries',
        )
      ).map(({ _id, source, at, kind, data }) => ({ id: _id, source, at, kind, data })),
      seals: (await all<{ _id: number; to_id: number; signed: boolean; pubkey?: string }>('seals')).map(
        ({ _id, ...rest }) => ({
          seq: _id,
          ...rest,
        }),
      ),
      unsignedAnnouncements: await db
        .collection('announcements')
        .countDocuments({ signature: { $exists: false } }),
    }
  })
}
