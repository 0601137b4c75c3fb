import { z } from 'zod'
import { nowSeconds, unixSeconds } from '../../../platform/time.ts'
import { NodeRefused } from '../../node-errors.ts'
import { moveTransfer, noteRefusal, reinstateTransfer } from '../../transfer-service.ts'
import { isIn } from '../../payout.ts'
import { OPEN_TRANSFERS, isToBeOffered, type TransferRecord } from '../../transfer.ts'
import { FINAL_AFTER_MS, isDeep, readSent, type Sent } from './monero-chain.ts'
import type { MoneroContext } from './monero-gateway.ts'
import type { MoneroOutgoing, MoneroOutgoingState } from './monero-wallet.ts'

/*
 * A signed transaction can be in the chain once, however often it is sent. So, whatever it was called: it is
 * in the chain, or another one has spent its inputs for good, or it is published again.
 */

/**
 * Applies the recovery rule to our transfers.
 *
 * @param height how many blocks the wallet had before it was asked for anything else
 * @param isAsked offers refused ones now, not when it is time
 */
export async function recoverTransfers(
  ctx: MoneroContext,
  { outgoing, stored }: Sent,
  height: number,
  isAsked = false,
) {
  const inChain = new Set(outgoing.flatMap(({ txHash, state }) => (state === 'confirmed' ? [txHash] : [])))
  const recent = await listRecent(ctx)
  const lacking = recent.filter(({ tx, payout_ids: ids }) => ids.length > 0 && !inChain.has(tx))
  const back = stored.filter(({ state, tx }) => state === 'replaced' && inChain.has(tx))
  for (const transfer of [...(await listOpen(ctx)), ...lacking, ...back]) {
    const { state, confirmations } = await ctx.monero.wallet.findOutgoing(transfer.tx)
    if (state === 'confirmed') await noteInChain(ctx, transfer, isDeep(ctx, { confirmations }))
    else if (transfer.state !== 'replaced' && (isAsked || isToBeOffered(transfer, nowSeconds(ctx))))
      if (!isUnderWay(ctx, transfer, state, height)) await offer(ctx, transfer, state, height)
  }
}

/**
 * Whether a transfer is in the pool, and no block has come since it was sent. Then it is not sent again: if a
 * block took it in meanwhile, the wallet would have it as pending for ever, and count what it has spent. After
 * a block without it it is: its daemon may have lost it, which a wallet doesn't learn.
 */
function isUnderWay(
  { monero: { lastRelayed } }: MoneroContext,
  { tx, state }: TransferRecord,
  inWallet: MoneroOutgoingState,
  height: number,
): boolean {
  const isLast = lastRelayed?.tx === tx && lastRelayed.height === height
  return isLast && inWallet === 'pool' && state === 'sent'
}

/** Lists the transfers that are not final: up to 1,000. */
export const listOpen = (ctx: MoneroContext): Promise<TransferRecord[]> =>
  ctx.payouts.transfers.list('xmr', OPEN_TRANSFERS, 1_000)

/** Lists the transfers confirmed so lately that a reorganisation may take them back. */
export const listRecent = (ctx: MoneroContext): Promise<TransferRecord[]> =>
  ctx.payouts.transfers.listConfirmedSince('xmr', unixSeconds(ctx.database.now() - FINAL_AFTER_MS))

/** Notes that the chain has a transfer; `isFinal`: deep enough to count. */
async function noteInChain(ctx: MoneroContext, transfer: TransferRecord, isFinal: boolean): Promise<void> {
  if (transfer.state !== 'replaced') {
    await noteTaken(ctx, transfer)
    if (isFinal) await moveTransfer(ctx, transfer, 'confirmed')
  } else if (isFinal && (await reinstateTransfer(ctx, transfer)))
    ctx.log.warn({ transfer_id: transfer._id, tx: transfer.tx }, 'a replaced transaction is in the chain')
}

/** Notes that the wallet or the chain has a transfer: it is sent, and no longer refused. */
async function noteTaken(ctx: MoneroContext, transfer: TransferRecord): Promise<void> {
  if (transfer.state === 'signed' || transfer.state === 'held') await moveTransfer(ctx, transfer, 'taken')
  else if (transfer.refused !== undefined) await ctx.payouts.transfers.setRefused(transfer._id, null)
}

const SPENT_ELSEWHERE = 'what it spends is spent by another transaction'

/**
 * Sends a transfer; notes a refusal, or that it is replaced.
 *
 * @param state of it, as the wallet has it
 * @param height how many blocks the wallet had before that was asked
 */
