import { addToOwed, NOTHING_OWED } from '../../../shared/ledger/solvency.ts'
import type { LedgerEntry } from '../../../shared/crypto/receipt.ts'
import type { World } from '../world/agent.ts'
import { collectFindings, type Finding } from './records.ts'
import type { Coins } from '../testbed/coins.ts'
import { fateOf, type Call } from '../world/history.ts'
import { readerOf, withDatabase } from './stored.ts'

export interface StoredInvoice {
  _id: string
  agent_id: string
  address: string
  address_index: number
  received_raw: string
  credited_days: number
  order_id?: string
  expires_at: number
  lapsed: boolean
  look_after?: number
}
export interface StoredPayment {
  _id: string
  coin: string
  tx: string
  address_index: number
  settled_at?: number
  reversed_at?: number
  swept_at?: number
  invoice_id: string
  amount_raw: string
  state: string
  order_id?: string
}
interface StoredTransfer {
  _id: string
  coin: string
  tx: string
  state: string
}
interface StoredPayout {
  _id: string
  coin: string
  source: string
  order_id?: string
  agent_id: string
  amount_raw: string
  address?: string
  frozen?: boolean
  state: string
  transfer_id?: string
}
export interface StoredMarketOrder {
  _id: string
  coin: string
  seller_id: string
  buyer_id: string
  status: string
  version: number
  amount_raw: string
  fee_raw: string
  fee_taken?: boolean
  written_off_raw: string
  due_at?: number
  pay_by: number
  disputed_by?: string
}

/** The records of money in MongoDB; a payout in a transfer has the transfer's state. */
export interface StoredMoney {
  invoices: StoredInvoice[]
  payments: StoredPayment[]
  payouts: StoredPayout[]
  transfers: StoredTransfer[]
  orders: StoredMarketOrder[]
  /** Coins that were halted, and why. */
  halted: string[]
}

/** Reads all invoices, payments, payouts and market orders, and which coins are halted. */
export async function readMoney(url: string): Promise<StoredMoney> {
  return withDatabase(url, async (db) => {
    const all = readerOf(db)
    const payouts = await all<StoredPayout>('payouts')
    const transfers = await all<StoredTransfer>('transfers')
    return {
      invoices: await all<StoredInvoice>('invoices'),
      payments: await all<StoredPayment>('payments'),
      payouts: withTransferStates(payouts, transfers),
      transfers,
      orders: await all<StoredMarketOrder>('orders'),
      halted: (await all<{ _id: string; halted?: { reason: string } }>('coins')).flatMap(({ _id, halted }) =>
        halted === undefined ? [] : [`${_id}: ${halted.reason}`],
      ),
    }
  })
}

/** The ids of the orders that are, or were, disputed since the chain took a counted payment back. */
export const takenBackIn = ({ orders }: StoredMoney): Set<string> =>
  new Set(orders.filter(({ disputed_by: by }) => by === 'chain').map(({ _id }) => _id))

/** Gives each payout that is in a transfer the transfer's state. */
function withTransferStates(
  payouts: StoredPayout[],
  transfers: readonly { _id: string; state: string }[],
): StoredPayout[] {
  const states = new Map(transfers.map(({ _id, state }) => [_id, state]))
  return payouts.map((payout) => ({ ...payout, state: states.get(payout.transfer_id ?? '') ?? payout.state }))
}

/** All records of money in the database, as text, one a line. */
export async function dumpMoney(url: string): Promise<string> {
  return withDatabase(url, async (db) => {
    const lines: string[] = []
    for (const name of ['coins', 'invoices', 'payments', 'transfers', 'payouts', 'orders'])
      for await (const record of db.collection(name).find().sort({ _id: 1 }))
        lines.push(`${name} ${JSON.stringify(record)}`)
    return `${lines.join('\n')}\n`
  })
}

/** The sum of the items' amounts in raw. */
export const sumRaw = (items: readonly { amount_raw: string }[]): bigint =>
  items.reduce((total, { amount_raw: raw }) => total + BigInt(raw), 0n)

/**
 * Lists the work with money that is still to be done, a sentence each: payments not settled or not swept,
 * payouts that can be sent, deadlines that have passed.
 */
export function listMoneyLeft(
  world: World,
  { invoices, payments, payouts, orders }: StoredMoney,
  nowSeconds: number,
): string[] {
  const settledTx = new Set(payments.filter(({ state }) => state === 'settled').map(({ tx }) => tx))
  const byAddress = new Map(invoices.map((invoice) => [invoice.address, invoice]))
  const sent = world.history.calls.filter(({ did }) => did === 'pay')
  return [
    ...sent
      .filter((call) => {
        const invoice = byAddress.get(call.path)
        return (
          invoice !== undefined &&
          !settledTx.has(call.marker ?? '') &&
          !mayBeFoundLater(world, call, invoice, nowSeconds)
        )
      })
      .map(({ marker = '', path }) => `payment ${marker} to ${path} is not settled`),
    ...payments
      .filter(
        ({ coin, state, swept_at: sweptAt }) =>
          coin === 'xno' && state === 'settled' && sweptAt === undefined,
      )
      .map(({ _id }) => `payment ${_id} is not swept`),
    ...payouts
      .filter(
        ({ state, address, frozen }) =>
          (state === 'owed' && address !== undefined && frozen !== true) ||
          state === 'signed' ||
          state === 'sent',
      )
      .map(({ _id, state }) => `payout ${_id} is ${state}`),
    ...orders
      .filter(({ due_at: dueAt }) => dueAt !== undefined && dueAt < nowSeconds - 5)
      .map(({ _id, status }) => `order ${_id} is ${status} after its deadline`),
  ]
}

