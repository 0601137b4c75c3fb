import { setTimeout as sleep } from 'node:timers/promises'
import { newId } from '../../foundation/ids.ts'
import { SECOND_MS, nowSeconds } from '../../foundation/time.ts'
import { stopCoin, isStopped, noteProblem } from '../coin-round.ts'
import { isNodeTrouble, NodeRefused, NodeUnreachable } from '../node-errors.ts'
import { moveTransfers, noteRefusal, storeOrDrop } from '../payout-service.ts'
import { isToBeOffered, OPEN_TRANSFERS, type PayoutRecord, type TransferRecord } from '../payout.ts'
import { isPaidByHand, startFindings } from '../reconcile.ts'
import { accountOf, placeOf, settleAccount, yieldToReceiver } from './nano-account.ts'
import type { OwnAccount, SettledAccount } from './nano-account.ts'
import type { NanoAccountState, NanoBlock, NanoSubtype, UnsignedNanoBlock } from './nano-blocks.ts'
import { buildReceive, hashNanoBlock, workRootOf, ZERO_HASH } from './nano-blocks.ts'
import type { NanoContext, NanoWallet } from './nano-gateway.ts'
import { TREASURY_INDEX, type NanoAccount, type NanoKeys } from './nano-keys.ts'
import type { ClaimedSend } from './nano-proof.ts'

/**
 * A *sender* extends the chain of one account of ours. A *run* is one block, or several each built on the one
 * before; the next run is signed when all of the one before is confirmed. Within a process work on an account
 * is serialized; between processes the unique place (account, previous) decides, and the slower one drops its
 * whole run.
 *
 * The order of writes: 1 the signed blocks, in one transaction; 2 published in their order, once a majority
 * of the database has them; 3 noted as published; 4 confirmed. A death anywhere leaves blocks on record, and
 * the same blocks are published until they are confirmed (nano-account.ts): none is ever given up.
 */

export interface Standing {
  readonly account: NanoAccount
  readonly frontier: string | undefined
  readonly balanceRaw: bigint
  /** What it votes with now. */
  readonly representative: string | undefined
}

export interface SenderStep {
  readonly block: UnsignedNanoBlock
  readonly kind: 'receive' | 'sweep' | 'payout'
  readonly amountRaw: bigint
  readonly paymentIds?: readonly string[]
  /** As they were listed: the block pays their address. */
  readonly payouts?: readonly PayoutRecord[]
}

export function stateOf(
  wallet: NanoWallet,
  { account, frontier, balanceRaw, representative }: Standing,
): NanoAccountState {
  return {
    account: account.address,
    frontier,
    balanceRaw,
    representative: wallet.representative ?? representative ?? wallet.treasury.address,
  }
}

function standingAfter(standing: Standing, { block }: SenderStep): Standing {
  const { balance, representative } = block
  return { ...standing, frontier: hashNanoBlock(block), balanceRaw: BigInt(balance), representative }
}

/** Each step is built on the one before. @returns also how the account stands after them */
export function buildRun<Item>(
  standing: Standing,
  items: readonly Item[],
  stepFor: (before: Standing, item: Item) => SenderStep,
): { run: SenderStep[]; after: Standing } {
  const run: SenderStep[] = []
  let after = standing
  for (const item of items) {
    const step = stepFor(after, item)
    run.push(step)
    after = standingAfter(after, step)
  }
  return { run, after }
}

export function receiveStep(
  wallet: NanoWallet,
  standing: Standing,
  send: ClaimedSend,
  paymentIds: readonly string[] = [],
): SenderStep {
  const block = buildReceive(stateOf(wallet, standing), send)
  return { block, kind: 'receive', amountRaw: send.amountRaw, paymentIds }
}

/** Blocks of one run, at most: the network is waited for once for all of them. */
export const MAX_RUN = 8

/** `waiting`: for the network, the node, or a later round. */
export type SenderEnd = 'done' | 'waiting' | 'stopped'

/** A block is confirmed within a second; a round waits for it so long and then leaves it to the next. */
const CONFIRM_WAIT_MS = 5 * SECOND_MS
const CONFIRM_POLL_MS = 200
/** After so long no more work is looked for in a run. */
const RUN_WORK_MS = 5 * SECOND_MS

