import type { Holdings } from '../../driver.ts'
import { dustThreshold } from '../../coin.ts'
import { OPEN_TRANSFERS, TREASURY_INDEX } from '../../transfer.ts'
import { parseNanoAddress } from '../../../crypto/nano-address.ts'
import { pagesOf } from '../../../platform/records.ts'
import { hashOf, txOf } from './nano-blocks.ts'
import type { NanoContext } from './nano-gateway.ts'

const MOST_OPEN = 10_000
const PAGE = 500
const ACCOUNTS_AT_ONCE = 8

/**
 * Sums what is at the treasury, on its way there, and at invoices' accounts.
 *
 * @returns undefined while a block of ours is unconfirmed, or before the treasury is known
 */
export async function nanoHoldings(ctx: NanoContext): Promise<Holdings | undefined> {
  const { rpc } = ctx.nano
  // As the database knows it: who watches may have no seed.
  const address = (await ctx.coins.findCoin('xno'))?.treasury_address
  if (address === undefined) return undefined
  const open = await ctx.payouts.transfers.list('xno', OPEN_TRANSFERS, MOST_OPEN)
  const blocks = await rpc.blocksInfo(open.map(hashOf))
  if ([...blocks.values()].some(({ confirmed }) => !confirmed)) return undefined
  let heldRaw = await readBalance(ctx, address)
  for (const { tx, kind, amount_raw: raw } of open)
    if (kind === 'payout' && blocks.has(hashOf({ tx }))) heldRaw += BigInt(raw)
  const waiting = (await rpc.receivable([address], dustThreshold('xno'))).get(address) ?? []
  const waitingTxs = waiting.map(({ hash }) => txOf(hash))
  const ours = await ctx.payouts.transfers.listByTx('xno', waitingTxs)
  const ourTxs = new Set(ours.map(({ tx }) => tx))
  for (const { hash, amountRaw } of waiting) if (ourTxs.has(txOf(hash))) heldRaw += amountRaw
  const indexes = new Set(open.flatMap(({ account_index: index = 0 }) => (index === 0 ? [] : [index])))
  for (const { index } of await ctx.coins.addresses.listUnassigned('xno')) indexes.add(index)
  const { unreceivedRaw, receivedAt } = await readUnswept(ctx, address)
  heldRaw += unreceivedRaw
  for (const index of receivedAt) indexes.add(index)
  indexes.delete(TREASURY_INDEX)
  const accounts = await ctx.coins.addresses.listAt('xno', [...indexes])
  for (let start = 0; start < accounts.length; start += ACCOUNTS_AT_ONCE) {
    const batch = accounts.slice(start, start + ACCOUNTS_AT_ONCE)
    const balances = await Promise.all(batch.map((account) => readBalance(ctx, account.address)))
    heldRaw += balances.reduce((sum, balance) => sum + balance, 0n)
  }
  return { address, heldRaw, unrecorded: [] }
}

const readBalance = async ({ nano }: NanoContext, address: string): Promise<bigint> =>
  (await nano.rpc.accountInfo(address))?.confirmedBalanceRaw ?? 0n

/**
 * Reads where the money is that is on the books and not in the treasury: the sum of what waits to be received, and
 * the indexes of the accounts that have received the rest.
 */
async function readUnswept(ctx: NanoContext, treasury: string) {
  let unreceivedRaw = 0n
  const receivedAt = new Set<number>()
  for await (const page of pagesOf((after) => ctx.invoices.arrivals.listUnswept('xno', after, PAGE))) {
    const indexes = new Set(page.map(({ address_index: index }) => index))
    const addresses = await ctx.coins.addresses.listAt('xno', [...indexes])
    const places = [...addresses, { index: TREASURY_INDEX, address: treasury }]
    const keys = new Map(places.map(({ index, address }) => [index, parseNanoAddress(address)?.publicKey]))
    const blocks = await ctx.nano.rpc.blocksInfo(page.map(hashOf))
    for (const { tx, address_index: index } of page) {
      const found = blocks.get(hashOf({ tx }))
      // What the operator recorded by hand may be nowhere: then the books have more than the chain.
      if (found?.block === undefined || found.block.link !== keys.get(index) || !found.confirmed) continue
      if (found.receivedBy === undefined) unreceivedRaw += found.amountRaw ?? 0n
      else receivedAt.add(index)
    }
  }
  return { unreceivedRaw, receivedAt }
}
