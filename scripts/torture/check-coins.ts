import { addToOwed, NOTHING_OWED } from '../../shared/ledger/solvency.ts'
import type { LedgerEntry } from '../../shared/crypto/receipt.ts'
import type { World } from './agent.ts'
import { collectFindings, type Finding } from './check-records.ts'
import { fateOf, type Call } from './history.ts'
import { withDatabase } from './stored.ts'

interface StoredInvoice {
  _id: string
  agent_id: string
  address: string
  received_raw: string
  credited_days: number
  order_id?: string
  expires_at: number
  lapsed: boolean
  look_after?: number
}
interface StoredPayment {
  _id: string
  tx: string
  swept_at?: number
  invoice_id: string
  amount_raw: string
  state: string
  order_id?: string
}
interface StoredPayout {
  _id: string
  source: string
  order_id?: string
  agent_id: string
  amount_raw: string
  address?: string
  state: string
  transfer_id?: string
}
export interface StoredMarketOrder {
  _id: string
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
}

export interface StoredMoney {
  invoices: StoredInvoice[]
  payments: StoredPayment[]
  payouts: StoredPayout[]
  orders: StoredMarketOrder[]
  /** Coins that were halted, and why. */
  halted: string[]
}

export async function readMoney(url: string): Promise<StoredMoney> {
  return withDatabase(url, async (db) => {
    const all = <T>(name: string): Promise<T[]> =>
      db.collection(name).find().sort({ _id: 1 }).toArray() as unknown as Promise<T[]>
    return {
      ...{ invoices: await all<StoredInvoice>('invoices'), payments: await all<StoredPayment>('payments') },
      ...{
        payouts: withTransferStates(
          await all<StoredPayout>('payouts'),
          await all<{ _id: string; state: string }>('transfers'),
        ),
        orders: await all<StoredMarketOrder>('orders'),
        halted: (await all<{ _id: string; halted?: { reason: string } }>('coins')).flatMap(
          ({ _id, halted }) => (halted === undefined ? [] : [`${_id}: ${halted.reason}`]),
        ),
      },
    }
  })
}

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

const sum = (items: readonly { amount_raw: string }[]): bigint =>
  items.reduce((total, { amount_raw: raw }) => total + BigInt(raw), 0n)

/**
 * Work with money that is still to be done, a sentence each: payments not settled or not swept, payouts that
 * can be sent, deadlines that have passed.
 */
