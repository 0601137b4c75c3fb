import { setTimeout as sleep } from 'node:timers/promises'
import { isDuplicateKey, isOutage } from '../../database.ts'
import { newId } from '../../ids.ts'
import { createTurns } from '../../one-at-a-time.ts'
import { MINUTE_MS, SECOND_MS, unixSeconds } from '../../time.ts'
import { haltCoin, isHalted } from '../coin-round.ts'
import { isNodeTrouble, NodeRefused, NodeUnreachable } from '../node-errors.ts'
import { moveTransfer, moveTransfers, storeTransfers } from '../payout-service.ts'
import type { TransferRecord } from '../payout.ts'
import type { NanoAccountState, NanoBlock, NanoSubtype, UnsignedNanoBlock } from './nano-blocks.ts'
import { buildReceive, hashNanoBlock, isEpochBlock, workRootOf, ZERO_HASH } from './nano-blocks.ts'
import type { NanoContext, NanoWallet } from './nano-gateway.ts'
import { TREASURY_INDEX, type NanoAccount } from './nano-keys.ts'
import type { ClaimedSend } from './nano-proof.ts'
import type { NanoAccountInfo } from './nano-rpc.ts'

/**
 * A *lane* is what may extend the chain of one account of ours. What holds in it:
 *
 * - One run at a time: a *run* is one block, or several each built on the one before, and the next is signed when all of
 *   the one before is confirmed. Within a process work on an account takes turns; between processes the unique place
 *   (account, previous) decides, and the slower one drops its whole run.
 * - The order of writes: 1 the signed blocks, stored in one transaction; 2 the blocks, published in their order once a
 *   majority of the database has them; 3 that they were published; 4 that they are confirmed. A death anywhere leaves blocks on record, and the same blocks are
 *   published until they are confirmed: one block can be in the chain once, however often it is sent.
 * - Before anything is signed the account's last block must be the last one on record. One that the database does not know
 *   (a restored backup, or the seed in use elsewhere) halts the coin until the operator reconciles it. So does another
 *   seed than the one that the database knows, by its treasury.
 * - A node that is behind, or gives no news, is waited for.
 */

/** Work on one account takes turns in this process. */
const takeTurns = createTurns()

/** An account as it stands, all of it confirmed and on record. */
export interface Standing {
  readonly account: NanoAccount
  /** Undefined while it has no block. */
  readonly frontier: string | undefined
  readonly balanceRaw: bigint
  /** What it votes with now. */
  readonly representative: string | undefined
}

/** A block to be signed and sent, and what it is for. */
export interface LaneStep {
  readonly block: UnsignedNanoBlock
  readonly kind: 'receive' | 'sweep' | 'payout'
  readonly amountRaw: bigint
  readonly paymentIds?: readonly string[]
  readonly payoutIds?: readonly string[]
}

/** What the next block of an account is built on. */
export function stateOf(wallet: NanoWallet, { account, frontier, balanceRaw, representative }: Standing): NanoAccountState {
  return {
    account: account.address,
    frontier,
    balanceRaw,
    representative: wallet.representative ?? representative ?? wallet.treasury.address,
  }
}

/** How the account stands once that block is confirmed. */
export function standingAfter(standing: Standing, { block }: LaneStep): Standing {
  return { ...standing, frontier: hashNanoBlock(block), balanceRaw: BigInt(block.balance), representative: block.representative }
}

export function receiveStep(wallet: NanoWallet, standing: Standing, send: ClaimedSend, paymentIds: readonly string[] = []): LaneStep {
  return { block: buildReceive(stateOf(wallet, standing), send), kind: 'receive', amountRaw: send.amountRaw, paymentIds }
}

/** Blocks of one run, at most: the network is waited for once for all of them. */
export const MAX_RUN = 8

/** `waiting`: for the network, the node, or a later round. */
export type LaneEnd = 'done' | 'waiting' | 'halted'

