import { randomFillSync } from 'node:crypto'
import { monotonicFactory } from 'ulid'
import { reportTracedRecord } from './tracing.ts'

/** The prefix of each kind of record; the contract fixes `agt_`, the rest is wire format too. */
export const ID_PREFIXES = {
  agent: 'agt',
  post: 'pst',
  message: 'msg',
  claim: 'clm',
  verdict: 'vrd',
  report: 'rep',
  invoice: 'inv',
  work_order: 'wrk',
  work_batch: 'bat',
  offer: 'ofr',
  order: 'mkt',
  payment: 'pay',
  payout: 'out',
  transfer: 'trf',
  reconciliation: 'rcn',
  announcement: 'ann',
  operator_act: 'opr',
  control_proof: 'ctl',
} as const

export type RecordKind = keyof typeof ID_PREFIXES

/** Random bytes for many ids: an id takes 16, and each call for some costs more than to make the id. */
const randomBytes = new Uint8Array(4_096)
let usedBytes = randomBytes.length

/** A number from 0 to below 1. */
function drawFraction(): number {
  if (usedBytes === randomBytes.length) {
    randomFillSync(randomBytes)
    usedBytes = 0
  }
  return Number(randomBytes[usedBytes++]) / 256
}

// One for the process: within a millisecond, or if the clock goes back, it counts up from the last id.
const nextUlid = monotonicFactory(drawFraction)

/**
 * Makes a new id: prefix, `_`, and a ULID in lower case (48 bits of milliseconds, 80 random bits, Crockford's
 * base 32). So ids sort by creation time as plain strings, and within a process each is greater than the
 * last. If the present work is traced, the record's place in the trace is reported.
 */
export function newId(kind: RecordKind): string {
  const id = `${ID_PREFIXES[kind]}_${nextUlid().toLowerCase()}`
  reportTracedRecord(id)
  return id
}

/** A pattern that matches ids of one kind, for validators and for the OpenAPI document. */
export function idPattern(kind: RecordKind): RegExp {
  return new RegExp(`^${ID_PREFIXES[kind]}_[0-9a-hjkmnp-tv-z]{26}$`)
}

/**
 * Makes a unique name without a prefix, which sorts by time: for a step of a record that may happen many
 * times, such as the rotation of a token, and for records that nobody addresses by id.
 */
export function newStepId(): string {
  return nextUlid().toLowerCase()
}
