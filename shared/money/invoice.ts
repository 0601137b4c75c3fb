import type { Telling } from '../events/mark.ts'
import type { Ledgered } from '../ledger/pending.ts'
import { flag, maybe, number, text, textOf, type RecordOf } from '../platform/fields.ts'
import { dustThreshold, type Coin } from './coin.ts'

/**
 * docs/architecture.md, "States", says how an invoice and its payments move. Money that a whole round after
 * `expires_at` did not find is *late*, as is what comes once the invoice has expired (`lapsed`): otherwise a
 * price could be held open by one small payment after another. While a node is down, nothing expires and
 * nothing becomes late.
 */
export const INVOICE_STATUSES = ['awaiting_payment', 'confirming', 'underpaid', 'settled', 'expired'] as const
export type InvoiceStatus = (typeof INVOICE_STATUSES)[number]

/** Amounts are decimal text of raw or piconero: MongoDB has no integer that is wide enough. */
export const invoiceFields = {
  _id: text,
  agent_id: text,
  at: number,
  coin: textOf<Coin>(),
  days: maybe.number,
  order_id: maybe.text,
  price_usd_cents: number,
  amount_raw: text,
  rate: text,
  rate_source: text,
  rate_at: number,
  address: text,
  /** Nano: index of the derived account. Monero: minor index of the subaddress. */
  address_index: number,
  expires_at: number,
  /** Set while it is its agent's only open pass invoice in its coin. */
  open: maybe.flag,
  lapsed: flag,
  /** Its address is of a seed or wallet no longer in use: only whoever has that gets what is paid there. */
  foreign: maybe.flag,
  /** Once expired: when to scan its address next (Unix seconds); if absent, when its owner asks. */
  look_after: maybe.number,
  received_raw: text,
  /** Left over by earlier invoices and counted as paid here. */
  carried_raw: text,
  /** Left over here and counted towards a later invoice. */
  moved_raw: text,
  /** Money not yet turned into days, times `days`, so that no fraction of the smallest unit is lost. */
  unspent: text,
  has_remainder: maybe.flag,
  credited_days: number,
  /** Counts changes of the money above and payments noted; an update requires the version that it read. */
  version: number,
  /** Set in the transaction that stores its first payment: absent if nothing was ever seen at the address. */
  has_payments: maybe.flag,
  /** When a scan of its address was last asked for, in milliseconds since the epoch. */
  check_asked_ms: maybe.number,
}

export type InvoiceRecord = RecordOf<typeof invoiceFields> & Ledgered & Telling

/** Only the newest payments are shown: anybody can pay an invoice in tens of thousands of parts. */
export const MAX_PAYMENTS_SHOWN = 200

/** What is missing of a price; 0 if less than dust, which would never be counted. It decides what is paid. */
export function missingRaw(coin: Coin, priceRaw: bigint, receivedRaw: bigint): bigint {
  const missing = priceRaw - receivedRaw
  return missing < dustThreshold(coin) ? 0n : missing
}

/** What the invoice has left that buys no whole day, rounded down; 0 for an order. */
export const remainderRaw = (invoice: Pick<InvoiceRecord, 'unspent' | 'days'>): bigint =>
  invoice.days === undefined ? 0n : BigInt(invoice.unspent) / BigInt(invoice.days)

type Price = Pick<InvoiceRecord, 'coin' | 'amount_raw' | 'received_raw' | 'carried_raw'>

/** What is still to be paid for the full price; 0 if that is less than dust, which would never be counted. */
export const remainingRaw = ({ coin, amount_raw, received_raw, carried_raw }: Price): bigint =>
  missingRaw(coin, BigInt(amount_raw), BigInt(received_raw) + BigInt(carried_raw))

/** Whether an invoice has its full price, or lacks less than dust. */
export const isPaid = (invoice: Price): boolean => remainingRaw(invoice) === 0n

/** @param isUnderWay whether a payment of it is `seen` */
export function invoiceStatus(invoice: InvoiceRecord, isUnderWay: boolean): InvoiceStatus {
  if (isPaid(invoice)) return 'settled'
  if (isUnderWay) return 'confirming'
  if (invoice.lapsed) return 'expired'
  return BigInt(invoice.received_raw) > 0n ? 'underpaid' : 'awaiting_payment'
}
