import { isPaid, remainderRaw, type InvoiceRecord, type PaymentRecord } from '../payments/invoice.ts'
import type { PendingEntry } from '../ledger/pending.ts'
import type { OrderRecord } from '../market/order.ts'
import { COINS, type Coin } from '../payments/coin.ts'
import type { Account, JournalLine } from '../payments/journal.ts'
import type { StoredPayout, TransferRecord } from '../payments/payout.ts'

/*
 * What has to add up of money, worked out from the records past the code that wrote them. Pure: the records
 * must be of one moment.
 */

/**
 * Every raw and piconero that arrived is accounted for, and once:
 *
 * 1. An invoice's `received_raw` is the sum of its settled payments.
 * 2. received + carried = what its days were bought at + what is left + what moved on, to the last raw. Days
 *    bought by a payment cost that payment's `price_raw`, the others the invoice's amount.
 * 3. Of an agent's invoices in a coin, what moved out is what was carried in.
 * 4. No two payments have one transaction at one address; no two invoices have one address.
 * 5. Each settled payment has one `payment` entry of its amount, others none; the `pass_credit` entries of an
 *    invoice add up to its `credited_days`.
 *
 * @param entries numbered or not, each once
 */
export function findMoneyFaults({
  invoices,
  payments,
  entries,
}: {
  invoices: readonly InvoiceRecord[]
  payments: readonly PaymentRecord[]
  entries: readonly PendingEntry[]
}): string[] {
  const byInvoice = Map.groupBy(payments, ({ invoice_id: id }) => id)
  return [
    ...invoices.flatMap((invoice) => checkInvoice(invoice, byInvoice.get(invoice._id) ?? [])),
    ...checkMoves(invoices),
    ...checkUnique(
      'payment',
      payments.map(({ coin, tx, address_index }) => `${coin} ${tx} ${address_index}`),
    ),
    ...checkUnique(
      'address',
      invoices.map(({ coin, address_index }) => `${coin} ${address_index}`),
    ),
    ...checkUnique(
      'address',
      invoices.map(({ address }) => address),
    ),
    ...checkEntries(invoices, payments, bySource(entries)),
  ]
}

const sum = (values: readonly bigint[]): bigint => values.reduce((total, value) => total + value, 0n)

function checkInvoice(invoice: InvoiceRecord, payments: readonly PaymentRecord[]): string[] {
  const settled = payments.filter(({ state }) => state === 'settled')
  const received = BigInt(invoice.received_raw)
  const faults: string[] = []
  const arrived = sum(settled.map(({ amount_raw }) => BigInt(amount_raw)))
  if (arrived !== received)
    faults.push(`${invoice._id} has received ${received}, and its settled payments are ${arrived}`)
  if (
    payments.some(
      ({ agent_id, coin, address_index }) =>
        agent_id !== invoice.agent_id || coin !== invoice.coin || address_index !== invoice.address_index,
    )
  )
    faults.push(`${invoice._id} has a payment that is not its own`)
  if (invoice.days === undefined) return faults
  const days = BigInt(invoice.days)
  const boughtByPayments = sum(settled.map(({ credited_days = 0 }) => BigInt(credited_days)))
  const spent =
    sum(settled.map(({ credited_days = 0, price_raw = '0' }) => BigInt(credited_days) * BigInt(price_raw))) +
    (BigInt(invoice.credited_days) - boughtByPayments) * BigInt(invoice.amount_raw)
  const inflow = (received + BigInt(invoice.carried_raw)) * days
  const accounted = spent + BigInt(invoice.unspent) + BigInt(invoice.moved_raw) * days
  if (inflow !== accounted)
    faults.push(
      `${invoice._id} took in ${inflow} and accounts for ${accounted}, in ${days}ths of the smallest unit`,
    )
  if (BigInt(invoice.unspent) < 0n || BigInt(invoice.moved_raw) < 0n)
    faults.push(`${invoice._id} has less than nothing left`)
  if (boughtByPayments > BigInt(invoice.credited_days))
    faults.push(`${invoice._id} credited fewer days than its payments bought`)
  return faults
}

function checkMoves(invoices: readonly InvoiceRecord[]): string[] {
  const totals = new Map<string, { moved: bigint; carried: bigint }>()
  for (const { agent_id, coin, moved_raw, carried_raw } of invoices) {
    const key = `${agent_id} ${coin}`
    const { moved, carried } = totals.get(key) ?? { moved: 0n, carried: 0n }
    totals.set(key, { moved: moved + BigInt(moved_raw), carried: carried + BigInt(carried_raw) })
  }
  return [...totals].flatMap(([key, { moved, carried }]) =>
    moved === carried ? [] : [`${key}: ${moved} moved out and ${carried} was carried in`],
  )
}

function checkUnique(what: string, keys: readonly string[]): string[] {
  return new Set(keys).size === keys.length ? [] : [`one ${what} stands there twice`]
}

/**
 * Entries by what they are of, and no step numbered or written twice; an entry that just got its number may
 * still wait too.
 */
function bySource(entries: readonly PendingEntry[]): Map<string, PendingEntry> {
  return new Map(entries.map((entry) => [entry.source, entry]))
}