/**
 * Asks `next` for a run once the account's chain is what the database knows, and all confirmed. `untilMs`:
 * performance.now.
 *
 * @throws NodeUnreachable, NodeRefused
 */
export function runSender(
  ctx: NanoContext,
  account: NanoAccount,
  next: (standing: Standing) => Promise<readonly SenderStep[]>,
  untilMs: number,
): Promise<SenderEnd> {
  return ctx.serialize(`nano account ${account.index}`, async () => {
    let stuck: { at: string | undefined; sinceMs: number } | undefined
    while (performance.now() < untilMs) {
      if (!(await isSeedKnown(ctx))) return 'stopped'
      const settled = await settleOrStop(ctx, account)
      if (settled === 'stopped') return settled
      const { info, due } = settled
      if (due.length > 0 || info?.confirmedFrontier !== info?.frontier) {
        const end = due.length === 0 ? 'confirmed' : await publishAll(ctx, account, due)
        if (end !== 'confirmed') return end
        // Another process that works on the account moves it on by itself; a node may answer from a moment
        // ago.
        if (stuck === undefined || stuck.at !== info?.frontier)
          stuck = { at: info?.frontier, sinceMs: performance.now() }
        else if (performance.now() - stuck.sinceMs >= CONFIRM_WAIT_MS) return 'waiting'
        else await sleep(CONFIRM_POLL_MS)
        continue
      }
      stuck = undefined
      const { frontier, balanceRaw = 0n, representative } = info ?? {}
      const run = await next({ account, frontier, balanceRaw, representative })
      if (run.length === 0) return 'done'
      const signed = await sign(ctx, account, run)
      const end = signed.length === 0 ? 'confirmed' : await publishAll(ctx, account, signed)
      if (end !== 'confirmed') return end
    }
    return 'waiting'
  })
}

/**
 * With another seed than the one that the database knows, by its treasury, nothing is signed before the
 * operator has said that it is meant. A coin stopped for that alone goes on.
 *
 * @returns false also if the coin is stopped
 */
export async function isSeedKnown(ctx: NanoContext): Promise<boolean> {
  const coin = await ctx.coins.findCoin('xno')
  const { address } = ctx.nano.wallet().treasury
  const known = coin?.treasury_address
  if (known !== undefined && known !== address) return false
  if (coin?.halted === undefined) return true
  return coin.halted.kind === 'other_seed' && ctx.coins.resume('xno', { kind: 'other_seed' })
}

/** A block that neither the database knows nor the operator has told of stops the coin. */
export async function settleOrStop(
  ctx: NanoContext,
  account: OwnAccount,
): Promise<SettledAccount | 'stopped'> {
  const { findings } = startFindings(ctx, 'xno', 'found in the chain, as the operator recorded it')
  let strange = ''
  const settled = await settleAccount(ctx, account, {
    ...findings,
    treasury: (await ctx.coins.findCoin('xno'))?.treasury_address,
    async accepts({ hash, change, isConfirmed }) {
      const isAccepted =
        change < 0n
          ? await isPaidByHand(ctx, 'xno', hash.toLowerCase(), -change)
          : change > 0n && (await isInvoiced(ctx, account))
      if (isAccepted && !isConfirmed)
        throw new NodeUnreachable(`block ${hash} of account ${account.index} is not confirmed yet`)
      strange = hash
      return isAccepted
    },
  })
  if (settled !== undefined) return settled
  const which = account.index === TREASURY_INDEX ? 'the treasury' : `account ${account.index}`
  const reason = `the last block of ${which} (${account.address}) is ${strange}, which the database does not know`
  return stopCoin(ctx, 'xno', reason)
}

const isInvoiced = async (ctx: NanoContext, { index }: OwnAccount): Promise<boolean> =>
  index !== TREASURY_INDEX && (await ctx.invoices.findByAddresses('xno', [index])).length > 0

