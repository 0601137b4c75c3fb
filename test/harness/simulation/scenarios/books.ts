import { findBookFaults, findMoneyFaults, findOwedFaults } from '../../../../shared/operation/check-money.ts'
import type { OrderRecord } from '../../../../shared/market/order.ts'
import type { InvoiceRecord } from '../../../../shared/money/invoice.ts'
import type { PaymentRecord } from '../../../../shared/money/arrival.ts'
import type { JournalLine } from '../../../../shared/money/journal.ts'
import type { StoredPayout } from '../../../../shared/money/payout.ts'
import type { TransferRecord } from '../../../../shared/money/transfer.ts'
import { requireThat } from '../stubs.ts'
import type { World } from '../world.ts'
import { readEntries } from './agents.ts'
import type { Chain } from './chain.ts'
import { BUYER, FEE, PRICE, SELLER } from './orders.ts'

export const rowsOf = <T>({ set }: World, collection: string): T[] =>
  set.lasting(collection) as unknown as T[]

const sum = (records: readonly { amount_raw: string }[]): bigint =>
  total(records.map(({ amount_raw: raw }) => BigInt(raw)))

function requireSame(what: string, found: bigint, expected: bigint): void {
  requireThat(found === expected, `${what} is ${found}, not ${expected}`)
}

const total = (amounts: readonly bigint[]): bigint => amounts.reduce((whole, part) => whole + part, 0n)

const requireDistinct = (values: readonly string[], otherwise: string): void =>
  requireThat(new Set(values).size === values.length, otherwise)

/**
 * Checks by the chain alone, whatever the books say: no payout is paid twice, and of no order more goes out
 * than has come in, or its price to both sides.
 */
export function checkChain(chain: Chain): void {
  const paid = chain.paid()
  requireDistinct(
    paid.map(({ _id }) => _id),
    'the chain pays a payout twice',
  )
  const orderIds = new Set(paid.map(({ order_id: id = '' }) => id))
  for (const id of orderIds) {
    const out = paid.filter(({ order_id: order }) => order === id)
    const shown = chain.listShown().filter(({ addressIndex }) => id === `mkt_${addressIndex}`)
    const cameIn = total(shown.map(({ amountRaw }) => amountRaw))
    const toSeller = sum(out.filter(({ agent_id: agent }) => agent === SELLER))
    requireThat(toSeller === 0n || toSeller === PRICE - FEE, `the chain pays ${toSeller} to a seller`)
    requireThat(sum(out) + (toSeller > 0n ? FEE : 0n) <= cameIn, `more is paid out for ${id} than came in`)
  }
}

/** Checks when everything is over: each raw that came in went out, or is the fee of a seller who was paid. */
export function checkChainAtRest(chain: Chain, orderIds: readonly string[]): void {
  for (const [index, id] of orderIds.entries()) {
    const out = chain.paid().filter(({ order_id: order }) => order === id)
    const cameIn = chain.payments.filter(({ addressIndex }) => addressIndex === index)
    const isSold = out.some(({ agent_id: agent }) => agent === SELLER)
    requireSame(
      `what was paid out for ${id}`,
      sum(out) + (isSold ? FEE : 0n),
      total(cameIn.map(({ amountRaw }) => amountRaw)),
    )
  }
}

/**
 * Checks that the books add up, by the rules of every check of the books; that each order owes its sides what its
 * status says; and that no payment, payout or place in a chain is used twice.
 *
 * @throws Error at the first that does not hold
 */
export function checkBooks(world: World, chain: Chain): void {
  const payouts = rowsOf<StoredPayout>(world, 'payouts')
  const transfers = rowsOf<TransferRecord>(world, 'transfers')
  const payments = rowsOf<PaymentRecord>(world, 'payments')
  const settled = payments.filter(({ state }) => state === 'settled')
  const invoices = new Map(rowsOf<InvoiceRecord>(world, 'invoices').map((invoice) => [invoice._id, invoice]))
  requireDistinct(
    settled.map(({ tx }) => tx),
    'a payment counts twice',
  )
  const paid = new Map(chain.payments.map((payment) => [payment.tx, payment]))
  for (const { _id, tx, amount_raw: raw, invoice_id: id, late, state } of payments) {
    requireThat(paid.get(tx)?.amountRaw === BigInt(raw), `payment ${_id} is not what the chain shows`)
    const isHeld = state === 'seen' && !late && paid.get(tx)?.wasHidden === false
    requireThat(!(isHeld && invoices.get(id)?.lapsed), `invoice ${id} expired with ${_id} under way`)
  }
  const orders = rowsOf<OrderRecord>(world, 'orders')
  for (const { _id, status, written_off_raw: writtenOff } of orders) {
    const received = sum(settled.filter(({ order_id: id }) => id === _id))
    const of = (agentId: string) =>
      sum(
        payouts.filter(
          ({ order_id: id, agent_id: agent, state }) =>
            id === _id && agent === agentId && state !== 'withdrawn',
        ),
      )
    const [buyer, seller] = [of(BUYER), of(SELLER)]
    const net = received - BigInt(writtenOff)
    if (status === 'disputed') continue
    const isSellers = status === 'released' || status === 'paid_out'
    requireSame(`what ${_id} owes its seller`, seller, isSellers ? PRICE - FEE : 0n)
    if (status === 'refunded' || status === 'expired') requireSame(`what ${_id} owes its buyer`, buyer, net)
    else if (status !== 'awaiting_payment')
      requireSame(`what ${_id} owes its buyer beyond the price`, buyer, net - PRICE)
  }
  const entries = readEntries(world, ['orders', 'invoices', 'payments', 'payouts', 'journal'])
  const lines = rowsOf<JournalLine>(world, 'journal')
  const [fault] = [
    ...findMoneyFaults({ invoices: [...invoices.values()], payments, entries }),
    ...findBookFaults({ invoices: [...invoices.values()], payments, orders, payouts, transfers, lines }),
    ...findOwedFaults(entries, lines),
  ]
  requireThat(fault === undefined, `the books do not add up: ${fault}`)

  const standing = transfers.filter(({ state }) => state !== 'replaced')
  requireDistinct(
    standing.map(({ account_index: index, previous }) => `${index} ${previous}`),
    'two blocks have one place in a chain',
  )
  for (const { _id, state, frozen } of payouts)
    requireThat(!(state === 'in_transfer' && frozen), `payout ${_id} is frozen and in a transfer`)
  requireDistinct(
    standing.flatMap(({ payout_ids: ids }) => ids),
    'a payout is in two transfers',
  )
}
