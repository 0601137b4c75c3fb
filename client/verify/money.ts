import type { LedgerEntry } from '../../shared/crypto/receipt.ts'
import { Refused, type Findings } from './findings.ts'
import { addToLiabilities, NO_LIABILITIES, readLiabilities, showLiabilities } from './liabilities.ts'
import { isAmount, isCoin, isSum, NOTHING_OWED, owedChange, readOwed, showOwed } from './owed.ts'
import { isObject, show, type Fields } from './values.ts'

/*
 * What the entries of a ledger do to the sums that closing entries state, and to each order of the market.
 */

/** Of the price of an order. */
const FEE_PERCENT = 20n
const OPEN = ['awaiting_payment', 'paid', 'delivered', 'disputed']

/** An order that isn't at its end, in its coin's smallest unit. */
interface OrderMoney {
  /** What was paid for it, less fees, payouts that arrived and what was written off. */
  held: bigint
  /** The whole fee; undefined if the order's terms aren't known. */
  fee: bigint | undefined
  taken: bigint
  /** That a dispute's outcome leaves of the fee. */
  percent: bigint
  isOpen: boolean
}

const UNKNOWN_ORDER: OrderMoney = { held: 0n, fee: undefined, taken: 0n, percent: 100n, isOpen: false }

/** As it is remembered: held, fee, taken, percent, isOpen. */
type StoredOrder = readonly [string, string | null, string, string, boolean]

/** What is remembered of the money of a ledger up to a signed seal. */
export interface MoneyState {
  /** Closing entries state the liabilities by now. */
  readonly stated: boolean
  readonly liabilities: ReturnType<typeof showLiabilities>
  /** Payouts that were owed once; while closing entries state no liabilities. */
  readonly met?: readonly string[]
  /** By order and coin. */
  readonly orders: { readonly [order: string]: StoredOrder }
}

export function isMoneyState(value: unknown): boolean {
  if (!isObject(value) || typeof value['stated'] !== 'boolean' || !isObject(value['orders'])) return false
  const isOrder = (order: unknown) =>
    Array.isArray(order) &&
    order.length === 5 &&
    [order[0], order[1] ?? '0', order[2], order[3]].every(isSum) &&
    typeof order[4] === 'boolean'
  const { met = [] } = value
  if (!Array.isArray(met) || !met.every((id) => typeof id === 'string')) return false
  return readLiabilities(value['liabilities']) !== undefined && Object.values(value['orders']).every(isOrder)
}

/** The sums that the entries so far give, and the orders. */
export class LedgerMoney {
  #owed = readOwed(showOwed(NOTHING_OWED))
  #liabilities = readLiabilities(showLiabilities(NO_LIABILITIES))
  #isStated = false
  #met: Set<unknown> | undefined = new Set()
  /** By order and coin; undefined once some entries aren't there. */
  #orders: Map<string, OrderMoney> | undefined = new Map()
  /** Orders that hold less than nothing: whether they did at the end of a seal before. */
  readonly #below = new Map<string, boolean>()

