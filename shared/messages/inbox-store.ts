import type mongoose from 'mongoose'
import { Schema, type Connection } from 'mongoose'
import { createBoundedCounts } from '../servers/bounded-counts.ts'
import type { Session } from '../servers/database.ts'
import { MAX_UNREAD_OF_SENDER } from '../foundation/limits.ts'

/** What one agent has unread of another; `_id` is `<recipient>/<sender>`. */
export interface InboxRecord {
  _id: string
  unread?: number
  bytes?: number
  /** Unix seconds, of the last message that was counted. */
  at?: number
  /** The recipient takes no more of the sender's messages. */
  blocked_at?: number
}

const inboxSchema = new Schema<InboxRecord>(
  { _id: { type: String, required: true }, unread: Number, bytes: Number, at: Number, blocked_at: Number },
  { collection: 'inboxes', strict: 'throw', versionKey: false },
)

export interface Received {
  from: string
  bytes: number
}

/** @param patienceMs how long a message may wait to be counted */
export function createInboxStore(connection: Connection, patienceMs: number) {
  const inboxes = connection.model<InboxRecord>('Inbox', inboxSchema)
  const raw = () => inboxes.collection as unknown as mongoose.mongo.Collection<InboxRecord>
  const add = createBoundedCounts(inboxes, patienceMs)
  const atMost = { unread: MAX_UNREAD_OF_SENDER.messages, bytes: MAX_UNREAD_OF_SENDER.bytes }
  return {
    models: { inboxes },
    /** Counts a message before it is stored. @returns false if the sender has no room there or is blocked */
    admit: (to: string, { from, bytes }: Received, at: number): Promise<boolean> =>
      add({ _id: inboxId(to, from), add: { unread: 1, bytes }, atMost, set: { at }, unless: 'blocked_at' }),
    async find(to: string, from: string): Promise<InboxRecord | undefined> {
      return (await raw().findOne({ _id: inboxId(to, from) })) ?? undefined
    },
    /** Messages were handed out. */
    async release(to: string, handed: readonly Received[], session: Session): Promise<void> {
      const updates = [...Map.groupBy(handed, ({ from }) => from)].map(([from, own]) => {
        const bytes = own.reduce((sum, one) => sum + one.bytes, 0)
        // Messages from before they were counted take nothing away.
        const less = (field: string, by: number) => ({
          $max: [0, { $subtract: [{ $ifNull: [`$${field}`, 0] }, by] }],
        })
        const update = [{ $set: { unread: less('unread', own.length), bytes: less('bytes', bytes) } }]
        return { updateOne: { filter: { _id: inboxId(to, from) }, update } }
      })
      if (updates.length > 0) await raw().bulkWrite(updates, { session, ordered: false })
    },
    /** Sets the counts to what is so. @returns false if something was counted since `before` was read */
    async recount(
      { _id, unread, bytes, at }: InboxRecord,
      unreadNow: number,
      bytesNow: number,
      now: number,
    ): Promise<boolean> {
      const asRead = {
        _id,
        unread: unread ?? { $exists: false },
        bytes: bytes ?? { $exists: false },
        at: at ?? { $exists: false },
      }
      const { matchedCount } = await raw().updateOne(asRead, {
        $set: { unread: unreadNow, bytes: bytesNow, at: now },
      })
      return matchedCount === 1
    },
    /** A blocked sender has nothing unread. @returns false if it was so already */
    async setBlocked(to: string, from: string, at: number | undefined, session: Session): Promise<boolean> {
      const _id = inboxId(to, from)
      if (at === undefined)
        return (
          (
            await raw().updateOne(
              { _id, blocked_at: { $exists: true } },
              { $unset: { blocked_at: 1 } },
              { session },
            )
          ).matchedCount === 1
        )
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

export type InboxStore = ReturnType<typeof createInboxStore>

const inboxId = (to: string, from: string): string => `${to}/${from}`
