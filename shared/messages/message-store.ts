import { Schema, type Connection } from 'mongoose'
import { type Session, within } from '../servers/database.ts'
import { createGroups, insertEach } from '../servers/group-commit.ts'
import { TELLS_INDEX, tellsField } from '../events/mark.ts'
import { DM_PAGE, DM_PAGE_BYTES } from '../foundation/limits.ts'
import type { MessageRecord } from './message.ts'

const string = { type: String, required: true } as const
const number = { type: Number, required: true } as const

/** Filter for messages that were not handed out yet. */
export const UNREAD = { handed: 0 }

const messageSchema = new Schema<MessageRecord>(
  {
    _id: string,
    from: string,
    to: string,
    at: number,
    box: { type: String, default: '' },
    handed: number,
    ...tellsField,
  },
  { collection: 'messages', strict: 'throw', versionKey: false },
)
messageSchema.index({ to: 1, _id: 1 }, { name: 'unread', partialFilterExpression: UNREAD })
messageSchema.index({ to: 1, handed: 1, _id: 1 }, { name: 'in_order_of_handing_out' })
messageSchema.index({ from: 1, _id: -1 }, { name: 'sent' })
messageSchema.index({ to: 1, from: 1, handed: 1, _id: 1 }, { name: 'of_one_sender' })
messageSchema.index(...TELLS_INDEX)

/** Messages to an agent: of all senders, or of one. */
export interface Inbox {
  to: string
  from?: string
}

const indexFor = (inbox: Inbox, ofAll: 'unread' | 'in_order_of_handing_out'): string =>
  inbox.from === undefined ? ofAll : 'of_one_sender'

/**
 * How many more messages and bytes fit on a page. An empty page takes its first message whatever its
 * length.
 */
export interface Room {
  messages: number
  bytes: number
}
export const WHOLE_PAGE: Room = { messages: DM_PAGE, bytes: DM_PAGE_BYTES }

/** The messages of a list that fit on a page, and whether there are more. */
export interface MessagePage {
  messages: MessageRecord[]
  more: boolean
}

/** @param patienceMs how long a message may wait before its insert begins */
export function createMessageStore(connection: Connection, patienceMs: number) {
  const messages = connection.model<MessageRecord>('Message', messageSchema)
  const inHandingOrder = (
    filter: object,
    inbox: Inbox,
    room: Room,
    session: Session | undefined,
  ): Promise<MessagePage> =>
    list(
      { ...inbox, ...filter },
      { handed: 1, _id: 1 },
      indexFor(inbox, 'in_order_of_handing_out'),
      room,
      session,
    )
  const list = (
    filter: object,
    order: Record<string, 1 | -1>,
    index: string,
    room: Room,
    session: Session | undefined,
  ): Promise<MessagePage> =>
    readPage(
      messages
        .find(filter, null, within(session))
        .sort(order)
        .limit(room.messages + 1)
        .hint(index)
        .lean<MessageRecord>()
        .cursor({ batchSize: BATCH }),
      room,
    )
  return {
    models: { messages },
    /**
     * Inserts a message, together with others that arrive at the same time (group commit). Resolves once a
     * majority has it in its journal.
     */
    insert: createGroups((group: MessageRecord[]) => insertEach(messages.collection, group), {
      patienceMs,
      span: 'commit messages',
    }),
    async find(messageId: string, session?: Session): Promise<MessageRecord | undefined> {
      return (
        (await messages.findOne({ _id: messageId }, null, within(session)).lean<MessageRecord>()) ?? undefined
      )
    },
    async hasUnread(inbox: Inbox): Promise<boolean> {
      const unread = messages.findOne({ ...inbox, ...UNREAD }, { _id: 1 }).hint(indexFor(inbox, 'unread'))
      return (await unread.lean()) !== null
    },
    /** The oldest unread messages. */
    async listUnread(inbox: Inbox, room: Room, session?: Session): Promise<MessagePage> {
      return list({ ...inbox, ...UNREAD }, { _id: 1 }, indexFor(inbox, 'unread'), room, session)
    },
    /**
     * Messages that were handed out, in the order of their handing out; with `after`, those after it in that
     * order.
     */
    async listHandedAfter(
      inbox: Inbox,
      after: MessageRecord | undefined,
      room: Room,
      session?: Session,
    ): Promise<MessagePage> {
      const later =
        after === undefined
          ? { handed: { $gt: 0 } }
          : { $or: [{ handed: { $gt: after.handed } }, { handed: after.handed, _id: { $gt: after._id } }] }
      return inHandingOrder(later, inbox, room, session)
    },
    /**
     * Messages with a greater id than the given message that were handed out before it, in the order of their
     * handing out.
     */
    async listHandedEarlier(
      inbox: Inbox,
      than: MessageRecord,
      room: Room,
      session?: Session,
    ): Promise<MessagePage> {
      return inHandingOrder(
        { _id: { $gt: than._id }, handed: { $gt: 0, $lt: than.handed } },
        inbox,
        room,
        session,
      )
    },
    /** Messages that an agent sent, newest first; with `before`, those with a smaller id. */
    async listSent(from: string, before: string | undefined): Promise<MessagePage> {
      const filter = { from, ...(before === undefined ? {} : { _id: { $lt: before } }) }
      return list(filter, { _id: -1 }, 'sent', WHOLE_PAGE, undefined)
    },
    /** Marks unread messages as handed out in the reader's hand-out number `handed`. */
    async markHanded(messageIds: readonly string[], handed: number, session: Session): Promise<void> {
      await messages.updateMany(
        { _id: { $in: [...messageIds] }, ...UNREAD },
        { $set: { handed } },
        { session },
      )
    },
    /** Marks all unread messages of a sender as handed out. */
    async markAllHanded({ to, from }: Required<Inbox>, handed: number, session: Session): Promise<void> {
      await messages.updateMany({ to, from, ...UNREAD }, { $set: { handed } }, { session })
    },
    /** Counts a sender's unread messages, and their bytes. */
    async countUnread({ to, from }: Required<Inbox>): Promise<{ unread: number; bytes: number }> {
      const [found] = await messages.aggregate<{ unread: number; bytes: number }>([
        { $match: { to, from, ...UNREAD } },
        { $group: { _id: null, unread: { $sum: 1 }, bytes: { $sum: { $strLenBytes: '$box' } } } },
      ])
      return { unread: found?.unread ?? 0, bytes: found?.bytes ?? 0 }
    },
  }
}

export type MessageStore = ReturnType<typeof createMessageStore>

/**
 * Messages read from the database at a time: 34 of the longest are 2 MB, and three times 34 exceed a page.
 */
const BATCH = 34

/** Reads messages until the page is full. */
async function readPage(
  found: AsyncIterable<MessageRecord> & { close(): Promise<unknown> },
  room: Room,
): Promise<MessagePage> {
  const messages: MessageRecord[] = []
  let { bytes } = room
  try {
    for await (const message of found) {
      bytes -= Buffer.byteLength(message.box)
      const isFirst = messages.length === 0 && room.messages === DM_PAGE
      if (messages.length >= room.messages || (bytes < 0 && !isFirst)) return { messages, more: true }
      messages.push(message)
    }
    return { messages, more: false }
  } finally {
    await found.close()
  }
}

/** The room that is left after `taken`. */
export function roomBeside({ messages, bytes }: Room, taken: readonly MessageRecord[]): Room {
  return {
    messages: messages - taken.length,
    bytes: taken.reduce((left, { box }) => left - Buffer.byteLength(box), bytes),
  }
}
