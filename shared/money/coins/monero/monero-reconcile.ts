import type { CoinRecord } from '../../coin-store.ts'
import type { Findings } from '../../driver.ts'
import { NodeUnreachable } from '../../node-errors.ts'
import { firstCompared, isByHand, isDeep, readSent, toFound } from './monero-chain.ts'
import type { MoneroContext } from './monero-gateway.ts'
import { markForeignTransfers, recoverTransfers } from './monero-recovery.ts'
import { countPayments } from './monero-scan.ts'
import { makeLackingAddresses } from './monero-subaddresses.ts'

/** Gives `findings` what the wallet has sent and received, and works on the transfers on record. */
export async function reconcileWallet(
  ctx: MoneroContext,
  before: CoinRecord | undefined,
  findings: Findings,
) {
  const { wallet } = ctx.monero
  const address = await wallet.primaryAddress()
  const height = await wallet.getHeight()
  await makeLackingAddresses(ctx)
  const sinceHeight = firstCompared(before, height)
  const sent = await readSent(ctx, sinceHeight)
  for (const send of sent.unknown) {
    if (isDeep(ctx, send)) await findings.adoptTransaction(toFound(send))
    // What the operator has recorded is adopted by a later round, once it is confirmed.
    else if (!(await isByHand(ctx, send)))
      throw new NodeUnreachable(`transaction ${send.txHash} is not confirmed yet; reconcile again once it is`)
  }
  await countPayments(ctx, sinceHeight, height, findings)
  await markForeignTransfers(ctx, address)
  await recoverTransfers(ctx, sent, height, true)
  return { address, height, totalRaw: (await wallet.balance()).totalPico }
}
