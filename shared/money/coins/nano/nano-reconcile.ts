import { LAPSED_WATCH_MS } from '../../../platform/limits.ts'
import { unixSeconds } from '../../../platform/time.ts'
import { readIndexFile, runsOf, type Run } from '../../address-index.ts'
import { dustThreshold } from '../../coin.ts'
import type { Findings, WalletState } from '../../driver.ts'
import { NodeUnreachable } from '../../node-errors.ts'
import { moveTransfers } from '../../transfer-service.ts'
import { OPEN_TRANSFERS, TREASURY_INDEX } from '../../transfer.ts'
import { accountOf, isOfAccount, recoverAccount, type Adopter, type OwnAccount } from './nano-recovery.ts'
import type { NanoBlock } from './nano-blocks.ts'
import type { NanoContext } from './nano-gateway.ts'

const PAGE = 1_000

/**
 * Reads the chains of all accounts ever made, of this seed and of earlier ones, into `findings`.
 *
 * @throws NodeUnreachable: what was put on record stays; it may be run again
 */
export async function reconcileAccounts(ctx: NanoContext, findings: Findings): Promise<WalletState> {
  const wallet = ctx.nano.wallet()
  const { cemented } = await ctx.nano.rpc.blockCount()
  const adopter: Adopter = {
    ...findings,
    treasury: wallet.treasury.address,
    /** Every confirmed block of ours goes on record; one that isn't confirmed ends the run. */
    accepts({ hash, isConfirmed }) {
      if (!isConfirmed)
        throw new NodeUnreachable(`block ${hash} is not confirmed yet; reconcile again once it is`)
      return Promise.resolve(true)
    },
  }
  for await (const indexes of readKnown(ctx)) await recoverPage(ctx, indexes, adopter, findings)
  const runs = runsOf(readIndexFile(wallet.indexFile))
  for (const [place, run] of runs.entries())
    for (const indexes of listRun(run, place === runs.length - 1)) {
      const onRecord = new Set((await ctx.coins.addresses.listAt('xno', indexes)).map(({ index }) => index))
      const forgotten = indexes.filter((index) => !onRecord.has(index))
      if (forgotten.length > 0) await recoverPage(ctx, forgotten, adopter, findings)
      if (place >= runs.length - WATCHED_RUNS) await watchForgotten(ctx, indexes)
    }
  await recoverForeign(ctx, adopter)
  const { address } = wallet.treasury
  const totalRaw = (await ctx.nano.rpc.accountInfo(address))?.confirmedBalanceRaw ?? 0n
  return { address, height: cemented, totalRaw }
}

/** Yields the indexes of the treasury and of all addresses on record. */
async function* readKnown(ctx: NanoContext): AsyncGenerator<number[]> {
  yield [TREASURY_INDEX]
  for (const state of ['free', 'taken', 'retired'] as const)
    for (let after = TREASURY_INDEX; ;) {
      const page = await ctx.coins.addresses.listIndexes('xno', state, after, PAGE)
      const last = page.at(-1)
      if (last === undefined) break
      yield page
      after = last
    }
}

/**
 * Yields the indexes of a run that the index file names. The file may be of a backup, too: so it goes on behind
 * the last run, which then was the one in use.
 */
function* listRun([first, end]: Run, isLast: boolean): Generator<number[]> {
  const last = isLast ? end + BEHIND_LAST_RUN : end
  for (let from = Math.max(first, TREASURY_INDEX + 1); from <= last; from += PAGE)
    yield Array.from({ length: Math.min(PAGE, last - from + 1) }, (_, step) => from + step)
}
const BEHIND_LAST_RUN = 1_000
/** Addresses of so many of the newest runs may be those of invoices that were open at a restore. */
const WATCHED_RUNS = 100

/** Has those of the addresses scanned for a month that belong to no invoice on record: one may be forgotten. */
async function watchForgotten(ctx: NanoContext, indexes: readonly number[]): Promise<void> {
  const { keys } = ctx.nano.wallet()
  const [records, invoices] = await Promise.all([
    ctx.coins.addresses.listAt('xno', indexes),
    ctx.invoices.findByAddresses('xno', indexes),
  ])
  const stored = new Map(records.map((record) => [record.index, record]))
  const invoiced = new Set(invoices.map(({ address_index: index }) => index))
  // One that is free now is given to nobody from here on; one that is taken has its invoice.
  const forgotten = indexes.filter((index) => !invoiced.has(index))
  const until = unixSeconds(ctx.database.now() + LAPSED_WATCH_MS)
  const found = forgotten.map((index) => ({
    index,
    address: stored.get(index)?.address ?? keys.deriveAccount(index).address,
  }))
  await ctx.coins.addresses.noteForgotten('xno', found, until)
}

