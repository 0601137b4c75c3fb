import type { Model } from 'mongoose'
import type { PendingEntry } from './pending.ts'

/**
 * What a record carries that the operator may hide: its text leaves lists and views and stays stored. Times
 * are Unix seconds.
 */
export interface Hideable {
  hidden_at?: number
  /** Which rule it was hidden for, where one was named. */
  hidden_rule?: string
}

export const hiddenFields = { hidden_at: Number, hidden_rule: String } as const
export const NOT_HIDDEN = { hidden_at: { $exists: false } } as const

/** @returns false where the record was in that state already, or does not exist */
export type SetHidden = (
  id: string,
  hiddenAt: number | undefined,
  rule: string | undefined,
  entry: PendingEntry,
  /** What is pushed beside the entry. */
  pushed?: Readonly<Record<string, unknown>>,
) => Promise<boolean>

/** Hides a record with its entry, or shows it again where it is hidden for this rule. */
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
    return (
      (
        await model.collection.updateOne(
          filter as object,
          { ...change, $push: { pending: entry, ...pushed } } as object,
        )
      ).matchedCount === 1
    )
  }
}
