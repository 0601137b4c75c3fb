import type { JobType } from 'bullmq'
import type { Connection } from 'mongoose'
import type { Context } from '../context.ts'
import { ID_PREFIXES, type RecordKind } from '../platform/ids.ts'
import { SECOND_MS } from '../platform/time.ts'
import type { PendingEntry } from '../ledger/pending.ts'
import { formatAmount } from '../money/coin.ts'
import type { JournalLine } from '../money/journal.ts'
import { isRedisReady } from './queue-findings.ts'
import { QUEUE_NAMES } from '../platform/queue-table.ts'

type TrailContext = Pick<Context, 'database' | 'queues' | 'entries' | 'seals' | 'operation' | 'now'>

/*
 * Everything that is on record about one thing: the records that are linked with it and, in the order of
 * time, their entries in the ledger, the moves of money in the books, and their jobs.
 */

export interface TrailRecord {
  collection: string
  record: Readonly<Record<string, unknown>> & { _id: string }
}

export interface TrailEvent {
  /** Unix seconds. */
  at: number
  /** Where it is on record: `entry 7`, `waits for its number`, `books`, `job of send-nano`. */
  by: string
  what: string
}

export interface Trail {
  records: TrailRecord[]
  /** Oldest first. */
  events: TrailEvent[]
  /** Whether there are more linked records than are listed. */
  isCut: boolean
}

const COLLECTIONS: Partial<Record<RecordKind, string>> = {
  agent: 'agents',
  post: 'posts',
  message: 'messages',
  claim: 'claims',
  verdict: 'verdicts',
  report: 'reports',
  invoice: 'invoices',
  work_order: 'work_orders',
  work_batch: 'work_batches',
  offer: 'offers',
  order: 'orders',
  payment: 'payments',
  payout: 'payouts',
  transfer: 'transfers',
  reconciliation: 'reconciliations',
  announcement: 'announcements',
  operator_act: 'operator_acts',
}
/** By the first three letters of an id. */
const COLLECTION_BY_PREFIX = new Map<string, string>(
  Object.entries(COLLECTIONS).map(([kind, name]) => [ID_PREFIXES[kind as RecordKind], name]),
)
const ID = /^([a-z]{3})_[0-9a-hjkmnp-tv-z]{26}$/

type FieldsByCollection = Readonly<Record<string, readonly string[]>>
/** Fields with the id of the record that a record belongs to: they are followed both ways. */
const PARENT_FIELDS: FieldsByCollection = {
  invoices: ['order_id'],
  payments: ['invoice_id', 'order_id'],
  payouts: ['order_id', 'transfer_id'],
  transfers: ['payout_ids', 'payment_ids'],
  verdicts: ['claim_id'],
  reports: ['post_id'],
  operator_notes: ['about'],
  work_batches: ['order_id'],
}
/** Fields that hold an address, a transaction or a handle. */
const TEXT_FIELDS: FieldsByCollection = {
  agents: ['handle'],
  invoices: ['address'],
  payments: ['tx', 'undone_tx'],
  payouts: ['address', 'tx', 'source'],
  transfers: ['tx', 'successor', 'unexplained_to'],
  orders: ['payout_address', 'refund_address'],
  offers: ['payout_addresses.xno', 'payout_addresses.xmr'],
  addresses: ['address'],
}
/**
 * Fields with the id of the agent whose record it is; the newest are listed if the agent is asked for. All of them
 * would be most of the database.
 */
const AGENT_FIELDS: FieldsByCollection = {
  invoices: ['agent_id'],
  work_orders: ['agent_id'],
  orders: ['buyer_id', 'seller_id'],
  payouts: ['agent_id'],
  offers: ['agent_id'],
  claims: ['agent_id'],
  posts: ['agent_id'],
  operator_notes: ['about'],
}
/**
 * Collections whose records are linked with many others. Such a record is listed, but its own links are not
 * followed unless it is what was asked for.
 */
const HUBS = new Set(['agents', 'offers'])
/** Fields that are left out: secrets, what agents keep between themselves, and what is long. */
const LEFT_OUT = /^(?:token_\w+|\w*salt|box|delivery|signed|nonces|pending|challenge|version|in_flight)$/
const MAX_RECORDS = 60
const MAX_OF_AGENT = 5
const MAX_LINES = 500
const MAX_JOBS_OF_A_QUEUE = 200
const JOB_STATES: JobType[] = ['waiting', 'prioritized', 'active', 'delayed', 'failed', 'completed']
const SEARCH_LIMIT_MS = 10 * SECOND_MS
const REDIS_LIMIT_MS = 2 * SECOND_MS