/** A block is confirmed within a second; a round waits for it so long and then leaves it to the next. */
const CONFIRM_WAIT_MS = 5 * SECOND_MS
const CONFIRM_POLL_MS = 200
/** A block that the node refuses although it stands where it should is put aside for the operator after so long. */
const HOLD_AFTER_MS = 10 * MINUTE_MS
/** After so long no more work is looked for in a run. */
const RUN_WORK_MS = 5 * SECOND_MS
/** A chain of several epoch blocks in a row has not been seen; more is no such chain. */
const MAX_EPOCH_BLOCKS = 4

/**
 * Works on an account until `next` has no more to do, something has to be waited for, or `untilMs` (of performance.now) has
 * come. `next` gives a run; it is asked only where the account's chain is what the database knows.
 *
 * @throws NodeUnreachable, NodeRefused: the next round goes on where this one stopped
 */
export function runLane(
  ctx: NanoContext,
  account: NanoAccount,
  next: (standing: Standing) => Promise<readonly LaneStep[]>,
  untilMs: number,
): Promise<LaneEnd> {
  return takeTurns(String(account.index), async () => {
    let stuck: { at: string | undefined; sinceMs: number } | undefined
    while (performance.now() < untilMs) {
      if (!(await isSeedKnown(ctx))) return 'halted'
      const standing = await readStanding(ctx, account)
      if (typeof standing === 'string') return standing
      if ('frontierSeen' in standing) {
        // Another process that works on the account moves it on by itself; a node that stays where it is lacks blocks.
        if (stuck === undefined || stuck.at !== standing.frontierSeen) stuck = { at: standing.frontierSeen, sinceMs: performance.now() }
        if (performance.now() - stuck.sinceMs < CONFIRM_WAIT_MS) {
          await sleep(CONFIRM_POLL_MS)
          continue
        }
        if (standing.isLacking) ctx.log.warn({ account_index: account.index }, LACKING)
        return 'waiting'
      }
      stuck = undefined
      const run = await next(standing)
      if (run.length === 0) return 'done'
      await sign(ctx, account, run)
    }
    return 'waiting'
  })
}

/** An account whose last block at the node is not the last one on record, or not confirmed. */
interface Behind {
  readonly frontierSeen: string | undefined
  /** A confirmed block of ours stands after it on record. */
  readonly isLacking: boolean
}

const LACKING = 'the Nano node lacks blocks of ours that were confirmed; waiting for it to catch up'

/** How an account stands, after its own blocks under way, if there are any, have been seen to. */
async function readStanding(ctx: NanoContext, account: NanoAccount): Promise<Standing | Behind | 'waiting' | 'halted'> {
  const open = (await ctx.payouts.listOpenTransfers(account.index)).filter((transfer) => isOfAccount(transfer, account))
  if (open.length > 0) {
    const end = await finishRun(ctx, account, open)
    if (end !== 'confirmed') return end
  }
  const chain = await compareChain(ctx, account)
  if (chain === 'halted') return chain
  const { info, last } = chain
  const frontier = info?.frontier
  if (last !== undefined && last.state !== 'confirmed') return { frontierSeen: frontier, isLacking: false }
  const successor = await findOnPlace(ctx, account, (frontier ?? account.publicKey).toLowerCase())
  if (successor !== undefined) return { frontierSeen: frontier, isLacking: successor.state === 'confirmed' }
  if (info?.confirmedFrontier !== frontier) return { frontierSeen: frontier, isLacking: false }
  return { account, frontier, balanceRaw: info?.balanceRaw ?? 0n, representative: info?.representative }
}

/**
 * Halts the coin where the seed is not the one that the database knows, by its treasury: nothing is signed with such a one, and
 * none of its addresses given out, before the operator has said that it is meant.
 *
 * @returns false where the coin is halted, by this or before
 */
