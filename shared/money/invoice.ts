import { pick } from '../platform/omit-undefined.ts'
import { z } from 'zod'
import type { Telling } from '../events/mark.ts'
import type { Ledgered } from '../ledger/pending.ts'
import { hex, idField, idView, isoTimeView, unixTime } from '../platform/schema.ts'
import { isoTime } from '../platform/time.ts'
import { flag, maybe, number, text, textOf, type RecordOf } from '../platform/fields.ts'
import { COINS, dustThreshold, formatAmount, formatPrice, type Coin } from './coin.ts'
import { COIN_FACTS } from './coin-facts.ts'

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

export const invoiceView = z
  .object({
    invoice_id: idView('invoice'),
    currency: z.enum(COINS),
    days: z.int().optional().describe('pass days asked for; absent where it pays a market order'),
    order_id: idView('order').optional().describe('the market order that it pays'),
    amount: z.string().describe('the price in the coin, as decimal text'),
    amount_raw: z.string().describe('the same in raw or piconero'),
    address: z.string(),
    uri: z.string().describe("the coin's own payment URI, for what is still to be paid"),
    price_usd: z.number(),
    rate: z.string().describe('USD per coin'),
    rate_source: z.string(),
    rate_at: unixTime(),
    status: z.enum(INVOICE_STATUSES),
    expires_at: unixTime(),
    not_payable: z.string().optional().describe('why nothing may be paid to it any more, if that is so'),
  })
  .meta({ id: 'Invoice' })

const passInvoiceView = invoiceView
  .omit({ order_id: true })
  .extend({ days: z.int().describe('pass days asked for') })
  .meta({ id: 'PassInvoice' })

export const madeInvoiceView = passInvoiceView.extend({ invoice: passInvoiceView })

export const checkInvoiceBody = z.object({ invoice_id: idField('invoice') })

const paymentView = z.object({
  payment_id: idView('payment'),
  tx_hash: z.string(),
  amount: z.string(),
  amount_raw: z.string(),
  state: z.enum(PAYMENT_STATES),
  confirmations: z.int(),
  unlock_time: z
    .int()
    .optional()
    .describe('xmr: its payer locked it until this block number or, from 500,000,000 on, this Unix time'),
  late: z.boolean().describe('first seen after the invoice had lapsed'),
  credited_days: z.int().describe('pass days that it bought when it was counted'),
  price_raw: z
    .string()
    .optional()
    .describe("late money for a pass, once counted: the price of all the invoice's days at which it bought"),
  first_seen_at: unixTime(),
  settlement: z.enum(['automatic', 'manual']),
  salt: hex(64).describe(
    'opens `tx_hash` of the ledger entry: SHA-256(salt || canonical JSON of {"id": payment_id, "tx": tx_hash}), without the id where it was made before ids were bound',
  ),
})

export const checkedInvoiceView = invoiceView.extend({
  paid: z.string().describe('what has been confirmed, as decimal text'),
  paid_raw: z.string(),
  carried_raw: z.string().describe('left over from earlier invoices and counted here'),
  remaining: z.string().describe('still to be paid for the full price'),
  remainder_raw: z
    .string()
    .describe(
      'left below a day once the price is paid or the time is over; it counts towards the next invoice in this coin',
    ),
  moved_raw: z.string().describe('what was left here and counted towards a later invoice'),
  credited_days: z.int(),
  confirmations: z.int().describe('of the newest payment; 0 where there is none'),
  required_confirmations: z.int(),
  chain: z.enum(['reachable', 'unreachable']),
  checked_at: unixTime().nullable().describe('when the chain was last looked at successfully'),
  payments: z.array(paymentView).describe(`the newest ${MAX_PAYMENTS_SHOWN}, the oldest of them first`),
  payments_truncated: z.boolean().describe('true where there are more'),
  pass_until: isoTimeView().optional(),
})

const NOT_PAYABLE =
  'The service has another wallet now, and this address is of the one before: pay nothing to it. Make a new invoice or order; what arrives here is late.'

/** Shows an invoice. @param isUnderWay whether a payment of it is `seen` */
export function viewInvoice(invoice: InvoiceRecord, isUnderWay = false): z.input<typeof invoiceView> {
  const { coin } = invoice
  return {
    invoice_id: invoice._id,
    currency: coin,
    ...pick(invoice, 'days', 'order_id'),
    amount: formatPrice(BigInt(invoice.amount_raw), coin),
    ...pick(invoice, 'amount_raw', 'address'),
    uri: COIN_FACTS[coin].paymentUri(invoice.address, remainingRaw(invoice)),
    price_usd: invoice.price_usd_cents / 100,
    ...pick(invoice, 'rate', 'rate_source', 'rate_at'),
    status: invoiceStatus(invoice, isUnderWay),
    expires_at: invoice.expires_at,
    ...(invoice.foreign === true ? { not_payable: NOT_PAYABLE } : {}),
  }
}

/** Shows a pass invoice just made, on top and as `invoice`. @throws TypeError for an order's invoice */
export function viewMadeInvoice(made: InvoiceRecord, isUnderWay: boolean): z.input<typeof madeInvoiceView> {
  const { days } = made
  if (days === undefined)
    throw new TypeError(`"made" expected a pass invoice, got ${made._id}, which pays an order`)
  const view = { ...viewInvoice(made, isUnderWay), days }
  return { ...view, invoice: view }
}

/** An invoice with its payments, as of one moment. */
export interface CheckedInvoice {
  invoice: InvoiceRecord
  payments: PaymentRecord[]
  isTruncated: boolean
  isUnderWay: boolean
  requiredConfirmations: number
  isReachable: boolean
  /** Unix seconds. */
  checkedAt: number | undefined
  passUntilMs: number | undefined
}

/** Returns an invoice and its payments as `POST /invoice/check` shows them. */
export function viewCheckedInvoice(checked: CheckedInvoice): z.input<typeof checkedInvoiceView> {
  const { invoice, payments } = checked
  const { coin } = invoice
  const hasDays = invoice.days !== undefined && (isPaid(invoice) || invoice.credited_days > 0)
  return {
    ...viewInvoice(invoice, checked.isUnderWay),
    paid: formatAmount(BigInt(invoice.received_raw), coin),
    paid_raw: invoice.received_raw,
    remaining: formatAmount(remainingRaw(invoice), coin),
    remainder_raw: String(isPaid(invoice) || invoice.lapsed ? remainderRaw(invoice) : 0n),
    ...pick(invoice, 'carried_raw', 'moved_raw', 'credited_days'),
    confirmations: payments.at(-1)?.confirmations ?? 0,
    required_confirmations: checked.requiredConfirmations,
    chain: checked.isReachable ? 'reachable' : 'unreachable',
    checked_at: checked.checkedAt ?? null,
    payments_truncated: checked.isTruncated,
    payments: payments.map(viewPayment),
    ...(hasDays && checked.passUntilMs !== undefined ? { pass_until: isoTime(checked.passUntilMs) } : {}),
  }
}

const viewPayment = (payment: PaymentRecord): z.input<typeof paymentView> => ({
  payment_id: payment._id,
  tx_hash: payment.tx,
  amount: formatAmount(BigInt(payment.amount_raw), payment.coin),
  ...pick(payment, 'amount_raw', 'state', 'confirmations', 'unlock_time', 'late', 'first_seen_at', 'salt'),
  credited_days: payment.credited_days ?? 0,
  ...(payment.late ? pick(payment, 'price_raw') : {}),
  settlement: payment.by === 'operator' ? 'manual' : 'automatic',
})