/** Reads the chains of accounts, and notes money at those without an invoice. */
async function recoverPage(
  ctx: NanoContext,
  indexes: readonly number[],
  adopter: Adopter,
  findings: Findings,
): Promise<void> {
  const { keys } = ctx.nano.wallet()
  const records = await ctx.coins.addresses.listAt('xno', indexes)
  const stored = new Map(records.map(({ index, address }) => [index, address]))
  const accounts = indexes.map((index) => ({
    index,
    address: stored.get(index) ?? keys.deriveAccount(index).address,
  }))
  const frontiers = await ctx.nano.rpc.frontiers(accounts.map(({ address }) => address))
  const moneyAt = new Map<number, MoneyAt>()
  for (const account of accounts)
    if (frontiers.has(account.address))
      moneyAt.set(account.index, await recoverCounting(ctx, account, adopter))
  await noteStrays(ctx, accounts, moneyAt, findings)
}

interface MoneyAt {
  balanceRaw: bigint
  /** What blocks have received that were not on record, and the hashes of the sends. */
  receivedRaw: bigint
  sources: string[]
}

const NO_MONEY: MoneyAt = { balanceRaw: 0n, receivedRaw: 0n, sources: [] }

/** Applies the recovery rule to an account, like recoverAccount(). @returns what it holds, and was found to have had */
async function recoverCounting(ctx: NanoContext, account: OwnAccount, adopter: Adopter): Promise<MoneyAt> {
  const money: MoneyAt = { ...NO_MONEY, sources: [] }
  const recovered = await recoverAccount(ctx, account, {
    ...adopter,
    async adoptTransaction(found) {
      await adopter.adoptTransaction(found)
      if (found.kind !== 'receive') return
      money.receivedRaw += found.amountRaw
      money.sources.push((JSON.parse(found.signed) as NanoBlock).link)
    },
  })
  return { ...money, balanceRaw: recovered.kind === 'recovered' ? (recovered.info?.balanceRaw ?? 0n) : 0n }
}

/** Gives `findings` the money at accounts that no invoice has: what is there, and what has left them. */
async function noteStrays(
  ctx: NanoContext,
  accounts: readonly OwnAccount[],
  moneyAt: ReadonlyMap<number, MoneyAt>,
  findings: Findings,
): Promise<void> {
  const { rpc } = ctx.nano
  const invoices = await ctx.invoices.findByAddresses(
    'xno',
    accounts.map(({ index }) => index),
  )
  const invoiced = new Set(invoices.map(({ address_index: index }) => index))
  const uninvoiced = accounts.filter(({ index }) => index !== TREASURY_INDEX && !invoiced.has(index))
  const addresses = uninvoiced.map(({ address }) => address)
  const receivable = await rpc.receivable(addresses, dustThreshold('xno'))
  for (const { index, address } of uninvoiced) {
    const waiting = receivable.get(address) ?? []
    const { balanceRaw, receivedRaw, sources } = moneyAt.get(index) ?? NO_MONEY
    const thereRaw = waiting.reduce((sum, { amountRaw }) => sum + amountRaw, balanceRaw)
    if (thereRaw === 0n && receivedRaw === 0n) continue
    const blocks = await rpc.blocksInfo([...sources, ...waiting.map(({ hash }) => hash)])
    const senders = [...new Set([...blocks.values()].map(({ account }) => account))]
    const about = { address, address_index: index, senders }
    if (thereRaw > 0n) findings.noteStray({ ...about, amount_raw: String(thereRaw) })
    if (receivedRaw > balanceRaw)
      findings.noteStray({ ...about, amount_raw: String(receivedRaw - balanceRaw), gone: true })
  }
}

const MOST_FOREIGN = 10_000

/**
 * Settles the chains of other seeds' accounts that have open transfers, which no sender does. Marks as
 * foreign, and logs, what is neither in the chain nor replaced: it may still come into the chain.
 */
async function recoverForeign(ctx: NanoContext, adopter: Adopter): Promise<void> {
  const { keys } = ctx.nano.wallet()
  const open = await ctx.payouts.transfers.list('xno', OPEN_TRANSFERS, MOST_FOREIGN)
  const foreign = open.filter((transfer) => {
    const { account_index: index } = transfer
    return index !== undefined && !isOfAccount(transfer, keys.deriveAccount(index))
  })
  for (const [address, [transfer]] of Map.groupBy(foreign, accountOf))
    await recoverAccount(ctx, { index: transfer?.account_index ?? 0, address }, adopter)
  for (const { _id } of foreign) {
    const transfer = await ctx.payouts.transfers.find(_id)
    if (transfer === undefined || !OPEN_TRANSFERS.some((state) => state === transfer.state)) continue
    await ctx.payouts.transfers.setForeign(_id)
    const reason = 'it is of an account of another seed, and not in its chain'
    await moveTransfers(ctx, [transfer], 'held', reason)
    const about = { transfer_id: _id, block: transfer.tx, payout_ids: transfer.payout_ids }
    ctx.log.error(about, 'a block of another seed is not in the chain, and may still come into it')
  }
}
