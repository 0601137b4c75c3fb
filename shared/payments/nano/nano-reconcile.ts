import { isDuplicateKey } from '../../database.ts'
import { newId } from '../../ids.ts'
import { unixSeconds } from '../../time.ts'
import { readIndexFile } from '../address-pool.ts'
import { haltToReconcile } from '../coin-round.ts'
import { dustThreshold } from '../coin.ts'
import { holdSuspects } from '../due-payouts.ts'
import { NodeUnreachable } from '../node-errors.ts'
import { adoptTransfers, moveTransfer } from '../payout-service.ts'
import type { TransferRecord } from '../payout.ts'
import type { FoundSend, StrayMoney } from '../reconciliation-store.ts'
import { recordPayment } from '../settlement.ts'
import { encodeNanoAddress } from './nano-address.ts'
import { isEpochBlock, ZERO_HASH, type NanoBlock } from './nano-blocks.ts'
import type { NanoContext, NanoWallet } from './nano-gateway.ts'
import { accountOf, findOnPlace, isOfAccount, placeOf } from './nano-lane.ts'

/*
 * The way on after a database was restored, or the seed was used elsewhere, or is another one: the chains of our accounts are read from the
 * node, and what they hold is put on record. The coin is halted all the while, and goes on at the end.
 *
 *   - Blocks that the database did not know are stored as confirmed. A block of ours under way whose place one of them has
 *     is replaced: it can never be confirmed any more, and what it was to pay is owed again.
 *   - Money that an invoice's account received is counted, once.
 *   - A block that sent money out of our accounts may have paid somebody, and the database cannot say for what. Whatever is
 *     owed to its destination is held for the operator, now and whenever it becomes owed later, until the operator has
 *     accounted for the block. So a payout that the database has forgotten is not made twice in silence.
 *   - Addresses that were made ahead are retired.
 *   - From then on the seed is the one that this process has. A block under way of another seed's account, which no lane sees
 *     to any more, is confirmed if it is in the chain, replaced if another has its place, and else held for the operator.
 */

/** What a reconciliation has found so far. */
interface Findings {
  transactions: number
  payments: number
  sends: FoundSend[]
}

/** Accounts looked at in one query. */
const PAGE = 1_000

/** @throws NodeUnreachable: the coin stays halted, and what was put on record stays; it may be run again */
export async function reconcileNano(ctx: NanoContext): Promise<void> {
  const wallet = ctx.nano.wallet()
  const { reason, record } = await haltToReconcile(ctx, 'xno')
  const { cemented } = await ctx.nano.rpc.blockCount()
  const found: Findings = { transactions: 0, payments: 0, sends: [] }
  const stray: StrayMoney[] = []
  const highest = Math.max(readIndexFile(wallet.indexFile).highest, await ctx.coins.highestIndex('xno'))
  for (let from = wallet.treasury.index; from <= Math.max(highest, wallet.treasury.index); from += PAGE)
    stray.push(...(await reconcilePage(ctx, wallet, from, Math.min(from + PAGE - 1, highest), found)))
  await settleForeign(ctx, wallet, found)
  const _id = newId('reconciliation')
  const held = await holdSuspects(ctx, 'xno', _id)
  await ctx.coins.retireFree('xno')
  const { transactions, payments, sends } = found
  const at = unixSeconds(ctx.now())
  await ctx.reconciliations.insert({ _id, coin: 'xno', at, reason, transactions, payments, sends, stray, held_payout_ids: held })
  // Lower than before, too: another node may stand behind the same URL, or one may have told of a height that was none.
  await ctx.coins.report('xno', { height: cemented }, at)
  const { address } = wallet.treasury
  if (record?.treasury_address !== address) {
    const balanceRaw = (await ctx.nano.rpc.accountInfo(address))?.confirmedBalanceRaw ?? 0n
    await ctx.coins.noteTreasury('xno', { treasury_address: address, treasury_raw: String(balanceRaw) })
    ctx.log.warn({ before: record?.treasury_address, treasury: address }, 'the seed of this treasury is taken over')
  }
  await ctx.coins.resume('xno')
  ctx.log.warn(
    { reconciliation_id: _id, transactions, payments, sends: sends.length, held: held.length, stray: stray.length },
    'Nano is reconciled and goes on',
  )
}