export async function isSeedKnown(ctx: NanoContext): Promise<boolean> {
  const coin = await ctx.coins.findCoin('xno')
  if (coin?.halted !== undefined) return false
  const { address } = ctx.nano.wallet().treasury
  const known = coin?.treasury_address
  if (known === undefined || known === address) return true
  await haltCoin(
    ctx,
    'xno',
    `the seed is that of the treasury ${address}, and not of ${known}, which this database knows; "operator reconcile xno" takes over another seed`,
  )
  return false
}

/** The place of a block in its account's chain, as it is on record (TransferRecord). */
export const placeOf = (block: Pick<NanoBlock, 'account' | 'previous'>): string => workRootOf(block).toLowerCase()

/** The block on record that has this place in an account's chain. */
export async function findOnPlace(
  ctx: NanoContext,
  account: Pick<NanoAccount, 'index' | 'address'>,
  place: string,
): Promise<TransferRecord | undefined> {
  const found = await ctx.payouts.findSuccessor(account.index, place)
  if (found !== undefined || place !== placeOf({ account: account.address, previous: ZERO_HASH })) return found
  const older = await ctx.payouts.findSuccessor(account.index, ZERO_HASH)
  return older !== undefined && isOfAccount(older, account) ? older : undefined
}

/** The address of the account whose chain a block on record extends. */
export const accountOf = ({ signed }: TransferRecord): string => (JSON.parse(signed) as NanoBlock).account

/** False for one of the same index of another seed. */
export const isOfAccount = (transfer: TransferRecord, { address }: Pick<NanoAccount, 'address'>): boolean => accountOf(transfer) === address

/**
 * Compares the account's last block with the blocks on record; `last` is the one that it is. Any other halts the coin.
 * Undefined where the account has no block of its own making.
 */
export async function compareChain(
  ctx: NanoContext,
  account: NanoAccount,
): Promise<{ info: NanoAccountInfo | undefined; last: TransferRecord | undefined } | 'halted'> {
  // The node first and then the database: whatever the node has of ours was stored before it was published.
  const info = await ctx.nano.rpc.accountInfo(account.address)
  const own = info === undefined ? undefined : await findOwnBlock(ctx, info)
  if (own === undefined) return { info, last: undefined }
  const last = own === 'unknown' ? undefined : await findOnRecord(ctx, own.toLowerCase())
  if (last !== undefined && last.account_index === account.index) return { info, last }
  const which = account.index === TREASURY_INDEX ? 'the treasury' : `account ${account.index}`
  return haltCoin(ctx, 'xno', `the last block of ${which} (${account.address}) is ${info?.frontier}, which the database does not know`)
}

/** A block that is not on record halts the coin, so that is made sure of. */
async function findOnRecord(ctx: NanoContext, tx: string): Promise<TransferRecord | undefined> {
  return (await ctx.payouts.findTransferByTx('xno', tx)) ?? ctx.payouts.findTransferByTx('xno', tx, { surely: true })
}

/**
 * The last block that the account itself signed: the network may have put blocks behind it that raise its version, which
 * move nothing. Undefined where there are only such blocks; `unknown` where what looks like one moves money.
 */
async function findOwnBlock(ctx: NanoContext, info: NanoAccountInfo): Promise<string | undefined | 'unknown'> {
  let hash = info.frontier
  if (info.isFrontierSigned) return hash
  for (let count = 0; count <= MAX_EPOCH_BLOCKS; count++) {
    const found = await ctx.nano.rpc.blockInfo(hash)
    if (found === undefined) throw new NodeUnreachable(`the node does not have block ${hash} of an account of ours`)
    if (found.balanceRaw !== info.balanceRaw) return 'unknown'
    const { block } = found
    if (block === undefined || !isEpochBlock(block)) return hash
    if (block.previous === ZERO_HASH) return info.balanceRaw === 0n ? undefined : 'unknown'
    hash = block.previous
  }
  return 'unknown'
}

