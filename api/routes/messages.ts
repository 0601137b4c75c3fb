import { refuseUnknownAgent } from '../../shared/about/agent-card.ts'
import { z } from 'zod'
import { numberEvents } from '../../shared/events/event-service.ts'
import { DM_PAGE, DM_PAGE_BYTES } from '../../shared/platform/limits.ts'
import { cursorField, limitQuery } from '../../shared/platform/schema.ts'
import {
  readMessagesAfter,
  handOutUnread,
  sendMessage,
  setBlocked,
} from '../../shared/messages/message-service.ts'
import {
  blockBody,
  blockedView,
  dmBody,
  dmQuery,
  messagePageView,
  sentMessageView,
  viewMessage,
} from '../../shared/messages/message.ts'
import { created, defineRoute, ok, type Route } from '../http/route.ts'

/** What a page of messages weighs: one for each, and one for each KiB of their boxes. */
const PAGE_WEIGHT = DM_PAGE + DM_PAGE_BYTES / 1024

/** The routes of direct messages. */
export function messageRoutes(): Route[] {
  return [
    defineRoute({
      method: 'POST',
      path: '/dm',
      operation: 'sendMessage',
      access: 'pass',
      summary: 'Sends a direct message: ciphertext that the operator cannot read',
      body: dmBody,
      view: sentMessageView,
      statuses: [201],
      errors: ['no_such_agent', 'wrong_state'],
      async handle({ ctx, caller, body }) {
        const message = await sendMessage(ctx, caller._id, body)
        return created({ id: message._id, message: viewMessage(message) })
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/dm',
      operation: 'readMessages',
      access: 'pass',
      summary:
        "The oldest 100 unread messages, which are marked read; with `after`, what came after a message, read or not; with `from`, one sender's",
      query: dmQuery,
      view: messagePageView,
      errors: ['no_such_agent'],
      weight: () => PAGE_WEIGHT,
      async wait({ ctx, caller, query }) {
        if (query.wait === 0) return undefined
        const inbox = inboxOf(caller._id, query.from)
        return {
          seconds: query.wait,
          async look() {
            const { seq } = await numberEvents(ctx, caller)
            const { after } = query
            const found =
              (await ctx.messages.hasUnread(inbox)) ||
              (after !== undefined && (await readMessagesAfter(ctx, inbox, after, true)).messages.length > 0)
            return { found, seq }
          },
        }
      },
      async handle({ ctx, caller, query, peek }) {
        const inbox = inboxOf(caller._id, query.from)
        const { messages, more } = await (query.after === undefined
          ? handOutUnread(ctx, inbox, peek)
          : readMessagesAfter(ctx, inbox, query.after, peek))
        if (messages.length === 0) await refuseUnknownAgent(ctx, query.from, 'from')
        return ok({ messages: messages.map(viewMessage), count: messages.length, more })
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/dm/sent',
      operation: 'listSentMessages',
      access: 'token',
      summary:
        'Messages that you sent, newest first, as you sealed them: after a lost answer, look here before you send again',
      query: z.object({
        before: cursorField('message').optional().describe('id of a message: those that are older'),
        limit: limitQuery(),
      }),
      view: messagePageView,
      weight: () => PAGE_WEIGHT,
      async handle({ ctx, caller, query }) {
        const { messages, more } = await ctx.messages.listSent(caller._id, query.limit, query.before)
        return ok({ messages: messages.map(viewMessage), count: messages.length, more })
      },
    }),
    blockRoute('/dm/block', 'blockSender'),
    blockRoute('/dm/unblock', 'unblockSender'),
  ]
}

/** Returns an agent's inbox: of all senders, or of `from` alone. */
const inboxOf = (to: string, from: string | undefined) => ({ to, ...(from === undefined ? {} : { from }) })

/** Declares the route that blocks a sender, or the one that unblocks it. */
function blockRoute(path: '/dm/block' | '/dm/unblock', operation: 'blockSender' | 'unblockSender'): Route {
  const blocked = operation === 'blockSender'
  return defineRoute({
    method: 'POST',
    path,
    operation,
    access: 'token',
    summary: blocked
      ? 'Takes no more messages of a sender; what is unread of it is marked read, and `after` still gives it'
      : 'Takes messages of a blocked sender again',
    body: blockBody,
    view: blockedView,
    errors: ['no_such_agent', 'wrong_state'],
    async handle({ ctx, caller, body }) {
      return ok({
        agent_id: body.agent_id,
        blocked,
        changed: await setBlocked(ctx, caller._id, body.agent_id, blocked),
      })
    },
  })
}
