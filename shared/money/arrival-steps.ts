import { commitRecord } from '../crypto/commitment.ts'
import type { PendingEntry } from '../ledger/pending.ts'
import { omitUndefined } from '../platform/omit-undefined.ts'
import { isOnWordAlone, type ArrivalRecord, type PaymentRecord, type SeenPayment } from './arrival.ts'
import type { InvoiceRecord } from './invoice.ts'
import { arrivalLine, keptLine, paymentLine, type JournalLine } from './journal.ts'

/*
 * What becomes of an arrival: functions of the arrival, the event and the time (Unix seconds). Nothing here reads
 * or stores.
 */

/** Where an arrival stands; those up to `lost` are payments. It follows from what is stored: see stageOf(). */
export const ARRIVAL_STAGES = [
  ...(['seen', 'locked', 'gone', 'settled', 'lost'] as const),
  ...(['unassigned', 'operator', 'sent_back', 'void'] as const),
] as const
export type ArrivalStage = (typeof ARRIVAL_STAGES)[number]

type Standing = Pick<
  ArrivalRecord,
  'state' | 'invoice_id' | 'came_to' | 'payout_id' | 'reversed_at' | 'undone_at'
>

export function stageOf(arrival: Standing): ArrivalStage {
  if (arrival.undone_at !== undefined) return 'void'
  if (arrival.state !== 'settled') return arrival.state
  if (arrival.invoice_id !== undefined) return arrival.reversed_at === undefined ? 'settled' : 'lost'
  if (arrival.payout_id !== undefined) return 'sent_back'
  return arrival.came_to ?? 'unassigned'
}

/**
 * On whose word an arrival has to stand for a step. `on_word`: the operator's alone. `shown`: the chain shows it, or
 * did. `revocable`: the operator's alone, or he gave it to its invoice when it was nobody's.
 */
type Word = 'on_word' | 'shown' | 'revocable'

export interface ArrivalStepRule {
  from: readonly ArrivalStage[]
  to: ArrivalStage | 'same'
  /** Absent: it doesn't matter. */
  word?: Word
  text: string
}

/** Every step is one conditional update that names all that its decision rests on. */
export const ARRIVAL_STEPS = {
  seen: { from: ['gone', 'locked'], to: 'seen', text: 'The chain has it, and it is not locked.' },
  locked: { from: ['gone'], to: 'locked', text: 'The chain has it, locked by its payer.' },
  corrected: { from: ['seen', 'locked', 'gone'], to: 'same', text: 'It is found with another amount.' },
  gone: {
    from: ['seen', 'locked'],
    to: 'gone',
    word: 'shown',
    text: 'The chain knows it no more, or its coin has been off for a day.',
  },
  waits: {
    from: ['seen'],
    to: 'same',
    text: 'Confirmed and late, it waits for the end of its invoice or for a rate.',
  },
  settled: { from: ['seen'], to: 'settled', text: 'It is confirmed, and buys.' },
  shown: {
    from: ['seen', 'settled', 'lost'],
    to: 'same',
    word: 'on_word',
    text: 'The chain shows what the operator recorded.',
  },
  lost: {
    from: ['settled'],
    to: 'lost',
    word: 'shown',
    text: 'The chain took it back: a pass stands, an order is disputed.',
  },
  given_up: {
    from: ['settled'],
    to: 'lost',
    word: 'on_word',
    text: 'The operator gives up a record of his own.',
  },
  restored: { from: ['lost'], to: 'settled', text: 'It is there again.' },
  undone: {
    from: ['settled'],
    to: 'void',
    word: 'revocable',
    text: "The operator takes his record back with all that it bought; what was nobody's has a new record.",
  },
  given: {
    from: ['unassigned', 'operator'],
    to: 'seen',
    text: 'The operator gives it to an invoice, in the transaction that settles it.',
  },
  kept: { from: ['unassigned'], to: 'operator', text: 'The operator says that he put it in.' },
  kept_undone: { from: ['operator'], to: 'unassigned', text: 'He takes that back.' },
  sent_back: { from: ['unassigned'], to: 'sent_back', text: 'A payout of it is owed.' },
  return_withdrawn: {
    from: ['sent_back'],
    to: 'unassigned',
    text: 'The operator takes that back before it is signed.',
  },
  own: {
    from: ['unassigned', 'operator'],
    to: 'void',
    text: 'A transaction of ours is found to have sent it.',
  },
} as const satisfies Record<string, ArrivalStepRule>

export type ArrivalStep = keyof typeof ARRIVAL_STEPS

/** The step's row of the table, with the type of any row. */
const stepRule = (step: ArrivalStep): ArrivalStepRule => ARRIVAL_STEPS[step]

/** An invoice as far as it decides what money that comes to it may buy. */
type Ending = Pick<InvoiceRecord, 'lapsed' | 'foreign' | 'expires_at'>

