import type { LedgerEntry } from '../../shared/crypto/receipt.ts'
import { refusal, type Findings } from './findings.ts'
import { addToLiabilities, NO_LIABILITIES, owedOf, readLiabilities, showLiabilities } from './liabilities.ts'
import { isAmount, isCoin, owedChange, readOwed, showOwed } from './owed.ts'
import { isObject, show, type Fields } from './values.ts'

/*
 * What the entries of a ledger do to the sums that closing entries state, and to each order of the market.
 */

/** Of the price of an order. */
const FEE_PERCENT = 20n
const OPEN = ['awaiting_payment', 'paid', 'delivered', 'disputed']

/** An order that isn't at its end, in its coin's smallest unit. It is remembered as text: its fields in this order. */
type Order = [
  /** What was paid for it, less fees, payouts that arrived and what was written off. */
  held: bigint,
  /** The whole fee; below 0 if the order's terms aren't known. */
  fee: bigint,
  taken: bigint,
  /** That a dispute's outcome leaves of the fee. */
  percent: bigint,
  isOpen: bigint,
]
const UNKNOWN: Order = [0n, -1n, 0n, 100n, 0n]
const ORDER = /^(-?[0-9]{1,78} ){4}[01]$/

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
      money.#setOrder(key, text.split(' ').map(BigInt) as Order)
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
    const orders = Object.fromEntries([...this.#orders].map(([key, order]) => [key, order.join(' ')]))
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
        if (order !== undefined)
          this.#setOrder(key, [
            ...(order.slice(0, 4) as [bigint, bigint, bigint, bigint]),
            BigInt(OPEN.includes(status)),
          ])
      }
    if (!isCoin(coin)) return
    const key = `${id} ${coin}`
    let [held, fee, taken, percent, isOpen] = this.#orders.get(key) ?? UNKNOWN
    const sum = owedChange(entry)
    const change = sum.kind === 'change' ? sum.change : 0n
    held += change
    const isPlaced = kind === 'order' && step === 'ordered' && isAmount(price)
    const due = isPlaced ? (BigInt(price) * FEE_PERCENT) / 100n : 0n
    if (isPlaced && fee < 0n) [fee, isOpen] = [due, 1n]
    if (kind === 'dispute_outcome') percent = percentOf(data) ?? percent
    if (kind === 'fee') taken -= change
    this.#setOrder(key, [held, fee, taken, percent, isOpen])
    if (!this.#isStated) return // older ledgers were never held to this
    if (isPlaced && stated !== String(due)) throw refusal('wrong_fee.stated', show(stated), due)
    const most = (fee * percent) / 100n
    if (kind === 'fee' && fee >= 0n && (taken < 0n || taken > most))
      throw refusal('wrong_fee.taken', show(id), taken, most)
  }

  /** Keeps an order, unless it is at its end. */
  #setOrder(key: string, order: Order): void {
    if (order[0] === 0n && order[4] === 0n) this.#orders?.delete(key)
    else this.#orders?.set(key, order)
    if (order[0] >= 0n) this.#below.delete(key)
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
