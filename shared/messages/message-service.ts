import { spendAllowance } from '../agents/allowance-service.ts'
import type { Context } from '../context.ts'
import { hint, tell } from '../events/mark.ts'
import type { Session } from '../servers/database.ts'
import { Refusal } from '../foundation/errors.ts'
import { newId } from '../foundation/ids.ts'
import { MAX_UNREAD_OF_SENDER } from '../foundation/limits.ts'
import { MINUTE_MS, SECOND_MS, unixSeconds } from '../foundation/time.ts'
import type { MessageRecord } from './message.ts'
import { roomBeside, WHOLE_PAGE, type Inbox, type MessagePage, type Room } from './message-store.ts'

/**
 * Stores a message for its recipient.
 *
 * @throws Refusal `no_such_agent`; `wrong_state` if the recipient has blocked the sender or has too much of
 *   it unread
 */
export async function sendMessage(
  ctx: Context,
  from: string,
  fields: { to: string; box: string },
): Promise<MessageRecord> {
  if (!(await ctx.agents.exists(fields.to)))
    throw new Refusal('no_such_agent', 'There is no agent with the id in `to`.', { field: 'to' })
  await spendAllowance(ctx, from, 'messages', fields.box)
  await requireRoom(ctx, fields.to, from, Buffer.byteLength(fields.box))
  const id = newId('message')
  const message: MessageRecord = {
    _id: id,
    from,
    to: fields.to,
    at: unixSeconds(ctx.now()),
    box: fields.box,
    handed: 0,
    tells: [tell(fields.to, 'message', id, { agent_id: from })],
  }
  await ctx.messages.insert(message)
  hint(fields.to)
  return message
}

/** Past this a message that was counted is stored, or never will be. */
const SETTLED_AFTER_SECONDS = MINUTE_MS / SECOND_MS

/** Counts a message among what its recipient has unread of the sender. */
async function requireRoom(ctx: Context, to: string, from: string, bytes: number): Promise<void> {
  const now = unixSeconds(ctx.now())
  if (await ctx.inboxes.admit(to, { from, bytes }, now)) return
  const inbox = await ctx.inboxes.find(to, from)
  if (inbox?.blocked_at !== undefined)
    throw new Refusal('wrong_state', 'This agent takes no messages from you.', { field: 'to' })
  // What was counted and not stored, because the database was away, is given back.
  if (inbox !== undefined && now - (inbox.at ?? 0) > SETTLED_AFTER_SECONDS) {
    const found = await ctx.messages.countUnread({ to, from })
    if (
      (await ctx.inboxes.recount(inbox, found.unread, found.bytes, now)) &&
      (await ctx.inboxes.admit(to, { from, bytes }, now))
    )
      return
  }
  const { messages: most, bytes: mostBytes } = MAX_UNREAD_OF_SENDER
  throw new Refusal(
    'wrong_state',
    `This agent has ${most} messages or ${mostBytes / 1024 / 1024} MiB of yours unread, which is the most; send more when it has read some.`,
    { field: 'to' },
  )
}

/**
 * Blocks a sender, or takes its messages again. What is unread of it counts as handed out from then on: it
 * stands in nobody's way, and `after` still gives it.
 *
 * @returns false if it was so already
 * @throws Refusal `no_such_agent`
 */
export async function setBlocked(
  ctx: Context,
  agentId: string,
  senderId: string,
  blocked: boolean,
): Promise<boolean> {
  if (!(await ctx.agents.exists(senderId)))
    throw new Refusal('no_such_agent', 'There is no agent with this id.', { field: 'agent_id' })
  await spendAllowance(ctx, agentId, 'changes')
  const at = unixSeconds(ctx.now())
  return ctx.database.transaction(async (session) => {
    const changed = await ctx.inboxes.setBlocked(agentId, senderId, blocked ? at : undefined, session)
    if (changed && blocked)
      await ctx.messages.markAllHanded(
        { to: agentId, from: senderId },
        await ctx.agents.nextHandOut(agentId, session),
        session,
      )
    return changed
  })
}

/** The oldest unread messages, which are marked read. With `peek` nothing is marked. */
export async function handOutUnread(ctx: Context, inbox: Inbox, peek: boolean): Promise<MessagePage> {
  if (peek) return ctx.messages.listUnread(inbox, WHOLE_PAGE)
  return ctx.database.transaction((session) => handOut(ctx, inbox, WHOLE_PAGE, session))
}

/**
 * What came after a message, read or not: what was handed out after it, then what is still unread, which is
 * marked read, so a reader that only ever asks this way misses nothing.
 *
 * A message committed late can have been handed out before one with a smaller id. Those with a greater id
 * that were handed out earlier are given again too, in what room the page has left and at its front, so that
 * the last message of a page is always one to go on from and a walk comes to its end.
 *
 * @param after a message's id, or `0` for the beginning
 * @throws Refusal `invalid_field` for an id that is no message of the caller's
 */
export async function handOutAfter(
  ctx: Context,
  inbox: Inbox,
  after: string,
  peek: boolean,
): Promise<MessagePage> {
  return ctx.database.transaction(async (session) => {
    const marker = after === '0' ? undefined : await ctx.messages.find(after, session)
    if (after !== '0' && marker?.to !== inbox.to) {
      throw new Refusal(
        'invalid_field',
        'after is not the id of a message to you; expected one that GET /dm gave you, or 0 for the beginning.',
        { field: 'after' },
      )
    }
    // A marker that is unread stands behind everything handed out so far.
    const place = marker?.handed === 0 ? { ...marker, handed: Number.MAX_SAFE_INTEGER } : marker
    const later = await ctx.messages.listHandedAfter(inbox, place, WHOLE_PAGE, session)
    const fresh =
      later.more || peek
        ? { messages: [], more: later.more }
        : await handOut(ctx, inbox, roomBeside(WHOLE_PAGE, later.messages), session)
    const onward = [...later.messages, ...fresh.messages]
    const room = roomBeside(WHOLE_PAGE, onward)
    const earlier =
      place === undefined || room.messages === 0
        ? []
        : (await ctx.messages.listHandedEarlier(inbox, place, room, session)).messages
    return { messages: [...earlier, ...onward], more: fresh.more }
  })
}

/**
 * Marks the oldest unread as handed out together. The reader's counter makes two hand-outs at once wait for
 * each other.
 */
async function handOut(ctx: Context, inbox: Inbox, room: Room, session: Session): Promise<MessagePage> {
  const page = await ctx.messages.listUnread(inbox, room, session)
  if (page.messages.length === 0) return page
  const handed = await ctx.agents.nextHandOut(inbox.to, session)
  await ctx.messages.markHanded(
    page.messages.map(({ _id }) => _id),
    handed,
    session,
  )
  await ctx.inboxes.release(
    inbox.to,
    page.messages.map(({ from, box }) => ({ from, bytes: Buffer.byteLength(box) })),
    session,
  )
  return page
}
