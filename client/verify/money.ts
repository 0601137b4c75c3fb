import type { LedgerEntry } from '../../shared/crypto/receipt.ts'
import { refusal, type Findings } from './findings.ts'
import { isObject, memberOf, show, type Fields } from './values.ts'

/*
 * What the entries of a ledger do to the sums that closing entries state, and to each order of the market. All in the
 * smallest unit of each coin.
 */

/** What is owed of each coin. */
type Owed = { readonly xno: bigint; readonly xmr: bigint }

const AMOUNT = /^[0-9]{1,60}$/
const SUM = /^(0|-?[1-9][0-9]{0,77})$/

export const isAmount = (text: unknown): text is string => typeof text === 'string' && AMOUNT.test(text)
export const isSum = (text: unknown): text is string => typeof text === 'string' && SUM.test(text)
const isCoin = (coin: unknown): coin is keyof Owed =>
  typeof coin === 'string' && ['xno', 'xmr'].includes(coin)

/** By how many times an amount of its own an entry changes the sum owed. */
function owedTimes({ kind, data }: LedgerEntry): bigint {
  const { step } = data
  if (kind === 'payment' && Object.hasOwn(data, 'order_id')) return step === 'undone' ? -1n : 1n
  if (kind === 'fee') return step === 'returned' ? 1n : -1n
  if (kind === 'payout' && Object.hasOwn(data, 'undoes')) return 1n
  const isPaidOut = kind === 'payout' && (step === 'confirmed' || step === 'manual')
  return isPaidOut || kind === 'dispute_outcome' ? -1n : 0n
}

/**
 * What an entry adds to the sum owed of its coin: a payment for an order is owed from when it is counted until the fee
 * is taken, a payout has arrived, or the operator writes off what the chain took back. A payment's step
 * `undone` takes it back, and a payout's step that `undoes` an earlier one owes it again.
 *
 * @returns undefined if its coin or amount can't be read: then it counts as nothing
 */
function owedChange(entry: LedgerEntry): bigint | undefined {
  const times = owedTimes(entry)
  const { coin, amount_raw: raw, written_off_raw: writtenOff } = entry.data
  const amount = entry.kind === 'dispute_outcome' ? writtenOff : raw
  if (times === 0n) return 0n
  if (!isAmount(amount)) return undefined
  return BigInt(amount) === 0n || isCoin(coin) ? times * BigInt(amount) : undefined
}

/** The sums that a closing entry states; undefined if it states none in the right form. */
export function readOwed(owed: unknown): Owed | undefined {
  const { xno, xmr } = isObject(owed) ? owed : {}
  return isSum(xno) && isSum(xmr) ? { xno: BigInt(xno), xmr: BigInt(xmr) } : undefined
}

const showOwed = ({ xno, xmr }: Owed) => ({ xno: String(xno), xmr: String(xmr) })

// ——— whose money it is

/** Whose money a venue holds. `orders` and `owed` together are what closing entries state as `owed`. */
export const PARTS = ['orders', 'owed', 'invoices', 'remainders', 'unassigned'] as const
type Parts = { readonly [P in (typeof PARTS)[number]]: bigint }
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
  if (sum === undefined || (sign !== 0n && raw === undefined)) return undefined
  const owed = sign * (raw ?? 0n)
  return { owed, orders: sum - owed }
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
const owedOf = ({ xno, xmr }: Liabilities): Owed => ({
  xno: xno.orders + xno.owed,
  xmr: xmr.orders + xmr.owed,
})

/** As closing entries state them. */
const showLiabilities = (liabilities: Liabilities) =>
  Object.fromEntries(
    Object.entries(liabilities).map(([coin, parts]) => [
      coin,
      Object.fromEntries(PARTS.map((part) => [part, String(parts[part])])),
    ]),
  )

// ——— the sums of a ledger, and its orders

/** Of the price of an order. */
const FEE_PERCENT = 20n
const OPEN = ['awaiting_payment', 'paid', 'delivered', 'disputed']

