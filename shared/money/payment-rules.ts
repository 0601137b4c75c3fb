import { isOnWordAlone, type InvoiceRecord, type PaymentRecord } from './invoice.ts'

/*
 * What becomes of an invoice at its end, and of the money that arrives for it: functions of what is on record, of
 * what was found, and of the time (Unix seconds). Nothing here reads or stores.
 */

/** An invoice as far as its end depends on it. */
type Ending = Pick<InvoiceRecord, 'lapsed' | 'foreign' | 'order_id' | 'expires_at'>

/** Whether an invoice expires. */
export type ExpiryVerdict =
  | { kind: 'expires' }
  /** It has expired before, its time isn't over, or a payment that came in time is under way. */
  | { kind: 'stays'; because: 'lapsed' | 'not_over' | 'under_way' }

/**
 * Decides whether an invoice expires. An order's invoice whose address is of another wallet doesn't wait for its
 * time, since nobody can pay it.
 *
 * @param isHeldOpen whether a payment that came in time is under way
 */
export function judgeExpiry(invoice: Ending, isHeldOpen: boolean, at: number): ExpiryVerdict {
  if (invoice.lapsed) return { kind: 'stays', because: 'lapsed' }
  const isUnpayable = invoice.foreign === true && invoice.order_id !== undefined
  if (!isUnpayable && invoice.expires_at > at) return { kind: 'stays', because: 'not_over' }
  return isHeldOpen ? { kind: 'stays', because: 'under_way' } : { kind: 'expires' }
}

/**
 * Whether money that is seen for the first time is late.
 *
 * @param roundAt when the last whole round over all addresses began; 0 if there was none
 */
export function isLateArrival(
  invoice: Ending,
  { by, roundAt }: { by: PaymentRecord['by']; roundAt: number },
  at: number,
): boolean {
  // A whole round after `expires_at` did not find it: only another payment under way keeps the invoice open.
  const isMissedByRound = by === 'chain' && Math.min(roundAt, at) > invoice.expires_at
  return invoice.lapsed || invoice.foreign === true || isMissedByRound
}

/** What a payment on record becomes when the chain has it, or has it again. */
export type SightingVerdict =
  | { kind: 'moves'; from: 'gone' | 'locked'; to: 'seen' }
  | { kind: 'moves'; from: 'gone'; to: 'locked' }
  | { kind: 'stays' }

/** Decides what a scan that finds a payment makes of it. @param isLocked whether its payer has locked it */
export function judgeSighting({ state }: Pick<PaymentRecord, 'state'>, isLocked: boolean): SightingVerdict {
  if (state !== 'gone' && state !== 'locked') return { kind: 'stays' }
  if (!isLocked) return { kind: 'moves', from: state, to: 'seen' }
  return state === 'gone' ? { kind: 'moves', from: state, to: 'locked' } : { kind: 'stays' }
}

/** What a confirmed payment comes to. */
export type PaymentVerdict =
  | { kind: 'buys'; late: boolean }
  /** Until its invoice has expired: payments that were in time buy first, at the invoice's own rate. */
  | { kind: 'waits'; for: 'expiry' }
  /** It is settled already, gone or locked. */
  | { kind: 'not_seen' }

/** Decides what becomes of a confirmed payment. */
export function judgePayment(
  payment: Pick<PaymentRecord, 'state' | 'late'>,
  invoice: Pick<InvoiceRecord, 'lapsed' | 'foreign' | 'expires_at'>,
  at: number,
): PaymentVerdict {
  if (payment.state !== 'seen') return { kind: 'not_seen' }
  // Before `expires_at` nothing is late, even if it was noted so.
  const isOver = invoice.lapsed || invoice.foreign === true || at >= invoice.expires_at
  const late = payment.late && isOver
  return late && !invoice.lapsed ? { kind: 'waits', for: 'expiry' } : { kind: 'buys', late }
}

/** What a payment on record becomes when the chain lacks it. */
export type LossVerdict =
  | { kind: 'gone'; from: 'seen' | 'locked' }
  /** The chain took it back after it had been settled. */
  | { kind: 'reversed' }
  /** It was so before, or the operator recorded it and the chain has never shown it. */
  | { kind: 'stays' }

/** Decides what a scan that lacks a payment makes of it. */
export function judgeLoss(
  payment: Pick<PaymentRecord, 'state' | 'by' | 'shown_at' | 'reversed_at'>,
): LossVerdict {
  const { state, reversed_at: reversedAt } = payment
  if (isOnWordAlone(payment)) return { kind: 'stays' }
  if (state === 'seen' || state === 'locked') return { kind: 'gone', from: state }
  return state === 'settled' && reversedAt === undefined ? { kind: 'reversed' } : { kind: 'stays' }
}
