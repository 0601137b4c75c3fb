import { DAY_MS, MINUTE_MS } from '../../foundation/time.ts'
import { stopCoin } from '../coin-round.ts'
import type { CoinRecord } from '../coin-store.ts'
import { NodeUnreachable } from '../node-errors.ts'
import { ANYWHERE, type TransferRecord } from '../payout.ts'
import { adoptTransaction, listUnexplained, type FoundTransaction } from '../reconcile.ts'
import type { MoneroContext } from './monero-gateway.ts'
import type { MoneroOutgoing } from './monero-wallet.ts'

/*
 * `height` in the coin's record says up to where wallet and database agree. It stands still while the coin is
 * stopped and is restored with the database: so everything since a backup is looked at again, and a payout
 * that the database has forgotten is found before anything else is signed.
 */

/** A deeper reorganisation isn't noticed; a wallet that lacks more blocks than this is catching up. */
export const REORG_BLOCKS = 60
/** Transactions that were confirmed so long ago are in the chain for good. */
export const FINAL_AFTER_MS = DAY_MS
const BLOCK_MS = 2 * MINUTE_MS

/** The height from which on wallet and database are compared: a reorganisation lower than the last one. */
export const firstCompared = (coin: Pick<CoinRecord, 'height'> | undefined, height: number): number =>
  Math.max(0, Math.min(coin?.height ?? height, height) - REORG_BLOCKS)

/** @throws NodeUnreachable if another wallet is open, or it is catching up: both are no news */
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
    throw new NodeUnreachable(
      `the wallet has ${height} blocks, and had ${seen} before: it is still catching up`,
    )
  return height
}

export interface Sent {
  readonly outgoing: readonly MoneroOutgoing[]
  readonly stored: readonly TransferRecord[]
  /** The rest, from the compared height on. */
  readonly unknown: readonly MoneroOutgoing[]
}

/** The wallet is asked first: whatever it has of ours was stored before it was relayed. */
export async function readSent(ctx: MoneroContext, sinceHeight: number): Promise<Sent> {
  const earlier = Math.max(0, sinceHeight - FINAL_AFTER_MS / BLOCK_MS)
  const listed = await ctx.monero.wallet.listOutgoing({ sinceHeight: earlier })
  const outgoing = listed.filter(({ state }) => state !== 'failed')
  const txs = outgoing.map(({ txHash }) => txHash)
  const stored = await ctx.payouts.listTransfersByTx('xmr', txs)
  const known = new Set(stored.map(({ tx }) => tx))
  const unknown: MoneroOutgoing[] = []
  for (const one of outgoing.filter(
    ({ txHash, height = sinceHeight }) => height >= sinceHeight && !known.has(txHash),
  ))
    if ((await ctx.payouts.findTransferByTx('xmr', one.txHash, { surely: true })) === undefined)
      unknown.push(one)
  return { outgoing, stored, unknown }
}

/** Stops the coin if the wallet has sent what nobody has recorded. @returns undefined if it is stopped */
export async function compareOutgoing(
  ctx: MoneroContext,
  coin: CoinRecord | undefined,
  height: number,
): Promise<Sent | undefined> {
  if (coin?.halted !== undefined) return undefined
  // Nothing was sent, and no invoice made, before the first whole round.
  if (coin?.height === undefined) return { outgoing: [], stored: [], unknown: [] }
  const sent = await readSent(ctx, firstCompared(coin, height))
  const strange: MoneroOutgoing[] = []
  for (const one of sent.unknown) {
    if (!(await isByHand(ctx, one))) strange.push(one)
    else if (isDeep(ctx, one))
      await adoptTransaction(ctx, 'xmr', toFound(one), 'the operator has recorded it')
  }
  const [first, ...more] = strange
  if (first === undefined) return sent
  await stopCoin(
    ctx,
    'xmr',
    `the wallet has sent ${first.txHash}${more.length === 0 ? '' : ` and ${more.length} more`}, which the database does not know`,
  )
  return undefined
}

export const isDeep = (
  ctx: MoneroContext,
  { confirmations }: Pick<MoneroOutgoing, 'confirmations'>,
): boolean => confirmations >= ctx.config.monero.confirmations

/** Whether the operator has recorded it, and all that it sent away, as paid by hand. */
export const isByHand = async (ctx: MoneroContext, one: MoneroOutgoing): Promise<boolean> =>
  one.amountPico > 0n && (await listUnexplained(ctx, 'xmr', toFound(one))).length === 0

export function toFound({
  txHash,
  height,
  amountPico,
  feePico,
  destinations,
}: MoneroOutgoing): FoundTransaction {
  const sent = destinations.map(({ address, amountPico: amountRaw }) => ({ address, amountRaw }))
  const isSend = amountPico > 0n
  return {
    kind: isSend ? 'payout' : 'other',
    tx: txHash,
    signed: JSON.stringify({ height }),
    fee_raw: String(feePico),
    amountRaw: amountPico,
    to: !isSend ? [] : sent.length === 0 ? [ANYWHERE] : [...new Set(sent.map(({ address }) => address))],
    ...(sent.length === 0 ? {} : { sent }),
  }
}