async function publishAll(ctx: NanoContext, account: OwnAccount, run: readonly TransferRecord[]) {
  const untilMs = performance.now() + CONFIRM_WAIT_MS
  const now = nowSeconds(ctx)
  const published = new Set<TransferRecord>()
  let open = run
  let unnoted = run.filter(({ state }) => state === 'signed' || state === 'held')
  for (let pauseMs = CONFIRM_POLL_MS / 4; ; pauseMs = Math.min(2 * pauseMs, CONFIRM_POLL_MS)) {
    const found = await ctx.nano.rpc.blocksInfo(open.map(hashOf))
    const isThere = (transfer: TransferRecord): boolean =>
      published.has(transfer) || found.has(hashOf(transfer))
    const confirmed = open.filter((transfer) => found.get(hashOf(transfer))?.confirmed === true)
    let refused: { transfer: TransferRecord; reason: string } | undefined
    let isPaused = false
    for (const transfer of open.filter((one) => !isThere(one))) {
      isPaused = !isToBeOffered(transfer, now)
      if (isPaused) break
      if (transfer.state === 'confirmed')
        ctx.log.warn({ transfer_id: transfer._id, block: transfer.tx }, LACKING)
      const reason = await publish(ctx, transfer)
      if (reason === undefined) published.add(transfer)
      else {
        refused = { transfer, reason }
        break
      }
    }
    // After a death between the two it becomes known here that they were published.
    const noted = unnoted.filter(isThere)
    await moveTransfers(ctx, noted, ['signed', 'held'], 'sent')
    unnoted = unnoted.filter((transfer) => !isThere(transfer))
    // One that is taken again is refused no more: another time counts from its own first refusal.
    for (const taken of published)
      if (taken.refused !== undefined) await ctx.payouts.setRefused(taken._id, null)
    await moveTransfers(ctx, confirmed, OPEN_TRANSFERS, 'confirmed')
    open = open.filter((transfer) => !confirmed.includes(transfer))
    if (refused !== undefined) return weighRefusal(ctx, account, refused.transfer, refused.reason)
    if (open.length === 0) return 'confirmed'
    if (isPaused || performance.now() >= untilMs) return 'waiting'
    await sleep(pauseMs)
  }
}

const LACKING = 'the Nano node lacks a block of ours that it had confirmed; it is published again'

const hashOf = ({ tx }: TransferRecord): string => tx.toUpperCase()

/**
 * Of a block that it has a node says `Old block` or `Invalid block balance for given subtype`: so the block
 * is asked for before a refusal is believed.
 *
 * @returns why it was refused; undefined if the node has it
 */
async function publish(ctx: NanoContext, transfer: TransferRecord): Promise<string | undefined> {
  const { rpc } = ctx.nano
  const block = readSigned(transfer)
  const subtype: NanoSubtype =
    transfer.kind !== 'receive' ? 'send' : block.previous === ZERO_HASH ? 'open' : 'receive'
  let refusal = await offer(ctx, block, subtype)
  if (refusal !== undefined && refusal.startsWith('Block work is ')) {
    // Neither hash nor signature covers the work; what is enough for a send is enough for anything.
    const { send } = await rpc.workThresholds()
    const work = await generateWork(ctx, workRootOf(block), send, { isUrgent: transfer.kind === 'payout' })
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

/** It is behind, another block has the place, or it refuses for good. */
async function weighRefusal(ctx: NanoContext, account: OwnAccount, transfer: TransferRecord, reason: string) {
  const chain = await settleOrStop(ctx, account)
  if (chain === 'stopped') return chain
  const block = readSigned(transfer)
  const isItsPlace = (chain.info?.frontier ?? ZERO_HASH) === block.previous
  if (isItsPlace && reason === 'Unreceivable' && (await yieldToReceiver(ctx, account, block)))
    return 'waiting'
  // A source that the node has not seen yet is a matter of time, as is an account that it is behind with.
  if (isItsPlace && reason !== 'Gap source block') await noteRefusal(ctx, transfer, reason)
  else
    ctx.log.warn(
      { transfer_id: transfer._id, block: transfer.tx, reason },
      'the Nano node does not take a block of ours; trying again',
    )
  if (reason === 'Gap source block') await publishSource(ctx, account, block)
  return 'waiting'
}

/** The source that the node lacks may be a block of ours that it has lost. */
async function publishSource(ctx: NanoContext, account: OwnAccount, { link }: NanoBlock): Promise<void> {
  const source = await ctx.payouts.findTransferByTx('xno', link.toLowerCase())
  if (source?.account_index === undefined || source.account_index === account.index) return
  const own = { index: source.account_index, address: accountOf(source) }
  const chain = await settleOrStop(ctx, own)
  if (chain !== 'stopped' && chain.due.length > 0) await publishAll(ctx, own, chain.due)
}

/**
 * As much of its beginning as gets its work in time.
 *
 * @returns what was stored; nothing if a place is taken
 */
async function sign(ctx: NanoContext, account: NanoAccount, run: readonly SenderStep[]) {
  const works = await findWorks(ctx, run)
  if (await isStopped(ctx, 'xno')) return []
  const at = nowSeconds(ctx)
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
      payout_ids: (step.payouts ?? []).map(({ _id }) => _id),
      state: 'signed',
      at,
      changed_at: at,
    }
  })
  const listed = works.flatMap(({ step }) => step.payouts ?? [])
  return (await storeOrDrop(ctx, transfers, listed)) ? transfers : []
}

