import type { Connection } from 'mongoose'
import { createBoundedCounts } from '../platform/bounded-counts.ts'
import type { Session } from '../platform/database.ts'
import { MAX_UNREAD_OF_SENDER } from '../platform/limits.ts'
import { maybe, schemaOf, text, type RecordOf } from '../platform/fields.ts'
import { rawOf } from '../platform/records.ts'

/** The unread messages of one sender to one recipient, counted; `_id` is `<recipient>/<sender>`. */
const inboxFields = {
  _id: text,
  unread: maybe.number,
  bytes: maybe.number,
  /** Unix seconds of the last change by a message or a correctCounts. */
  at: maybe.number,
  /** Unix seconds; present while the recipient has blocked the sender. */
  blocked_at: maybe.number,
}
export type InboxRecord = RecordOf<typeof inboxFields>

const inboxSchema = schemaOf<InboxRecord>('inboxes', inboxFields)

/** A message as it is counted: its sender, and its bytes of UTF-8. */
export interface Received {
  from: string
  bytes: number
}

/**
 * Creates the store of the counts of unread messages, by recipient and sender, and of blocked senders.
 *
 * @param patienceMs how long a message may wait before the update that counts it begins
 */
export function createInboxStore(connection: Connection, patienceMs: number) {
  const inboxes = connection.model<InboxRecord>('Inbox', inboxSchema)
  const raw = () => rawOf<InboxRecord>(inboxes)
  const add = createBoundedCounts(inboxes, patienceMs)
  const atMost = { unread: MAX_UNREAD_OF_SENDER.messages, bytes: MAX_UNREAD_OF_SENDER.bytes }
  return {
    models: { inboxes },
    /**
     * Counts a message as unread, before it is stored.
     *
     * @param at Unix seconds
     * @returns false if the recipient has too many unread messages of this sender, or has blocked it; then
     *   nothing is counted
     */
    countIfRoom: (to: string, { from, bytes }: Received, at: number): Promise<boolean> =>
      add({ _id: inboxId(to, from), add: { unread: 1, bytes }, atMost, set: { at }, unless: 'blocked_at' }),
    /** Reads the counts of a sender's unread messages to a recipient; undefined if none was ever counted. */
    async find(to: string, from: string): Promise<InboxRecord | undefined> {
      return (await raw().findOne({ _id: inboxId(to, from) })) ?? undefined
    },
    /** Takes a recipient's messages that were handed out off the counts of their senders. */
    async uncount(to: string, handedOut: readonly Received[], session: Session): Promise<void> {
      // Not below 0: messages of versions that didn't count were never added.
      const subtract = (field: string, by: number) => ({
        $max: [0, { $subtract: [{ $ifNull: [`$${field}`, 0] }, by] }],
      })
      const updates = [...Map.groupBy(handedOut, ({ from }) => from)].map(([from, messages]) => {
        const bytes = messages.reduce((sum, message) => sum + message.bytes, 0)
        const set = { unread: subtract('unread', messages.length), bytes: subtract('bytes', bytes) }
        return { updateOne: { filter: { _id: inboxId(to, from) }, update: [{ $set: set }] } }
      })
      if (updates.length > 0) await raw().bulkWrite(updates, { session, ordered: false })
    },
    /**
     * Replaces the counts by those of the stored messages: one that was counted may, in an outage, not have been
     * stored. A block needs no look of its own, since it sets the counts that are compared.
     *
     * @param before the record as it was read
     * @param nowSeconds Unix seconds
     * @returns false if the record has changed since; then nothing is stored
     */
    async correctCounts(
      before: InboxRecord,
      counts: { unread: number; bytes: number },
      nowSeconds: number,
    ): Promise<boolean> {
      const asRead = {
        _id: before._id,
        unread: before.unread ?? { $exists: false },
        bytes: before.bytes ?? { $exists: false },
        at: before.at ?? { $exists: false },
      }
      const { matchedCount } = await raw().updateOne(asRead, { $set: { ...counts, at: nowSeconds } })
      return matchedCount === 1
    },
    /**
     * Blocks a sender and sets its counts to 0, or unblocks it.
     *
     * @param at Unix seconds; undefined unblocks
     * @returns false if it was in that state already
     */
    async setBlocked(to: string, from: string, at: number | undefined, session: Session): Promise<boolean> {
      const _id = inboxId(to, from)
      if (at === undefined) {
        const blocked = { _id, blocked_at: { $exists: true } }
        const { matchedCount } = await raw().updateOne(blocked, { $unset: { blocked_at: 1 } }, { session })
        return matchedCount === 1
      }
      const before = await raw().findOneAndUpdate(
        { _id },
        [{ $set: { blocked_at: { $ifNull: ['$blocked_at', at] }, unread: 0, bytes: 0 } }],
        {
          session,
          upsert: true,
          returnDocument: 'before',
        },
      )
      return before?.blocked_at === undefined
    },
  }
}

/** Returns the `_id` of the counts of one sender to one recipient. */
const inboxId = (to: string, from: string): string => `${to}/${from}`