/** Publishes blocks on record, in the order of their chain, until they are confirmed. */
async function finishRun(
  ctx: NanoContext,
  account: NanoAccount,
  run: readonly TransferRecord[],
): Promise<'confirmed' | 'waiting' | 'halted'> {
  const untilMs = performance.now() + CONFIRM_WAIT_MS
  const published = new Set<TransferRecord>()
  let unnoted = run.filter(({ state }) => state === 'signed')
  let open = run
  for (let pauseMs = CONFIRM_POLL_MS / 4; ; pauseMs = Math.min(2 * pauseMs, CONFIRM_POLL_MS)) {
    const found = await ctx.nano.rpc.blocksInfo(open.map(hashOf))
    const isThere = (transfer: TransferRecord): boolean => published.has(transfer) || found.has(hashOf(transfer))
    const confirmed = open.filter((transfer) => found.get(hashOf(transfer))?.confirmed === true)
    let refused: { transfer: TransferRecord; reason: string } | undefined
    for (const transfer of open) {
      if (isThere(transfer)) continue
      // What was put aside is looked at and not sent, nor is what stands on it.
      if (transfer.state === 'held') break
      const reason = await publish(ctx, transfer)
      if (reason !== undefined) {
        refused = { transfer, reason }
        break
      }
      published.add(transfer)
    }
    // After a death between the two, this is where it becomes known that they were published.
    const noted = unnoted.filter(isThere)
    await moveTransfers(ctx, noted, ['signed'], 'sent')
    unnoted = unnoted.filter((transfer) => !isThere(transfer))
    await moveTransfers(ctx, confirmed, ['signed', 'sent', 'held'], 'confirmed')
    open = open.filter((transfer) => !confirmed.includes(transfer))
    if (refused !== undefined) return weighRefusal(ctx, account, refused.transfer, refused.reason)
    if (open.length === 0) return 'confirmed'
    if (open[0]?.state === 'held' || performance.now() >= untilMs) return 'waiting'
    await sleep(pauseMs)
  }
}

const hashOf = ({ tx }: TransferRecord): string => tx.toUpperCase()

/**
 * Publishes the block once more. Of a block that it has already a node says `Old block`, or of a send `Invalid block balance
 * for given subtype`: so it is the block that is asked for, before a refusal is believed.
 *
 * @returns why it was refused; undefined where the node has it
 */
async function publish(ctx: NanoContext, transfer: TransferRecord): Promise<string | undefined> {
  const { rpc } = ctx.nano
  const block = readSigned(transfer)
  const subtype: NanoSubtype = transfer.kind !== 'receive' ? 'send' : block.previous === ZERO_HASH ? 'open' : 'receive'
  let refusal = await offer(ctx, block, subtype)
  if (refusal !== undefined && /^Block work is /.test(refusal)) {
    // Neither hash nor signature covers the work; what is enough for a send is enough for anything.
    const work = await generateWork(ctx, workRootOf(block), (await rpc.workThresholds()).send)
    refusal = await offer(ctx, { ...block, work }, subtype)
  }
  if (refusal === undefined || (await rpc.blockInfo(hashNanoBlock(block))) !== undefined) return undefined
  return refusal
}

async function offer(ctx: NanoContext, block: NanoBlock, subtype: NanoSubtype): Promise<string | undefined> {
  try {
    await ctx.nano.rpc.process(block, subtype)
    return undefined
  } catch (error) {
    if (error instanceof NodeRefused) return error.reason
    throw error
  }
}

/** The node does not take the block: because it is behind, because another block stands in its place, or for good. */
async function weighRefusal(
  ctx: NanoContext,
  account: NanoAccount,
  transfer: TransferRecord,
  reason: string,
): Promise<'waiting' | 'halted'> {
  const chain = await compareChain(ctx, account)
  if (chain === 'halted') return chain
  const isItsPlace = (chain.info?.frontier ?? ZERO_HASH) === readSigned(transfer).previous
  const about = { transfer_id: transfer._id, block: transfer.tx, account_index: account.index, reason }
  const isLong = ctx.now() - transfer.at * SECOND_MS > HOLD_AFTER_MS
  // A source that the node has not seen yet is a matter of time, as is an account that it is behind with.
  if (!isLong || !isItsPlace || reason === 'Gap source block') {
    ctx.log.warn(about, 'the Nano node does not take a block of ours; trying again')
    return 'waiting'
  }
  if (await moveTransfer(ctx, transfer, ['signed', 'sent'], 'held', `the node refuses the block: ${reason}`))
    ctx.log.error(about, 'a block of ours is put aside for the operator, because the Nano node refuses it')
  return 'waiting'
}

