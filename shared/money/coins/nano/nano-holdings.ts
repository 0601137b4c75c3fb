import type { NanoAssets } from '../../../ledger/assets.ts'
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
  const treasury = await readAccount(ctx, address)
  let heldRaw = BigInt(treasury.balance)
  for (const { tx, kind, amount_raw: raw } of open)
    if (kind === 'payout' && blocks.has(hashOf({ tx }))) heldRaw += BigInt(raw)
  const waiting = (await rpc.receivable([address], dustThreshold('xno'))).get(address) ?? []
  const waitingTxs = waiting.map(({ hash }) => txOf(hash))
  const ours = await ctx.payouts.transfers.listByTx('xno', waitingTxs)
  const ourTxs = new Set(ours.map(({ tx }) => tx))
  for (const { hash, amountRaw } of waiting) if (ourTxs.has(txOf(hash))) heldRaw += amountRaw
  const indexes = new Set(open.flatMap(({ account_index: index = 0 }) => (index === 0 ? [] : [index])))
  for (const { index } of await ctx.coins.addresses.listUnassigned('xno')) indexes.add(index)
  const { unreceived, receivedAt } = await readUnswept(ctx, address)
  for (const { amountRaw } of [...unreceived.values()].flat()) heldRaw += amountRaw
  for (const index of receivedAt) indexes.add(index)
  indexes.delete(TREASURY_INDEX)
  const accounts = new Map<string, NanoAssets[number]>()
  const records = await ctx.coins.addresses.listAt('xno', [...indexes])
  for (let start = 0; start < records.length; start += ACCOUNTS_AT_ONCE) {
    const batch = records.slice(start, start + ACCOUNTS_AT_ONCE)
    for (const account of await Promise.all(batch.map((one) => readAccount(ctx, one.address)))) {
      accounts.set(account.account, account)
      heldRaw += BigInt(account.balance)
    }
  }
  const assets = await listAssets(ctx, {
    treasury: { ...treasury, receivable: viewWaiting(waiting) },
    accounts,
    unreceived,
  })
  return { address, heldRaw, unrecorded: [], assets }
}

type Waiting = { hash: string; amountRaw: bigint }
const viewWaiting = (waiting: readonly Waiting[]) =>
  waiting.map(({ hash, amountRaw }) => ({ hash, amount: String(amountRaw) }))

/**
 * Lists what the accounts hold as closing entries state it, the treasury first.
 *
 * @param found.accounts by address, as far as they were read
 * @param found.unreceived by address; a treasury's is in it already
 */
async function listAssets(
  ctx: NanoContext,
  {
    treasury,
    accounts,
    unreceived,
  }: {
    treasury: NanoAssets[number]
    accounts: ReadonlyMap<string, NanoAssets[number]>
    unreceived: ReadonlyMap<string, Waiting[]>
  },
): Promise<NanoAssets> {
  const listed = new Map(accounts)
  for (const [address, waiting] of unreceived) {
    if (address === treasury.account) continue
    const account = listed.get(address) ?? (await readAccount(ctx, address))
    listed.set(address, { ...account, receivable: viewWaiting(waiting) })
  }
  return [treasury, ...listed.values()].filter(
    ({ balance, receivable }, place) => place === 0 || balance !== '0' || receivable.length > 0,
  )
}

/** Reads the confirmed frontier and balance of an account. */
async function readAccount({ nano }: NanoContext, account: string): Promise<NanoAssets[number]> {
  const info = await nano.rpc.accountInfo(account)
  const balance = String(info?.confirmedBalanceRaw ?? 0n)
  return { account, frontier: info?.confirmedFrontier ?? null, balance, receivable: [] }
}

/**
 * Reads where the money is that is on the books but not in the treasury: for each address what waits to be received,
 * and the indexes of the accounts that have received the rest.
 */
async function readUnswept(ctx: NanoContext, treasury: string) {
  const unreceived = new Map<string, Waiting[]>()
  const receivedAt = new Set<number>()
  for await (const page of pagesOf((after) => ctx.invoices.arrivals.listUnswept('xno', after, PAGE))) {
    const indexes = new Set(page.map(({ address_index: index }) => index))
    const addresses = await ctx.coins.addresses.listAt('xno', [...indexes])
    const places = [...addresses, { index: TREASURY_INDEX, address: treasury }]
    const byIndex = new Map(places.map(({ index, address }) => [index, address]))
    const blocks = await ctx.nano.rpc.blocksInfo(page.map(hashOf))
    for (const { tx, address_index: index } of page) {
      const found = blocks.get(hashOf({ tx }))
      // What the operator recorded by hand may be nowhere: then the books have more than the chain.
      const address = byIndex.get(index) ?? ''
      const key = parseNanoAddress(address)?.publicKey
      if (found?.block === undefined || found.block.link !== key || !found.confirmed) continue
      if (found.receivedBy !== undefined) receivedAt.add(index)
      else if (found.amountRaw !== undefined)
        unreceived.set(address, [
          ...(unreceived.get(address) ?? []),
          { hash: hashOf({ tx }), amountRaw: found.amountRaw },
        ])
    }
  }
  return { unreceived, receivedAt }
}
