import { pick } from '../platform/omit-undefined.ts'
import { z } from 'zod'
import { hex, idField, idView, isoTimeView, unixTime } from '../platform/schema.ts'
import { isoTime } from '../platform/time.ts'
import { COINS, formatAmount, formatPrice } from './coin.ts'
import { COIN_FACTS } from './coin-facts.ts'
import { PAYMENT_STATES, type PaymentRecord } from './arrival.ts'
import {
  INVOICE_STATUSES,
  MAX_PAYMENTS_SHOWN,
  invoiceStatus,
  isPaid,
  remainderRaw,
  remainingRaw,
  type InvoiceRecord,
} from './invoice.ts'

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
