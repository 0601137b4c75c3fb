import { setTimeout as sleep } from 'node:timers/promises'
import { SECOND_MS, nowSeconds } from '../../../platform/time.ts'
import type { Difference } from '../../driver.ts'
import { NodeRefused } from '../../node-errors.ts'
import { moveTransfers, noteRefusal } from '../../transfer-service.ts'
import { isToBeOffered, type TransferRecord } from '../../transfer.ts'
import { accountOf, recoverOrDiffer, replaceIfReceived, type OwnAccount } from './nano-recovery.ts'
import {
  hashOf,
  txOf,
  ZERO_HASH,
  hashNanoBlock,
  workRootOf,
  type NanoBlock,
  type NanoSubtype,
} from './nano-blocks.ts'
import type { NanoContext } from './nano-gateway.ts'
import { generateWork } from './nano-work.ts'

/** A block is confirmed within a second; a round waits for it this long and then leaves it to the next. */
export const CONFIRM_WAIT_MS = 5 * SECOND_MS
export const CONFIRM_POLL_MS = 200

/** Offers blocks in their order and waits for them, for up to 5 s; notes what was published and confirmed. */
export async function publishAll(
  ctx: NanoContext,
  account: OwnAccount,
  run: readonly TransferRecord[],
): Promise<{ readonly kind: 'confirmed' } | { readonly kind: 'waiting' } | Difference> {
  if (run.length === 0) return { kind: 'confirmed' }
  const untilMs = performance.now() + CONFIRM_WAIT_MS
  const published = new Set<TransferRecord>()
  let open = run
  let unnoted = run.filter(({ state }) => state === 'signed' || state === 'held')
  for (let pauseMs = CONFIRM_POLL_MS / 4; ; pauseMs = Math.min(2 * pauseMs, CONFIRM_POLL_MS)) {
    const found = await ctx.nano.rpc.blocksInfo(open.map(hashOf))
    const isThere = (transfer: TransferRecord): boolean =>
      published.has(transfer) || found.has(hashOf(transfer))
    const confirmed = open.filter((transfer) => found.get(hashOf(transfer))?.confirmed === true)
    const lacking = open.filter((transfer) => !isThere(transfer))
    const offered = await offerInOrder(ctx, lacking)
    for (const transfer of offered.taken) published.add(transfer)
    // After a death between the two it becomes known here that they were published.
    await moveTransfers(ctx, unnoted.filter(isThere), 'taken')
    unnoted = unnoted.filter((transfer) => !isThere(transfer))
    // One that is taken again is refused no more: another time counts from its own first refusal.
    for (const taken of offered.taken)
      if (taken.refused !== undefined) await ctx.payouts.transfers.setRefused(taken._id, null)
    await moveTransfers(ctx, confirmed, 'confirmed')
    open = open.filter((transfer) => !confirmed.includes(transfer))
    if (offered.kind === 'refused') return explainRefusal(ctx, account, offered.transfer, offered.reason)
    if (open.length === 0) return { kind: 'confirmed' }
    if (offered.kind === 'paused' || performance.now() >= untilMs) return { kind: 'waiting' }
    await sleep(pauseMs)
  }
}

/** What became of blocks that were offered one after the other: the first that isn't taken ends it. */
type Offered = { readonly taken: readonly TransferRecord[] } & (
  | { readonly kind: 'all taken' }
  /** The next was refused lately, and is offered again after a pause. */
  | { readonly kind: 'paused' }
  | { readonly kind: 'refused'; readonly transfer: TransferRecord; readonly reason: string }
)

/** Offers the node the blocks that it lacks, in the order of their chain. */
async function offerInOrder(ctx: NanoContext, lacking: readonly TransferRecord[]): Promise<Offered> {
  const now = nowSeconds(ctx)
  const taken: TransferRecord[] = []
  for (const transfer of lacking) {
    if (!isToBeOffered(transfer, now)) return { kind: 'paused', taken }
    if (transfer.state === 'confirmed')
      ctx.log.warn({ transfer_id: transfer._id, block: transfer.tx }, LACKING)
    const reason = await publish(ctx, transfer)
    if (reason !== undefined) return { kind: 'refused', transfer, reason, taken }
    taken.push(transfer)
  }
  return { kind: 'all taken', taken }
}

const LACKING = 'the Nano node lacks a block of ours that it had confirmed; it is published again'
const NOT_TAKEN = 'the Nano node does not take a block of ours; trying again'

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
async function explainRefusal(
  ctx: NanoContext,
  account: OwnAccount,
  transfer: TransferRecord,
  reason: string,
): Promise<{ readonly kind: 'waiting' } | Difference> {
  const chain = await recoverOrDiffer(ctx, account)
  if (chain.kind === 'differs') return chain
  const block = readSigned(transfer)
  const isNext = (chain.info?.frontier ?? ZERO_HASH) === block.previous
  if (isNext && reason === 'Unreceivable' && (await replaceIfReceived(ctx, account, block)))
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
  const source = await ctx.payouts.transfers.findByTx('xno', txOf(link))
  if (source?.account_index === undefined || source.account_index === account.index) return undefined
  const sourceAccount = { index: source.account_index, address: accountOf(source) }
  const chain = await recoverOrDiffer(ctx, sourceAccount)
  const end = chain.kind === 'differs' ? chain : await publishAll(ctx, sourceAccount, chain.due)
  return end.kind === 'differs' ? end : undefined
}

/** @throws Error if the stored block doesn't have the transfer's hash */
function readSigned({ _id, signed, tx }: TransferRecord): NanoBlock {
  const block = JSON.parse(signed) as NanoBlock
  if (txOf(hashNanoBlock(block)) !== tx)
    throw new Error(`transfer ${_id} holds another block than its hash says`)
  return block
}
