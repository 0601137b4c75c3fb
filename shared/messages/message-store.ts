import { Schema, type Connection, type Model } from 'mongoose'
import { type Session, within } from '../database.ts'
import { createGroups, insertEach } from '../group-commit.ts'
import type { MessageRecord } from './message.ts'

const string = { type: String, required: true } as const
const number = { type: Number, required: true } as const

/** Not handed out yet. */
export const UNREAD = { handed: 0 }

const messageSchema = new Schema<MessageRecord>(
  { _id: string, from: string, to: string, at: number, box: { type: String, default: '' }, handed: number },
  { collection: 'messages', strict: 'throw', versionKey: false },
)
messageSchema.index({ to: 1, _id: 1 }, { name: 'unread', partialFilterExpression: UNREAD })
messageSchema.index({ to: 1, handed: 1, _id: 1 }, { name: 'in_order_of_handing_out' })

export interface MessageStore {
  /** Together with what arrives at the same time; resolves once a majority has it in its journal. */
  insert(message: MessageRecord): Promise<void>
  find(messageId: string, session?: Session): Promise<MessageRecord | undefined>
  /** The oldest unread. */
  listUnread(agentId: string, limit: number, session?: Session): Promise<MessageRecord[]>
  /** Messages handed out before, in the order of their handing out; with `after`, those that came later in it. */
  listHandedAfter(agentId: string, after: MessageRecord | undefined, limit: number, session?: Session): Promise<MessageRecord[]>
  /** Messages whose id is greater than a message's although they were handed out before it, in the order of their handing out. */
  listHandedEarlier(agentId: string, than: MessageRecord, limit: number, session?: Session): Promise<MessageRecord[]>
  markHanded(messageIds: readonly string[], handed: number, session: Session): Promise<void>
  readonly models: { messages: Model<MessageRecord> }
}

/** @param patienceMs how long a message may wait for its turn to be stored */
export function createMessageStore(connection: Connection, patienceMs: number): MessageStore {
  const messages = connection.model<MessageRecord>('Message', messageSchema)
  return {
    models: { messages },
    insert: createGroups((group: MessageRecord[]) => insertEach(messages.collection, group), { patienceMs }),
    async find(messageId, session) {
      return (await messages.findOne({ _id: messageId }, null, within(session)).lean<MessageRecord>()) ?? undefined
    },
    async listUnread(agentId, limit, session) {
      return messages
        .find({ to: agentId, ...UNREAD }, null, within(session))
        .sort({ _id: 1 })
        .limit(limit)
        .hint('unread')
        .lean<MessageRecord[]>()
    },
    async listHandedAfter(agentId, after, limit, session) {
      const later =
        after === undefined
          ? { handed: { $gt: 0 } }
          : { $or: [{ handed: { $gt: after.handed } }, { handed: after.handed, _id: { $gt: after._id } }] }
      return messages
        .find({ to: agentId, ...later }, null, within(session))
        .sort({ handed: 1, _id: 1 })
        .limit(limit)
        .hint('in_order_of_handing_out')
        .lean<MessageRecord[]>()
    },
    async listHandedEarlier(agentId, than, limit, session) {
      return messages
        .find({ to: agentId, _id: { $gt: than._id }, handed: { $gt: 0, $lt: than.handed } }, null, within(session))
        .sort({ handed: 1, _id: 1 })
        .limit(limit)
        .hint('in_order_of_handing_out')
        .lean<MessageRecord[]>()
    },
    async markHanded(messageIds, handed, session) {
      await messages.updateMany({ _id: { $in: [...messageIds] }, ...UNREAD }, { $set: { handed } }, { session })
    },
  }
}