function readSigned({ _id, signed, tx }: TransferRecord): NanoBlock {
  const block = JSON.parse(signed) as NanoBlock
  if (hashNanoBlock(block).toLowerCase() !== tx)
    throw new Error(`transfer ${_id} holds another block than its hash says`)
  return block
}

/** What stands first in a run is not to wait for minutes for what comes after it. */
async function findWorks(ctx: NanoContext, run: readonly SenderStep[]) {
  const thresholds = await ctx.nano.rpc.workThresholds()
  const untilMs = performance.now() + RUN_WORK_MS
  const found: { step: SenderStep; work: string }[] = []
  for (const step of run) {
    if (found.length > 0 && performance.now() > untilMs) break
    try {
      const threshold = thresholds[step.kind === 'receive' ? 'receive' : 'send']
      const isUrgent = step.kind === 'payout'
      found.push({ step, work: await generateWork(ctx, workRootOf(step.block), threshold, { isUrgent }) })
    } catch (error) {
      // Whoever is first in the next run meets the same trouble and says it.
      if (found.length > 0 && isNodeTrouble(error)) break
      throw error
    }
  }
  return found
}

/** A node works on them one after another. */
const WORK_AT_ONCE = 2
let searches = 0
const waitingForWork: { readonly urgent: (() => void)[]; readonly others: (() => void)[] } = {
  urgent: [],
  others: [],
}

/**
 * Payouts first: each may take a minute. Without work the coin isn't ready, since nothing could be paid out.
 */
async function generateWork(
  ctx: NanoContext,
  root: string,
  threshold: bigint,
  { isUrgent = false, limitMs }: { isUrgent?: boolean; limitMs?: number } = {},
): Promise<string> {
  const queue = isUrgent ? waitingForWork.urgent : waitingForWork.others
  while (searches >= WORK_AT_ONCE) await new Promise<void>((resume) => queue.push(resume))
  searches++
  try {
    const work = await ctx.nano.rpc.generateWork(root, threshold, limitMs)
    await noteProblem(ctx, 'xno', 'work', undefined)
    return work
  } catch (error) {
    if (isNodeTrouble(error)) await noteProblem(ctx, 'xno', 'work', error.message)
    throw error
  } finally {
    searches--
    ;(waitingForWork.urgent.shift() ?? waitingForWork.others.shift())?.()
  }
}

/** The least work there is takes a processor a second. */
const TRIAL_LIMIT_MS = 10 * SECOND_MS

const tried = new WeakSet<NanoKeys>()

/** At the start, and not by the first payout; then again for as long as it fails. */
export async function tryWork(ctx: NanoContext): Promise<void> {
  const { keys, treasury } = ctx.nano.wallet()
  if (tried.has(keys) && (await ctx.coins.findCoin('xno'))?.problems?.work === undefined) return
  const { receive } = await ctx.nano.rpc.workThresholds()
  tried.add(keys)
  try {
    await generateWork(ctx, treasury.publicKey, receive, { limitMs: TRIAL_LIMIT_MS })
  } catch (error) {
    if (!isNodeTrouble(error)) throw error
  }
}
