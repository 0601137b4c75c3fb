import { controlMessage } from '../../../crypto/control-message.ts'
import type { CoinDriver, ControlledSeal, MadeProof } from '../../driver.ts'
import { compareOutgoing, readHeight } from './monero-chain.ts'
import type { MoneroContext } from './monero-gateway.ts'
import { moneroHoldings } from './monero-holdings.ts'
import { MONERO_BOUNDS, payMonero } from './monero-pay.ts'
import { listOpen, listRecent } from './monero-recovery.ts'
import { scanWallet } from './monero-scan.ts'
import { compareAddresses, moneroAddresses } from './monero-subaddresses.ts'
import { reconcileWallet } from './monero-reconcile.ts'

/** The driver of Monero, over the wallet of this process. */
export function moneroDriver(ctx: MoneroContext): CoinDriver {
  return {
    coin: 'xmr',
    confirmations: ctx.config.monero.confirmations,
    addresses: moneroAddresses(ctx),
    addressesAt: (indexes) => ctx.monero.wallet.listAddresses(indexes),
    scan: () => scanWallet(ctx),
    shareScan: (scan) => ctx.monero.shareScan('', scan),
    findTransaction: (tx) => findTransaction(ctx, tx),
    async checkAgreement() {
      const coin = await ctx.coins.findCoin('xmr')
      const comparison = await compareOutgoing(ctx, coin, await readHeight(ctx, coin))
      return comparison.kind === 'agrees' ? compareAddresses(ctx) : comparison
    },
    bounds: MONERO_BOUNDS,
    isUnderWay: async () => (await listOpen(ctx)).length + (await listRecent(ctx)).length > 0,
    pay: (next) => payMonero(ctx, next),
    holdings: () => moneroHoldings(ctx),
    proveControl: (seal) => proveReserve(ctx, seal),
    reconcile: (before, findings) => reconcileWallet(ctx, before, findings),
  }
}

/** Reads whom a transaction pays. @returns undefined also if the wallet can't say, as of another program's */
async function findTransaction({ monero: { wallet } }: MoneroContext, tx: string) {
  const { incoming, outgoing } = await wallet.findTransaction(tx)
  const sent = outgoing?.destinations ?? []
  const isSentConfirmed = outgoing?.state === 'confirmed'
  const pays = [
    ...incoming.map((pay) => ({ ...pay, isConfirmed: !pay.inPool })),
    ...sent.map((pay) => ({ ...pay, isConfirmed: isSentConfirmed })),
  ]
  if (pays.length === 0) return undefined
  return pays.map(({ address: to, amountPico: amountRaw, isConfirmed }) => ({ to, amountRaw, isConfirmed }))
}

/** Makes a proof of all that the wallet has. @returns none if that is nothing */
async function proveReserve(
  { monero: { wallet } }: MoneroContext,
  seal: ControlledSeal,
): Promise<MadeProof[]> {
  if ((await wallet.heldInBlocks()) === 0n) return []
  const account = await wallet.primaryAddress()
  const message = controlMessage(seal.seq, seal.hash, account)
  const { signature, totalPico } = await wallet.proveReserve(account, message)
  return [{ account, message, signature, total_raw: String(totalPico) }]
}
