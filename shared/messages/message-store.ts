import type { Connection } from 'mongoose'
import { type Session, within } from '../platform/database.ts'
import { createGroups, insertEach } from '../platform/group-commit.ts'
import { indexMarks, tellsField } from '../events/mark.ts'
import { DM_PAGE, DM_PAGE_BYTES } from '../platform/limits.ts'
import { createInboxStore } from './inbox-store.ts'
import { schemaOf } from '../platform/fields.ts'
import { recordsOf } from '../platform/records.ts'
import { messageFields, type MessageRecord } from './message.ts'

/** Filter for messages that were not handed out yet. */
export const UNREAD = { handed: 0 }

const messageSchema = schemaOf<MessageRecord>('messages', { ...messageFields, ...tellsField })
messageSchema.index({ to: 1, handed: 1, _id: 1 }, { name: 'in_order_of_handing_out' })
messageSchema.index({ to: 1, _id: 1, handed: 1 }, { name: 'in_order_of_ids' })
messageSchema.index({ from: 1, _id: -1 }, { name: 'sent' })
messageSchema.index({ to: 1, from: 1, handed: 1, _id: 1 }, { name: 'of_one_sender' })
indexMarks(messageSchema)

/** A place in the order in which messages were handed out: by `handed`, and within a hand-out by id. */
export type HandedPlace = Pick<MessageRecord, '_id' | 'handed'>

/** Messages to an agent: of all senders, or of one. */
export interface Inbox {
  to: string
  from?: string
}

/** Returns the name of the index by which an inbox is read in the order of handing out, the unread before all others. */
const indexFor = ({ from }: Inbox): string =>
  from === undefined ? 'in_order_of_handing_out' : 'of_one_sender'

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

/**
 * Creates the store of direct messages, and of each receiver's counts of them by sender.
 *
 * @param patienceMs how long a message, or a count, may wait before it begins to be stored
 */
export function createMessageStore(connection: Connection, patienceMs: number) {
  const messages = connection.model<MessageRecord>('Message', messageSchema)
  const records = recordsOf(messages)
  /** Lists messages of an inbox in the order in which they were handed out. */
  const listInHandingOrder = (
    filter: object,
    inbox: Inbox,
    room: Room,
    session: Session | undefined,
  ): Promise<MessagePage> =>
    list({ ...inbox, ...filter }, { handed: 1, _id: 1 }, indexFor(inbox), room, session)
  /** Reads the messages of a query that fit in the room. */
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
    inboxes: createInboxStore(connection, patienceMs),
    /**
     * Inserts a message, together with others that arrive at the same time (group commit). Resolves once a
     * majority has it in its journal.
     */
    insert: createGroups((group: MessageRecord[]) => insertEach(messages.collection, group), {
      patienceMs,
      span: 'commit messages',
    }),
    /** Reads a message; undefined if there is none with this id. */
    find: (messageId: string, session?: Session): Promise<MessageRecord | undefined> =>
      records.one({ _id: messageId }, { session }),
    /** Whether the inbox has a message that was not handed out yet. */
    async hasUnread(inbox: Inbox): Promise<boolean> {
      const unread = messages.findOne({ ...inbox, ...UNREAD }, { _id: 1 }).hint(indexFor(inbox))
      return (await unread.lean()) !== null
    },
    /** Lists the oldest unread messages, oldest first; marks nothing. */
    async listUnread(inbox: Inbox, room: Room, session?: Session): Promise<MessagePage> {
      return list({ ...inbox, ...UNREAD }, { _id: 1 }, indexFor(inbox), room, session)
    },
    /** Lists messages that were handed out, in that order: after a place, or from the beginning if it is undefined. */
    async listHandedAfter(
      inbox: Inbox,
      after: HandedPlace | undefined,
      room: Room,
      session?: Session,
    ): Promise<MessagePage> {
      const later =
        after === undefined
          ? { handed: { $gt: 0 } }
          : { $or: [{ handed: { $gt: after.handed } }, { handed: after.handed, _id: { $gt: after._id } }] }
      return listInHandingOrder(later, inbox, room, session)
    },
    /**
     * Lists messages with a greater id than that of a place which were handed out before it: of all senders by their
     * ids, so that it looks at no hand-out of long ago; of one in the order of handing out.
     */
    async listNewerHandedBefore(
      inbox: Inbox,
      place: HandedPlace,
      room: Room,
      session?: Session,
    ): Promise<MessagePage> {
      const filter = { _id: { $gt: place._id }, handed: { $gt: UNREAD.handed, $lt: place.handed } }
      if (inbox.from !== undefined) return listInHandingOrder(filter, inbox, room, session)
      return list({ ...inbox, ...filter }, { _id: 1 }, 'in_order_of_ids', room, session)
    },
    /**
     * Lists at most `limit` messages that an agent sent, newest first; with `before`, those with a smaller id.
     */
    async listSent(from: string, limit: number, before: string | undefined): Promise<MessagePage> {
      const filter = { from, ...(before === undefined ? {} : { _id: { $lt: before } }) }
      return list(filter, { _id: -1 }, 'sent', { ...WHOLE_PAGE, messages: limit }, undefined)
    },
    /** Marks unread messages as handed out in the reader's hand-out number `handed`. */
    async markHanded(messageIds: readonly string[], handed: number, session: Session): Promise<void> {
      await records.changeAll({ _id: { $in: [...messageIds] }, ...UNREAD }, { $set: { handed } }, session)
    },
    async markAllHanded({ to, from }: Required<Inbox>, handed: number, session: Session): Promise<void> {
      await records.changeAll({ to, from, ...UNREAD }, { $set: { handed } }, session)
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

/** Reads messages from a cursor until the room is full, and closes the cursor. */
async function readPage(
  cursor: AsyncIterable<MessageRecord> & { close(): Promise<unknown> },
  room: Room,
): Promise<MessagePage> {
  const messages: MessageRecord[] = []
  let bytesLeft = room.bytes
  try {
    for await (const message of cursor) {
      bytesLeft -= Buffer.byteLength(message.box)
      const isFirstOfPage = messages.length === 0 && room.messages === DM_PAGE
      if (messages.length >= room.messages || (bytesLeft < 0 && !isFirstOfPage))
        return { messages, more: true }
      messages.push(message)
    }
    return { messages, more: false }
  } finally {
    await cursor.close()
  }
}

/** Returns the room that these messages leave of `room`; its bytes may be below 0. */
export function remainingRoom({ messages, bytes }: Room, taken: readonly MessageRecord[]): Room {
  let bytesLeft = bytes
  for (const { box } of taken) bytesLeft -= Buffer.byteLength(box)
  return { messages: messages - taken.length, bytes: bytesLeft }
}
