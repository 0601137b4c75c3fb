import { z } from 'zod';
import { readAfter, readUnread, sendMessage } from '../../shared/messages/message-service.ts';
import { dmBody, dmQuery, messageView, viewMessage } from '../../shared/messages/message.ts';
import { countView, idView } from '../../shared/schema.ts';
import { created, defineRoute, ok, type Route } from '../http/route.ts';

export function messageRoutes(): Route[] {
  return [
    defineRoute({
      method: 'POST',
      path: '/dm',
      access: 'pass',
      summary: 'Sends a direct message: ciphertext that the operator cannot read',
      body: dmBody,
      view: z.object({ id: idView('message'), message: messageView }),
      statuses: [201],
      errors: ['no_such_agent'],
      async handle({ ctx, caller, body }) {
        const message = await sendMessage(ctx, caller._id, body);
        return created({ id: message._id, message: viewMessage(message) });
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/dm',
      access: 'pass',
      summary: 'The oldest 100 unread messages, which are marked read; with `after`, what came after a message, read or not',
      query: dmQuery,
      view: z.object({ messages: z.array(messageView), ...countView, more: z.boolean().describe('true where another page waits') }),
      async handle({ ctx, caller, query, peek }) {
        const { messages, more } = await (query.after === undefined ? readUnread(ctx, caller._id, peek) : readAfter(ctx, caller._id, query.after, peek));
        return ok({ messages: messages.map(viewMessage), count: messages.length, more });
      },
    }),
  ];
}
