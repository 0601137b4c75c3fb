import { spendAllowance } from '../agents/allowance-service.ts'
import type { Context } from '../context.ts'
import { makeMark } from '../events/mark.ts'
import type { Session } from '../platform/database.ts'
import { invalidField, Refusal } from '../platform/errors.ts'
import { newId } from '../platform/ids.ts'
import { MAX_UNREAD_OF_SENDER } from '../platform/limits.ts'
import { MINUTE_MS, SECOND_MS, unixSeconds } from '../platform/time.ts'
import type { MessageRecord } from './message.ts'
import {
  remainingRoom,
  UNREAD,
  WHOLE_PAGE,
  type HandedPlace,
  type Inbox,
  type MessagePage,
  type Room,
} from './message-store.ts'

type MessageContext = Pick<Context, 'database' | 'agents' | 'messages' | 'now'>

/**
 * Stores a message for its recipient, with the mark that tells of it.
 *
 * @param fields `box` is the ciphertext, which is stored unread
 * @throws Refusal `no_such_agent`; `wrong_state` if the recipient has blocked the sender, if it has too many
 *   unread messages of the sender, or if the sender has used up today's allowance
 */
export async function sendMessage(
  ctx: MessageContext,
  from: string,
  fields: { to: string; box: string },
): Promise<MessageRecord> {
  if (!(await ctx.agents.exists(fields.to)))
    throw new Refusal('no_such_agent', 'There is no agent with the id in `to`.', { field: 'to' })
  await spendAllowance(ctx, from, 'messages', fields.box)
  await countAsUnread(ctx, fields.to, from, Buffer.byteLength(fields.box))
  const id = newId('message')
  const message: MessageRecord = {
    _id: id,
    from,
    to: fields.to,
    at: unixSeconds(ctx.now()),
    box: fields.box,
    ...UNREAD,
    tells: [makeMark(fields.to, 'message', id, { agent_id: from })],
  }
  await ctx.messages.insert(message)
  return message
}

/** After this time a message that was counted has been stored, or never will be. */
const SETTLED_AFTER_SECONDS = MINUTE_MS / SECOND_MS

/**
 * Counts a message as unread, before it is stored. If the counts say that there is no room, they are
 * corrected first by the messages that are stored.
 *
 * @throws Refusal `wrong_state` if the recipient has blocked the sender, or has too many unread messages of
 *   it
 */
async function countAsUnread(ctx: MessageContext, to: string, from: string, bytes: number): Promise<void> {
  const now = unixSeconds(ctx.now())
  if (await ctx.messages.inboxes.countIfRoom(to, { from, bytes }, now)) return
  const inbox = await ctx.messages.inboxes.find(to, from)
  if (inbox?.blocked_at !== undefined)
    throw new Refusal('wrong_state', 'This agent takes no messages from you.', { field: 'to' })
  // Messages that were counted but, in an outage, not stored are taken off the counts.
  if (inbox !== undefined && now - (inbox.at ?? 0) > SETTLED_AFTER_SECONDS) {
    const counts = await ctx.messages.countUnread({ to, from })
    if (
      (await ctx.messages.inboxes.correctCounts(inbox, counts, now)) &&
      (await ctx.messages.inboxes.countIfRoom(to, { from, bytes }, now))
    )
      return
  }
  const { messages: maxMessages, bytes: maxBytes } = MAX_UNREAD_OF_SENDER
  throw new Refusal(
    'wrong_state',
    `This agent has ${maxMessages} messages or ${maxBytes / 1024 / 1024} MiB of yours unread, which is the limit; send more when it has read some.`,
    { field: 'to' },
  )
}

/**
 * Blocks or unblocks a sender. On blocking, its unread messages are marked as handed out: they no longer
 * appear among the unread, and reading with `after` still gives them.
 *
 * @param blocked true to block, false to unblock
 * @returns false if the sender was in that state already
 * @throws Refusal `no_such_agent`; `wrong_state` if the agent has used up today's allowance
 */