/**
 * Whether a payment need not be found yet: it was sent after its invoice had expired and nobody asked for it,
 * so the service looks at its address only once an hour.
 */
function mayBeFoundLater(
  { history }: World,
  { atMs }: Call,
  invoice: StoredInvoice,
  nowSeconds: number,
): boolean {
  const sentAt = nowSeconds - (history.nowMs() - atMs) / 1_000
  return sentAt > invoice.expires_at && invoice.lapsed && (invoice.look_after ?? Infinity) > nowSeconds
}

/** Finds differences between the money on the chain, in the records and in the published ledger. */
export function checkCoins(world: World, money: StoredMoney, ledger: readonly LedgerEntry[]): Finding[] {
  if (world.coins === undefined) return []
  return [
    ...money.halted.map((reason) => ({ what: `a coin is halted, ${reason}`, words: [] })),
    ...checkPaymentsIn(world, money),
    ...checkPaymentEntries(money, ledger),
    ...checkPayouts(world, world.coins, money),
    ...checkOrders(money),
    ...checkDebts(money, ledger),
    ...checkSteps(world.history.calls, ledger, money),
  ]
}

/**
 * Checks that each payment on the chain is stored once, for the invoice with its address, and counts there.
 */
function checkPaymentsIn(world: World, { invoices, payments }: StoredMoney): Finding[] {
  const { findings, addFinding } = collectFindings()
  const byTx = Map.groupBy(payments, ({ tx }) => tx)
  const byAddress = Map.groupBy(invoices, ({ address }) => address)
  for (const [address, sharing] of byAddress)
    if (sharing.length > 1)
      addFinding(`address ${address} stands on ${sharing.length} invoices`, ...sharing.map(({ _id }) => _id))
  for (const call of world.history.calls.filter(({ did }) => did === 'pay')) {
    const { marker = '', path, body } = call
    const stored = byTx.get(marker) ?? []
    const invoice = byAddress.get(path)?.[0]
    const { amount_raw: raw, invoice_id: id } = body as { amount_raw: string; invoice_id: string }
    if (invoice === undefined)
      addFinding(`invoice ${id} was given out and is lost, with ${raw} raw`, id, marker)
    else if (stored.length === 0 && mayBeFoundLater(world, call, invoice, Date.now() / 1_000)) continue
    else if (stored.length !== 1) addFinding(`payment ${marker} is stored ${stored.length} times`, marker, id)
    else if (stored[0]?.amount_raw !== raw || stored[0].invoice_id !== invoice._id)
      addFinding(`payment ${marker} is stored as another one`, marker, id)
  }
  for (const { _id: id, received_raw: raw } of invoices) {
    const settled = payments.filter(({ invoice_id: of, state }) => of === id && state === 'settled')
    if (sumRaw(settled) !== BigInt(raw))
      addFinding(`invoice ${id} received ${raw}, and its payments are ${sumRaw(settled)}`, id)
  }
  return findings
}

/** Checks that each settled payment has one entry in the ledger, and no other payment has one. */
function checkPaymentEntries({ payments }: StoredMoney, ledger: readonly LedgerEntry[]): Finding[] {
  const { findings, addFinding } = collectFindings()
  const entriesOf = Map.groupBy(
    ledger.filter(({ kind }) => kind === 'payment'),
    ({ data }) => String(data['payment_id']),
  )
  for (const { _id: id, state, invoice_id: invoiceId } of payments) {
    const count = entriesOf.get(id)?.length ?? 0
    if (count !== (state === 'settled' ? 1 : 0))
      addFinding(`payment ${id} is ${state} and has ${count} entries`, id, invoiceId)
  }
  return findings
}

/**
 * Checks that each agent's address received the sum of its payouts that were sent, and nothing is owed twice.
 */
function checkPayouts(world: World, coins: Coins, { payouts }: StoredMoney): Finding[] {
  const { findings, addFinding } = collectFindings()
  for (const { name } of world.agents) {
    const address = coins.addressOf(name)
    const sent = payouts.filter(
      (payout) => payout.address === address && ['sent', 'confirmed'].includes(payout.state),
    )
    const arrivedRaw = coins.arrivedAt(name)
    if (arrivedRaw !== sumRaw(sent))
      addFinding(
        `${arrivedRaw} raw arrived at ${name}, and its payouts are ${sumRaw(sent)}`,
        ...sent.map(({ _id }) => _id),
        name,
      )
  }
  for (const [source, owed] of Map.groupBy(payouts, (payout) => payout.source))
    if (owed.length > 1) addFinding(`${source} is owed ${owed.length} times`, source)
  return findings
}

