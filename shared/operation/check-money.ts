import { isPaid, remainderRaw, type InvoiceRecord } from '../money/invoice.ts'
import { isPayment, type ArrivalRecord, type PaymentRecord } from '../money/arrival.ts'
import type { PendingEntry } from '../ledger/pending.ts'
import { LIABILITY_NAMES, countLiabilities } from '../ledger/solvency.ts'
import { takenFee, type OrderRecord } from '../market/order.ts'
import { COINS, type Coin } from '../money/coin.ts'
import { kindOf, liabilitiesOf, payoutAccounts } from '../money/journal.ts'
import type { Account, AccountKind, JournalLine } from '../money/journal.ts'
import type { StoredPayout } from '../money/payout.ts'
import type { TransferRecord } from '../money/transfer.ts'

/*
 * What has to add up of money, worked out from the records alone, without the code that wrote them. Pure; all
 * records must have been read at one moment. Each function that checks returns a sentence for each fault.
 */

/**
 * Checks that every raw and piconero that arrived is accounted for, and once:
 *
 * 1. An invoice's `received_raw` is the sum of its settled payments.
 * 2. received + carried = what its days were bought at + what is left + what moved on, to the last raw. Days
 *    bought by a payment cost that payment's `price_raw`, the others the invoice's amount.
 * 3. Of an agent's invoices in a coin, what moved out is what was carried in.
 * 4. No two arrivals have one transaction at one address; no two invoices have one address.
 * 5. Each settled payment has one `payment` entry of its amount, others none; the `pass_credit` entries of an
 *    invoice add up to its `credited_days`.
 *
 * @param payments with the arrivals that no invoice counts
 * @param entries numbered and pending; one that just got its number may be there twice
 * @returns a sentence for each fault
 */
export function findMoneyFaults({
  invoices,
  payments: arrivals,
  entries,
}: {
  invoices: readonly InvoiceRecord[]
  payments: readonly ArrivalRecord[]
  entries: readonly PendingEntry[]
}): string[] {
  const payments = arrivals.filter(isPayment)
  const byInvoice = Map.groupBy(payments, ({ invoice_id: id }) => id)
  return [
    ...invoices.flatMap((invoice) => checkInvoice(invoice, byInvoice.get(invoice._id) ?? [])),
    ...checkMoves(invoices),
    ...checkUnique('payment', arrivals, ({ coin, tx, address_index }) => `${coin} ${tx} ${address_index}`),
    ...checkUnique('address', invoices, ({ coin, address_index }) => `${coin} ${address_index}`),
    ...checkUnique('address', invoices, ({ address }) => address),
    ...checkEntries(invoices, payments, new Map(entries.map((entry) => [entry.source, entry]))),
  ]
}

const sum = (values: readonly bigint[]): bigint => values.reduce((total, value) => total + value, 0n)

/** Checks rules 1 and 2 of findMoneyFaults() for an invoice, and that its payments are its own. */
function checkInvoice(invoice: InvoiceRecord, payments: readonly PaymentRecord[]): string[] {
  const { _id: id, agent_id: agentId, coin, address_index: addressIndex } = invoice
  const faults: string[] = []
  const settled = payments.filter(({ state }) => state === 'settled')
  const received = BigInt(invoice.received_raw)
  const arrived = sum(settled.map(({ amount_raw }) => BigInt(amount_raw)))
  if (arrived !== received)
    faults.push(`${id} has received ${received}, and its settled payments are ${arrived}`)
  // What the operator recorded or gave may have come to another address.
  const isOwn = (payment: PaymentRecord): boolean =>
    payment.agent_id === agentId &&
    payment.coin === coin &&
    (payment.address_index === addressIndex || payment.by === 'operator')
  if (!payments.every(isOwn)) faults.push(`${id} has a payment that is not its own`)
  if (invoice.days === undefined) return faults
  const days = BigInt(invoice.days)
  const boughtByPayments = sum(settled.map(({ credited_days = 0 }) => BigInt(credited_days)))
  const spentByPayments = sum(
    settled.map(({ credited_days = 0, price_raw = '0' }) => BigInt(credited_days) * BigInt(price_raw)),
  )
  const spent =
    spentByPayments + (BigInt(invoice.credited_days) - boughtByPayments) * BigInt(invoice.amount_raw)
  const inflow = (received + BigInt(invoice.carried_raw)) * days
  const accounted = spent + BigInt(invoice.unspent) + BigInt(invoice.moved_raw) * days
  if (inflow !== accounted)
    faults.push(`${id} took in ${inflow} and accounts for ${accounted}, in ${days}ths of the smallest unit`)
  if (BigInt(invoice.unspent) < 0n || BigInt(invoice.moved_raw) < 0n)
    faults.push(`${id} has less than nothing left`)
  if (boughtByPayments > BigInt(invoice.credited_days))
    faults.push(`${id} credited fewer days than its payments bought`)
  return faults
}