/** An order that isn't at its end. It is remembered as text: its fields in this order. */
interface Order {
  /** What was paid for it, less fees, payouts that arrived and what was written off. */
  held: bigint
  /** The whole fee; below 0 if the order's terms aren't known. */
  fee: bigint
  taken: bigint
  /** That a dispute's outcome leaves of the fee. */
  percent: bigint
  isOpen: boolean
}
const UNKNOWN: Order = { held: 0n, fee: -1n, taken: 0n, percent: 100n, isOpen: false }
const ORDER = /^(-?[0-9]{1,78} ){4}[01]$/

const showOrder = ({ isOpen, ...sums }: Order): string => [...Object.values(sums), Number(isOpen)].join(' ')

function readOrder(text: string): Order {
  const [held = 0n, fee = 0n, taken = 0n, percent = 0n, isOpen] = text.split(' ').map(BigInt)
  return { held, fee, taken, percent, isOpen: isOpen === 1n }
}

/** What is remembered of the money of a ledger up to a signed seal. */
export interface MoneyState {
  /** Closing entries state the liabilities by now. */
  readonly stated: boolean
  readonly liabilities: ReturnType<typeof showLiabilities>
  /** Payouts that were owed once; none once closing entries state the liabilities. */
  readonly met: readonly string[]
  /** By order and coin. */
  readonly orders: { readonly [order: string]: string }
}

export const isMoneyState = (value: unknown): boolean =>
  isObject(value) &&
  typeof value['stated'] === 'boolean' &&
  readLiabilities(value['liabilities']) !== undefined &&
  Array.isArray(value['met']) &&
  value['met'].every((id) => typeof id === 'string') &&
  isObject(value['orders']) &&
  Object.values(value['orders']).every((order) => typeof order === 'string' && ORDER.test(order))

/** The sums that the entries so far give, and the orders. */
export class LedgerMoney {
  /** Undefined once some entries aren't there, as are the orders. */
  #sums: ReturnType<typeof readLiabilities> = NO_LIABILITIES
  #isStated = false
  #met = new Set<unknown>()
  /** By order and coin. */
  #orders: Map<string, Order> | undefined = new Map()
  /** Orders that hold less than nothing: whether they did at the end of a seal before. */
  readonly #below = new Map<string, boolean>()

