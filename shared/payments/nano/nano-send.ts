import { isHalted, untilNodeFails } from '../coin-round.ts'
import type { NanoContext } from './nano-gateway.ts'
import { runTreasury } from './nano-treasury.ts'

/**
 * What the venue owes in Nano goes out from the treasury, one block for each payee, once it sums up to MIN_PAYOUT_XNO. The
 * block is stored with the payouts that it pays in one transaction (nano-lane.ts), so a payout is in one block at most.
 */

/** One round. With PAYOUTS=manual nothing new is signed; a payout under way is seen to its end all the same. */
export async function sendNano(ctx: NanoContext): Promise<void> {
  if (await isHalted(ctx, 'xno')) return
  const wallet = ctx.nano.wallet()
  if (ctx.config.payouts !== 'automatic') {
    const open = await ctx.payouts.listOpenTransfers(wallet.treasury.index)
    if (!open.some(({ kind }) => kind === 'payout')) return
  }
  await untilNodeFails(ctx, 'xno', () => runTreasury(ctx, wallet, { takesIn: false }))
}