/** Checks rule 3: of each agent's invoices in a coin, what moved out of some was carried into others. */
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

/** Checks that no two records have the same key. @param what what the key stands for, for the sentence */
const checkUnique = <Stored>(what: string, records: readonly Stored[], keyOf: (record: Stored) => string) =>
  new Set(records.map(keyOf)).size === records.length ? [] : [`one ${what} is on record twice`]

/** Checks rule 5: payments and credited days against the ledger. @param entries by their source */
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
    const { data = { amount_raw, invoice_id } } = entry ?? {}
    if (data['amount_raw'] !== amount_raw || data['invoice_id'] !== invoice_id)
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
  /** With the arrivals that no invoice counts. */
  payments: ArrivalRecord[]
  orders: OrderRecord[]
  payouts: StoredPayout[]
  transfers: TransferRecord[]
  lines: JournalLine[]
}

/** Moves an amount from one account to another; an account that isn't in the map yet has 0. */
export function moveBetween<Name>(
  balances: Map<Name, bigint>,
  from: Name,
  to: Name,
  amountRaw: bigint,
): void {
  balances.set(from, (balances.get(from) ?? 0n) - amountRaw)
  balances.set(to, (balances.get(to) ?? 0n) + amountRaw)
}

/** Returns what each account of one coin holds by these lines of the journal. */
export function balancesOf(lines: readonly JournalLine[]): Map<Account, bigint> {
  const balances = new Map<Account, bigint>()
  for (const { from, to, amount_raw: raw } of lines) moveBetween(balances, from, to, BigInt(raw))
  return balances
}

/**
 * Checks that every account has what the records of payments, invoices, orders, payouts and transfers say, to
 * the last unit, and that the accounts of a coin are 0 together.
 *
 * @returns a sentence for each fault, which begins with its coin
 */
export function findBookFaults(read: BookRecords): string[] {
  const faults: string[] = []
  for (const coin of COINS) {
    const ofCoin = <Stored extends { coin: Coin }>(records: readonly Stored[]): Stored[] =>
      records.filter((record) => record.coin === coin)
    const balances = balancesOf(ofCoin(read.lines))
    const expected = expectedBalances({
      invoices: ofCoin(read.invoices),
      payments: ofCoin(read.payments),
      orders: ofCoin(read.orders),
      payouts: ofCoin(read.payouts),
      transfers: ofCoin(read.transfers),
      lines: ofCoin(read.lines),
    })
    for (const account of new Set([...balances.keys(), ...expected.keys()])) {
      const [byJournal, byRecords] = [balances.get(account) ?? 0n, expected.get(account) ?? 0n]
      if (byJournal !== byRecords)
        faults.push(`${coin} ${account}: ${byJournal} by the journal, ${byRecords} by the records`)
    }
    if (sum([...balances.values()]) !== 0n) faults.push(`${coin}: the accounts are not 0 together`)
  }
  return faults
}

