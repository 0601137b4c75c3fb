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

export interface MoneyChange {
  received_raw: string
  unspent: string
  credited_days: number
  /** Whole days that this change buys. */
  addedDays: number
  isSettled: boolean
}

/**
 * What money buys (decisions, The pass): entitled days = floor(received × days / amount). Nothing before the
 * full price is there or the invoice has lapsed; from then on all that is whole.
 *
 * `priceRaw` is the price of all `days` at which this money buys: the invoice's own amount, or for late money
 * whichever of that and the price at arrival is higher.
 */
export function applyMoney(
  invoice: Money,
  amountRaw: bigint,
  priceRaw: bigint = BigInt(invoice.amount_raw),
): MoneyChange {
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
 * applyMoney() for money that may lack less than dust of the price: all of the invoice's days are then bought
 * with what there is. `priceRaw` in the answer is the price at which it bought.
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
  const lowered = daysLeft > 0n ? (BigInt(invoice.unspent) + amountRaw * BigInt(invoice.days)) / daysLeft : 0n
  if (!isShort || priceRaw > amount || lowered === 0n)
    return { ...applyMoney(invoice, amountRaw, priceRaw), priceRaw }
  return { ...applyMoney({ ...invoice, amount_raw: String(lowered) }, amountRaw, lowered), priceRaw: lowered }
}

/** What brings a change of an invoice's money: a payment, its end, or what was carried into it. */
export interface Cause {
  /** Names it in the journal, where the payment's own line has brought `amountRaw`. */
  source: string
  at: number
  amountRaw?: bigint
  priceRaw?: bigint
}

export interface MoneySpent {
  fields: MoneyFields
  addedDays: number
  /** At which it bought, of all the days. */
  priceRaw: bigint
  lines: JournalLine[]
}

/**
 * Spends what a pass invoice has on whole days. What is left is the agent's remainder once the invoice is
 * settled or lapsed.
 *
 * @returns the invoice's fields after that, and the lines of the journal that lead there
 */
export function spend(invoice: PassInvoice, cause: Cause): MoneySpent {
  return noteSpent(invoice, settleMoney(invoice, cause.amountRaw ?? 0n, cause.priceRaw), cause)
}

/** What an invoice has after a change, and the lines that lead there. */
export function noteSpent(
  invoice: PassInvoice,
  change: ReturnType<typeof settleMoney>,
  { source, at, amountRaw = 0n }: Omit<Cause, 'priceRaw'>,
): MoneySpent {
  const { addedDays, isSettled, priceRaw: paidRaw, ...money } = change
  const before = remainderRaw(invoice)
  const after = remainderRaw({ ...money, days: invoice.days })
  const isClosed = isSettled || invoice.lapsed
  const wasLeft = invoice.has_remainder === true ? before : 0n
  const isLeft = isClosed ? after : 0n
  const own = `invoice:${invoice._id}` as const
  const about = { coin: invoice.coin, at, ids: { agent_id: invoice.agent_id, invoice_id: invoice._id } }
  return {
    addedDays,
    priceRaw: paidRaw,
    fields: { ...money, has_remainder: isLeft > 0n, ...(isClosed ? { open: false as const } : {}) },
    lines: [
      ...move(`${source}/sold`, own, 'sold', before + amountRaw - after, about),
      ...move(`${source}/left`, own, `remainder:${invoice.agent_id}`, isLeft - wasLeft, about),
    ],
  }
}
