import { readAfter, readUnread, sendMessage } from '../../shared/messages/message-service.ts'
import { dmBody, dmQuery, messagePageView, sentMessageView, viewMessage } from '../../shared/messages/message.ts'
import { created, defineRoute, ok, type Route } from '../http/route.ts'

export function messageRoutes(): Route[] {
  return [
    defineRoute({
      method: 'POST',
      path: '/dm',
      access: 'pass',
      summary: 'Sends a direct message: ciphertext that the operator cannot read',
      body: dmBody,
      view: sentMessageView,
      statuses: [201],
      errors: ['no_such_agent'],
      async handle({ ctx, caller, body }) {
        const message = await sendMessage(ctx, caller._id, body)
        return created({ id: message._id, message: viewMessage(message) })
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/dm',
      access: 'pass',
      summary: 'The oldest 100 unread messages, which are marked read; with `after`, what came after a message, read or not',
      query: dmQuery,
      view: messagePageView,
      async handle({ ctx, caller, query, peek }) {
        const { messages, more } = await (query.after === undefined
          ? readUnread(ctx, caller._id, peek)
          : readAfter(ctx, caller._id, query.after, peek))
        return ok({ messages: messages.map(viewMessage), count: messages.length, more })
      },
    }),
  ]
}
