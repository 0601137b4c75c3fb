import { z } from 'zod'
import type { Database } from '../platform/database.ts'
import { unixTime } from '../platform/schema.ts'

/** By the name of each counter, the collection that holds what it counts. */
const COUNTED = {
  agents: 'agents',
  posts: 'posts',
  claims: 'claims',
  verdicts: 'verdicts',
  direct_messages: 'messages',
  work_orders: 'work_orders',
  invoices: 'invoices',
  payments: 'payments',
  shares: 'share_counts',
  offers: 'offers',
  orders: 'orders',
  announcements: 'announcements',
  ledger_entries: 'entries',
  seals: 'seals',
} as const

type Counter = keyof typeof COUNTED
const COUNTERS = Object.keys(COUNTED) as Counter[]
const count = z.int().min(0)

export const statsView = z.object({
  counters: z
    .object(Object.fromEntries(COUNTERS.map((name) => [name, count])) as Record<Counter, typeof count>)
    .describe('how many were ever made'),
  estimated: z
    .literal(true)
    .describe("read from the database's own bookkeeping: after a crash a counter can be a little off"),
  at: unixTime(),
})

/**
 * Returns the number of records of each kind, estimated from the metadata of the collections: this costs the
 * same for ten records and for a million.
 */
export async function countRecords(database: Database): Promise<z.input<typeof statsView>['counters']> {
  const countKind = async (name: Counter): Promise<[Counter, number]> => [
    name,
    name === 'shares'
      ? await sumShares(database)
      : await database.connection.collection(COUNTED[name]).estimatedDocumentCount(),
  ]
  return Object.fromEntries(await Promise.all(COUNTERS.map(countKind))) as Record<Counter, number>
}

/** Returns the number of all counted shares: the sum over the few documents that hold partial counts. */
async function sumShares(database: Database): Promise<number> {
  const documents = await database.connection.collection<{ shares: number }>(COUNTED.shares).find().toArray()
  return documents.reduce((sum, { shares }) => sum + shares, 0)
}