  /** Goes on from what is remembered. */
  static from({ stated, liabilities, met, orders }: MoneyState): LedgerMoney {
    const money = new LedgerMoney()
    money.#sums = readLiabilities(liabilities)
    money.#isStated = stated
    money.#met = new Set(met)
    for (const [key, text] of Object.entries(orders)) {
      money.#setOrder(key, readOrder(text))
      if (money.#below.has(key)) money.#below.set(key, true)
    }
    return money
  }

  /** Forgets what follows from all entries, once some of them aren't there. */
  lose(): void {
    this.#sums = this.#orders = undefined
    this.#below.clear()
  }

  /** Undefined if some entries weren't there. */
  state(): { owed: ReturnType<typeof showOwed>; money: MoneyState } | undefined {
    if (!this.#sums || !this.#orders) return undefined
    const orders = Object.fromEntries([...this.#orders].map(([key, order]) => [key, showOrder(order)]))
    const [liabilities, met] = [showLiabilities(this.#sums), [...this.#met] as string[]]
    return { owed: showOwed(owedOf(this.#sums)), money: { stated: this.#isStated, liabilities, met, orders } }
  }

  /** Adds an entry to the sums, and to its order. @returns whether what it says can be read */
  add(entry: LedgerEntry, findings: Findings): boolean {
    const after = addToLiabilities(
      this.#sums ?? NO_LIABILITIES,
      entry,
      this.#isStated ? undefined : this.#met,
    )
    if (this.#sums !== undefined) this.#sums = after ?? this.#sums
    findings.run(`entry ${entry.id}`, () => this.#addToOrder(entry))
    return after !== undefined
  }

  /** @throws Refused `wrong_fee` */
  #addToOrder(entry: LedgerEntry): void {
    const { kind, data } = entry
    const { order_id: id, coin, step, amount_raw: price, fee_raw: stated, status } = data
    if (this.#orders === undefined || typeof id !== 'string') return
    if (typeof status === 'string')
      for (const key of [`${id} xno`, `${id} xmr`]) {
        const order = this.#orders.get(key)
        if (order !== undefined) this.#setOrder(key, { ...order, isOpen: OPEN.includes(status) })
      }
    if (!isCoin(coin)) return
    const key = `${id} ${coin}`
    const order = { ...(this.#orders.get(key) ?? UNKNOWN) }
    const change = owedChange(entry) ?? 0n
    order.held += change
    const isPlaced = kind === 'order' && step === 'ordered' && isAmount(price)
    const due = isPlaced ? (BigInt(price) * FEE_PERCENT) / 100n : 0n
    if (isPlaced && order.fee < 0n) Object.assign(order, { fee: due, isOpen: true })
    if (kind === 'dispute_outcome') order.percent = percentOf(data) ?? order.percent
    if (kind === 'fee') order.taken -= change
    this.#setOrder(key, order)
    if (!this.#isStated) return // older ledgers were never held to this
    if (isPlaced && stated !== String(due)) throw refusal('wrong_fee.stated', show(stated), due)
    const { fee, taken } = order
    const most = (fee * order.percent) / 100n
    if (kind === 'fee' && fee >= 0n && (taken < 0n || taken > most))
      throw refusal('wrong_fee.taken', show(id), taken, most)
  }

  /** Keeps an order, unless it is at its end. */
  #setOrder(key: string, order: Order): void {
    if (order.held === 0n && !order.isOpen) this.#orders?.delete(key)
    else this.#orders?.set(key, order)
    if (order.held >= 0n) this.#below.delete(key)
    else if (!this.#below.has(key)) this.#below.set(key, false)
  }

  /** Checks the sums that a closing entry states. What it states counts from then on, so that one false sum is one finding. */
  checkClosing(data: Fields, findings: Findings, where: string): void {
    const own = this.#sums && showOwed(owedOf(this.#sums))
    const owed = readOwed(data['owed'])
    if (owed === undefined || (own !== undefined && JSON.stringify(showOwed(owed)) !== JSON.stringify(own)))
      findings.add(where, 'wrong_owed', show(data['owed']), own === undefined ? 'two sums' : show(own))
    this.#isStated ||= Object.hasOwn(data, 'liabilities')
    if (this.#isStated) {
      const stated = readLiabilities(data['liabilities'])
      const [given, due] = [stated, this.#sums].map((sums) => sums && JSON.stringify(showLiabilities(sums)))
      if (given === undefined || (due !== undefined && given !== due))
        findings.add(where, 'wrong_liabilities', show(data['liabilities']), due ?? 'ten sums')
      this.#sums = stated
      this.#met.clear()
    } else {
      const orders = (coin: 'xno' | 'xmr', sums = (this.#sums ?? NO_LIABILITIES)[coin]) => ({
        ...sums,
        orders: (owed?.[coin] ?? 0n) - sums.owed,
      })
      this.#sums = owed && { xno: orders('xno'), xmr: orders('xmr') }
    }
    // Entries of one moment may be numbered in any order, and a seal may end between them.
    for (const [key, wasBelow] of this.#below) {
      this.#below.set(key, true)
      if (!wasBelow || !this.#isStated) continue
      findings.add(where, 'order_overdrawn', show(key))
      this.#below.delete(key)
    }
  }
}

/** What a dispute's outcome leaves of the fee; undefined if it says nothing of it. */
function percentOf({ outcome, split_percent: percent }: Fields): bigint | undefined {
  if (outcome === 'release') return 100n
  if (outcome === 'refund') return 0n
  if (outcome !== 'split') return undefined
  return Number.isSafeInteger(percent) && Number(percent) >= 0 && Number(percent) <= 100
    ? BigInt(Number(percent))
    : 100n
}
