import { z } from 'zod'
import type { Database } from '../servers/database.ts'
import { unixTime } from '../foundation/schema.ts'

/** What is counted, and the collection that holds it. */
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

/** Counts whole collections from their metadata, which costs the same for ten records and for a million. */
export async function countRecords(database: Database): Promise<z.input<typeof statsView>['counters']> {
  const countOne = (name: Counter): Promise<number> =>
    name === 'shares'
      ? sumShares(database)
      : database.connection.collection(COUNTED[name]).estimatedDocumentCount()
  const counts = await Promise.all(COUNTERS.map(countOne))
  return Object.fromEntries(COUNTERS.map((name, index) => [name, counts[index] ?? 0])) as Record<
    Counter,
    number
  >
}

/** Shares are stored many to a document, and their number in a few. */
async function sumShares(database: Database): Promise<number> {
  const counts = await database.connection.collection<{ shares: number }>(COUNTED.shares).find().toArray()
  return counts.reduce((sum, { shares }) => sum + shares, 0)
}
