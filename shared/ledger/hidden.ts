import type { Model } from 'mongoose'
import { maybe, none, type RecordOf } from '../platform/fields.ts'
import type { PendingEntry } from './pending.ts'

/**
 * What a record carries that the operator may hide: its text leaves lists and views and stays stored. Times
 * are Unix seconds.
 */
export const hiddenFields = {
  hidden_at: maybe.number,
  /** The rule that it was hidden for, if one was named. */
  hidden_rule: maybe.text,
}
export type Hideable = RecordOf<typeof hiddenFields>
export const NOT_HIDDEN = { hidden_at: none } as const

/**
 * Hides a record that isn't hidden or, if `hiddenAt` is undefined, shows one again that is hidden for exactly
 * this rule (for none, if `rule` is undefined). The ledger entry about it is stored by the same write.
 *
 * @param hiddenAt Unix seconds
 * @returns false, and nothing is written, if the record doesn't exist or is in another state
 */
export type SetHidden = (
  id: string,
  hiddenAt: number | undefined,
  rule: string | undefined,
  entry: PendingEntry,
  /** What else is pushed into arrays of the record. */
  pushed?: Readonly<Record<string, unknown>>,
) => Promise<boolean>

/** The SetHidden of one collection. */
export function createSetHidden<Stored extends Hideable & { _id: string }>(model: Model<Stored>): SetHidden {
  return async (id, hiddenAt, rule, entry, pushed) => {
    let filter: object
    let change: object
    if (hiddenAt === undefined) {
      filter = { _id: id, hidden_at: { $exists: true }, hidden_rule: rule ?? { $exists: false } }
      change = { $unset: { hidden_at: 1, hidden_rule: 1 } }
    } else {
      filter = { _id: id, ...NOT_HIDDEN }
      change = { $set: { hidden_at: hiddenAt, ...(rule === undefined ? {} : { hidden_rule: rule }) } }
    }
    const update = { ...change, $push: { pending: entry, ...pushed } }
    const { matchedCount } = await model.collection.updateOne(filter, update as object)
    return matchedCount === 1
  }
}
