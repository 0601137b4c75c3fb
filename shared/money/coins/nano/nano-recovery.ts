import type { Difference, Findings, Sending } from '../../driver.ts'
import { NodeUnreachable } from '../../node-errors.ts'
import { moveTransfers, reinstateTransfer, replaceTransfer } from '../../transfer-service.ts'
import type { TransferRecord } from '../../transfer.ts'
import { encodeNanoAddress } from '../../../crypto/nano-address.ts'
import { txOf, ZERO_HASH, isEpochBlock, workRootOf, type NanoBlock } from './nano-blocks.ts'
import type { NanoContext } from './nano-gateway.ts'
import { TREASURY_INDEX, type NanoAccount } from './nano-keys.ts'
import { CONFIRMED } from './nano-proof.ts'
import type { NanoAccountInfo, NanoBlockInfo } from './nano-rpc.ts'
import { startFindings } from '../../reconcile.ts'
import { unexplainedRecipients } from '../../unexplained-sends.ts'

/*
 * The recovery rule (docs/architecture.md) for one account: its chain as the node has it decides, in
 * normal work and in a reconciliation alike. A block on record whose place a confirmed block has, or whose
 * money another one has received, is replaced, and all that was built on it.
 */

export type OwnAccount = Pick<NanoAccount, 'index' | 'address'>

export interface UnknownBlock {
  readonly hash: string
  readonly block: NanoBlock
  readonly isConfirmed: boolean
  /** Of the account's balance, in raw. */
  readonly change: bigint
}

export interface Adopter extends Pick<Findings, 'adoptTransaction' | 'recordArrival'> {
  /** Whether to put a block on record; if not, the account's work ends. @throws NodeUnreachable to wait */
  accepts(unknown: UnknownBlock): Promise<boolean>
  readonly treasury: string | undefined
}

/**
 * Applies the recovery rule to an account: confirms, replaces, reinstates and adopts blocks on record as
 * its chain has them.
 *
 * @throws NodeUnreachable, NodeRefused
 */
export async function recoverAccount(
  ctx: NanoContext,
  account: OwnAccount,
  adopter: Adopter,
): Promise<Recovered | { readonly kind: 'not accepted'; readonly hash: string }> {
  // The node first and then the database: whatever the node has of ours was stored before it was published.
  const info = await ctx.nano.rpc.accountInfo(account.address)
  const { tail, balanceRaw } =
    info === undefined ? { tail: [], balanceRaw: 0n } : await readTail(ctx, account, info.frontier)
  const due: TransferRecord[] = []
  let before = balanceRaw
  for (const { found, block, record } of tail) {
    const change = found.balanceRaw - before
    before = found.balanceRaw
    const isOurs = change !== 0n || !isEpochBlock(block)
    const unknown: UnknownBlock = { hash: found.hash, block, isConfirmed: found.confirmed, change }
    if (record === undefined && isOurs && !(await adopter.accepts(unknown)))
      return { kind: 'not accepted', hash: found.hash }
    if (!found.confirmed) {
      // Not before it is confirmed has it taken anybody's place.
      if (record !== undefined) due.push(record)
      continue
    }
    await supersede(ctx, account, block, txOf(found.hash))
    if (record !== undefined) await confirm(ctx, account, block, record)
    else if (isOurs) await adopt(account, unknown, adopter)
  }
  for (let place = (info?.frontier ?? publicKeyOf(account)).toLowerCase(); ;) {
    const next = await ctx.payouts.transfers.findSuccessor(account.index, place)
    if (next === undefined) return { kind: 'recovered', info, due }
    due.push(next)
    // A node that lacks a confirmed block has lost it, or is behind by any number of blocks: it gets that one
    // first. What is not confirmed is one run at most.
    if (next.state === 'confirmed') return { kind: 'recovered', info, due }
    place = next.tx
  }
}