/**
 * Reads everything that is on record about a word: the records that it names, those linked with them, and
 * their events.
 *
 * @param word an id, the number of a ledger entry, an address, a transaction, a handle, or the id of a job
 * @returns undefined if nothing is known of it
 */
export async function readTrail(ctx: TrailContext, word: string): Promise<Trail | undefined> {
  const { connection } = ctx.database
  const named = await findNamed(ctx, word)
  const listed = new Map<string, TrailRecord>()
  const queue = [...named]
  for (const { collection, record } of named)
    if (collection === 'agents')
      queue.push(...(await findByFields(connection, AGENT_FIELDS, record._id, MAX_OF_AGENT)))
  while (queue.length > 0 && listed.size < MAX_RECORDS) {
    const next = queue.shift() as TrailRecord
    const key = `${next.collection}/${next.record._id}`
    if (listed.has(key)) continue
    listed.set(key, next)
    const isHub = HUBS.has(next.collection)
    if (!isHub || named.includes(next)) queue.push(...(await findLinked(connection, next)))
    if (!isHub) queue.push(...(await findByFields(connection, PARENT_FIELDS, next.record._id)))
  }
  const records = [...listed.values()]
  const isCut = queue.some(({ collection, record }) => !listed.has(`${collection}/${record._id}`))
  // A hub that was not asked for has a trail of its own.
  const told = records.filter(
    (listedRecord) => named.includes(listedRecord) || !HUBS.has(listedRecord.collection),
  )
  const ids = told.map(({ record }) => record._id)
  const events = [
    ...(await readEntries(ctx, ids)),
    ...told.flatMap(pendingEvents),
    ...(await readLines(connection, ids)),
    ...(await readJobs(ctx, [...ids, word])),
  ].toSorted((a, b) => a.at - b.at)
  if (records.length === 0 && events.length === 0) return undefined
  return { records: records.map(withoutLeftOut), events, isCut }
}

/** Finds the records that the word itself names. */
async function findNamed(ctx: TrailContext, word: string): Promise<TrailRecord[]> {
  const { connection } = ctx.database
  if (/^\d{1,12}$/.test(word)) {
    const entry = await ctx.entries.find(Number(word))
    return entry === undefined ? [] : findNamed(ctx, entry.record)
  }
  if (collectionOf(word) !== undefined) return findById(connection, word)
  return findByFields(connection, TEXT_FIELDS, { $in: [word, word.toLowerCase()] })
}

/** The collection that an id is of; undefined if it is no id, or of a kind that has no trail. */
const collectionOf = (id: string): string | undefined => COLLECTION_BY_PREFIX.get(ID.exec(id)?.[1] ?? '')

async function findById(connection: Connection, id: string): Promise<TrailRecord[]> {
  const collection = collectionOf(id)
  return collection === undefined ? [] : findRecords(connection, collection, { _id: id })
}

/** Finds the records that have `value` in one of their collection's fields, at most `limit` a collection. */
async function findByFields(
  connection: Connection,
  fieldsByCollection: FieldsByCollection,
  value: unknown,
  limit?: number,
): Promise<TrailRecord[]> {
  const found = await Promise.all(
    Object.entries(fieldsByCollection).map(([name, fields]) =>
      findRecords(connection, name, { $or: fields.map((field) => ({ [field]: value })) }, limit),
    ),
  )
  return found.flat()
}

/** Reads the newest records of a collection that match a filter. */
async function findRecords(
  connection: Connection,
  collection: string,
  filter: object,
  limit = MAX_RECORDS,
): Promise<TrailRecord[]> {
  const found = await connection
    .collection<TrailRecord['record']>(collection)
    .find(filter as never, { maxTimeMS: SEARCH_LIMIT_MS })
    .sort({ _id: -1 })
    .limit(limit)
    .toArray()
  return found.map((record) => ({ collection, record }))
}

