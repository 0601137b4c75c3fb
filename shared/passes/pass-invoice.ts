import { MAX_CREDITED_DAYS } from '../platform/limits.ts'
import { Refusal } from '../platform/errors.ts'
import { missingRaw, remainderRaw, type InvoiceRecord } from '../money/invoice.ts'
import type { PaymentRecord } from '../money/arrival.ts'
import type { MoneyFields } from '../money/invoice-store.ts'
import { move, type JournalLine } from '../money/journal.ts'

export type PassInvoice = InvoiceRecord & { days: number }

type Money = Pick<
  PassInvoice,
  'amount_raw' | 'received_raw' | 'carried_raw' | 'unspent' | 'credited_days' | 'lapsed' | 'days'
>

/** The money fields of an invoice after a change, and its result. */
interface MoneyChange {
  received_raw: string
  unspent: string
  credited_days: number
  /** Whole days that this change buys. */
  addedDays: number
  /** Whether the full price has been received. */
  isSettled: boolean
}

/**
 * Computes how many days an invoice's money buys, and the invoice's money fields afterwards; nothing is
 * stored. Entitled days = floor(received × days / amount). The money buys no days until the full price has
 * been received or the invoice has expired, and from then on all whole days, up to MAX_CREDITED_DAYS.
 *
 * @param amountRaw the money that is added, in the coin's smallest unit; may be 0
 * @param priceRaw the price of all the invoice's `days` at which it buys: the invoice's own amount, or for
 *   late money the higher of that and the price at its arrival
 * @throws TypeError if `priceRaw` is below the invoice's amount
 */
export function computeMoneyChange(
  invoice: Money,
  amountRaw: bigint,
  priceRaw: bigint = BigInt(invoice.amount_raw),
) {
  const amount = BigInt(invoice.amount_raw)
  if (priceRaw < amount)
    throw new TypeError(`"priceRaw" expected at least the amount ${amount}, got ${priceRaw}`)
  const received = BigInt(invoice.received_raw) + amountRaw
  const isSettled = received + BigInt(invoice.carried_raw) >= amount
  let unspent = BigInt(invoice.unspent) + amountRaw * BigInt(invoice.days)
  let addedDays = 0
  if (isSettled || invoice.lapsed) {
    const affordableDays = unspent / priceRaw
    const creditableDays = BigInt(MAX_CREDITED_DAYS - invoice.credited_days)
    addedDays = Number(affordableDays < creditableDays ? affordableDays : creditableDays)
    unspent -= BigInt(addedDays) * priceRaw
  }
  return {
    received_raw: String(received),
    unspent: String(unspent),
    credited_days: invoice.credited_days + addedDays,
    addedDays,
    isSettled,
  }
}

/**
 * Computes what an invoice's money buys, like computeMoneyChange(), but counts an invoice that lacks less
 * than the dust threshold as paid: its money then buys all days that are left, at the lower price that it
 * suffices for. Late money whose price is above the invoice's amount is not forgiven anything.
 *
 * @returns the change, with `priceRaw`, the price at which it bought
 */
function computeMoneyChangeForgivingDust(
  invoice: Money & Pick<InvoiceRecord, 'coin'>,
  amountRaw: bigint,
  priceRaw: bigint = BigInt(invoice.amount_raw),
): MoneyChange & { priceRaw: bigint } {
  const amount = BigInt(invoice.amount_raw)
  const received = BigInt(invoice.received_raw) + BigInt(invoice.carried_raw) + amountRaw
  const daysLeft = BigInt(invoice.days - invoice.credited_days)
  const lacksOnlyDust = received < amount && missingRaw(invoice.coin, amount, received) === 0n
  const unspent = BigInt(invoice.unspent) + amountRaw * BigInt(invoice.days)
  // The price at which the unspent money buys all days that are left.
  const lowerPriceRaw = daysLeft > 0n ? unspent / daysLeft : 0n
  if (!lacksOnlyDust || priceRaw > amount || lowerPriceRaw === 0n) {
    const change = computeMoneyChange(invoice, amountRaw, priceRaw)
    return { ...change, isSettled: change.isSettled || lacksOnlyDust, priceRaw }
  }
  const cheaperInvoice = { ...invoice, amount_raw: String(lowerPriceRaw) }
  return { ...computeMoneyChange(cheaperInvoice, amountRaw, lowerPriceRaw), priceRaw: lowerPriceRaw }
}

/** Why an invoice's money changes: a payment, its expiry, or a remainder that was carried into it. */
export interface Cause {
  /** Names the change in the journal. */
  source: string
  /** Unix seconds. */
  at: number
  /** Money that was received; its own journal line is written by the caller. */
  amountRaw?: bigint
  /** See computeMoneyChange(). */
  priceRaw?: bigint
}