export async function offer(
  ctx: MoneroContext,
  transfer: TransferRecord,
  state: MoneroOutgoingState,
  height: number,
) {
  const about = { transfer_id: transfer._id, tx: transfer.tx, payout_ids: transfer.payout_ids }
  if (transfer.state === 'confirmed')
    ctx.log.warn(about, 'the chain has a transaction of ours no more; it is published again')
  try {
    await ctx.monero.wallet.relay({ txHash: transfer.tx, txMetadata: readSigned(transfer).txMetadata })
    ctx.monero.lastRelayed = { tx: transfer.tx, height }
    await noteTaken(ctx, transfer)
  } catch (error) {
    if (!(error instanceof NodeRefused)) throw error
    if (!(await isSuperseded(ctx, transfer, state))) await noteRefusal(ctx, transfer, error.reason)
    else if (await moveTransfer(ctx, transfer, 'replaced', SPENT_ELSEWHERE))
      ctx.log.warn(about, 'a transaction of ours can never be confirmed; what it was to pay is owed again')
  }
}

/**
 * Whether another transaction has spent a transfer's inputs for good. The wallet says that outputs are
 * spent, not by what. So every other transaction that it sent must have its confirmations, and one of them
 * must have come after this one was signed; or this one is held, so that no pool has what spends them. The
 * wallet also takes for spent what it only sent: the daemon knows better.
 */
async function isSuperseded(ctx: MoneroContext, transfer: TransferRecord, state: MoneroOutgoingState) {
  const { wallet } = ctx.monero
  const { keyImages, height } = readSigned(transfer)
  const isHeld = transfer.state === 'held'
  const isSure = await wallet.rescanSpent()
  if (state === 'pool' && !(isSure && isHeld)) return false
  if ((await wallet.spentKeyImages(keyImages)).length === 0) return false
  const { outgoing, stored } = await readSent(ctx, height)
  const replaced = new Set(stored.flatMap((one) => (one.state === 'replaced' ? [one.tx] : [])))
  const isGivenUp = ({ state: sent, txHash }: MoneroOutgoing) => sent === 'pool' && replaced.has(txHash)
  const others = outgoing.filter((one) => one.txHash !== transfer.tx && !isGivenUp(one))
  if (!others.every((one) => isDeep(ctx, one))) return false
  return isHeld || others.some((one) => (one.height ?? 0) >= height)
}

const signedMonero = z.object({
  txMetadata: z.string(),
  keyImages: z.array(z.string()),
  height: z.int().min(0).default(0),
  /** Primary address of the wallet that signed it, which alone can see to it. */
  wallet: z.string().optional(),
})
export type SignedMonero = z.output<typeof signedMonero>

/** Reads the signed transaction of a transfer. @throws Error if it holds something else */
function readSigned({ _id, signed }: Pick<TransferRecord, '_id' | 'signed'>): SignedMonero {
  const parsed = signedMonero.safeParse(JSON.parse(signed))
  if (!parsed.success)
    throw new Error(`transfer ${_id} holds something else than a signed Monero transaction`)
  return parsed.data
}

/**
 * Marks transfers that another wallet than `address` signed, and unmarks those of this one. A marked one
 * blocks nothing, and is held until the operator has found out whether it paid, or its wallet is back. One of which
 * a payout was paid by hand meanwhile stays marked: it would pay that a second time.
 */
export async function markForeignTransfers(ctx: MoneroContext, address: string): Promise<void> {
  const foreign = await ctx.payouts.transfers.listForeign('xmr')
  for (const transfer of [...(await listOpen(ctx)), ...(await listRecent(ctx)), ...foreign]) {
    if (transfer.payout_ids.length === 0) continue
    const isForeign = (readSigned(transfer).wallet ?? address) !== address
    if (isForeign === (transfer.foreign === true)) continue
    if (!isForeign && !(await hasAllPayouts(ctx, transfer))) continue
    if (isForeign) await moveTransfer(ctx, transfer, 'held', 'it is of a wallet that is not in use')
    await ctx.payouts.transfers.setForeign(transfer._id, isForeign)
    const about = { transfer_id: transfer._id, tx: transfer.tx, payout_ids: transfer.payout_ids }
    ctx.log.error(about, isForeign ? FOREIGN : 'the wallet of a transaction is in use again')
  }
}

/** Whether a transfer may be offered: none of its payouts was paid by hand while its wallet was not in use. */
async function hasAllPayouts(ctx: MoneroContext, transfer: TransferRecord): Promise<boolean> {
  const { _id, tx, payout_ids: ids } = transfer
  const others = (await ctx.payouts.findStored(ids)).filter((payout) => !isIn(transfer, payout))
  if (others.length === 0) return true
  const about = { transfer_id: _id, tx, payout_ids: others.map((payout) => payout._id) }
  ctx.log.error(
    about,
    'the wallet of a transaction is in use again, but it is not offered: a payout of it was paid by hand',
  )
  return false
}

const FOREIGN =
  'a transaction is of a wallet that is not in use: nobody can say whether the chain will have it'
