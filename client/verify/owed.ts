import type { LedgerEntry } from '../../shared/crypto/receipt.ts'
import { isObject } from './values.ts'

/** What is owed of each coin, in its smallest unit. */
export type Owed = { readonly xno: bigint; readonly xmr: bigint }

const AMOUNT = /^[0-9]{1,60}$/
const SUM = /^(0|-?[1-9][0-9]{0,77})$/

export const isAmount = (text: unknown): text is string => typeof text === 'string' && AMOUNT.test(text)
export const isSum = (text: unknown): text is string => typeof text === 'string' && SUM.test(text)
export const isCoin = (coin: unknown): coin is keyof Owed =>
  typeof coin === 'string' && ['xno', 'xmr'].includes(coin)

export type OwedChange =
  { kind: 'none' } | { kind: 'unreadable' } | { kind: 'change'; coin: keyof Owed; change: bigint }

/**
 * What an entry adds to the sums owed: a payment for an order is owed from when it is counted until the fee
 * is taken, a payout has arrived, or the operator writes off what the chain took back. A payment's step
 * `undone` takes it back, and a payout's step that `undoes` an earlier one owes it again. An amount that can't
 * be read counts as nothing.
 */
export function owedChange({ kind, data }: LedgerEntry): OwedChange {
  let field = 'amount_raw'
  let sign = -1n
  if (kind === 'payment') {
    if (!Object.hasOwn(data, 'order_id')) return { kind: 'none' }
    sign = data['step'] === 'undone' ? -1n : 1n
  } else if (kind === 'fee') sign = data['step'] === 'returned' ? 1n : -1n
  else if (kind === 'payout') {
    if (Object.hasOwn(data, 'undoes')) sign = 1n
    else if (data['step'] !== 'confirmed' && data['step'] !== 'manual') return { kind: 'none' }
  } else if (kind === 'dispute_outcome') field = 'written_off_raw'
  else return { kind: 'none' }
  const amount = data[field]
  if (!isAmount(amount)) return { kind: 'unreadable' }
  if (BigInt(amount) === 0n) return { kind: 'none' }
  const { coin } = data
  return isCoin(coin) ? { kind: 'change', coin, change: sign * BigInt(amount) } : { kind: 'unreadable' }
}

/** The sums that a closing entry states; undefined if it states none in the right form. */
export function readOwed(owed: unknown): Owed | undefined {
  const { xno, xmr } = isObject(owed) ? owed : {}
  return isSum(xno) && isSum(xmr) ? { xno: BigInt(xno), xmr: BigInt(xmr) } : undefined
}

export const showOwed = ({ xno, xmr }: Owed) => ({ xno: String(xno), xmr: String(xmr) })