/** Whether a line is of what a wallet held before the books saw it: only the journal has that. */
const isOpening = ({ _id }: JournalLine): boolean => _id.startsWith('opening/')

/** Returns what each account must hold by the records of one coin. */
function expectedBalances({
  invoices,
  payments,
  orders,
  payouts,
  transfers,
  lines,
}: BookRecords): Map<Account, bigint> {
  const expected = balancesOf(lines.filter(isOpening))
  const move = (from: Account, to: Account, amountRaw: bigint | string): void =>
    moveBetween(expected, from, to, BigInt(amountRaw))
  const standing = payments.filter(({ state }) => state === 'settled')
  for (const { came_to: account, amount_raw: raw } of standing)
    if (account !== undefined) move('chain', account, raw)
  for (const payment of standing.filter(isPayment)) {
    const { order_id: orderId, came_to: from = 'chain' } = payment
    const to: Account = orderId === undefined ? `invoice:${payment.invoice_id}` : `order:${orderId}`
    move(from, to, payment.amount_raw)
    if (payment.reversed_at !== undefined) move('lost', 'chain', payment.amount_raw)
  }
  for (const invoice of invoices.filter(({ days }) => days !== undefined)) {
    const account: Account = `invoice:${invoice._id}`
    const remainder: Account = `remainder:${invoice.agent_id}`
    const carriedRaw = BigInt(invoice.carried_raw) - BigInt(invoice.moved_raw)
    const leftRaw = remainderRaw(invoice)
    move(remainder, account, carriedRaw)
    move(account, 'sold', BigInt(invoice.received_raw) + carriedRaw - leftRaw)
    if (isPaid(invoice) || invoice.lapsed) move(account, remainder, leftRaw)
  }
  for (const order of orders) {
    if (order.fee_taken === true) move(`order:${order._id}`, 'fee', takenFee(order))
    move(`order:${order._id}`, 'lost', order.written_off_raw)
  }
  const confirmed = transfers.filter(({ state }) => state === 'confirmed')
  const confirmedIds = new Set(confirmed.map(({ _id }) => _id))
  for (const payout of payouts.filter(({ state }) => state !== 'withdrawn')) {
    const { state, transfer_id: transferId = '', amount_raw: raw } = payout
    const { payer, owed } = payoutAccounts(payout)
    move(payer, owed, raw)
    // All that a confirmed transfer sends is moved on from the operator's account below.
    if (state === 'manual' || (state === 'in_transfer' && confirmedIds.has(transferId)))
      move(owed, 'operator', raw)
  }
  for (const { kind, amount_raw: raw, fee_raw: feeRaw = '0' } of confirmed) {
    if (kind === 'payout') move('operator', 'paid', raw)
    move('operator', 'network_fee', feeRaw)
  }
  return expected
}

/**
 * Checks that what isn't the venue's own by the ledger's entries, which each seal states, equals what the books
 * have in the accounts of orders, payees, invoices, remainders and of what is unassigned.
 *
 * @param entries as in findMoneyFaults(); all of those that change the sums
 * @returns a sentence for each coin of which it doesn't, which begins with the coin
 */
export function findOwedFaults(entries: readonly PendingEntry[], lines: readonly JournalLine[]): string[] {
  const count = countLiabilities()
  for (const entry of new Map(entries.map((one) => [one.source, one])).values())
    count.add({ ...entry, _id: 0, record: '' })
  return COINS.flatMap((coin) => {
    const totals = new Map<AccountKind, bigint>()
    for (const { from, to, amount_raw: raw } of lines.filter((line) => line.coin === coin))
      moveBetween(totals, kindOf(from), kindOf(to), BigInt(raw))
    const byJournal = liabilitiesOf(totals)
    const byLedger = count.sums()[coin]
    return LIABILITY_NAMES.filter((name) => byLedger[name] !== byJournal[name]).map(
      (name) => `${coin}: ${name} is ${byLedger[name]} by the ledger, ${byJournal[name]} by the journal`,
    )
  })
}
