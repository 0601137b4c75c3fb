import { DAY_MS, MINUTE_MS } from '../../../platform/time.ts'
import type { CoinRecord } from '../../coin-store.ts'
import { NOT_COMPARED, type Agreement, type FoundTransaction } from '../../driver.ts'
import { NodeUnreachable } from '../../node-errors.ts'
import { ANYWHERE, type TransferRecord } from '../../transfer.ts'
import { unexplainedRecipients } from '../../unexplained-sends.ts'
import type { MoneroContext } from './monero-gateway.ts'
import type { MoneroOutgoing } from './monero-wallet.ts'

/*
 * `height` in the coin's record says up to where wallet and database agree. It stands still while the coin is
 * stopped and is restored with the database: so everything since a backup is scanned again, and a payout
 * that the database has forgotten is found before anything else is signed.
 */

/** A deeper reorganisation isn't noticed; a wallet that lacks more blocks than this is catching up. */
export const REORG_BLOCKS = 60
/** Transactions that were confirmed this long ago are in the chain for good. */
export const FINAL_AFTER_MS = DAY_MS
const BLOCK_MS = 2 * MINUTE_MS

/** The height from which on wallet and database are compared: a reorganisation lower than the last one. */
export const firstCompared = (coin: Pick<CoinRecord, 'height'> | undefined, height: number): number =>
  Math.max(0, Math.min(coin?.height ?? height, height) - REORG_BLOCKS)

/** Reads the wallet's height. @throws NodeUnreachable if another wallet is open, or it is catching up */
export async function readHeight(ctx: MoneroContext, coin: CoinRecord | undefined): Promise<number> {
  const { wallet } = ctx.monero
  const address = await wallet.primaryAddress()
  const known = coin?.treasury_address
  if (known !== undefined && known !== address)
    throw new NodeUnreachable(
      `monero-wallet-rpc has the wallet ${address} open, and not ${known}, which this database knows; "operator reconcile xmr" takes over another one`,
    )
  const height = await wallet.getHeight()
  const seen = coin?.height ?? 0
  if (height + REORG_BLOCKS < seen)
    throw new NodeUnreachable(`the wallet has ${height} blocks, and had ${seen} before: it is catching up`)
  return height
}

/** The live networks have three million blocks and a new one every two minutes; a private chain may stand still. */
const LIVE_FROM_BLOCKS = 1_000_000

/**
 * Up to when a wallet at this height can't lack what was sent, in Unix seconds: a daemon that is cut off answers as
 * any other, so the chain has to have grown after that. Undefined for a private chain, of which nothing is known.
 */
export function sureUntil(coin: Pick<CoinRecord, 'height' | 'height_at'> | undefined, height: number) {
  if (height < LIVE_FROM_BLOCKS) return undefined
  const { height: before = height, height_at: readAt = 0 } = coin ?? {}
  // It has grown at some time after it was last read.
  return height > before ? readAt : 0
}

export interface Sent {
  readonly outgoing: readonly MoneroOutgoing[]
  readonly stored: readonly TransferRecord[]
  /** The rest, from the compared height on. */
  readonly unknown: readonly MoneroOutgoing[]
}

/**
 * Reads what the wallet has sent from a day's blocks before `sinceHeight` on, and which of it is on record.
 * The wallet is asked first: whatever it has of ours was stored before it was relayed.
 */
export async function readSent(ctx: MoneroContext, sinceHeight: number): Promise<Sent> {
  const earlier = Math.max(0, sinceHeight - FINAL_AFTER_MS / BLOCK_MS)
  const listed = await ctx.monero.wallet.listOutgoing({ sinceHeight: earlier })
  const outgoing = listed.filter(({ state }) => state !== 'failed')
  const txs = outgoing.map(({ txHash }) => txHash)
  const stored = await ctx.payouts.transfers.listByTx('xmr', txs)
  const known = new Set(stored.map(({ tx }) => tx))
  const unknown: MoneroOutgoing[] = []
  for (const transaction of outgoing) {
    const { txHash, height = sinceHeight } = transaction
    if (height < sinceHeight || known.has(txHash)) continue
    if ((await ctx.payouts.transfers.findByTx('xmr', txHash, { surely: true })) === undefined)
      unknown.push(transaction)
  }
  return { outgoing, stored, unknown }
}

/** What the wallet has sent, against what is on record. */
type Comparison =
  | {
      readonly kind: 'agrees'
      readonly sent: Sent
      /** What the operator has recorded, as confirmed as it has to be to go on record as ours. */
      readonly byHand: readonly MoneroOutgoing[]
    }
  | Exclude<Agreement, { kind: 'agrees' }>

/** Finds out whether the wallet has sent what neither the database knows nor the operator has recorded. */
export async function compareOutgoing(
  ctx: MoneroContext,
  coin: CoinRecord | undefined,
  height: number,
): Promise<Comparison> {
  if (coin?.halted !== undefined) return NOT_COMPARED
  // Nothing was sent, and no invoice made, before the first whole round.
  if (coin?.height === undefined)
    return { kind: 'agrees', sent: { outgoing: [], stored: [], unknown: [] }, byHand: [] }
  const sent = await readSent(ctx, firstCompared(coin, height))
  const strange: MoneroOutgoing[] = []
  const byHand: MoneroOutgoing[] = []
  for (const transaction of sent.unknown) {
    if (!(await isByHand(ctx, transaction))) strange.push(transaction)
    else if (isDeep(ctx, transaction)) byHand.push(transaction)
  }
  const [first, ...more] = strange
  if (first === undefined) return { kind: 'agrees', sent, byHand }
  const which = `${first.txHash}${more.length === 0 ? '' : ` and ${more.length} more`}`
  return { kind: 'differs', why: `the wallet has sent ${which}, which the database does not know` }
}

/** Whether a transaction has MONERO_CONFIRMATIONS. */
export const isDeep = (ctx: MoneroContext, { confirmations }: { confirmations: number }): boolean =>
  confirmations >= ctx.config.monero.confirmations

/** Whether the operator has recorded it, and all that it sent away, as paid by hand. */
export const isByHand = async (ctx: MoneroContext, sent: MoneroOutgoing): Promise<boolean> =>
  sent.amountPico > 0n && (await unexplainedRecipients(ctx, 'xmr', toFound(sent))).length === 0

/** What the wallet knows of a transaction that it sent, as a reconciliation takes it. */
export function toFound(outgoing: MoneroOutgoing): FoundTransaction {
  const { txHash, height, amountPico, feePico, destinations } = outgoing
  const sent = destinations.map(({ address, amountPico: amountRaw }) => ({ address, amountRaw }))
  const isSend = amountPico > 0n
  const recipients = sent.length === 0 ? [ANYWHERE] : [...new Set(sent.map(({ address }) => address))]
  return {
    kind: isSend ? 'payout' : 'other',
    tx: txHash,
    signed: JSON.stringify({ height }),
    fee_raw: String(feePico),
    amountRaw: amountPico,
    to: isSend ? recipients : [],
    ...(sent.length === 0 ? {} : { sent }),
  }
}