/** An account whose chain is as the database has it, but for what is still to be published. */
interface Recovered {
  readonly kind: 'recovered'
  /** Undefined if the account has no block. */
  readonly info: NanoAccountInfo | undefined
  /**
   * Blocks on record that the chain has not confirmed, in its order, to be published and waited for: the next one, if
   * it was confirmed before, or else all.
   */
  readonly due: readonly TransferRecord[]
}

interface ChainBlock {
  readonly found: NanoBlockInfo
  readonly block: NanoBlock
  readonly record: TransferRecord | undefined
}

/**
 * Reads an account's blocks after the last one that is on record as confirmed.
 *
 * @returns the blocks, the oldest first, and the balance before them
 * @throws NodeUnreachable if the node lacks one of them, or has one of another account in its place
 */
async function readTail(ctx: NanoContext, account: OwnAccount, frontier: string) {
  const tail: ChainBlock[] = []
  for (let hash = frontier; hash !== ZERO_HASH;) {
    const record = await findOwnTransfer(ctx, txOf(hash))
    if (record?.account_index === account.index && record.state === 'confirmed')
      return { tail, balanceRaw: BigInt((JSON.parse(record.signed) as NanoBlock).balance) }
    const found = await ctx.nano.rpc.blockInfo(hash)
    if (found?.block === undefined || found.account !== account.address)
      throw new NodeUnreachable(`block ${hash} is not one of account ${account.index} at the node`)
    tail.unshift({ found, block: found.block, record })
    hash = found.block.previous
  }
  return { tail, balanceRaw: 0n }
}

/** Finds our transfer; a first miss is read again from the primary, since it may halt the coin. */
async function findOwnTransfer(ctx: NanoContext, tx: string): Promise<TransferRecord | undefined> {
  const found = await ctx.payouts.transfers.findByTx('xno', tx)
  return found ?? ctx.payouts.transfers.findByTx('xno', tx, { surely: true })
}

/** Replaces every other block on record in the block's place, which `tx` has; those built on it first. */
async function supersede(
  ctx: NanoContext,
  account: OwnAccount,
  block: NanoBlock,
  tx: string,
  why = 'another block stands in its place',
): Promise<void> {
  for (;;) {
    const rival = await findLastBuiltOn(ctx, account, placeOf(block), tx)
    if (rival === undefined) return
    // If another process has built on it meanwhile, that goes first.
    if (!(await replaceTransfer(ctx, rival, `${why}: ${tx}`))) continue
    ctx.log.warn({ transfer_id: rival._id, block: rival.tx, by: tx }, `a block of ours is replaced: ${why}`)
  }
}

/**
 * Replaces a receive that the node refuses because a confirmed block of the account has received the same
 * send: it was built while the node had lost that one, and can never be published.
 *
 * @returns false if there is no such block
 */
export async function replaceIfReceived(ctx: NanoContext, account: OwnAccount, block: NanoBlock) {
  const by = (await ctx.nano.rpc.blockInfo(block.link))?.receivedBy
  const found = by === undefined ? undefined : await ctx.nano.rpc.blockInfo(by)
  if (found?.confirmed !== true || found.account !== account.address || found.block?.link !== block.link)
    return false
  await supersede(ctx, account, block, txOf(found.hash), 'another one has received its money')
  return true
}

/** Finds the last block on record at or after a place, each built on the one before; none after `tx`. */
async function findLastBuiltOn(ctx: NanoContext, account: OwnAccount, place: string, tx: string) {
  let last: TransferRecord | undefined
  for (
    let next = await ctx.payouts.transfers.findSuccessor(account.index, place);
    next !== undefined && next.tx !== tx;
  ) {
    last = next
    next = await ctx.payouts.transfers.findSuccessor(account.index, next.tx)
  }
  return last
}

/** Notes that a block on record is confirmed in the chain, whatever it was called. */
async function confirm(ctx: NanoContext, account: OwnAccount, block: NanoBlock, record: TransferRecord) {
  if (record.state === 'replaced')
    await reinstateTransfer(ctx, record, { account_index: account.index, previous: placeOf(block) })
  else {
    // The process that published it may have died before it noted that.
    await moveTransfers(ctx, [record], 'taken')
    await moveTransfers(ctx, [record], 'confirmed')
  }
}

