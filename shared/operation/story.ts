import type { Connection } from 'mongoose'
import type { Context } from '../context.ts'
import { ID_PREFIXES, type RecordKind } from '../foundation/ids.ts'
import { SECOND_MS } from '../foundation/time.ts'
import type { EntryRecord } from '../ledger/entry.ts'
import type { PendingEntry } from '../ledger/pending.ts'
import { formatAmount } from '../payments/coin.ts'
import type { JournalLine } from '../payments/journal.ts'
import { reachesRedis } from './queue-findings.ts'
import { QUEUE_NAMES } from '../servers/queues.ts'

/*
 * Everything that is on record about one thing: the records that it leads to, and in the order of time their
 * entries in the ledger, the moves of money in the books, and their jobs.
 */

export interface Told {
  collection: string
  record: Readonly<Record<string, unknown>> & { _id: string }
}

export interface StoryEvent {
  /** Unix seconds. */
  at: number
  /** `entry 7`, `waits for its number`, `books`, `job of send-nano`. */
  by: string
  what: string
}

export interface Story {
  records: Told[]
  events: StoryEvent[]
  /** More records than are told lead from here. */
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
const BY_PREFIX = new Map(
  Object.entries(COLLECTIONS).map(([kind, name]) => [ID_PREFIXES[kind as RecordKind], name]),
)
const ID = /^([a-z]{3})_[0-9a-hjkmnp-tv-z]{26}$/

/** Which records of a collection belong to another one: those that name its id in one of these fields. */
const CHILDREN: Readonly<Record<string, readonly string[]>> = {
  invoices: ['order_id'],
  payments: ['invoice_id', 'order_id'],
  payouts: ['order_id', 'transfer_id'],
  transfers: ['payout_ids', 'payment_ids'],
  verdicts: ['claim_id'],
  reports: ['post_id'],
  operator_notes: ['about'],
  work_batches: ['order_id'],
}
/** Where an address, a transaction or a handle stands. */
const FIELDS_OF_TEXT: Readonly<Record<string, readonly string[]>> = {
  agents: ['handle'],
  invoices: ['address'],
  payments: ['tx', 'undone_tx'],
  payouts: ['address', 'tx', 'source'],
  transfers: ['tx', 'successor', 'unexplained_to'],
  orders: ['payout_address', 'refund_address'],
  offers: ['payout_addresses.xno', 'payout_addresses.xmr'],
  addresses: ['address'],
}
/** What an agent has most lately, told only if the agent itself is asked for. */
const OF_AGENT: Readonly<Record<string, readonly string[]>> = {
  invoices: ['agent_id'],
  work_orders: ['agent_id'],
  orders: ['buyer_id', 'seller_id'],
  payouts: ['agent_id'],
  offers: ['agent_id'],
  claims: ['agent_id'],
  posts: ['agent_id'],
  operator_notes: ['about'],
}
/** Many things lead to one of these, which are no part of the story of each. */
const ENDS = new Set(['agents', 'offers'])
/** Secrets, what agents keep between themselves, and what is long. */
const UNTOLD = /^(?:token_\w+|\w*salt|box|delivery|signed|nonces|pending|challenge|version|in_flight)$/
const MOST = 60
const OF_AGENT_EACH = 5
const SEARCH_LIMIT_MS = 10 * SECOND_MS
const REDIS_LIMIT_MS = 2 * SECOND_MS
const JOBS_OF_A_QUEUE = 200

type Found = Record<string, unknown> & { _id: string }

/** @returns undefined if nothing is known of it */
export async function tellStory(ctx: Context, word: string): Promise<Story | undefined> {
  const { connection } = ctx.database
  const told = new Map<string, Told>()
  const seeds = await findSeeds(ctx, word)
  const open = [...seeds]
  for (const one of seeds)
    if (one.collection === 'agents') open.push(...(await findOfAgent(connection, one.record._id)))
  let isCut = false
  while (open.length > 0) {
    const one = open.shift() as Told
    const key = `${one.collection}/${one.record._id}`
    if (told.has(key)) continue
    if (told.size >= MOST) {
      isCut = true
      break
    }
    told.set(key, one)
    const isSeed = seeds.includes(one)
    if (ENDS.has(one.collection) && !isSeed) continue
    open.push(...(await findLinked(connection, one)))
    // Of an agent everything is: only what it has most lately, from above.
    if (!ENDS.has(one.collection)) open.push(...(await findChildren(connection, one.record._id)))
  }
  const records = [...told.values()]
  // An agent or an offer that is met on the way has a story of its own.
  const own = records.filter((one) => seeds.includes(one) || !ENDS.has(one.collection))
  const ids = own.map(({ record }) => record._id)
  const events = [
    ...(await entryEvents(ctx, ids)),
    ...own.flatMap(pendingEvents),
    ...(await bookEvents(connection, ids)),
    ...(await jobEvents(ctx, [...ids, word])),
  ].toSorted((a, b) => a.at - b.at)
  if (records.length === 0 && events.length === 0) return undefined
  return { records: records.map(withoutUntold), events, isCut }
}

async function findSeeds(ctx: Context, word: string): Promise<Told[]> {
  const { connection } = ctx.database
  if (/^\d{1,12}$/.test(word)) {
    const entry = await ctx.entries.find(Number(word))
    return entry === undefined ? [] : findSeeds(ctx, entry.record)
  }
  const collection = BY_PREFIX.get((ID.exec(word)?.[1] ?? '') as never)
  if (collection !== undefined) return findAll(connection, collection, { _id: word })
  const found = await Promise.all(
    Object.entries(FIELDS_OF_TEXT).map(([name, fields]) =>
      findAll(connection, name, {
        $or: fields.map((field) => ({ [field]: { $in: [word, word.toLowerCase()] } })),
      }),
    ),
  )
  return found.flat()
}

async function findAll(
  connection: Connection,
  collection: string,
  filter: object,
  limit = MOST,
): Promise<Told[]> {
  const found = await connection
    .collection<Found>(collection)
    .find(filter as never, { maxTimeMS: SEARCH_LIMIT_MS })
    .sort({ _id: -1 })
    .limit(limit)
    .toArray()
  return found.map((record) => ({ collection, record: record as unknown as Found }))
}

/** The records whose ids stand in this one. */
async function findLinked(connection: Connection, { record }: Told): Promise<Told[]> {
  const ids = new Set<string>()
  const look = (value: unknown): void => {
    if (typeof value === 'string') for (const part of value.split('/')) if (ID.test(part)) ids.add(part)
    if (Array.isArray(value)) value.forEach(look)
  }
  for (const [field, value] of Object.entries(record)) if (field !== '_id' && field !== 'pending') look(value)
  const found = await Promise.all(
    [...ids].map(async (id) => {
      const collection = BY_PREFIX.get((ID.exec(id)?.[1] ?? '') as never)
      return collection === undefined ? [] : findAll(connection, collection, { _id: id })
    }),
  )
  return found.flat()
}

async function findChildren(connection: Connection, id: string): Promise<Told[]> {
  const found = await Promise.all(
    Object.entries(CHILDREN).map(([name, fields]) =>
      findAll(connection, name, { $or: fields.map((field) => ({ [field]: id })) }),
    ),
  )
  return found.flat()
}

async function findOfAgent(connection: Connection, agentId: string): Promise<Told[]> {
  const found = await Promise.all(
    Object.entries(OF_AGENT).map(([name, fields]) =>
      findAll(connection, name, { $or: fields.map((field) => ({ [field]: agentId })) }, OF_AGENT_EACH),
    ),
  )
  return found.flat()
}

const withoutUntold = ({ collection, record }: Told): Told => ({
  collection,
  record: Object.fromEntries(Object.entries(record).filter(([field]) => !UNTOLD.test(field))) as Found,
})

async function entryEvents(ctx: Context, ids: readonly string[]): Promise<StoryEvent[]> {
  const found = await Promise.all(ids.map((id) => ctx.entries.listByRecord(id, 0, MOST)))
  return Promise.all(
    found.flat().map(async (entry: EntryRecord) => {
      const seal = await ctx.seals.findCovering(entry._id)
      const sealed =
        seal === undefined ? 'not sealed yet' : `seal ${seal._id}${seal.signed ? '' : ', unsigned'}`
      return { at: entry.at, by: `entry ${entry._id}`, what: `${describeEntry(entry)} (${sealed})` }
    }),
  )
}

const pendingEvents = ({ record }: Told): StoryEvent[] =>
  ((record['pending'] ?? []) as PendingEntry[]).map((mark) => ({
    at: mark.at,
    by: 'waits for its number',
    what: describeEntry(mark),
  }))

function describeEntry({ source, kind, data }: PendingEntry): string {
  const step = source.split('/').slice(1).join('/')
  const parts = Object.entries(data)
    .filter(([name, value]) => value !== null && !name.endsWith('_hash') && typeof value !== 'object')
    .map(([name, value]) => `${name} ${String(value)}`)
  return `${kind} ${step}: ${parts.join(', ')}`
}

async function bookEvents(connection: Connection, ids: readonly string[]): Promise<StoryEvent[]> {
  // An agent's whole account is what `books --agent` shows.
  const fields = ['invoice_id', 'payment_id', 'payout_id', 'order_id', 'transfer_id']
  const lines = await connection
    .collection<JournalLine & { _id: string }>('journal')
    .find({ $or: fields.map((field) => ({ [field]: { $in: [...ids] } })) } as never, {
      maxTimeMS: SEARCH_LIMIT_MS,
    })
    .limit(500)
    .toArray()
  return lines.map(({ at, from, to, amount_raw: raw, coin, _id }) => ({
    at,
    by: 'books',
    what: `${formatAmount(BigInt(raw), coin)} ${coin.toUpperCase()} from ${from} to ${to} (${_id})`,
  }))
}

/** Jobs that name one of the ids, or have it. Without Redis there are none to tell of. */
async function jobEvents(ctx: Context, ids: readonly string[]): Promise<StoryEvent[]> {
  if (!(await reachesRedis(ctx, REDIS_LIMIT_MS))) return []
  const wanted = new Set(ids)
  const found = await Promise.all(
    QUEUE_NAMES.map(async (name) => {
      const queue = ctx.queues.get(name)
      const jobs = await queue.getJobs(
        ['waiting', 'prioritized', 'active', 'delayed', 'failed', 'completed'],
        0,
        JOBS_OF_A_QUEUE,
      )
      return Promise.all(
        jobs
          .filter(
            (job) =>
              job !== undefined &&
              (wanted.has(job.id ?? '') ||
                Object.values(job.data as object).some((value) => wanted.has(String(value)))),
          )
          .map(async (job) => ({
            at: Math.floor((job.processedOn ?? job.timestamp) / SECOND_MS),
            by: `job of ${name}`,
            what: [
              `${job.id ?? ''} ${await job.getState()}, attempts ${job.attemptsMade}, ${JSON.stringify(job.data)}`,
              ...(job.failedReason === undefined ? [] : [job.failedReason]),
            ].join(': '),
          })),
      )
    }),
  )
  return found.flat()
}
