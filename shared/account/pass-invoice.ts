import { MAX_CREDITED_DAYS } from '../foundation/limits.ts'
import { missingRaw, remainderRaw, type InvoiceRecord } from '../payments/invoice.ts'
import type { MoneyFields } from '../payments/invoice-store.ts'
import { move, type JournalLine } from '../payments/journal.ts'

/** An invoice for pass days. */
export type PassInvoice = InvoiceRecord & { days: number }

type Money = Pick<
  PassInvoice,
  'amount_raw' | 'received_raw' | 'carried_raw' | 'unspent' | 'credited_days' | 'lapsed' | 'days'
>

/** The money fields of an invoice after a change, and its result. */
export interface MoneyChange {
  received_raw: string
  unspent: string
  credited_days: number
  /** Whole days that this change buys. */
  addedDays: number
  /** Whether the full price has been received. */
  isSettled: boolean
}

/**
 * Spends money on days: entitled days = floor(received × days / amount). It buys no
 * days until the full price has been received or the invoice has expired, and from then on all whole days.
 *
 * @param amountRaw the money that is added, in the coin's smallest unit; may be 0
 * @param priceRaw the price of all the invoice's `days` at which it buys: the invoice's own amount, or for
 *   late money the higher of that and the price at its arrival
 * @throws TypeError if `priceRaw` is below the invoice's amount
 */
export function applyMoney(invoice: Money, amountRaw: bigint, priceRaw: bigint = BigInt(invoice.amount_raw)) {
  const amount = BigInt(invoice.amount_raw)
  if (priceRaw < amount)
    throw new TypeError(`"priceRaw" expected at least the amount ${amount}, got ${priceRaw}`)
  const received = BigInt(invoice.received_raw) + amountRaw
  const isSettled = received + BigInt(invoice.carried_raw) >= amount
  let unspent = BigInt(invoice.unspent) + amountRaw * BigInt(invoice.days)
  let addedDays = 0
  if (isSettled || invoice.lapsed) {
    const affordable = unspent / priceRaw
    const room = BigInt(MAX_CREDITED_DAYS - invoice.credited_days)
    addedDays = Number(affordable < room ? affordable : room)
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
 * As applyMoney(), but an invoice that lacks less than the dust threshold counts as paid: what was received
 * buys all of its days. `priceRaw` of the result is the price at which it bought.
 */
export function settleMoney(
  invoice: Money & Pick<InvoiceRecord, 'coin'>,
  amountRaw: bigint,
  priceRaw: bigint = BigInt(invoice.amount_raw),
): MoneyChange & { priceRaw: bigint } {
  const amount = BigInt(invoice.amount_raw)
  const received = BigInt(invoice.received_raw) + BigInt(invoice.carried_raw) + amountRaw
  const daysLeft = BigInt(invoice.days - invoice.credited_days)
  const isShort = received < amount && missingRaw(invoice.coin, amount, received) === 0n
  const unspent = BigInt(invoice.unspent) + amountRaw * BigInt(invoice.days)
  // The price at which what there is buys all days that are left.
  const lowerRaw = daysLeft > 0n ? unspent / daysLeft : 0n
  if (!isShort || priceRaw > amount || lowerRaw === 0n)
    return { ...applyMoney(invoice, amountRaw, priceRaw), priceRaw }
  const lowered = { ...invoice, amount_raw: String(lowerRaw) }
  return { ...applyMoney(lowered, amountRaw, lowerRaw), priceRaw: lowerRaw }
}

/** Why an invoice's money changes: a payment, its expiry, or a remainder that was carried into it. */
export interface Cause {
  /** Names the change in the journal. */
  source: string
  /** Unix seconds. */
  at: number
  /** Money that was received; its own journal line is written by the caller. */
  amountRaw?: bigint
  /** See applyMoney(). */
  priceRaw?: bigint
}

export interface MoneySpent {
  fields: MoneyFields
  addedDays: number
  /** The price of all the invoice's days at which it bought. */
  priceRaw: bigint
  lines: JournalLine[]
}

/**
 * Spends a pass invoice's money on whole days. Once the invoice is settled or expired, what is left is the
 * agent's remainder.
 *
 * @returns the invoice's fields afterwards, and the journal lines of the change
 */
export function spend(invoice: PassInvoice, cause: Cause): MoneySpent {
  return toMoneySpent(invoice, settleMoney(invoice, cause.amountRaw ?? 0n, cause.priceRaw), cause)
}

/** The invoice's fields after a change, and the journal lines of the change. */
export function toMoneySpent(
  invoice: PassInvoice,
  change: ReturnType<typeof settleMoney>,
  { source, at, amountRaw = 0n }: Omit<Cause, 'priceRaw'>,
): MoneySpent {
  const { addedDays, isSettled, priceRaw: paidRaw, ...money } = change
  const before = remainderRaw(invoice)
  const after = remainderRaw({ ...money, days: invoice.days })
  const isClosed = isSettled || invoice.lapsed
  const earlierRemainder = invoice.has_remainder === true ? before : 0n
  const remainder = isClosed ? after : 0n
  const account = `invoice:${invoice._id}` as const
  const details = { coin: invoice.coin, at, ids: { agent_id: invoice.agent_id, invoice_id: invoice._id } }
  return {
    addedDays,
    priceRaw: paidRaw,
    fields: { ...money, has_remainder: remainder > 0n, ...(isClosed ? { open: false as const } : {}) },
    lines: [
      ...move(`${source}/sold`, account, 'sold', before + amountRaw - after, details),
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