/** The accounts with these indexes. @returns what lies at those that no invoice has */
async function reconcilePage(ctx: NanoContext, wallet: NanoWallet, from: number, to: number, found: Findings): Promise<StrayMoney[]> {
  const { rpc } = ctx.nano
  const indexes = Array.from({ length: Math.max(1, to - from + 1) }, (_, step) => from + step)
  const stored = new Map((await ctx.coins.listAddresses('xno', indexes)).map(({ index, address }) => [index, address]))
  const accounts = indexes.map((index) => ({ index, address: stored.get(index) ?? wallet.keys.deriveAccount(index).address }))
  const frontiers = await rpc.frontiers(accounts.map(({ address }) => address))
  const balances = new Map<number, bigint>()
  for (const { index, address } of accounts) {
    const frontier = frontiers.get(address)
    if (frontier !== undefined) balances.set(index, await reconcileAccount(ctx, wallet, { index, address, frontier }, found))
  }
  const invoiced = new Set((await ctx.invoices.findByAddresses('xno', indexes)).map(({ address_index: index }) => index))
  const uninvoiced = accounts.filter(({ index }) => index !== wallet.treasury.index && !invoiced.has(index))
  const receivable = await rpc.receivable(
    uninvoiced.map(({ address }) => address),
    dustThreshold('xno'),
  )
  return uninvoiced.flatMap(({ index, address }) => {
    const waiting = (receivable.get(address) ?? []).reduce((sum, { amountRaw }) => sum + amountRaw, 0n)
    const amountRaw = waiting + (balances.get(index) ?? 0n)
    return amountRaw === 0n ? [] : [{ address, address_index: index, amount_raw: String(amountRaw) }]
  })
}

interface Account {
  index: number
  address: string
  frontier: string
}

/** A block that the database does not know. */
interface Unknown {
  hash: string
  block: NanoBlock
}

/** @returns the account's balance */
async function reconcileAccount(ctx: NanoContext, wallet: NanoWallet, account: Account, found: Findings): Promise<bigint> {
  const { unknown, balanceRaw: start } = await readUnknown(ctx, account)
  let balanceRaw = start
  for (const { hash, block } of unknown) {
    const change = BigInt(block.balance) - balanceRaw
    balanceRaw = BigInt(block.balance)
    if (change === 0n && isEpochBlock(block)) continue // the network's, not ours
    await adopt(ctx, wallet, account, { hash, block }, change, found)
  }
  return balanceRaw
}

/** Back from the last block to one that is on record, or to the beginning; the oldest first, and the balance before them. */
async function readUnknown(ctx: NanoContext, account: Account): Promise<{ unknown: Unknown[]; balanceRaw: bigint }> {
  const unknown: Unknown[] = []
  for (let hash = account.frontier; hash !== ZERO_HASH;) {
    const known = await ctx.payouts.findTransferByTx('xno', hash.toLowerCase())
    if (known?.account_index === account.index) return { unknown, balanceRaw: BigInt((JSON.parse(known.signed) as NanoBlock).balance) }
    const info = await ctx.nano.rpc.blockInfo(hash)
    if (info?.block === undefined || info.account !== account.address)
      throw new NodeUnreachable(`the node does not have block ${hash} of account ${account.index} as a block of that account`)
    if (!info.confirmed)
      throw new NodeUnreachable(`block ${hash} of account ${account.index} is not confirmed yet; reconcile again once it is`)
    unknown.unshift({ hash, block: info.block })
    hash = info.block.previous
  }
  return { unknown, balanceRaw: 0n }
}

