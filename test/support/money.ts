import type { Context } from '../../shared/context.ts'
import { afterEach } from 'vitest'
import {
  balancesOf,
  findBookFaults,
  findMoneyFaults,
  findOwedFaults,
  type BookRecords,
} from '../../shared/operation/check-money.ts'
import type { PendingEntry } from '../../shared/ledger/pending.ts'
import type { Coin } from '../../shared/money/coin.ts'
import { isPayment, type ArrivalRecord } from '../../shared/money/arrival.ts'
import type { InvoiceRecord } from '../../shared/money/invoice.ts'
import { heldRaw, type JournalLine } from '../../shared/money/journal.ts'
import { atOneMoment, listAllEntries } from './stored.ts'
import { toldChain } from './told-chain.ts'

/**
 * Checks, past the code under test, that every raw and piconero that arrived is accounted for, and once.
 *
 * @returns how much there was to check
 * @throws Error listing all that does not hold
 */
export async function checkMoney(
  ctx: Context,
): Promise<{ invoices: number; payments: number; settled: number }> {
  const { connection } = ctx.database
  const { invoices, payments, entries } = await atOneMoment(connection, async (session) => ({
    invoices: await connection.collection<InvoiceRecord>('invoices').find({}, { session }).toArray(),
    payments: await connection.collection<ArrivalRecord>('payments').find({}, { session }).toArray(),
    entries: await listAllEntries(connection, session),
  }))
  const faults = findMoneyFaults({ invoices, payments, entries })
  if (faults.length > 0) throw new Error(`the money does not add up:\n${faults.join('\n')}`)
  const counted = payments.filter(isPayment)
  return {
    invoices: invoices.length,
    payments: counted.length,
    settled: counted.filter(({ state }) => state === 'settled').length,
  }
}

/**
 * What a coin's chain holds for the venue, counted past the code under test; undefined if that cannot be
 * said.
 */
export interface ChainHoldings {
  coin: Coin
  held(): Promise<bigint | undefined>
}

/**
 * After every test of a file the journal's sums equal the records and what the chain holds; without a node,
 * the chain that the tests told of.
 */
export function checkBooksAfterEach(
  contextOf: () => Context | undefined,
  chainOf?: () => ChainHoldings,
): void {
  afterEach(async () => {
    const ctx = contextOf()
    if (ctx !== undefined) await checkBooks(ctx, chainOf === undefined ? toldChain(ctx) : [chainOf()])
  })
}

/**
 * Checks the books against the records, to the last unit: every account has what the records of payments,
 * invoices, orders, payouts and transfers say, all of them together are 0, and what the ledger says is owed
 * is what they owe; given the chain, what is held by the books is there.
 *
 * @throws Error listing all that does not hold
 */
export async function checkBooks(
  { database: { connection } }: Context,
  chains: readonly ChainHoldings[] = [],
): Promise<void> {
  const read = await atOneMoment(connection, async (session) => {
    const all = async (name: string) => connection.collection(name).find({}, { session }).toArray()
    return {
      invoices: await all('invoices'),
      payments: await all('payments'),
      orders: await all('orders'),
      payouts: await all('payouts'),
      transfers: await all('transfers'),
      lines: await all('journal'),
      entries: await listAllEntries(connection, session),
    } as unknown as BookRecords & { entries: PendingEntry[] }
  })
  const faults = findBookFaults(read)
  // The older database of the vectors was recorded without its ledger.
  if (read.entries.length > 0) faults.push(...findOwedFaults(...ofTheVenue(read)))
  for (const { coin, held } of chains) {
    const balances = balancesOf(read.lines.filter((line) => line.coin === coin))
    const there = await held()
    if (there !== undefined && heldRaw(balances) !== there)
      faults.push(`${coin}: ${heldRaw(balances)} is held by the books, ${there} by the chain`)
  }
  if (faults.length > 0) throw new Error(`the books do not agree:\n${faults.join('\n')}`)
}

/** What the ledger and the journal have without the payouts of tests that are for no order, which no service makes. */
function ofTheVenue({ entries, lines }: { entries: PendingEntry[]; lines: JournalLine[] }) {
  const isOurs = (fields: { [name: string]: unknown }) =>
    fields['payout_id'] === undefined ||
    fields['order_id'] !== undefined ||
    fields['payment_id'] !== undefined
  return [
    entries.filter(({ kind, data }) => kind !== 'payout' || isOurs(data)),
    lines.filter((line) => isOurs(line)),
  ] as const
}