  /** Goes on from what is remembered. */
  static from(owed: unknown, { stated, liabilities, met, orders }: MoneyState): LedgerMoney {
    const money = new LedgerMoney()
    money.#owed = readOwed(owed)
    money.#liabilities = readLiabilities(liabilities)
    money.#isStated = stated
    money.#met = stated ? undefined : new Set(met)
    for (const [key, [held, fee, taken, percent, isOpen]] of Object.entries(orders))
      money.#setOrder(key, {
        ...{ held: BigInt(held), taken: BigInt(taken), percent: BigInt(percent), isOpen },
        fee: fee === null ? undefined : BigInt(fee),
      })
    for (const key of money.#below.keys()) money.#below.set(key, true)
    return money
  }

  /** Forgets what follows from all entries, once some of them aren't there. */
  lose(): void {
    this.#owed = this.#liabilities = this.#orders = undefined
    this.#below.clear()
  }

  /** Undefined if some entries weren't there. */
  state(): { owed: ReturnType<typeof showOwed>; money: MoneyState } | undefined {
    if (!this.#owed || !this.#liabilities || !this.#orders) return undefined
    const orders: { [key: string]: StoredOrder } = {}
    for (const [key, { held, fee, taken, percent, isOpen }] of this.#orders)
      orders[key] = [`${held}`, fee === undefined ? null : `${fee}`, `${taken}`, `${percent}`, isOpen]
    const liabilities = showLiabilities(this.#liabilities)
    const met = this.#met === undefined ? {} : { met: [...this.#met] as string[] }
    return { owed: showOwed(this.#owed), money: { stated: this.#isStated, liabilities, ...met, orders } }
  }

  /** Adds an entry to the sums, and to its order. @returns whether what it says can be read */
  add(entry: LedgerEntry, findings: Findings): boolean {
    const sum = owedChange(entry)
    const change = sum.kind === 'change' ? sum.change : 0n
    if (sum.kind === 'change' && this.#owed !== undefined)
      this.#owed = { ...this.#owed, [sum.coin]: this.#owed[sum.coin] + change }
    const after = addToLiabilities(this.#liabilities ?? NO_LIABILITIES, entry, this.#met)
    if (this.#liabilities !== undefined) this.#liabilities = after ?? this.#liabilities
    findings.run(`entry ${entry.id}`, () => this.#addToOrder(entry, change))
    return after !== undefined
  }

  /** @throws Refused `wrong_fee` */
  #addToOrder({ kind, data }: LedgerEntry, change: bigint): void {
    const { order_id: id, coin, step, amount_raw: price, fee_raw: stated, status, outcome } = data
    if (this.#orders === undefined || typeof id !== 'string') return
    if (typeof status === 'string')
      for (const one of ['xno', 'xmr']) {
        const order = this.#orders.get(`${id} ${one}`)
        if (order !== undefined) this.#setOrder(`${id} ${one}`, { ...order, isOpen: OPEN.includes(status) })
      }
    if (!isCoin(coin)) return
    const key = `${id} ${coin}`
    const order = { ...(this.#orders.get(key) ?? UNKNOWN_ORDER) }
    order.held += change
    const isPlaced = kind === 'order' && step === 'ordered' && isAmount(price)
    const due = isPlaced ? (BigInt(price) * FEE_PERCENT) / 100n : 0n
    if (isPlaced && order.fee === undefined) Object.assign(order, { fee: due, isOpen: true })
    if (kind === 'dispute_outcome' && outcome === 'release') order.percent = 100n
    if (kind === 'dispute_outcome' && outcome === 'refund') order.percent = 0n
    if (kind === 'dispute_outcome' && outcome === 'split') order.percent = readPercent(data)
    if (kind === 'fee') order.taken -= change
    this.#setOrder(key, order)
    if (!this.#isStated) return // older ledgers were never held to this
    const { fee, taken, percent } = order
    if (isPlaced && stated !== String(due))
      throw new Refused('wrong_fee', `the order states the fee ${show(stated)}, and ${due} are due`)
    const most = ((fee ?? 0n) * percent) / 100n
    if (kind === 'fee' && fee !== undefined && (taken < 0n || taken > most))
      throw new Refused('wrong_fee', `the fees of ${show(id)} come to ${taken}, and ${most} are due at most`)
  }

  /** Keeps an order, unless it is at its end. */
  #setOrder(key: string, order: OrderMoney): void {
    if (order.held === 0n && !order.isOpen) this.#orders?.delete(key)
    else this.#orders?.set(key, order)
    if (order.held >= 0n) this.#below.delete(key)
    else if (!this.#below.has(key)) this.#below.set(key, false)
  }

  /** Checks the sums that a closing entry states. What it states counts from then on, so that one false sum is one finding. */
  checkClosing(data: Fields, findings: Findings, where: string): void {
    const differ = (reason: string, what: string, stated: unknown, own: string) =>
      findings.add(reason, where, `its closing entry states ${what}${show(stated)}, the entries give ${own}`)
    const [owed, own] = [readOwed(data['owed']), this.#owed]
    if (owed === undefined || (own !== undefined && (owed.xno !== own.xno || owed.xmr !== own.xmr)))
      differ('wrong_owed', '', data['owed'], own === undefined ? 'two sums' : show(showOwed(own)))
    this.#owed = owed
    this.#isStated ||= Object.hasOwn(data, 'liabilities')
    if (this.#isStated) {
      const stated = readLiabilities(data['liabilities'])
      const [given, due] = [stated, this.#liabilities].map(
        (sums) => sums && JSON.stringify(showLiabilities(sums)),
      )
      if (given === undefined || (due !== undefined && given !== due))
        differ('wrong_liabilities', 'the liabilities ', data['liabilities'], due ?? 'ten sums')
      this.#liabilities = stated
      this.#met = undefined
    }
    // Entries of one moment may be numbered in any order, and a seal may end between them.
    for (const [key, wasBelow] of this.#below) {
      this.#below.set(key, true)
      if (wasBelow && this.#isStated) {
        findings.add('order_overdrawn', where, `order ${show(key)} has paid out more than was paid for it`)
        this.#below.delete(key)
      }
    }
  }
}

/** The percentage of a split; 100 if it can't be read. */
const readPercent = ({ split_percent: percent }: Fields): bigint =>
  typeof percent === 'number' && Number.isInteger(percent) && percent >= 0 && percent <= 100
    ? BigInt(percent)
    : 100n
