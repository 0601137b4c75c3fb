import type { ClientSession, Connection } from 'mongoose'
import { claimEntry } from '../claims/claim-service.ts'
import type { ClaimRecord } from '../claims/claim.ts'
import type { Context } from '../context.ts'
import type { PendingEntry } from '../ledger/pending.ts'
import type { PaymentRecord } from '../money/arrival.ts'
import { paymentEntry } from '../money/arrival-steps.ts'
import { postEntry } from '../posts/post-service.ts'
import type { PostRecord } from '../posts/post.ts'
import { pagesOf } from '../platform/records.ts'

type LostEntriesContext = Pick<Context, 'database' | 'entries'>

/*
 * A record and its first entry in the ledger are one write: the record carries the entry in its `pending`
 * field until the sequencer numbers it. So a record without an entry, numbered or pending, shows that the
 * database was put together from different times: the record was copied after its entry was numbered, and the
 * collection of entries before that.
 */

/** A record that must have a ledger entry and has none, neither numbered nor pending. */
export interface LostEntry {
  collection: string
  id: string
  /** Of the entry: `ID/STEP`, with … for the step if any entry of the record would do. */
  source: string
  /** Whether the record holds all that the entry said. */
  isMendable: boolean
}

interface Rule {
  collection: string
  /** What follows the id in the entry's source; undefined if any entry of the record will do. */
  step: string | undefined
  /** Matches the records of the collection that must have an entry; if absent, all must. */
  filter?: object
  /** Makes the entry again from the record. */
  remake?(record: never): PendingEntry
}

const RULES: readonly Rule[] = [
  { collection: 'agents', step: 'registration' },
  { collection: 'posts', step: 'post', remake: (post: PostRecord) => postEntry(post) },
  { collection: 'claims', step: 'claim', remake: (claim: ClaimRecord) => claimEntry(claim) },
  { collection: 'verdicts', step: 'verdict' },
  { collection: 'announcements', step: 'announcement' },
  { collection: 'offers', step: 'offer' },
  { collection: 'orders', step: undefined },
  // What is sent back to nobody in particular, or is the venue's own, has no entries.
  {
    collection: 'payouts',
    step: undefined,
    filter: { arrival_id: { $exists: false }, withdraws: { $exists: false } },
  },
  {
    collection: 'payments',
    step: 'payment',
    filter: { state: 'settled', invoice_id: { $exists: true } },
    remake: (payment: PaymentRecord) => paymentEntry(payment, payment.settled_at ?? payment.first_seen_at),
  },
]

const PAGE = 2_000

interface Stored {
  _id: string
  pending?: PendingEntry[]
}

/** Finds the records that must have a ledger entry and have none, by the rules above. */
export async function findLostEntries(connection: Connection, session: ClientSession): Promise<LostEntry[]> {
  const lost: LostEntry[] = []
  const entries = connection.collection<{ source: string; record: string }>('entries')
  for (const { collection, step, filter = {}, remake } of RULES) {
    const readPage = (after: string): Promise<Stored[]> =>
      connection
        .collection<Stored>(collection)
        .find({ ...filter, _id: { $gt: after } } as object, { session, projection: { pending: 1 } })
        .sort({ _id: 1 })
        .limit(PAGE)
        .toArray()
    for await (const page of pagesOf(readPage)) {
      const ids = page.map(({ _id }) => _id)
      const entriesOfPage =
        step === undefined ? { record: { $in: ids } } : { source: { $in: ids.map((id) => `${id}/${step}`) } }
      const numbered = new Set(await entries.distinct('record', entriesOfPage, { session }))
      for (const { _id: id, pending = [] } of page) {
        const source = `${id}/${step ?? '…'}`
        const isPending = pending.some((entry) => step === undefined || entry.source === source)
        if (!numbered.has(id) && !isPending)
          lost.push({ collection, id, source, isMendable: remake !== undefined })
      }
    }
  }
  return lost
}

/**
 * Makes a lost entry again from its record, with the time, author and commitment that it had, and stores it
 * as pending. The sequencer gives it the next free number.
 *
 * @returns false, with nothing written, if the record doesn't hold what the entry said, or has its entry by
 *   now
 */
export async function restoreEntry(
  ctx: LostEntriesContext,
  { collection, id, source }: LostEntry,
): Promise<boolean> {
  const rule = RULES.find((candidate) => candidate.collection === collection)
  if (rule?.remake === undefined) return false
  const records = ctx.database.connection.collection<Stored>(collection)
  const record = await records.findOne({ _id: id })
  if (record === null || (await ctx.entries.findBySource(source)) !== undefined) return false
  const entry = rule.remake(record as never)
  // Pending once even if two do this at once. If its entry comes after all, the sequencer removes this one.
  const { modifiedCount } = await records.updateOne(
    { _id: id, 'pending.source': { $ne: source } },
    { $push: { pending: entry } },
  )
  return modifiedCount === 1
}
