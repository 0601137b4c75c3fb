import { setTimeout as sleep } from 'node:timers/promises'
import { isHalted } from '../../coin-state.ts'
import { NOT_COMPARED, type Agreement } from '../../driver.ts'
import { newTransfer, storeOrDrop } from '../../transfer-service.ts'
import type { PayoutRecord } from '../../payout.ts'
import type { TransferRecord } from '../../transfer.ts'
import { placeOf, recoverOrDiffer } from './nano-recovery.ts'
import {
  txOf,
  buildReceive,
  hashNanoBlock,
  workRootOf,
  type NanoAccountState,
  type NanoBlock,
  type NanoReceivable,
  type UnsignedNanoBlock,
} from './nano-blocks.ts'
import type { NanoContext } from './nano-gateway.ts'
import type { NanoAccount } from './nano-keys.ts'
import { CONFIRM_POLL_MS, CONFIRM_WAIT_MS, publishAll } from './nano-publish.ts'
import { SECOND_MS } from '../../../platform/time.ts'
import { isNodeTrouble } from '../../node-errors.ts'
import { generateWork } from './nano-work.ts'

/**
 * A *sender* extends the chain of one account of ours. A *run* is one block, or several each built on the one
 * before; the next run is signed when all of the one before is confirmed. Within a process work on an account
 * is serialized; between processes the unique place (account, previous) decides, and the slower one drops its
 * whole run.
 *
 * The order of writes: 1 the signed blocks, in one transaction; 2 published in their order, once a majority
 * of the database has them; 3 noted as published; 4 confirmed. A death anywhere leaves blocks on record, and
 * the same blocks are published until they are confirmed (nano-recovery.ts): none is ever given up.
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
      if (!(await maySign(ctx))) return NOT_COMPARED
      const recovered = await recoverOrDiffer(ctx, account)
      if (recovered.kind === 'differs') return recovered
      const { info, due } = recovered
      // What is on record comes first: nothing is built on a block that isn't confirmed.
      if (due.length > 0 || info?.confirmedFrontier !== info?.frontier) {
        const end = await publishAll(ctx, account, due)
        if (end.kind !== 'confirmed') return end
        // All is confirmed, and the node says the same as before: another process may be moving the account on, or
        // the node may answer from a moment ago.
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
export async function maySign(ctx: NanoContext): Promise<boolean> {
  const coin = await ctx.coins.findCoin('xno')
  const { address } = ctx.nano.wallet().treasury
  const known = coin?.treasury_address
  if (known !== undefined && known !== address) return false
  return coin?.halted === undefined
}

/**
 * Signs as many of a run's first steps as get their work in time, and stores them.
 *
 * @returns what was stored; nothing if the coin is halted, a place is taken or a payout has changed
 */
async function sign(ctx: NanoContext, account: NanoAccount, run: readonly SenderStep[]) {
  const works = await findWorks(ctx, run)
  if (await isHalted(ctx, 'xno')) return []
  const { keys } = ctx.nano.wallet()
  const transfers = works.map(({ step, work }): TransferRecord => {
    const { hash, signature } = keys.signBlock(account.index, step.block)
    const block: NanoBlock = { ...step.block, signature, work }
    return newTransfer(ctx, {
      coin: 'xno',
      kind: step.kind,
      account_index: account.index,
      previous: placeOf(block),
      tx: txOf(hash),
      signed: JSON.stringify(block),
      amount_raw: String(step.amountRaw),
      payment_ids: [...(step.paymentIds ?? [])],
      payout_ids: (step.payouts ?? []).map(({ _id }) => _id),
      state: 'signed',
    })
  })
  const listed = works.flatMap(({ step }) => step.payouts ?? [])
  return (await storeOrDrop(ctx, transfers, listed)) === 'stored' ? transfers : []
}

/** How long after its beginning a run stops looking for more work. */
const RUN_WORK_MS = 5 * SECOND_MS

/**
 * Asks for the work of a run's steps, in their order, for about 5 s: what stands first must not wait for
 * minutes for the rest. @throws NodeUnreachable, NodeRefused if even the first step gets none
 */
export async function findWorks(ctx: NanoContext, run: readonly SenderStep[]) {
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
