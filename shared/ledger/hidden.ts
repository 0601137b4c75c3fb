import type { Model } from 'mongoose'
import type { PendingEntry } from './pending.ts'

/**
 * What a record carries that the operator may hide: its text leaves lists and views and stays stored. Times
 * are Unix seconds.
 */
export interface Hideable {
  hidden_at?: number
  /** The rule that it was hidden for, if one was named. */
  hidden_rule?: string
}

export const hiddenFields = { hidden_at: Number, hidden_rule: String } as const
export const NOT_HIDDEN = { hidden_at: { $exists: false } } as const

/**
 * Hides a record at `hiddenAt`, or shows it again if that is undefined and it is hidden for this rule. Its
 * ledger entry is stored by the same write.
 *
 * @returns false if the record was in that state already, or does not exist
 */
export type SetHidden = (
  id: string,
  hiddenAt: number | undefined,
  rule: string | undefined,
  entry: PendingEntry,
  /** What else is pushed into arrays of the record. */
  pushed?: Readonly<Record<string, unknown>>,
) => Promise<boolean>

export function createSetHidden<Stored extends Hideable & { _id: string }>(model: Model<Stored>): SetHidden {
  return async (id, hiddenAt, rule, entry, pushed) => {
    const filter =
      hiddenAt === undefined
        ? { _id: id, hidden_at: { $exists: true }, hidden_rule: rule ?? { $exists: false } }
        : { _id: id, ...NOT_HIDDEN }
    const change =
      hiddenAt === undefined
        ? { $unset: { hidden_at: 1, hidden_rule: 1 } }
        : { $set: { hidden_at: hiddenAt, ...(rule === undefined ? {} : { hidden_rule: rule }) } }
    const update = { ...change, $push: { pending: entry, ...pushed } }
    const { matchedCount } = await model.collection.updateOne(filter as object, update as object)
    return matchedCount === 1
  }
}