/** What happens to an arrival. `stepId`: tells apart a step that may be taken more than once. */
export type ArrivalEvent =
  | { step: 'seen' | 'locked' | 'gone' | 'waits' | 'undone' | 'return_withdrawn' | 'own' }
  | { step: 'corrected'; amountRaw: bigint }
  | { step: 'settled'; invoice: Ending; by: PaymentRecord['by']; confirmations: number }
  /** `addressIndex`: of the address that the chain says, if that is another. */
  | { step: 'shown'; addressIndex?: number }
  | { step: 'lost' | 'given_up' | 'restored' | 'kept' | 'kept_undone'; stepId: string }
  | { step: 'given'; invoice: Ending & Pick<InvoiceRecord, '_id' | 'agent_id' | 'order_id'> }
  | { step: 'sent_back'; payoutId: string }

/** All that a decision rests on: it is stored only if each of these is still as it was read. */
export const RESTS_ON = [
  ...(['state', 'invoice_id', 'came_to', 'payout_id', 'reversed_at', 'undone_at'] as const),
  ...(['by', 'shown_at', 'amount_raw'] as const),
] as const satisfies readonly (keyof ArrivalRecord)[]

interface Effect {
  set: Partial<ArrivalRecord>
  unset?: readonly (keyof ArrivalRecord)[]
  entries?: readonly PendingEntry[]
  lines?: readonly JournalLine[]
}

export type ArrivalUpdate = { kind: 'moves' } & Required<Effect>

/**
 * An arrival to which the event can't happen: for its stage; since it stands on the operator's word alone, or doesn't;
 * or since it is late, and its invoice has not expired.
 */
export interface ArrivalStays {
  kind: 'stays'
  because: 'stage' | 'on_word' | 'shown' | 'invoice_open'
}

/** Decides what an event makes of an arrival. A step other than those of nobody's money is of a payment. */
export function decideArrival(
  arrival: ArrivalRecord,
  event: ArrivalEvent,
  at: number,
): ArrivalUpdate | ArrivalStays {
  const { from, word } = stepRule(event.step)
  if (!from.includes(stageOf(arrival))) return { kind: 'stays', because: 'stage' }
  const onWord = isOnWordAlone(arrival)
  if (word === 'shown' && onWord) return { kind: 'stays', because: 'on_word' }
  const isRevocable = word === 'revocable' && arrival.by === 'operator' && arrival.came_to !== undefined
  if (word !== undefined && word !== 'shown' && !onWord && !isRevocable)
    return { kind: 'stays', because: 'shown' }
  const effect = effectOf(arrival, event, at)
  return 'because' in effect ? effect : { kind: 'moves', unset: [], entries: [], lines: [], ...effect }
}

/** Whether a payment buys as late money. Before `expires_at` nothing is late, even if it was noted so. */
const isStillLate = ({ late }: Pick<ArrivalRecord, 'late'>, invoice: Ending, at: number): boolean =>
  late && (invoice.lapsed || invoice.foreign === true || at >= invoice.expires_at)

/** What an event writes; or that it can't happen yet. */
function effectOf(arrival: ArrivalRecord, event: ArrivalEvent, at: number): Effect | ArrivalStays {
  // Only payments take the steps for which it is used.
  const payment = arrival as PaymentRecord
  switch (event.step) {
    case 'seen':
    case 'locked':
    case 'gone':
      return { set: { state: event.step }, unset: ['waits_for_rate'] }
    case 'corrected':
      return { set: { amount_raw: String(event.amountRaw) } }
    case 'waits':
      return { set: { waits_for_rate: true } }
    case 'settled':
      return settle(payment, event, at)
    case 'shown':
      return { set: { shown_at: at, ...omitUndefined({ address_index: event.addressIndex }) } }
    case 'lost':
    case 'given_up': {
      const entries = event.step === 'given_up' ? [reversalEntry(payment, 'lost', at)] : []
      return {
        set: { reversed_at: at },
        entries,
        lines: paymentLine(payment, `lost/${event.stepId}`, at),
      }
    }
    case 'restored':
      return {
        set: {},
        unset: ['reversed_at'],
        lines: paymentLine(payment, `restored/${event.stepId}`, at),
      }
    case 'undone':
      return {
        ...voided(arrival, at),
        entries: [reversalEntry(payment, 'undone', at)],
        lines: paymentLine(payment, 'undone', at),
      }
    case 'own':
      return { ...voided(arrival, at), lines: arrivalLine(arrival, 'own', at) }
    case 'given': {
      const { _id: invoice_id, agent_id, order_id } = event.invoice
      const late = isLate(event.invoice, { by: 'operator', roundAt: 0 }, at)
      const owner = { invoice_id, agent_id, ...omitUndefined({ order_id }) }
      return { set: { ...owner, late, shown_at: at, state: 'seen', by: 'operator' } }
    }
    case 'kept':
      return { set: { came_to: 'operator' }, lines: keptLine(arrival, event.step, event.stepId, at) }
    case 'kept_undone':
      return { set: { came_to: 'unassigned' }, lines: keptLine(arrival, event.step, event.stepId, at) }
    case 'sent_back':
      return { set: { payout_id: event.payoutId } }
    case 'return_withdrawn':
      return { set: {}, unset: ['payout_id'] }
  }
}

