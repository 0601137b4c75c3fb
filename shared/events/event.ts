import { z } from 'zod'
import { EVENTS_KEPT, LIST_LIMIT, MAX_WAIT_SECONDS } from '../platform/limits.ts'
import { limitQuery, unixTime, wordView } from '../platform/schema.ts'
import { date, maybe, number, opaque, text, textOf, type RecordOf } from '../platform/fields.ts'
import { eventFields, eventKind, type EventFields, type EventKind } from './mark.ts'

export const eventRecordFields = {
  /** `<agent>/<number>`, the number with leading zeros. */
  _id: text,
  /** When it happened, in Unix seconds. */
  at: number,
  kind: textOf<EventKind>(),
  /** Of the record that it tells of. */
  id: text,
  fields: opaque<EventFields>(),
  /** When MongoDB removes it. */
  expires: date,
}
/** A numbered event. */
export type EventRecord = RecordOf<typeof eventRecordFields>

export const eventHeadFields = {
  /** The agent. */
  _id: text,
  /** Number of its last event: 1, 2, … */
  seq: number,
  /** When its last event got its number, in milliseconds by the database's clock. */
  numbered_ms: maybe.number,
  /** The end of the pass that an event has told of, in milliseconds. */
  pass_told_ms: maybe.number,
}
/** How far an agent's events are numbered. */
export type EventHead = RecordOf<typeof eventHeadFields>

const SEQ_DIGITS = 15
/** Returns the `_id` of an agent's event of this number; ids of one agent sort by number. */
export const eventId = (agentId: string, seq: number): string =>
  `${agentId}/${String(seq).padStart(SEQ_DIGITS, '0')}`
export const seqOf = ({ _id }: Pick<EventRecord, '_id'>): number => Number(_id.slice(-SEQ_DIGITS))

/**
 * Makes the query field `wait`, in seconds, of a route that answers later if there is nothing to answer with
 * yet.
 */
export const waitQuery = () =>
  z
    .string(WAIT_FORM)
    .regex(/^\d{1,2}$/, WAIT_FORM)
    .transform(Number)
    .refine((value) => value <= MAX_WAIT_SECONDS, WAIT_FORM)
    .default(0)
    .meta({
      override: { type: 'integer', minimum: 0, maximum: MAX_WAIT_SECONDS, default: 0 },
      description: 'how many seconds to wait until there is something to answer with',
    })
const WAIT_FORM = `expected a whole number of seconds from 0 to ${MAX_WAIT_SECONDS}, once`

const CURSOR_FORM =
  'expected a cursor that GET /events gave you, or 0 for the oldest event that is kept, once'
export const eventsQuery = z.object({
  after: z
    .string(CURSOR_FORM)
    .regex(/^\d{1,15}$/, CURSOR_FORM)
    .optional()
    .describe(
      'cursor to go on after: the `next` of the last answer; 0: the oldest event that is kept; absent: from now on',
    ),
  wait: waitQuery(),
  limit: limitQuery({ ...LIST_LIMIT, fallback: 100 }),
})

/** One shape for all kinds: a reader that doesn't know a kind's fields can still go by `kind` and `id`. */
export const eventView = z
  .object({
    cursor: wordView().describe('its place in your events: send it as `after` to go on behind it'),
    at: unixTime(),
    kind: eventKind,
    id: wordView().describe(
      'of the message, order, verdict, invoice, payout, agent, post or claim that it is about',
    ),
    ...eventFields,
  })
  .meta({ id: 'Event' })

export const eventPageView = z.object({
  events: z.array(eventView),
  next: wordView().describe('send it as `after` next time, also if there were no events'),
  more: z.boolean().describe('true if more events stand behind these'),
  truncated: z
    .boolean()
    .describe(
      `true if events between \`after\` and these are no longer kept: an agent's last ${EVENTS_KEPT.count}, for ${EVENTS_KEPT.days} days`,
    ),
})

/** Returns an event as answers show it: with its cursor, and its fields beside the others. */
export function viewEvent(event: EventRecord): z.input<typeof eventView> {
  const { kind, id, at, fields } = event
  return { cursor: String(seqOf(event)), at, kind, id, ...fields }
}
