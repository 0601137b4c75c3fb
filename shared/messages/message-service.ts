import type { Context } from '../context.ts'
import type { Session } from '../database.ts'
import { Refusal } from '../errors.ts'
import { newId } from '../ids.ts'
import { DM_PAGE } from '../limits.ts'
import { unixSeconds } from '../time.ts'
import type { MessageRecord } from './message.ts'

/** Stores a message for its recipient. @throws Refusal `no_such_agent` */
export async function sendMessage(ctx: Context, from: string, fields: { to: string; box: string }): Promise<MessageRecord> {
  if (!(await ctx.agents.exists(fields.to))) throw new Refusal('no_such_agent', 'There is no agent with the id in `to`.', { field: 'to' })
  const message: MessageRecord = { _id: newId('message'), from, to: fields.to, at: unixSeconds(ctx.now()), box: fields.box, handed: 0 }
  await ctx.messages.insert(message)
  return message
}

export interface MessagePage {
  messages: MessageRecord[]
  more: boolean
}

/** The oldest unread messages, which are marked read. With `peek` nothing is marked. */
export async function readUnread(ctx: Context, agentId: string, peek: boolean): Promise<MessagePage> {
  if (peek) return cutPage(await ctx.messages.listUnread(agentId, DM_PAGE + 1))
  return ctx.database.transaction((session) => handOut(ctx, agentId, DM_PAGE, session))
}

/**
 * What came after a message, read or not: what was handed out after it, then what is still unread, which is marked read,
 * so a reader that only ever asks this way misses nothing.
 *
 * A message committed late can have been handed out before one with a smaller id. Those with a greater id that were
 * handed out earlier are given again too, in what room the page has left and at its front, so that the last message of a
 * page is always one to go on from and a walk comes to its end.
 *
 * @param after a message's id, or `0` for the beginning
 * @throws Refusal `invalid_field` for an id that is no message of the caller's
 */
export async function readAfter(ctx: Context, agentId: string, after: string, peek: boolean): Promise<MessagePage> {
  return ctx.database.transaction(async (session) => {
    const marker = after === '0' ? undefined : await ctx.messages.find(after, session)
    if (after !== '0' && marker?.to !== agentId) {
      throw new Refusal(
        'invalid_field',
        'after is not the id of a message to you; expected one that GET /dm gave you, or 0 for the beginning.',
        { field: 'after' },
      )
    }
    // A marker that is unread stands behind everything handed out so far.
    const place = marker?.handed === 0 ? { ...marker, handed: Number.MAX_SAFE_INTEGER } : marker
    const later = cutPage(await ctx.messages.listHandedAfter(agentId, place, DM_PAGE + 1, session))
    const fresh =
      later.more || peek ? { messages: [], more: later.more } : await handOut(ctx, agentId, DM_PAGE - later.messages.length, session)
    const onward = [...later.messages, ...fresh.messages]
    const room = DM_PAGE - onward.length
    const earlier = place === undefined || room === 0 ? [] : await ctx.messages.listHandedEarlier(agentId, place, room, session)
    return { messages: [...earlier, ...onward], more: fresh.more }
  })
}

/** Marks the oldest unread as handed out together. The reader's counter makes two hand-outs at once wait for each other. */
async function handOut(ctx: Context, agentId: string, limit: number, session: Session): Promise<MessagePage> {
  const page = cutPage(await ctx.messages.listUnread(agentId, limit + 1, session), limit)
  if (page.messages.length === 0) return page
  const handed = await ctx.agents.nextHandOut(agentId, session)
  await ctx.messages.markHanded(
    page.messages.map(({ _id }) => _id),
    handed,
    session,
  )
  return page
}

function cutPage(messages: MessageRecord[], limit = DM_PAGE): MessagePage {
  return { messages: messages.slice(0, limit), more: messages.length > limit }
}
