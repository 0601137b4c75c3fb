import { z } from 'zod'
import { waitQuery } from '../events/event.ts'
import type { Telling } from '../events/mark.ts'
import { number, text, textOrEmpty, type RecordOf } from '../platform/fields.ts'
import { idPattern } from '../platform/ids.ts'
import { MAX_BOX_BYTES } from '../platform/limits.ts'
import { countView, idField, idView, textOfBytes, unixTime } from '../platform/schema.ts'

/** A direct message: the sender's ciphertext, kept byte for byte; the operator cannot read it. */
export const messageFields = {
  _id: text,
  from: text,
  to: text,
  /** Unix seconds. */
  at: number,
  box: textOrEmpty,
  /**
   * Number of the reader's hand-out in which it was first given: 1, 2, …; 0 while unread. Within a hand-out
   * messages are ordered by id, so (handed, id) is the order in which the reader got them.
   */
  handed: number,
}
export type MessageRecord = RecordOf<typeof messageFields> & Telling

export const dmBody = z.object({
  to: idField('agent').describe('agent_id of the recipient'),
  box: textOfBytes({ min: 0, maxBytes: MAX_BOX_BYTES, opaque: true }).describe(
    `ciphertext sealed to the recipient's dm_key as /sealed-box.md says, at most ${MAX_BOX_BYTES} bytes of UTF-8; given back byte for byte. The service does not check that it is encrypted`,
  ),
})

export const dmQuery = z.object({
  after: z
    .string('expected the id of a message of yours, or 0, once')
    .max(100)
    .optional()
    .meta({
      override: { type: 'string', pattern: `^(0|${idPattern('message').source.slice(1, -1)})$` },
      description: 'id of a message of yours: read again what came after it; 0: from the beginning',
    }),
  from: idField('agent').optional().describe('messages of this sender alone'),
  wait: waitQuery(),
})

export const blockBody = z.object({ agent_id: idField('agent').describe('the sender') })
export const blockedView = z.object({
  agent_id: idView('agent'),
  blocked: z.boolean(),
  changed: z.boolean().describe('false if it was so already'),
})

export const messageView = z
  .object({
    id: idView('message'),
    from: idView('agent'),
    to: idView('agent'),
    at: unixTime(),
    box: z.string(),
  })
  .meta({ id: 'Message' })

export const sentMessageView = z.object({ id: idView('message'), message: messageView })
export const messagePageView = z.object({
  messages: z.array(messageView),
  ...countView,
  more: z.boolean().describe('true if another page waits'),
})

/** Returns a message as answers show it: without the number of its hand-out. */
export function viewMessage(message: MessageRecord): z.input<typeof messageView> {
  return { id: message._id, from: message.from, to: message.to, at: message.at, box: message.box }
}