export function findLeftOver(
  world: World,
  { invoices, payments, payouts, orders }: StoredMoney,
  nowSeconds: number,
): string[] {
  const seen = new Set(payments.filter(({ state }) => state === 'settled').map(({ tx }) => tx))
  const byAddress = new Map(invoices.map((invoice) => [invoice.address, invoice]))
  const sent = world.history.calls.filter(({ did }) => did === 'pay')
  return [
    ...sent
      .filter((call) => {
        const invoice = byAddress.get(call.path)
        return (
          invoice !== undefined &&
          !seen.has(call.marker ?? '') &&
          !waitsForItsHour(world, call, invoice, nowSeconds)
        )
      })
      .map(({ marker = '', path }) => `payment ${marker} to ${path} is not settled`),
    ...payments
      .filter(({ state, swept_at: sweptAt }) => state === 'settled' && sweptAt === undefined)
      .map(({ _id }) => `payment ${_id} is not swept`),
    ...payouts
      .filter(
        ({ state, address }) =>
          (state === 'owed' && address !== undefined) || state === 'signed' || state === 'sent',
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
function waitsForItsHour(
  { history }: World,
  { atMs }: Call,
  invoice: StoredInvoice,
  nowSeconds: number,
): boolean {
  const sentAt = nowSeconds - (history.nowMs() - atMs) / 1_000
  return sentAt > invoice.expires_at && invoice.lapsed && (invoice.look_after ?? Infinity) > nowSeconds
}

/** Compares the money on the chain, in the records and in the published ledger. */
export function checkCoins(world: World, money: StoredMoney, ledger: readonly LedgerEntry[]): Finding[] {
  const { coins, history } = world
  if (coins === undefined) return []
  const { findings, say } = collectFindings()
  const { invoices, payments, payouts, orders } = money
  for (const reason of money.halted) say(`a coin is halted, ${reason}`)

  // Incoming: each payment on the chain is stored once, for the invoice with its address.
  const byTx = Map.groupBy(payments, ({ tx }) => tx)
  const byAddress = Map.groupBy(invoices, ({ address }) => address)
  for (const [address, own] of byAddress)
    if (own.length > 1)
      say(`address ${address} stands on ${own.length} invoices`, ...own.map(({ _id }) => _id))
  for (const call of history.calls.filter(({ did }) => did === 'pay')) {
    const { marker = '', path, body } = call
    const found = byTx.get(marker) ?? []
    const invoice = byAddress.get(path)?.[0]
    const { amount_raw: raw, invoice_id: id } = body as { amount_raw: string; invoice_id: string }
    if (invoice === undefined) say(`invoice ${id} was given out and is lost, with ${raw} raw`, id, marker)
    else if (found.length === 0 && waitsForItsHour(world, call, invoice, Date.now() / 1_000)) continue
    else if (found.length !== 1) say(`payment ${marker} is stored ${found.length} times`, marker, id)
    else if (found[0]?.amount_raw !== raw || found[0].invoice_id !== invoice._id)
      say(`payment ${marker} is stored as another one`, marker, id)
  }
  for (const invoice of invoices) {
    const settled = payments.filter(({ invoice_id: id, state }) => id === invoice._id && state === 'settled')
    if (sum(settled) !== BigInt(invoice.received_raw))
      say(
        `invoice ${invoice._id} received ${invoice.received_raw}, and its payments are ${sum(settled)}`,
        invoice._id,
      )
  }
  const settledEntries = Map.groupBy(
    ledger.filter(({ kind }) => kind === 'payment'),
    ({ data }) => String(data['payment_id']),
  )
  for (const { _id: id, state, invoice_id: invoiceId } of payments) {
    const entries = settledEntries.get(id)?.length ?? 0
    if (entries !== (state === 'settled' ? 1 : 0))
      say(`payment ${id} is ${state} and has ${entries} entries`, id, invoiceId)
  }

  // Outgoing: each payee received exactly the sum of its payouts.
  for (const agent of world.agents) {
    const address = coins.addressOf(agent.name)
    const paid = payouts.filter(
      (payout) => payout.address === address && ['sent', 'confirmed'].includes(payout.state),
    )
    if (coins.arrivedAt(agent.name) !== sum(paid))
      say(
        `${coins.arrivedAt(agent.name)} raw arrived at ${agent.name}, and its payouts are ${sum(paid)}`,
        ...paid.map(({ _id }) => _id),
        agent.name,
      )
  }
  const sources = Map.groupBy(payouts, ({ source }) => source)
  for (const [source, own] of sources)
    if (own.length > 1) say(`${source} is owed ${own.length} times`, source)

  // Orders: all money of an order is accounted for.
  const isOf = (order: StoredMarketOrder, { order_id: id }: { order_id?: string }): boolean =>
    id === order._id
  const heldFor = (order: StoredMarketOrder): bigint => {
    const received = sum(payments.filter((payment) => isOf(order, payment) && payment.state === 'settled'))
    const given = sum(payouts.filter((payout) => isOf(order, payout) && payout.state !== 'withdrawn'))
    return (
      received -
      BigInt(order.written_off_raw) -
      given -
      (order.fee_taken === true ? BigInt(order.fee_raw) : 0n)
    )
  }
  for (const order of orders) {
    const held = heldFor(order)
    const isOpen = ['awaiting_payment', 'paid', 'delivered', 'disputed'].includes(order.status)
    if (held < 0n || (!isOpen && held !== 0n))
      say(`order ${order._id} is ${order.status}, and ${held} raw of it belong to nobody`, order._id)
  }

  // The debts add up the same by the ledger's entries, its last statement of solvency, and the records.
  const owed = ledger.reduce(
    (so, { id, kind, data }) => addToOwed(so, { _id: id, kind: kind as never, data }),
    NOTHING_OWED,
  )
  const stated = ledger.findLast(({ kind }) => kind === 'solvency')?.data['owed'] as
    { xno: string } | undefined
  if (String(owed.xno) !== stated?.xno)
    say(`the last solvency entry says ${stated?.xno}, and the ledger adds up to ${owed.xno}`)
  const unpaid = sum(payouts.filter(({ state }) => !['confirmed', 'manual', 'withdrawn'].includes(state)))
  const heldNow = orders.reduce((total, order) => total + heldFor(order), 0n)
  if (owed.xno !== unpaid + heldNow)
    say(`by the ledger ${owed.xno} raw are owed, by the records ${unpaid + heldNow}`)
  return [...findings, ...checkSteps(world, ledger, money)]
}

/**
 * Each step of an order is in the ledger once (also each extension of a deadline after an outage), and no
 * acknowledged step, order or invoice is missing.
 */
function checkSteps(
  world: World,
  ledger: readonly LedgerEntry[],
  { orders, invoices }: StoredMoney,
): Finding[] {
  const { findings, say } = collectFindings()
  const stored = new Set(orders.map(({ _id }) => _id))
  const given = new Set(invoices.map(({ _id }) => _id))
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
      say(`${step} stands ${entries.length} times in the ledger`, ...step.split(' ').slice(0, 1))
  const NAMES: Readonly<Record<string, string>> = {
    deliver: 'delivered',
    accept: 'accepted',
    dispute: 'disputed',
  }
  for (const call of world.history.calls) {
    if (fateOf(call) !== 'yes') continue
    if (call.did === 'order' && !stored.has(String(call.answer?.['order_id'])))
      say(
        `order ${String(call.answer?.['order_id'])} was acknowledged and is lost`,
        String(call.answer?.['order_id']),
      )
    if (call.did === 'coin-invoice' && !given.has(String(call.answer?.['invoice_id'])))
      say(
        `invoice ${String(call.answer?.['invoice_id'])} was acknowledged and is lost`,
        String(call.answer?.['invoice_id']),
      )
    const name = NAMES[call.did]
    const { order_id: id } = (call.body ?? {}) as { order_id?: string }
    if (name !== undefined && id !== undefined && !steps.has(`${id} ${name}`))
      say(`order ${id} was ${name} by what its agent was told, and the ledger does not say so`, id)
  }
  return findings
}
