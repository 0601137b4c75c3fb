import { haltCoin } from '../coin-round.ts'
import type { CoinRecord } from '../coin-store.ts'
import { NodeUnreachable } from '../node-errors.ts'
import type { MoneroContext } from './monero-gateway.ts'
import type { MoneroOutgoing } from './monero-wallet.ts'

/*
 * How wallet and database are compared.
 *
 * `height` in the coin's record says how far the two were found to agree: up to it every payment was taken in, and every
 * transaction of the wallet is on record. It moves on with each whole round and stands still while the coin is halted. It
 * is restored with the database, so after a restore everything since the backup is looked at again, and a payout that the
 * database has forgotten is found before anything else is signed.
 */

/** A chain that turns back by more than this is not noticed; a wallet that lacks more blocks than this is catching up. */
export const REORG_BLOCKS = 60

/** From which block on the two are compared; `height` is the chain's. */
export function firstCompared(coin: Pick<CoinRecord, 'height'> | undefined, height: number): number {
  return Math.max(0, Math.min(coin?.height ?? height, height) - REORG_BLOCKS)
}

/**
 * The chain's height, of the wallet that this database knows.
 *
 * @throws NodeUnreachable where another wallet is open, or it is catching up: both are no news
 */
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
    throw new NodeUnreachable(`the wallet has ${height} blocks, and had ${seen} before: it is still catching up`)
  return height
}

/**
 * The wallet's transactions that the database does not know, from a block on; what the wallet gave up is none. The wallet is
 * asked first: whatever it has of ours was stored before it was relayed.
 */
export async function listUnknownOutgoing(ctx: MoneroContext, sinceHeight: number): Promise<MoneroOutgoing[]> {
  const outgoing = (await ctx.monero.wallet.listOutgoing({ sinceHeight })).filter(({ state }) => state !== 'failed')
  const stored = await ctx.payouts.listTransfersByTx(
    'xmr',
    outgoing.map(({ txHash }) => txHash),
  )
  const known = new Set(stored.map(({ tx }) => tx))
  const unknown: MoneroOutgoing[] = []
  for (const one of outgoing.filter(({ txHash }) => !known.has(txHash)))
    if ((await ctx.payouts.findTransferByTx('xmr', one.txHash, { surely: true })) === undefined) unknown.push(one)
  return unknown
}

/**
 * Halts the coin where the wallet has sent something that is not on record.
 *
 * @returns false where the coin is halted, by this or before
 */
export async function compareOutgoing(ctx: MoneroContext, coin: CoinRecord | undefined, height: number): Promise<boolean> {
  if (coin?.halted !== undefined) return false
  // Nothing was sent, and no invoice made, before the first whole round.
  if (coin?.height === undefined) return true
  const [unknown, ...more] = await listUnknownOutgoing(ctx, firstCompared(coin, height))
  if (unknown === undefined) return true
  await haltCoin(
    ctx,
    'xmr',
    `the wallet has sent ${unknown.txHash}${more.length === 0 ? '' : ` and ${more.length} more`}, which the database does not know`,
  )
  return false
}
