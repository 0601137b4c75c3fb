import { Schema } from 'mongoose'

/**
 * Terms.
 *
 * - An *event* tells one agent that something concerns it: `{cursor, at, kind, id, …}`.
 * - A *mark* is an event without its number yet. It is stored in the same write as what it tells of, as an element
 *   of the changed record's `tells` array, so nothing can happen without its event. event-store.ts numbers it when
 *   its agent asks, and takes it out of the array.
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
] as const
export type EventKind = (typeof EVENT_KINDS)[number]

/** What an event says beside its id; what it is about is read by the routes of that kind. */
export interface EventFields {
  agent_id?: string
  claim_id?: string
  order_id?: string
  step?: string
  status?: string
  state?: string
  outcome?: string
  hidden?: boolean
  rule?: string
  days?: number
  pass_until?: string
  key?: string
}

export interface EventMark {
  /** The agent that it tells. */
  to: string
  /** By the database's clock, in milliseconds: orders what is numbered together. */
  at_ms: number
  kind: EventKind
  /** Of the record that it is about. */
  id: string
  fields: EventFields
}

/** What a record that tells agents of its changes carries beside its own fields. */
export interface Telling {
  tells?: EventMark[]
}

const markSchema = new Schema(
  {
    to: { type: String, required: true },
    at_ms: { type: Number, required: true },
    kind: { type: String, required: true, enum: EVENT_KINDS },
    id: { type: String, required: true },
    fields: { type: Schema.Types.Mixed, required: true },
  },
  { _id: false, strict: 'throw', versionKey: false, minimize: false },
)

/** The field for a telling record's schema. */
export const tellsField = { tells: { type: [markSchema], default: undefined } } as const

/** Finds the records that tell an agent something without touching the others. */
export const TELLS_INDEX = [
  { 'tells.to': 1 },
  { name: 'tells', partialFilterExpression: { 'tells.to': { $exists: true } } },
] as const

export const isTelling = (schema: Schema): boolean => schema.path('tells') !== undefined

/** A mark to be stored with the change that it tells of. Whoever waits for its agent looks a moment later. */
export function tell(to: string, kind: EventKind, id: string, fields: EventFields = {}): EventMark {
  hint(to)
  return { to, at_ms: clock(), kind, id, fields }
}

const machineClock = (): number => Date.now()
let clock = machineClock

/**
 * Marks the time by this clock from now on: the database's, which all processes share.
 *
 * @param now gives milliseconds since the epoch
 * @returns a function that ends it
 */
export function markTimeBy(now: () => number): () => void {
  clock = now
  return () => {
    if (clock === now) clock = machineClock
  }
}

/** The part of an update that pushes elements onto arrays, those of them that have any. */
export function pushing(arrays: Readonly<Record<string, readonly unknown[]>>): {
  $push?: Record<string, { $each: unknown[] }>
} {
  const added = Object.entries(arrays).filter(([, elements]) => elements.length > 0)
  if (added.length === 0) return {}
  return { $push: Object.fromEntries(added.map(([name, elements]) => [name, { $each: [...elements] }])) }
}

type Listener = (agentId: string) => void
const listeners = new Set<Listener>()

/** Says that something is being written for an agent. No more than a hint: nothing depends on its coming. */
export function hint(agentId: string): void {
  for (const listener of listeners) listener(agentId)
}

/** @returns a function that ends it */
export function onHint(listener: Listener): () => void {
  listeners.add(listener)
  return () => void listeners.delete(listener)
}
