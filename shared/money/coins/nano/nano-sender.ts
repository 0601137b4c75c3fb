import { setTimeout as sleep } from 'node:timers/promises'
import { SECOND_MS, nowSeconds } from '../../../platform/time.ts'
import { isStopped, noteProblem } from '../../coin-state.ts'
import { NOT_COMPARED, type Agreement, type Difference } from '../../driver.ts'
import { isNodeTrouble, NodeRefused, NodeUnreachable } from '../../node-errors.ts'
import { moveTransfers, newTransfer, noteRefusal, storeOrDrop } from '../../payout-service.ts'
import { isToBeOffered, type PayoutRecord, type TransferRecord } from '../../payout.ts'
import { startFindings } from '../../reconcile.ts'
import { listUnexplained } from '../../suspects.ts'
import { accountOf, placeOf, sendingOf, settleAccount, yieldToReceiver } from './nano-account.ts'
import type { OwnAccount } from './nano-account.ts'
import type { NanoAccountState, NanoBlock, NanoReceivable } from './nano-blocks.ts'
import type { NanoSubtype, UnsignedNanoBlock } from './nano-blocks.ts'
import { buildReceive, hashNanoBlock, workRootOf, ZERO_HASH } from './nano-blocks.ts'
import type { NanoContext } from './nano-gateway.ts'
import { TREASURY_INDEX, type NanoAccount, type NanoKeys } from './nano-keys.ts'

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

/** A block to be signed, with what it does. */
export interface SenderStep {
  readonly block: UnsignedNanoBlock
  readonly kind: 'receive' | 'sweep' | 'payout'
  readonly amountRaw: bigint
  readonly paymentIds?: readonly string[]
  /** As they were listed: the block pays their address. */
  readonly payouts?: readonly PayoutRecord[]
}

/** Makes a step for each item, each built on the one before. @returns also the account's state after them */
export function buildRun<Item>(
  state: NanoAccountState,
  items: readonly Item[],
  stepFor: (before: NanoAccountState, item: Item) => SenderStep,
): { run: SenderStep[]; after: NanoAccountState } {
  const run: SenderStep[] = []
  let after = state
  for (const item of items) {
    const step = stepFor(after, item)
    run.push(step)
    after = { ...after, frontier: hashNanoBlock(step.block), balanceRaw: BigInt(step.block.balance) }
  }
  return { run, after }
}

/** Makes the step that receives a send. @param paymentIds the payments that it brings into the treasury */
export function receiveStep(
  state: NanoAccountState,
  send: NanoReceivable,
  paymentIds: readonly string[] = [],
): SenderStep {
  return { block: buildReceive(state, send), kind: 'receive', amountRaw: send.amountRaw, paymentIds }
}

/** Blocks of one run, at most: the network is waited for once for all of them. */
export const MAX_RUN = 8

/** A block is confirmed within a second; a round waits for it this long and then leaves it to the next. */
const CONFIRM_WAIT_MS = 5 * SECOND_MS
const CONFIRM_POLL_MS = 200
/** How long after its beginning a run stops looking for more work. */
const RUN_WORK_MS = 5 * SECOND_MS

type SenderEnd =
  /** `next` gave no step. */
  | { readonly kind: 'done' }
  /** It is the network's or the node's turn, or the time is over. */
  | { readonly kind: 'waiting' }
  | Exclude<Agreement, { kind: 'agrees' }>

/**
 * Publishes what is on record for the account, and then run after run that `next` gives for its state, each
 * once all before it is confirmed.
 *
 * @param untilMs when no more is begun, by performance.now
 * @throws NodeUnreachable, NodeRefused
 */
