import type { ClientSession, Connection } from 'mongoose'
import { claimEntry } from '../claims/claim-service.ts'
import type { ClaimRecord } from '../claims/claim.ts'
import type { Context } from '../context.ts'
import type { PendingEntry } from '../ledger/pending.ts'
import type { PaymentRecord } from '../payments/invoice.ts'
import { paymentEntry } from '../payments/settlement.ts'
import { postEntry } from '../posts/post-service.ts'
import type { PostRecord } from '../posts/post.ts'

/*
 * A record and its first entry are one write, so one without the other is the trace of a database that was
 * put together from different times: its `pending` mark was taken out before the record was copied, and the
 * entry had not been there yet when the entries were.
 */

export interface Lost {
  collection: string
  id: string
  source: string
  /** Whether all that the entry said is in the record. */
  isMendable: boolean
}

interface Rule {
  collection: string
  /** What follows the id in the source; undefined if any entry of the record will do. */
  step: string | undefined
  /** Which of the records have one. */
  filter?: object
  /** The entry, made again from the record. */
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
  { collection: 'payouts', step: undefined },
  {
    collection: 'payments',
    step: 'payment',
    filter: { state: 'settled' },
    remake: (payment: PaymentRecord) => paymentEntry(payment, payment.settled_at ?? payment.first_seen_at),
  },
]

const PAGE = 2_000

interface Stored {
  _id: string
  pending?: PendingEntry[]
}

/** Records without the entry that they must have, and without a mark that waits for one. */
export async function findLost(connection: Connection, session: ClientSession): Promise<Lost[]> {
  const lost: Lost[] = []
  const entries = connection.collection<{ source: string; record: string }>('entries')
  for (const { collection, step, filter = {}, remake } of RULES) {
    for (let after = ''; ;) {
      const page = await connection
        .collection<Stored>(collection)
        .find({ ...filter, _id: { $gt: after } } as object, { session, projection: { pending: 1 } })
        .sort({ _id: 1 })
        .limit(PAGE)
        .toArray()
      const last = page.at(-1)
      if (last === undefined) break
      after = last._id
      const ids = page.map(({ _id }) => _id)
      const found = new Set(
        step === undefined
          ? await entries.distinct('record', { record: { $in: ids } }, { session })
          : (
              await entries
                .find(
                  { source: { $in: ids.map((id) => `${id}/${step}`) } },
                  { session, projection: { record: 1 } },
                )
                .toArray()
            ).map(({ record }) => record),
      )
      for (const { _id: id, pending = [] } of page) {
        const source = `${id}/${step ?? '…'}`
        const waits = step === undefined ? pending.length > 0 : pending.some((mark) => mark.source === source)
        if (!found.has(id) && !waits) lost.push({ collection, id, source, isMendable: remake !== undefined })
      }
    }
  }
  return lost
}

/**
 * Gives the record its mark again, so that the sequencer numbers it: with the time, the author and the
 * commitment that it had, behind all that has a number.
 *
 * @returns false if that can't be had from the record
 */
export async function mendLost(ctx: Context, { collection, id, source }: Lost): Promise<boolean> {
  const rule = RULES.find((one) => one.collection === collection)
  if (rule?.remake === undefined) return false
  const records = ctx.database.connection.collection<Stored>(collection)
  const record = await records.findOne({ _id: id })
  if (record === null || (await ctx.entries.findBySource(source)) !== undefined) return false
  const mark = rule.remake(record as never)
  // Twice at once it is one mark; and if its entry comes after all, the sequencer takes the mark out.
  const { modifiedCount } = await records.updateOne(
    { _id: id, 'pending.source': { $ne: source } },
    { $push: { pending: mark } },
  )
  return modifiedCount === 1
}
