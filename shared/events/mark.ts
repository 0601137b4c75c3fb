import type { Schema } from 'mongoose'
import { z } from 'zod'
import { idView, isoTimeView } from '../platform/schema.ts'
import { maybe, nested, number, opaque, text, textOf, type RecordOf } from '../platform/fields.ts'

/**
 * Terms.
 *
 * - An *event* tells one agent that something concerns it: `{cursor, at, kind, id, …}`.
 * - A *mark* is an event that has no number yet. It is stored in the same write as what it tells of, as an
 *   element of the changed record's `tells` array, so nothing can happen without its event. event-store.ts
 *   numbers it when its agent asks, and takes it out of the array.
 */
export const EVENT_KINDS = [
  'message',
  'order',
  'verdict',
  'endorsement',
  'invoice',
  'payout',
  'referral',
  'post_hidden',
  'pass_ending',
  'proposal_accepted',
  'key_changed',
  'doorbell',
] as const
export type EventKind = (typeof EVENT_KINDS)[number]
export const eventKind = z.enum(EVENT_KINDS).meta({ id: 'EventKind' })

/** What an event says besides its id, the view of it included. The record itself is read by other routes. */
export const eventFields = {
  agent_id: idView('agent').optional().describe('the other agent: who sent it, judged it, or registered'),
  claim_id: idView('claim').optional(),
  order_id: idView('order').optional(),
  step: z.string().optional().describe('of an order: the step that was taken'),
  status: z.string().optional().describe('of an order: its status after that'),
  state: z
    .string()
    .optional()
    .describe(
      'of an invoice: seen, confirmed or expired; of a payout: its state; of a referral: registered or paying; of your doorbell: off',
    ),
  outcome: z.string().optional().describe('of a verdict'),
  hidden: z.boolean().optional().describe('of a post: false if it is shown again'),
  rule: z.string().optional().describe('the rule that a post was hidden for'),
  days: z.int().optional().describe('pass days that came with it'),
  pass_until: isoTimeView().optional(),
  key: z.string().optional().describe('which of your keys: token, dm_key or author_key'),
}
export type EventFields = { [Name in keyof typeof eventFields]?: z.output<(typeof eventFields)[Name]> }

const markFields = {
  /** The agent that the event is for. */
  to: text,
  /** By the database's clock, in milliseconds: marks that are numbered together are sorted by it. */
  at_ms: number,
  kind: { ...textOf<EventKind>(), enum: EVENT_KINDS },
  /** Of the record that the event is about. */
  id: text,
  fields: opaque<EventFields>(),
}
export type EventMark = RecordOf<typeof markFields>

/** The marks in a record that tells agents of its changes. */
export interface Telling {
  tells?: EventMark[]
}

export const tellsField = { tells: maybe.list(nested(markFields)) }

/** Makes the marks of a schema's records found by agent and by time, without reading records that have none. */
export function indexMarks(schema: Schema): void {
  const partialFilterExpression = { 'tells.to': { $exists: true } }
  schema.index({ 'tells.to': 1 }, { name: 'tells', partialFilterExpression })
  schema.index({ 'tells.at_ms': 1 }, { name: 'tells_by_time', partialFilterExpression })
}

/** Whether the records of a schema can have marks. */
export const isTelling = (schema: Schema): boolean => schema.path('tells') !== undefined

/**
 * Makes a mark with the present time, which the caller stores at once with the change that it tells of.
 *
 * @param to id of the agent that the event is for
 * @param id of the record that the event is about
 */
export function makeMark(to: string, kind: EventKind, id: string, fields: EventFields = {}): EventMark {
  return { to, at_ms: clock(), kind, id, fields }
}

// Of the process and not of a context: marks are made by pure functions and by stores, which have no context.
let clock = (): number => Date.now()

/**
 * Makes marks take their time from this clock from now on: the database's, which all processes share.
 *
 * @param now gives milliseconds since the epoch
 */
export function setMarkClock(now: () => number): void {
  clock = now
}

/**
 * Returns the part of a MongoDB update that pushes elements onto arrays; empty if there are no elements.
 *
 * @param arrays the elements, by the name of their array
 */
export function pushing(arrays: Readonly<Record<string, readonly unknown[]>>): {
  $push?: Record<string, { $each: unknown[] }>
} {
  const added = Object.entries(arrays).filter(([, elements]) => elements.length > 0)
  if (added.length === 0) return {}
  return { $push: Object.fromEntries(added.map(([name, elements]) => [name, { $each: [...elements] }])) }
}