export function runSender(
  ctx: NanoContext,
  account: NanoAccount,
  next: (state: NanoAccountState) => Promise<readonly SenderStep[]>,
  untilMs: number,
): Promise<SenderEnd> {
  const { treasury, representative: chosen } = ctx.nano.wallet()
  return ctx.database.serialize(`nano account ${account.index}`, async () => {
    let stuck: { at: string | undefined; sinceMs: number } | undefined
    while (performance.now() < untilMs) {
      if (!(await checkSeed(ctx))) return NOT_COMPARED
      const settled = await settleOrDiffer(ctx, account)
      if (settled.kind === 'differs') return settled
      const { info, due } = settled
      if (due.length > 0 || info?.confirmedFrontier !== info?.frontier) {
        const end = await publishAll(ctx, account, due)
        if (end.kind !== 'confirmed') return end
        // Another process may be moving the account on, and a node may answer from a moment ago.
        if (stuck === undefined || stuck.at !== info?.frontier)
          stuck = { at: info?.frontier, sinceMs: performance.now() }
        else if (performance.now() - stuck.sinceMs >= CONFIRM_WAIT_MS) return { kind: 'waiting' }
        else await sleep(CONFIRM_POLL_MS)
        continue
      }
      stuck = undefined
      const { frontier, balanceRaw = 0n, representative = treasury.address } = info ?? {}
      const state = { account: account.address, frontier, balanceRaw }
      const run = await next({ ...state, representative: chosen ?? representative })
      if (run.length === 0) return { kind: 'done' }
      const signed = await sign(ctx, account, run)
      const end = await publishAll(ctx, account, signed)
      if (end.kind !== 'confirmed') return end
    }
    return { kind: 'waiting' }
  })
}

/**
 * Checks that Nano isn't halted, and that the seed's treasury is the one that the database knows: with
 * another seed nothing is signed before `reconcile --take-over`.
 *
 * @returns whether blocks may be signed
 */
export async function checkSeed(ctx: NanoContext): Promise<boolean> {
  const coin = await ctx.coins.findCoin('xno')
  const { address } = ctx.nano.wallet().treasury
  const known = coin?.treasury_address
  if (known !== undefined && known !== address) return false
  return coin?.halted === undefined
}

/**
 * Applies the recovery rule to an account (nano-account.ts), unless its chain has a block that neither the
 * database knows nor the operator has recorded.
 *
 * @throws NodeUnreachable if a block that the operator has recorded is not confirmed yet
 */
export async function settleOrDiffer(ctx: NanoContext, account: OwnAccount) {
  const { findings } = startFindings(ctx, 'xno', 'found in the chain, as the operator recorded it')
  let strange = ''
  const settled = await settleAccount(ctx, account, {
    ...findings,
    treasury: (await ctx.coins.findCoin('xno'))?.treasury_address,
    async accepts(unknown) {
      const { hash, change, isConfirmed } = unknown
      const isAccepted =
        change < 0n
          ? (await listUnexplained(ctx, 'xno', sendingOf(unknown))).length === 0
          : change > 0n && (await isInvoiced(ctx, account))
      if (isAccepted && !isConfirmed)
        throw new NodeUnreachable(`block ${hash} of account ${account.index} is not confirmed yet`)
      strange = hash
      return isAccepted
    },
  })
  if (settled !== undefined) return { kind: 'settled', ...settled } as const
  const which = account.index === TREASURY_INDEX ? 'the treasury' : `account ${account.index}`
  const why = `the last block of ${which} (${account.address}) is ${strange}, which the database does not know`
  return { kind: 'differs', why } as const
}

const isInvoiced = async (ctx: NanoContext, { index }: OwnAccount): Promise<boolean> =>
  index !== TREASURY_INDEX && (await ctx.invoices.findByAddresses('xno', [index])).length > 0

/** Offers blocks in their order and waits for them, for up to 5 s; notes what was published and confirmed. */
async function publishAll(
  ctx: NanoContext,
  account: OwnAccount,
  run: readonly TransferRecord[],
): Promise<{ readonly kind: 'confirmed' } | { readonly kind: 'waiting' } | Difference> {
  if (run.length === 0) return { kind: 'confirmed' }
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
    for (const transfer of open.filter((candidate) => !isThere(candidate))) {
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
    await moveTransfers(ctx, noted, 'taken')
    unnoted = unnoted.filter((transfer) => !isThere(transfer))
    // One that is taken again is refused no more: another time counts from its own first refusal.
    for (const taken of published)
      if (taken.refused !== undefined) await ctx.payouts.setRefused(taken._id, null)
    await moveTransfers(ctx, confirmed, 'confirmed')
    open = open.filter((transfer) => !confirmed.includes(transfer))
    if (refused !== undefined) return weighRefusal(ctx, account, refused.transfer, refused.reason)
    if (open.length === 0) return { kind: 'confirmed' }
    if (isPaused || performance.now() >= untilMs) return { kind: 'waiting' }
    await sleep(pauseMs)
  }
}

const LACKING = 'the Nano node lacks a block of ours that it had confirmed; it is published again'
const NOT_TAKEN = 'the Nano node does not take a block of ours; trying again'

const hashOf = ({ tx }: TransferRecord): string => tx.toUpperCase()

