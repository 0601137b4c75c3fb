import type { Coin } from './coin.ts'
import type { Ledgered } from '../ledger/pending.ts'
import { flag, maybe, number, text, textOf, type RecordOf } from '../platform/fields.ts'

export const PAYMENT_STATES = ['seen', 'settled', 'gone', 'locked'] as const
export type PaymentState = (typeof PAYMENT_STATES)[number]

/** Unlock times from here on are Unix seconds, lower ones block numbers (CRYPTONOTE_MAX_BLOCK_NUMBER). */
export const FIRST_UNLOCK_SECONDS = 500_000_000

/**
 * An *arrival* is what one transaction sent to one address of ours, all outputs together. It is a payment if an
 * invoice counts it; else it is `settled`, since the books have it, and `came_to` says whose it is.
 */
export const arrivalFields = {
  _id: text,
  coin: textOf<Coin>(),
  /** Nano: hash of the sending block. Monero: transaction hash. Both 64 lower-case hex characters. */
  tx: text,
  /** Of the address that it came to. For what the operator recorded and the chain has not shown: the invoice's. */
  address_index: number,
  /** Absent: no invoice counts it. */
  invoice_id: maybe.text,
  agent_id: maybe.text,
  order_id: maybe.text,
  amount_raw: text,
  state: textOf<PaymentState>(),
  confirmations: number,
  height: maybe.number,
  /** Monero: its payer locked it; a block number, or Unix seconds from FIRST_UNLOCK_SECONDS on. */
  unlock_time: maybe.number,
  first_seen_at: number,
  /** First seen after the invoice had expired, or would have but for another payment under way. */
  late: flag,
  /** Late money for a pass: USD per coin at its arrival; absent while no fresh rate was known. */
  arrival_rate: maybe.text,
  /** Confirmed, and waiting for that rate, or for the invoice to expire. */
  waits_for_rate: maybe.flag,
  settled_at: maybe.number,
  credited_days: maybe.number,
  price_raw: maybe.text,
  /** Monero: the height at which the wallet showed it no more, while it does not. */
  missing_since: maybe.number,
  /** The chain took it back after it had been settled, or what stood on the operator's word alone was given up. */
  reversed_at: maybe.number,
  by: textOf<'chain' | 'operator'>(),
  /** The account of the books that it came to, and still has it if no invoice counts it. Absent: it came as a payment. */
  came_to: maybe.textOf<'unassigned' | 'operator'>(),
  /** The payout that sends it back to whoever it came from. */
  payout_id: maybe.text,
  /** When the chain first showed what the operator recorded. Until then no payout is made of it. */
  shown_at: maybe.number,
  /** When the operator's record was taken back: it is `gone` for good, and its `tx` is its own id. */
  undone_at: maybe.number,
  /** The transaction that `tx` was before that. */
  undone_tx: maybe.text,
  /** Salt of the commitment to the transaction in the ledger. */
  salt: text,
  /** Nano: when it was confirmed to be in the treasury. Absent: the money is at its address. */
  swept_at: maybe.number,
}

export type ArrivalRecord = RecordOf<typeof arrivalFields> & Ledgered
export type PaymentRecord = ArrivalRecord & { invoice_id: string; agent_id: string }

/** Whether only the operator has recorded it, and the chain has not shown it. */
export const isOnWordAlone = ({ by, shown_at: at }: Pick<ArrivalRecord, 'by' | 'shown_at'>): boolean =>
  by === 'operator' && at === undefined

/** Whether an invoice counts an arrival, or will once it is confirmed. */
export const isPayment = (arrival: ArrivalRecord): arrival is PaymentRecord =>
  arrival.invoice_id !== undefined

/** Whether a payment keeps its invoice, and the order that it pays, from expiring. */
export const holdsOpen = ({ state, late }: PaymentRecord): boolean => state === 'seen' && !late

export interface SeenPayment {
  coin: Coin
  tx: string
  addressIndex: number
  amountRaw: bigint
  confirmations: number
  isConfirmed: boolean
  height?: number
  /** Its payer locked it, and the lock has not ended: `unlock_time` of the payment. */
  lockedUntil?: number
}