export async function setBlocked(
  ctx: MessageContext,
  agentId: string,
  senderId: string,
  blocked: boolean,
): Promise<boolean> {
  if (!(await ctx.agents.exists(senderId)))
    throw new Refusal('no_such_agent', 'There is no agent with this id.', { field: 'agent_id' })
  await spendAllowance(ctx, agentId, 'changes')
  const at = unixSeconds(ctx.now())
  return ctx.database.transaction(async (session) => {
    const isChanged = await ctx.messages.inboxes.setBlocked(
      agentId,
      senderId,
      blocked ? at : undefined,
      session,
    )
    if (isChanged && blocked) {
      const handOutNumber = await ctx.agents.countHandOut(agentId, session)
      await ctx.messages.markAllHanded({ to: agentId, from: senderId }, handOutNumber, session)
    }
    return isChanged
  })
}

/**
 * Reads a page of the oldest unread messages and marks them as read.
 *
 * @param peek true: marks nothing
 */
export async function handOutUnread(ctx: MessageContext, inbox: Inbox, peek: boolean): Promise<MessagePage> {
  if (peek) return ctx.messages.listUnread(inbox, WHOLE_PAGE)
  // Most who ask have nothing unread, and who hands out nothing needs no transaction.
  if (!(await ctx.messages.hasUnread(inbox))) return { messages: [], more: false }
  return ctx.database.transaction((session) => handOut(ctx, inbox, WHOLE_PAGE, session))
}

/**
 * Reads the messages after a given one: first those that were handed out after it, then unread ones, which
 * are marked as read. So a reader that always reads this way misses nothing.
 *
 * A message that was committed late may have been handed out after one with a greater id. Messages with a
 * greater id that were handed out before the given one are therefore given again at the front of the last page, if
 * it has room: the last message of a page is always the right one to continue from, and the reading ends.
 *
 * @param after a message's id, or `0` for the beginning
 * @param peek true: marks nothing as read, and leaves unread messages out
 * @throws Refusal `invalid_field` if `after` isn't the id of a message to the caller
 */
export async function readMessagesAfter(
  ctx: MessageContext,
  inbox: Inbox,
  after: string,
  peek: boolean,
): Promise<MessagePage> {
  const handsOut = !peek && (await ctx.messages.hasUnread(inbox))
  const read = async (session: Session): Promise<MessagePage> => {
    const place = after === '0' ? undefined : await findPlace(ctx, inbox, after, session)
    const page = await ctx.messages.listHandedAfter(inbox, place, WHOLE_PAGE, session)
    if (!page.more && handsOut) {
      const unread = await handOut(ctx, inbox, remainingRoom(WHOLE_PAGE, page.messages), session)
      page.messages.push(...unread.messages)
      page.more = unread.more
    }
    const room = remainingRoom(WHOLE_PAGE, page.messages)
    if (place === undefined || page.more || room.messages === 0) return page
    const again = await ctx.messages.listNewerHandedBefore(inbox, place, room, session)
    return { messages: [...again.messages, ...page.messages], more: page.more }
  }
  // What was handed out keeps its place, so to read that takes no transaction.
  return handsOut ? ctx.database.transaction(read) : ctx.database.inOrder(read)
}

/**
 * Finds a message's place in the order of handing out; that of an unread one is behind everything that was handed
 * out so far.
 *
 * @throws Refusal `invalid_field` if there is no message with this id to the caller
 */
async function findPlace(
  ctx: MessageContext,
  inbox: Inbox,
  messageId: string,
  session: Session,
): Promise<HandedPlace> {
  const message = await ctx.messages.find(messageId, session)
  if (message?.to !== inbox.to)
    throw invalidField(
      'after',
      'after is not the id of a message to you; expected one that GET /dm gave you, or 0 for the beginning.',
    )
  const { _id, handed } = message
  return { _id, handed: handed === UNREAD.handed ? Number.MAX_SAFE_INTEGER : handed }
}

/**
 * Reads the oldest unread messages that fit in the room, marks them as handed out together, and takes them
 * off the counts of unread messages. The counter on the reader's record makes concurrent hand-outs wait for
 * each other.
 */
async function handOut(
  ctx: MessageContext,
  inbox: Inbox,
  room: Room,
  session: Session,
): Promise<MessagePage> {
  const page = await ctx.messages.listUnread(inbox, room, session)
  if (page.messages.length === 0) return page
  const handOutNumber = await ctx.agents.countHandOut(inbox.to, session)
  await ctx.messages.markHanded(
    page.messages.map(({ _id }) => _id),
    handOutNumber,
    session,
  )
  await ctx.messages.inboxes.uncount(
    inbox.to,
    page.messages.map(({ from, box }) => ({ from, bytes: Buffer.byteLength(box) })),
    session,
  )
  return page
}