/**
 * What was received for an order and neither given up, owed or paid to a side, nor taken as the fee, in raw.
 */
function heldRaw({ payments, payouts }: StoredMoney, order: StoredMarketOrder): bigint {
  const isOfOrder = ({ order_id: id }: { order_id?: string }): boolean => id === order._id
  const received = sumRaw(payments.filter((payment) => isOfOrder(payment) && payment.state === 'settled'))
  const given = sumRaw(payouts.filter((payout) => isOfOrder(payout) && payout.state !== 'withdrawn'))
  const fee = order.fee_taken === true ? BigInt(order.fee_raw) : 0n
  return received - BigInt(order.written_off_raw) - given - fee
}

/** Checks that no order has given more than it received, and that a closed one holds nothing. */
function checkOrders(money: StoredMoney): Finding[] {
  const { findings, addFinding } = collectFindings()
  for (const order of money.orders) {
    const held = heldRaw(money, order)
    const isOpen = ['awaiting_payment', 'paid', 'delivered', 'disputed'].includes(order.status)
    if (held < 0n || (!isOpen && held !== 0n))
      addFinding(`order ${order._id} is ${order.status}, and ${held} raw of it belong to nobody`, order._id)
  }
  return findings
}

/**
 * Checks that debts are the same by the ledger's entries, by its last statement of solvency, and by the
 * records.
 */
function checkDebts(money: StoredMoney, ledger: readonly LedgerEntry[]): Finding[] {
  const { findings, addFinding } = collectFindings()
  let owed = NOTHING_OWED
  for (const { id, kind, data } of ledger) owed = addToOwed(owed, { _id: id, kind: kind as never, data })
  const stated = ledger.findLast(({ kind }) => kind === 'solvency')?.data['owed'] as
    { xno: string; xmr: string } | undefined
  for (const coin of ['xno', 'xmr'] as const) {
    const isOfCoin = (record: { coin: string }): boolean => record.coin === coin
    if (String(owed[coin]) !== stated?.[coin])
      addFinding(
        `the last solvency entry says ${stated?.[coin]} ${coin}, and the ledger adds up to ${owed[coin]}`,
      )
    let byRecords = sumRaw(
      money.payouts
        .filter(isOfCoin)
        .filter(({ state }) => !['confirmed', 'manual', 'withdrawn'].includes(state)),
    )
    for (const order of money.orders.filter(isOfCoin)) byRecords += heldRaw(money, order)
    if (owed[coin] !== byRecords)
      addFinding(`by the ledger ${owed[coin]} raw of ${coin} are owed, by the records ${byRecords}`)
  }
  return findings
}

/** What a request of an agent is called as a step in the ledger. */
const STEP_NAMES: Readonly<Record<string, string>> = {
  deliver: 'delivered',
  accept: 'accepted',
  dispute: 'disputed',
}

/**
 * Checks that each step of an order is in the ledger once (also each extension of a deadline after an
 * outage), and no acknowledged step, order or invoice is missing.
 */
export function checkSteps(
  calls: readonly Call[],
  ledger: readonly LedgerEntry[],
  { orders, invoices }: StoredMoney,
): Finding[] {
  const { findings, addFinding } = collectFindings()
  const storedOrders = new Set(orders.map(({ _id }) => _id))
  const storedInvoices = new Set(invoices.map(({ _id }) => _id))
  const steps = Map.groupBy(
    ledger.filter(({ kind, data }) => ['order', 'dispute'].includes(kind) && data['order_id'] !== undefined),
    ({ data }) =>
      [
        data['order_id'],
        data['step'],
        ...(data['step'] === 'extended' ? [data['deadline'], data['until']] : []),
      ].join(' '),
  )
  for (const [step, entries] of steps)
    if (entries.length > 1)
      addFinding(`${step} stands ${entries.length} times in the ledger`, ...step.split(' ').slice(0, 1))
  for (const call of calls) {
    if (fateOf(call) !== 'yes') continue
    const [orderId, invoiceId] = [String(call.answer?.['order_id']), String(call.answer?.['invoice_id'])]
    if (call.did === 'order' && !storedOrders.has(orderId))
      addFinding(`order ${orderId} was acknowledged and is lost`, orderId)
    if (call.did === 'coin-invoice' && !storedInvoices.has(invoiceId))
      addFinding(`invoice ${invoiceId} was acknowledged and is lost`, invoiceId)
    const name = STEP_NAMES[call.did]
    const { order_id: id } = (call.body ?? {}) as { order_id?: string }
    if (name !== undefined && id !== undefined && !steps.has(`${id} ${name}`))
      addFinding(`order ${id} was ${name} by what its agent was told, and the ledger does not say so`, id)
  }
  return findings
}