/**
 * Records a confirmed block of an account that is not on record, as a transfer, and before that what it received.
 */
async function adopt(account: OwnAccount, unknown: UnknownBlock, adopter: Adopter) {
  const { hash, block, change } = unknown
  const { index } = account
  const isSweep =
    account.address !== adopter.treasury && change < 0n && encodeNanoAddress(block.link) === adopter.treasury
  let kind: 'other' | 'receive' | 'sweep' | 'payout' = isSweep ? 'sweep' : 'payout'
  if (change >= 0n) kind = change > 0n ? 'receive' : 'other'
  const tx = txOf(block.link)
  // The send is no longer listed as receivable, so no scan will find it.
  const seen = { coin: 'xno', tx, addressIndex: index, amountRaw: change, ...CONFIRMED } as const
  const arrival = kind === 'receive' ? await adopter.recordArrival(seen) : undefined
  await adopter.adoptTransaction({
    kind,
    account_index: index,
    previous: placeOf(block),
    tx: txOf(hash),
    signed: JSON.stringify(block),
    ...(kind === 'payout' ? sendingOf(unknown) : { amountRaw: change < 0n ? -change : change, to: [] }),
    paymentIds: arrival === undefined ? [] : [arrival],
  })
}

/** What a block sends, and to whom. */
export function sendingOf({ hash, block, change }: UnknownBlock): Required<Sending> {
  const address = encodeNanoAddress(block.link)
  return {
    tx: txOf(hash),
    amountRaw: -change,
    to: [address],
    sent: [{ address, amountRaw: -change }],
  }
}

/** The place of a block in its account's chain, as it is on record (TransferRecord). */
export const placeOf = (block: Pick<NanoBlock, 'account' | 'previous'>): string =>
  workRootOf(block).toLowerCase()

const publicKeyOf = ({ address }: OwnAccount): string => placeOf({ account: address, previous: ZERO_HASH })

export const accountOf = ({ signed }: TransferRecord): string => (JSON.parse(signed) as NanoBlock).account

/** Whether a transfer is a block of this account, and not of another seed's with the same index. */
export const isOfAccount = (transfer: TransferRecord, { address }: Pick<NanoAccount, 'address'>): boolean =>
  accountOf(transfer) === address

/**
 * Applies the recovery rule to an account , unless its chain has a block that neither the
 * database knows nor the operator has recorded.
 *
 * @throws NodeUnreachable if a block that the operator has recorded is not confirmed yet
 */
export async function recoverOrDiffer(
  ctx: NanoContext,
  account: OwnAccount,
): Promise<Recovered | Difference> {
  const { findings } = startFindings(ctx, 'xno', 'found in the chain, as the operator recorded it')
  const recovered = await recoverAccount(ctx, account, {
    ...findings,
    treasury: (await ctx.coins.findCoin('xno'))?.treasury_address,
    async accepts(unknown) {
      const { hash, change, isConfirmed } = unknown
      const isAccepted =
        change < 0n
          ? (await unexplainedRecipients(ctx, 'xno', sendingOf(unknown))).length === 0
          : change > 0n && (await isInvoiced(ctx, account))
      if (isAccepted && !isConfirmed)
        throw new NodeUnreachable(`block ${hash} of account ${account.index} is not confirmed yet`)
      return isAccepted
    },
  })
  if (recovered.kind === 'recovered') return recovered
  const which = account.index === TREASURY_INDEX ? 'the treasury' : `account ${account.index}`
  const why = `the last block of ${which} (${account.address}) is ${recovered.hash}, which the database does not know`
  return { kind: 'differs', why }
}

const isInvoiced = async (ctx: NanoContext, { index }: OwnAccount): Promise<boolean> =>
  index !== TREASURY_INDEX && (await ctx.invoices.findByAddresses('xno', [index])).length > 0