export interface MoneySpent {
  /** Changes of the invoice. */
  fields: MoneyFields
  /** Whole days that the change buys. */
  addedDays: number
  /** The price of all the invoice's days at which it bought. */
  priceRaw: bigint
  lines: JournalLine[]
}

/**
 * Computes what becomes of a pass invoice after `cause`: its money buys whole days, and once the invoice is
 * settled or expired, the rest is the agent's remainder. Nothing is stored.
 *
 * @returns the days, the invoice's fields afterwards, and the journal lines of the change
 */
export function computeMoneySpent(invoice: PassInvoice, cause: Cause): MoneySpent {
  return toMoneySpent(
    invoice,
    computeMoneyChangeForgivingDust(invoice, cause.amountRaw ?? 0n, cause.priceRaw),
    cause,
  )
}

/**
 * Returns a change of an invoice's money as the fields to store and the journal lines to write.
 *
 * @param invoice as it is stored before the change
 */
function toMoneySpent(
  invoice: PassInvoice,
  change: ReturnType<typeof computeMoneyChangeForgivingDust>,
  { source, at, amountRaw = 0n }: Omit<Cause, 'priceRaw'>,
): MoneySpent {
  const { addedDays, isSettled, priceRaw, ...money } = change
  const unspentBefore = remainderRaw(invoice)
  const unspentAfter = remainderRaw({ ...money, days: invoice.days })
  const isClosed = isSettled || invoice.lapsed
  const earlierRemainder = invoice.has_remainder === true ? unspentBefore : 0n
  const remainder = isClosed ? unspentAfter : 0n
  const account = `invoice:${invoice._id}` as const
  const details = { coin: invoice.coin, at, ids: { agent_id: invoice.agent_id, invoice_id: invoice._id } }
  return {
    addedDays,
    priceRaw,
    fields: { ...money, has_remainder: remainder > 0n, ...(isClosed ? { open: false as const } : {}) },
    lines: [
      ...move(`${source}/sold`, account, 'sold', unspentBefore + amountRaw - unspentAfter, details),
      ...move(
        `${source}/left`,
        account,
        `remainder:${invoice.agent_id}`,
        remainder - earlierRemainder,
        details,
      ),
    ],
  }
}

/**
 * Computes what becomes of a pass invoice if one of its payments is taken back. The money of the others buys
 * again what it suffices for. Nothing is stored.
 *
 * @param source names the change in the journal
 * @param at Unix seconds
 * @returns how many days fewer have been bought, the invoice's fields afterwards, and the journal lines of the
 *   change
 * @throws Refusal `wrong_state` if less is left in the invoice than the payment brought and didn't spend
 */
export function computeMoneyTakenBack(
  invoice: PassInvoice,
  payment: Pick<PaymentRecord, 'amount_raw' | 'credited_days' | 'price_raw'>,
  { source, at }: { source: string; at: number },
): Pick<MoneySpent, 'fields' | 'lines'> & { lostDays: number } {
  const boughtDays = payment.credited_days ?? 0
  const amountRaw = BigInt(payment.amount_raw)
  const spent = BigInt(boughtDays) * BigInt(payment.price_raw ?? invoice.amount_raw)
  const withoutPayment = {
    ...invoice,
    received_raw: String(BigInt(invoice.received_raw) - amountRaw),
    unspent: String(BigInt(invoice.unspent) + spent - amountRaw * BigInt(invoice.days)),
    credited_days: invoice.credited_days - boughtDays,
  }
  if (BigInt(withoutPayment.unspent) < 0n)
    throw new Refusal(
      'wrong_state',
      "Its money has been spent since, with a later payment, at the invoice's end or in another of the agent's invoices, so it cannot be taken back.",
    )
  const change = computeMoneyChangeForgivingDust(withoutPayment, 0n)
  const { fields, lines } = toMoneySpent(invoice, change, { source, at, amountRaw: -amountRaw })
  return { fields, lines, lostDays: invoice.credited_days - change.credited_days }
}

/**
 * Computes an invoice's fields once its remainder is moved into another one.
 *
 * @returns the fields, and the remainder in the coin's smallest unit
 */
export function carryRemainder(invoice: InvoiceRecord): { fields: MoneyFields; remainder: bigint } {
  const remainder = remainderRaw(invoice)
  const fields = {
    moved_raw: String(BigInt(invoice.moved_raw) + remainder),
    unspent: String(BigInt(invoice.unspent) - remainder * BigInt(invoice.days ?? 0)),
    has_remainder: false,
  }
  return { fields, remainder }
}
