import { randomBytes } from 'node:crypto'
import type { Schema } from 'mongoose'
import type { JsonValue } from '../crypto/canonical-json.ts'
import { SALT_BYTES } from '../crypto/commitment.ts'
import { maybe, nested, number, opaque, text, textOf, type RecordOf } from '../platform/fields.ts'

/**
 * Terms.
 *
 * - An *entry* is a line of the public ledger, `{id, at, kind, data}`.
 * - A *pending* entry has no number yet. It is stored in the same write as the change that it records, as an
 *   element of the changed document's `pending` array, so no change can exist without its entry. The
 *   sequencer numbers it later and takes it out of the array.
 * - Its *source* is `<record id>/<step>`: unique for ever, so that no step can be numbered twice.
 */
export const ENTRY_KINDS = [
  'registration',
  'token_rotation',
  'dm_key_change',
  'author_key_change',
  'witness_key',
  'pass_credit',
  'claim',
  'verdict',
  'proposal_accepted',
  'post',
  'hide',
  'unhide',
  'ban',
  'unban',
  'announcement',
  'payment',
  'offer',
  'offer_closed',
  'order',
  'fee',
  'dispute',
  'dispute_outcome',
  'payout',
  'reconcile',
  'money_move',
  'solvency',
  'seal_adoption',
  'operator_act',
] as const

export type EntryKind = (typeof ENTRY_KINDS)[number]

/** What every ledgered record carries beside its own fields. */
export interface Ledgered {
  pending?: PendingEntry[]
}

const pendingFields = {
  source: text,
  /** Unix seconds. */
  at: number,
  kind: { ...textOf<EntryKind>(), enum: ENTRY_KINDS },
  /**
   * Ids, numbers, times and commitments; never free text, a handle, an address or a coin transaction in the
   * clear.
   */
  data: opaque<{ readonly [key: string]: JsonValue }>(),
}
export type PendingEntry = RecordOf<typeof pendingFields>

/** The field for a ledgered record's schema. */
export const pendingField = { pending: maybe.list(nested(pendingFields)) }

/**
 * Finds the documents that have a pending entry without touching the others; the index is empty when nothing
 * waits.
 */
export const PENDING_INDEX = [
  { 'pending.source': 1 },
  { partialFilterExpression: { 'pending.source': { $exists: true } } },
] as const

/** Whether the records of this schema can carry pending entries. */
export const carriesPendingEntries = (schema: Schema): boolean => schema.path('pending') !== undefined

/** A fresh salt for a commitment, as hex: 32 random bytes. */
export const newSalt = (): string => randomBytes(SALT_BYTES).toString('hex')