/** Finds the records whose ids are in a field of this one, alone, in a list, or as a part between slashes. */
async function findLinked(connection: Connection, { record }: TrailRecord): Promise<TrailRecord[]> {
  const { _id: _ownId, pending: _pending, ...fields } = record
  const values: unknown[] = Object.values(fields).flat(Infinity)
  const texts = values.filter((value) => typeof value === 'string')
  const ids = new Set(texts.flatMap((text) => text.split('/')).filter((part) => ID.test(part)))
  const found = await Promise.all([...ids].map((id) => findById(connection, id)))
  return found.flat()
}

/** A copy of the record without the fields that nobody is shown. */
const withoutLeftOut = ({ collection, record }: TrailRecord): TrailRecord => ({
  collection,
  record: Object.fromEntries(
    Object.entries(record).filter(([field]) => !LEFT_OUT.test(field)),
  ) as TrailRecord['record'],
})

/** Reads the ledger entries of these records, each with the seal that covers it. */
async function readEntries(ctx: TrailContext, ids: readonly string[]): Promise<TrailEvent[]> {
  const entries = await Promise.all(ids.map((id) => ctx.entries.listByRecord(id, 0, MAX_RECORDS)))
  return Promise.all(
    entries.flat().map(async (entry) => {
      const seal = await ctx.seals.findCovering(entry._id)
      const sealed =
        seal === undefined ? 'not sealed yet' : `seal ${seal._id}${seal.signed ? '' : ', unsigned'}`
      return { at: entry.at, by: `entry ${entry._id}`, what: `${describeEntry(entry)} (${sealed})` }
    }),
  )
}

/** The entries that the record carries and that have no number yet. */
const pendingEvents = ({ record }: TrailRecord): TrailEvent[] =>
  ((record['pending'] ?? []) as PendingEntry[]).map((entry) => ({
    at: entry.at,
    by: 'waits for its number',
    what: describeEntry(entry),
  }))

/** An entry's kind, step and data on one line, without hashes. */
function describeEntry({ source, kind, data }: PendingEntry): string {
  const step = source.split('/').slice(1).join('/')
  const parts = Object.entries(data)
    .filter(([name, value]) => value !== null && !name.endsWith('_hash') && typeof value !== 'object')
    .map(([name, value]) => `${name} ${String(value)}`)
  return `${kind} ${step}: ${parts.join(', ')}`
}

/**
 * Reads the moves of money of these records from the books. Those of an agent are left to `books --agent`.
 */
async function readLines(connection: Connection, ids: readonly string[]): Promise<TrailEvent[]> {
  const fields = ['invoice_id', 'payment_id', 'payout_id', 'order_id', 'transfer_id']
  const lines = await connection
    .collection<JournalLine & { _id: string }>('journal')
    .find({ $or: fields.map((field) => ({ [field]: { $in: ids } })) } as never, {
      maxTimeMS: SEARCH_LIMIT_MS,
    })
    .limit(MAX_LINES)
    .toArray()
  return lines.map(({ at, from, to, amount_raw: raw, coin, _id }) => ({
    at,
    by: 'books',
    what: `${formatAmount(BigInt(raw), coin)} ${coin.toUpperCase()} from ${from} to ${to} (${_id})`,
  }))
}

/** Finds the jobs that have one of the ids as their own or in their data; none if Redis is away. */
async function readJobs(ctx: TrailContext, ids: readonly string[]): Promise<TrailEvent[]> {
  if (!(await isRedisReady(ctx, REDIS_LIMIT_MS))) return []
  const wanted = new Set(ids)
  const found = await Promise.all(
    QUEUE_NAMES.map(async (name) => {
      const jobs = await ctx.queues.get(name).getJobs(JOB_STATES, 0, MAX_JOBS_OF_A_QUEUE)
      // A job that was removed meanwhile is undefined.
      const matching = jobs.filter(
        (job) =>
          job !== undefined &&
          [job.id, ...Object.values(job.data as object)].some((value) => wanted.has(String(value))),
      )
      return Promise.all(
        matching.map(async (job) => ({
          at: Math.floor((job.processedOn ?? job.timestamp) / SECOND_MS),
          by: `job of ${name}`,
          what: `${job.id ?? ''} ${await job.getState()}, attempts ${job.attemptsMade}, ${JSON.stringify(job.data)}${job.failedReason === undefined ? '' : `: ${job.failedReason}`}`,
        })),
      )
    }),
  )
  return found.flat()
}