function checkEntries(
  invoices: readonly InvoiceRecord[],
  payments: readonly PaymentRecord[],
  entries: ReadonlyMap<string, PendingEntry>,
): string[] {
  const faults: string[] = []
  for (const { _id, state, amount_raw, invoice_id, undone_at } of payments) {
    const entry = entries.get(`${_id}/payment`)
    if ((entry !== undefined) !== (state === 'settled' || undone_at !== undefined))
      faults.push(`${_id} is ${state} and ${entry === undefined ? 'has no entry' : 'has an entry'}`)
    if (
      entry !== undefined &&
      (entry.data['amount_raw'] !== amount_raw || entry.data['invoice_id'] !== invoice_id)
    )
      faults.push(`the entry of ${_id} says something else`)
  }
  const credited = new Map<string, number>()
  for (const { kind, data } of entries.values()) {
    if (kind !== 'pass_credit' || data['means'] !== 'coin') continue
    const invoiceId = String(data['invoice_id'])
    credited.set(invoiceId, (credited.get(invoiceId) ?? 0) + Number(data['days']))
  }
  for (const { _id, credited_days } of invoices)
    if ((credited.get(_id) ?? 0) !== credited_days)
      faults.push(`${_id} credited ${credited_days} days, and the ledger has ${credited.get(_id) ?? 0}`)
  return faults
}

export interface BookRecords {
  invoices: InvoiceRecord[]
  payments: PaymentRecord[]
  orders: OrderRecord[]
  payouts: StoredPayout[]
  transfers: TransferRecord[]
  lines: JournalLine[]
}

/** What each account of a coin holds by the journal. */
export function balancesOf(lines: readonly JournalLine[]): Map<Account, bigint> {
  const balances = new Map<Account, bigint>()
  for (const { from, to, amount_raw: raw } of lines) {
    balances.set(from, (balances.get(from) ?? 0n) - BigInt(raw))
    balances.set(to, (balances.get(to) ?? 0n) + BigInt(raw))
  }
  return balances
}

/**
 * Every account has what the records of payments, invoices, orders, payouts and transfers say, to the last
 * unit, and all of them together are 0.
 */
export function findBookFaults(read: BookRecords): string[] {
  const faults: string[] = []
  for (const coin of COINS) {
    const own = <Stored extends { coin: Coin }>(all: readonly Stored[]): Stored[] =>
      all.filter((one) => one.coin === coin)
    const balances = balancesOf(own(read.lines))
    const expected = expectedBalances({
      invoices: own(read.invoices),
      payments: own(read.payments),
      orders: own(read.orders),
      payouts: own(read.payouts),
      transfers: own(read.transfers),
      // Of what came in beside payments there is no other record.
      deposits: own(read.lines).filter(
        ({ from, to }) =>
          [from, to].includes('chain') && ['operator', 'unassigned'].includes(from === 'chain' ? to : from),
      ),
    })
    for (const account of new Set([...balances.keys(), ...expected.keys()]))
      if ((balances.get(account) ?? 0n) !== (expected.get(account) ?? 0n))
        faults.push(
          `${coin} ${account}: ${balances.get(account) ?? 0n} by the journal, ${expected.get(account) ?? 0n} by the records`,
        )
    if (sum([...balances.values()]) !== 0n) faults.push(`${coin}: the accounts are not 0 together`)
  }
  return faults
}

function expectedBalances(of: {
  invoices: InvoiceRecord[]
  payments: PaymentRecord[]
  orders: OrderRecord[]
  payouts: StoredPayout[]
  transfers: TransferRecord[]
  deposits: JournalLine[]
}): Map<Account, bigint> {
  const expected = new Map<Account, bigint>()
  const add = (account: Account, amount: bigint) =>
    expected.set(account, (expected.get(account) ?? 0n) + amount)
  const take = (from: Account, to: Account, amount: bigint) => {
    add(from, -amount)
    add(to, amount)
  }
  for (const payment of of.payments.filter(({ state }) => state === 'settled')) {
    const {
      amount_raw: raw,
      order_id: orderId,
      invoice_id: invoiceId,
      reversed_at: at,
      taken_from: from = 'chain',
    } = payment
    take(
      at === undefined ? from : 'lost',
      orderId === undefined ? `invoice:${invoiceId}` : `order:${orderId}`,
      BigInt(raw),
    )
  }
  for (const invoice of of.invoices.filter(({ days }) => days !== undefined)) {
    const { _id, agent_id: agentId, carried_raw: carried, moved_raw: moved, received_raw: received } = invoice
    const remainder: Account = `remainder:${agentId}`
    take(remainder, `invoice:${_id}`, BigInt(carried) - BigInt(moved))
    const left = remainderRaw(invoice)
    take(`invoice:${_id}`, 'sold', BigInt(received) + BigInt(carried) - BigInt(moved) - left)
    if (isPaid(invoice) || invoice.lapsed) take(`invoice:${_id}`, remainder, left)
  }
  for (const order of of.orders) {
    if (order.fee_taken === true) take(`order:${order._id}`, 'fee', BigInt(order.fee_raw))
    take(`order:${order._id}`, 'lost', BigInt(order.written_off_raw))
  }
  const transfers = new Map(of.transfers.map((transfer) => [transfer._id, transfer]))
  for (const {
    agent_id: agentId,
    order_id: orderId,
    amount_raw: raw,
    state,
    transfer_id: id,
  } of of.payouts) {
    if (state === 'withdrawn') continue
    take(orderId === undefined ? 'operator' : `order:${orderId}`, `owed:${agentId}`, BigInt(raw))
    if (state === 'manual') take(`owed:${agentId}`, 'operator', BigInt(raw))
    // Below it goes from the operator with all that its transfer sends.
    if (state === 'in_transfer' && transfers.get(id ?? '')?.state === 'confirmed')
      take(`owed:${agentId}`, 'operator', BigInt(raw))
  }
  for (const { state, kind, amount_raw: raw, fee_raw: fee } of of.transfers.filter(
    (one) => one.state === 'confirmed',
  )) {
    if (state === 'confirmed' && kind === 'payout') take('operator', 'paid', BigInt(raw))
    take('operator', 'network_fee', BigInt(fee ?? '0'))
  }
  for (const { from, to, amount_raw: raw } of of.deposits) take(from, to, BigInt(raw))
  return expected
}