/** What a payment writes that is settled. Late money waits until its invoice has expired. */
function settle(
  payment: PaymentRecord,
  { invoice, by: reporter, confirmations }: Extract<ArrivalEvent, { step: 'settled' }>,
  at: number,
): Effect | ArrivalStays {
  const late = isStillLate(payment, invoice, at)
  // Payments that were in time buy first, at the invoice's own rate.
  if (late && !invoice.lapsed) return { kind: 'stays', because: 'invoice_open' }
  const by = reporter === 'operator' ? reporter : payment.by
  return {
    set: { state: 'settled', settled_at: at, confirmations, late, by },
    unset: ['waits_for_rate'],
    entries: [paymentEntry({ ...payment, by }, at)],
    lines: paymentLine(payment, 'received', at),
  }
}

/** Ends a record, and frees its transaction to be recorded anew. */
const voided = ({ _id, tx }: ArrivalRecord, at: number) =>
  ({
    set: { state: 'gone', undone_at: at, undone_tx: tx, tx: _id },
    unset: ['settled_at', 'credited_days', 'price_raw'],
  }) as const

interface Sighting {
  by: PaymentRecord['by']
  /** When the last whole round over all addresses began; 0 if there was none. */
  roundAt: number
}

/** Whether money is late that is seen for the first time. */
function isLate(invoice: Ending, { by, roundAt }: Sighting, at: number): boolean {
  // A whole round after `expires_at` did not find it: only another payment under way keeps the invoice open.
  const isMissedByRound = by === 'chain' && Math.min(roundAt, at) > invoice.expires_at
  return invoice.lapsed || invoice.foreign === true || isMissedByRound
}

/** The fields that tell two records apart. */
type Ids = Pick<ArrivalRecord, '_id' | 'salt'>

/** The record of a payment that is seen for the first time. @param rate USD per coin, if there is a fresh one */
export function newPayment(
  invoice: InvoiceRecord,
  { coin, tx, addressIndex, amountRaw, confirmations, height, lockedUntil }: SeenPayment,
  { ids, by, roundAt, rate }: Sighting & { ids: Ids; rate: string | undefined },
  at: number,
): PaymentRecord {
  const { _id: invoice_id, agent_id, order_id, days } = invoice
  const late = isLate(invoice, { by, roundAt }, at)
  return {
    ...ids,
    ...{ coin, tx, address_index: addressIndex, invoice_id, agent_id, ...omitUndefined({ order_id }) },
    ...{ amount_raw: String(amountRaw), state: lockedUntil === undefined ? 'seen' : 'locked', confirmations },
    ...omitUndefined({ height, unlock_time: lockedUntil }),
    ...{ first_seen_at: at, late },
    ...(late && days !== undefined ? omitUndefined({ arrival_rate: rate }) : {}),
    by,
  }
}

type Place = Pick<ArrivalRecord, 'coin' | 'tx' | 'address_index' | 'amount_raw'>

/** The record of confirmed money that no invoice counts, but for its id and salt. */
export function newArrival(
  { coin, tx, address_index, amount_raw, came_to }: Place & Required<Pick<ArrivalRecord, 'came_to'>>,
  at: number,
) {
  const seen = { confirmations: 1, first_seen_at: at, settled_at: at, late: false }
  return { coin, tx, address_index, amount_raw, came_to, state: 'settled', by: 'chain', ...seen } as const
}

/** The ledger entry of a settled payment, which commits to its transaction. */
export function paymentEntry(payment: PaymentRecord, at: number): PendingEntry {
  const { _id, invoice_id, order_id, coin, amount_raw, salt, tx } = payment
  const settlement = payment.by === 'operator' ? 'manual' : 'automatic'
  const tx_hash = commitRecord(_id, salt, { tx })
  const about = { payment_id: _id, invoice_id, ...omitUndefined({ order_id }), coin, amount_raw }
  return { source: `${_id}/payment`, at, kind: 'payment', data: { ...about, settlement, tx_hash } }
}

/** The ledger entry of a payment that the operator took back or gave up. */
function reversalEntry(payment: PaymentRecord, step: 'undone' | 'lost', at: number): PendingEntry {
  const { _id, invoice_id, order_id, coin, amount_raw } = payment
  // One given up is told without its order, whose sides are owed what they were: verifiers add up payments of orders.
  const order = step === 'undone' ? omitUndefined({ order_id }) : {}
  const data = { step, payment_id: _id, invoice_id, ...order, coin, amount_raw }
  return { source: `${_id}/${step}`, at, kind: 'payment', data }
}