/** Puts one block on record. @param change of the account's balance, in raw */
async function adopt(
  ctx: NanoContext,
  wallet: NanoWallet,
  account: Account,
  { hash, block }: Unknown,
  change: bigint,
  found: Findings,
): Promise<void> {
  const tx = hash.toLowerCase()
  const previous = placeOf(block)
  for (const rival of await listOnPlace(ctx, account, previous)) {
    if (!(await moveTransfer(ctx, rival, ['signed', 'sent', 'held'], 'replaced', `another block stands in its place: ${tx}`)))
      throw new Error(
        `transfer ${rival._id} is ${rival.state}, and the chain of account ${account.index} has another block in its place: ${tx}`,
      )
  }
  const kind = kindOf(wallet, account, block, change)
  const at = unixSeconds(ctx.now())
  const transfer: TransferRecord = {
    _id: newId('transfer'),
    coin: 'xno',
    kind,
    account_index: account.index,
    previous,
    tx,
    signed: JSON.stringify(block),
    amount_raw: String(change < 0n ? -change : change),
    payment_ids:
      kind === 'receive' && account.index !== wallet.treasury.index ? await countPayment(ctx, account, block, change, found) : [],
    payout_ids: [],
    state: 'confirmed',
    at,
    changed_at: at,
    reason: 'found by a reconciliation',
  }
  const isSend = kind === 'payout' && !(await ctx.payouts.isPaidByHand('xno', tx))
  const to = isSend ? [encodeNanoAddress(block.link)] : []
  try {
    await adoptTransfers(ctx, [{ ...transfer, ...(isSend ? { unexplained_to: to } : {}) }])
  } catch (error) {
    // A reconciliation that runs beside this one was faster.
    if (!isDuplicateKey(error)) throw error
    return
  }
  found.transactions++
  if (isSend) found.sends.push({ tx, to, amount_raw: transfer.amount_raw })
}

/** What is on record at a place of an account's chain, and all that was built on it, the last first: each leaves its place before the one below it. */
async function listOnPlace(ctx: NanoContext, account: Account, previous: string): Promise<TransferRecord[]> {
  const found: TransferRecord[] = []
  for (let place = previous; ;) {
    const transfer = await findOnPlace(ctx, account, place)
    if (transfer === undefined) return found
    found.unshift(transfer)
    place = transfer.tx
  }
}

function kindOf({ treasury }: NanoWallet, account: Account, block: NanoBlock, change: bigint): TransferRecord['kind'] {
  if (change === 0n) return 'other'
  if (change > 0n) return 'receive'
  return account.address !== treasury.address && block.link === treasury.publicKey ? 'sweep' : 'payout'
}

/** Enough for every block that can be under way at once. */
const MOST_FOREIGN = 10_000

/** Blocks under way of accounts that are not this seed's. */
async function settleForeign(ctx: NanoContext, wallet: NanoWallet, found: Findings): Promise<void> {
  const { rpc } = ctx.nano
  const open = await ctx.payouts.listTransfers('xno', ['signed', 'sent', 'held'], MOST_FOREIGN)
  const foreign = open.flatMap((transfer) => {
    const { account_index: index } = transfer
    if (index === undefined || isOfAccount(transfer, wallet.keys.deriveAccount(index))) return []
    return [{ transfer, index, address: accountOf(transfer) }]
  })
  const accounts = new Map(foreign.map(({ address, index }) => [address, index]))
  // What has the place of one of them makes it replaced.
  for (const [address, frontier] of await rpc.frontiers([...accounts.keys()]))
    await reconcileAccount(ctx, wallet, { index: accounts.get(address) ?? 0, address, frontier }, found)
  const blocks = await rpc.blocksInfo(foreign.map(({ transfer: { tx } }) => tx.toUpperCase()))
  for (const { transfer } of foreign) {
    if (blocks.get(transfer.tx.toUpperCase())?.confirmed === true)
      await moveTransfer(ctx, transfer, ['signed', 'sent', 'held'], 'confirmed')
    else if (await moveTransfer(ctx, transfer, ['signed', 'sent'], 'held', 'it is of an account of another seed, and not in its chain'))
      ctx.log.error(
        { transfer_id: transfer._id, block: transfer.tx, payout_ids: transfer.payout_ids },
        'a block of another seed is put aside for the operator: it is not in the chain, and may still come into it',
      )
  }
}

/** The payment that a block of an invoice's account received; its source is on no list any more, so nobody else will find it. */
async function countPayment(ctx: NanoContext, { index }: Account, block: NanoBlock, amountRaw: bigint, found: Findings): Promise<string[]> {
  const tx = block.link.toLowerCase()
  const before = await ctx.invoices.findPayment('xno', tx, index)
  if (before !== undefined && before.state === 'settled') return [before._id]
  await recordPayment(ctx, { coin: 'xno', tx, addressIndex: index, amountRaw, confirmations: 1, isConfirmed: true })
  const after = await ctx.invoices.findPayment('xno', tx, index)
  if (after === undefined) return []
  found.payments++
  return [after._id]
}
