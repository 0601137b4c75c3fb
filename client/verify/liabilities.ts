import type { LedgerEntry } from '../../shared/crypto/receipt.ts'
import { isAmount, isCoin, isSum, owedChange, type Owed } from './owed.ts'
import { isObject, memberOf, type Fields } from './values.ts'

/** Whose money a venue holds. `orders` and `owed` together are what closing entries state as `owed`. */
export const PARTS = ['orders', 'owed', 'invoices', 'remainders', 'unassigned'] as const
type Parts = { readonly [P in (typeof PARTS)[number]]: bigint }
/** In the smallest unit of each coin. */
export type Liabilities = { readonly [C in keyof Owed]: Parts }

const NO_PARTS: Parts = { orders: 0n, owed: 0n, invoices: 0n, remainders: 0n, unassigned: 0n }
export const NO_LIABILITIES: Liabilities = { xno: NO_PARTS, xmr: NO_PARTS }

/**
 * The liabilities after an entry. A move of money changes the parts that it names, of those that no other entries give;
 * a payout moves its amount between `orders` and `owed`; whatever else changes the sum owed changes `orders`.
 *
 * @param met payouts that were owed before; a ledger that states liabilities says so in the entry instead. This one is
 *   added.
 * @returns undefined if its coin or amount can't be read: then it changes nothing
 */
export function addToLiabilities(
  before: Liabilities,
  entry: LedgerEntry,
  met: Set<unknown> | undefined,
): Liabilities | undefined {
  const { kind, data } = entry
  const { coin, step, payout_id: payoutId } = data
  const isOwed = kind === 'payout' && step === 'owed' && !Object.hasOwn(data, 'again')
  const changes = changesOf(entry, isOwed && met?.has(payoutId) !== true)
  const isChange = changes !== undefined && Object.values(changes).some((change) => change !== 0n)
  if (changes === undefined || (isChange && !isCoin(coin))) return undefined
  if (isOwed && typeof payoutId === 'string') met?.add(payoutId)
  if (!isChange || !isCoin(coin)) return before
  const parts = PARTS.map((part) => [part, before[coin][part] + (changes[part] ?? 0n)])
  return { ...before, [coin]: Object.fromEntries(parts) }
}

/** What an entry adds to each part; undefined if that can't be read. */
function changesOf(entry: LedgerEntry, isFirstOwed: boolean): Partial<Parts> | undefined {
  const { kind, data } = entry
  const raw = isAmount(data['amount_raw']) ? BigInt(data['amount_raw']) : undefined
  if (kind === 'money_move') {
    const { from, to } = data
    const sumOf = (part: string) => (raw ?? 0n) * (BigInt(to === part) - BigInt(from === part))
    const [invoices, remainders, unassigned] = ['invoices', 'remainders', 'unassigned'].map(sumOf)
    return raw === undefined ? undefined : ({ invoices, remainders, unassigned } as Parts)
  }
  const sum = owedChange(entry)
  const sign = kind === 'payout' ? namedSign(data, isFirstOwed) : 0n
  if (sum.kind === 'unreadable' || (sign !== 0n && raw === undefined)) return undefined
  const owed = sign * (raw ?? 0n)
  return { owed, orders: (sum.kind === 'change' ? sum.change : 0n) - owed }
}

/** By how many times its amount a payout's entry changes what is owed to somebody by name. */
function namedSign(data: Fields, isFirstOwed: boolean): bigint {
  if (isFirstOwed || Object.hasOwn(data, 'undoes')) return 1n
  return ['confirmed', 'manual', 'withdrawn'].includes(data['step'] as string) ? -1n : 0n
}

/** The liabilities that a closing entry states; undefined if it states none in the right form. */
export function readLiabilities(stated: unknown): Liabilities | undefined {
  const read = (coin: string) => {
    const parts = isObject(stated) ? memberOf(stated, coin) : undefined
    const sums = isObject(parts) ? PARTS.map((part) => memberOf(parts, part)) : []
    if (sums.length === 0 || !sums.every(isSum)) return undefined
    return Object.fromEntries(PARTS.map((part, place) => [part, BigInt(sums[place] ?? 0)])) as Parts
  }
  const [xno, xmr] = [read('xno'), read('xmr')]
  return xno === undefined || xmr === undefined ? undefined : { xno, xmr }
}

/** What closing entries state as `owed`. */
export const owedOf = ({ xno, xmr }: Liabilities): Owed => ({
  xno: xno.orders + xno.owed,
  xmr: xmr.orders + xmr.owed,
})

/** As closing entries state them. */
export const showLiabilities = (liabilities: Liabilities) =>
  Object.fromEntries(
    Object.entries(liabilities).map(([coin, parts]) => [
      coin,
      Object.fromEntries(PARTS.map((part) => [part, String(parts[part])])),
    ]),
  )