/**
 * Offers a block to the node, with new work if the stored work is too little. The node refuses a block
 * that it has, as `Old block` for one: so it is asked for the block before a refusal is believed.
 *
 * @returns why the block was refused; undefined if the node has it
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

/** @returns the node's reason if it refuses the block */
async function offer(ctx: NanoContext, block: NanoBlock, subtype: NanoSubtype): Promise<string | undefined> {
  try {
    await ctx.nano.rpc.process(block, subtype)
    return undefined
  } catch (error) {
    if (error instanceof NodeRefused) return error.reason
    throw error
  }
}

/** Finds out why the node refuses a block: it is behind, another block has the place, or the block is bad. */
async function weighRefusal(
  ctx: NanoContext,
  account: OwnAccount,
  transfer: TransferRecord,
  reason: string,
): Promise<{ readonly kind: 'waiting' } | Difference> {
  const chain = await settleOrDiffer(ctx, account)
  if (chain.kind === 'differs') return chain
  const block = readSigned(transfer)
  const isNext = (chain.info?.frontier ?? ZERO_HASH) === block.previous
  if (isNext && reason === 'Unreceivable' && (await yieldToReceiver(ctx, account, block)))
    return { kind: 'waiting' }
  // A source that the node has not seen yet is a matter of time, as is an account that it is behind with.
  if (isNext && reason !== 'Gap source block') await noteRefusal(ctx, transfer, reason)
  else ctx.log.warn({ transfer_id: transfer._id, block: transfer.tx, reason }, NOT_TAKEN)
  const difference = reason === 'Gap source block' ? await publishSource(ctx, account, block) : undefined
  return difference ?? { kind: 'waiting' }
}

/**
 * Publishes the block that `link` names again, if it is of another account of ours: the node has lost it.
 *
 * @returns a difference between that account's chain and the database, if there is one
 */
async function publishSource(ctx: NanoContext, account: OwnAccount, { link }: NanoBlock) {
  const source = await ctx.payouts.findTransferByTx('xno', link.toLowerCase())
  if (source?.account_index === undefined || source.account_index === account.index) return undefined
  const sourceAccount = { index: source.account_index, address: accountOf(source) }
  const chain = await settleOrDiffer(ctx, sourceAccount)
  const end = chain.kind === 'differs' ? chain : await publishAll(ctx, sourceAccount, chain.due)
  return end.kind === 'differs' ? end : undefined
}

/**
 * Signs as many of a run's first steps as get their work in time, and stores them.
 *
 * @returns what was stored; nothing if the coin is halted, a place is taken or a payout has changed
 */
async function sign(ctx: NanoContext, account: NanoAccount, run: readonly SenderStep[]) {
  const works = await findWorks(ctx, run)
  if (await isStopped(ctx, 'xno')) return []
  const { keys } = ctx.nano.wallet()
  const transfers = works.map(({ step, work }): TransferRecord => {
    const { hash, signature } = keys.signBlock(account.index, step.block)
    const block: NanoBlock = { ...step.block, signature, work }
    return newTransfer(ctx, {
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
    })
  })
  const listed = works.flatMap(({ step }) => step.payouts ?? [])
  return (await storeOrDrop(ctx, transfers, listed)) ? transfers : []
}

/** @throws Error if the stored block doesn't have the transfer's hash */
function readSigned({ _id, signed, tx }: TransferRecord): NanoBlock {
  const block = JSON.parse(signed) as NanoBlock
  if (hashNanoBlock(block).toLowerCase() !== tx)
    throw new Error(`transfer ${_id} holds another block than its hash says`)
  return block
}

/**
 * Asks for the work of a run's steps, in their order, for about 5 s: what stands first must not wait for
 * minutes for the rest. @throws NodeUnreachable, NodeRefused if even the first step gets none
 */
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
      // The first step of the next run meets the same trouble, and throws it.
      if (found.length > 0 && isNodeTrouble(error)) break
      throw error
    }
  }
  return found
}

/** A node works on them one after another. */
const WORK_AT_ONCE = 2
let searches = 0
const waitingForWork = { urgent: [] as (() => void)[], others: [] as (() => void)[] }

/**
 * Asks for work for a root, two searches at once in this process, the urgent first: each may take a minute.
 * A failure is stored as a problem of the coin, which is not ready then: nothing could be paid out.
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

/**
 * Tries whether work can be generated, so that a failure is known before the first payout: once for this
 * wallet in this process, and again as long as a problem with work is on record.
 */
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