/** Signs and stores a run, or as much of its beginning as has its work by then, which makes it due to be published. A place that is taken meanwhile means that it is not needed. */
async function sign(ctx: NanoContext, account: NanoAccount, run: readonly LaneStep[]): Promise<void> {
  const works = await findWorks(ctx, run)
  // Work takes minutes on a slow machine.
  if (await isHalted(ctx, 'xno')) return
  const at = unixSeconds(ctx.now())
  const { keys } = ctx.nano.wallet()
  const transfers = works.map(({ step, work }): TransferRecord => {
    const { hash, signature } = keys.signBlock(account.index, step.block)
    const block: NanoBlock = { ...step.block, signature, work }
    return {
      _id: newId('transfer'),
      coin: 'xno',
      kind: step.kind,
      account_index: account.index,
      previous: placeOf(block),
      tx: hash.toLowerCase(),
      signed: JSON.stringify(block),
      amount_raw: String(step.amountRaw),
      payment_ids: [...(step.paymentIds ?? [])],
      payout_ids: [...(step.payoutIds ?? [])],
      state: 'signed',
      at,
      changed_at: at,
    }
  })
  try {
    await storeTransfers(ctx, transfers)
  } catch (error) {
    if (isDuplicateKey(error)) return
    const payoutIds = transfers.flatMap(({ payout_ids: ids }) => ids)
    if (isOutage(error) || payoutIds.length === 0) throw error
    ctx.log.warn({ err: error, payout_ids: payoutIds }, 'a payout changed while its block was made; the block is dropped')
  }
}

function readSigned({ _id, signed, tx }: TransferRecord): NanoBlock {
  const block = JSON.parse(signed) as NanoBlock
  if (hashNanoBlock(block).toLowerCase() !== tx) throw new Error(`transfer ${_id} holds another block than its hash says`)
  return block
}

/**
 * The work of a run's first block, however long it takes, and of those after it for as long as that is quick: what stands
 * first in a run is not to wait for minutes for what comes after it, nor to be lost with it.
 */
async function findWorks(ctx: NanoContext, run: readonly LaneStep[]): Promise<{ step: LaneStep; work: string }[]> {
  const thresholds = await ctx.nano.rpc.workThresholds()
  const untilMs = performance.now() + RUN_WORK_MS
  const found: { step: LaneStep; work: string }[] = []
  for (const step of run) {
    if (found.length > 0 && performance.now() > untilMs) break
    try {
      const threshold = thresholds[step.kind === 'receive' ? 'receive' : 'send']
      found.push({ step, work: await generateWork(ctx, workRootOf(step.block), threshold) })
    } catch (error) {
      // Whoever is first in the next run meets the same trouble and says it.
      if (found.length > 0 && isNodeTrouble(error)) break
      throw error
    }
  }
  return found
}

/** Searches under way at once: a node works on them one after another, and a machine without a graphics card is busy with one. */
const WORK_AT_ONCE = 2
let searches = 0
const waitingForWork: (() => void)[] = []

async function generateWork(ctx: NanoContext, root: string, threshold: bigint): Promise<string> {
  while (searches >= WORK_AT_ONCE) await new Promise<void>((resume) => waitingForWork.push(resume))
  searches++
  try {
    return await ctx.nano.rpc.generateWork(root, threshold)
  } finally {
    searches--
    waitingForWork.shift()?.()
  }
}
