import { SECOND_MS } from '../../time.ts'
import { isHalted, untilNodeFails } from '../coin-round.ts'
import { isPayable, listDue, noteTreasury, sumDue, type DueGroup } from '../due-payouts.ts'
import { parseNanoAddress } from './nano-address.ts'
import { buildSend } from './nano-blocks.ts'
import type { NanoContext, NanoWallet } from './nano-gateway.ts'
import { runLane, type LaneStep, type Standing } from './nano-lane.ts'
import { stateOf } from './nano-sweep.ts'

/**
 * What the venue owes in Nano goes out from the treasury, one block for each payee, once it sums up to MIN_PAYOUT_XNO. The
 * block is stored with the payouts that it pays in one transaction (nano-lane.ts), so a payout is in one block at most.
 */

const ROUND_MS = 60 * SECOND_MS
/** Payouts that one block pays; the others of the same payee are in the next. */
const MAX_PAYOUTS_IN_BLOCK = 100

/** One round. With PAYOUTS=manual nothing new is signed; a payout under way is seen to its end all the same. */
export async function sendNano(ctx: NanoContext): Promise<void> {
  if (await isHalted(ctx, 'xno')) return
  const wallet = ctx.nano.wallet()
  const isAutomatic = ctx.config.payouts === 'automatic'
  const open = await ctx.payouts.findOpenTransfer(wallet.treasury.index)
  if (!isAutomatic && open?.kind !== 'payout') return
  let due: DueGroup[] | undefined
  const next = async (standing: Standing): Promise<LaneStep | undefined> => {
    if (!isAutomatic) return undefined
    // Grouped once, and after a payout under way was seen to.
    due ??= await listDue(ctx, 'xno', { maxPayouts: MAX_PAYOUTS_IN_BLOCK })
    return nextPayout(ctx, wallet, standing, due)
  }
  await untilNodeFails(ctx, 'xno', async () => void (await runLane(ctx, wallet.treasury, next, performance.now() + ROUND_MS)))
}

/** Takes the next payee that can be paid out of `due`. Those whose sum the treasury does not hold stay owed. */
async function nextPayout(ctx: NanoContext, wallet: NanoWallet, standing: Standing, due: DueGroup[]): Promise<LaneStep | undefined> {
  await noteShortage(ctx, wallet, standing, due)
  for (let at = 0; at < due.length;) {
    const group = due[at] as DueGroup
    if (group.sumRaw > standing.balanceRaw) {
      at++
      continue
    }
    due.splice(at, 1)
    if (await isPayable(ctx, 'xno', group, (text) => parseNanoAddress(text) !== undefined)) {
      const block = buildSend(stateOf(wallet, standing), { destination: group.address, amountRaw: group.sumRaw })
      return { block, kind: 'payout', amountRaw: group.sumRaw, payoutIds: group.payouts.map(({ _id }) => _id) }
    }
  }
  return undefined
}

async function noteShortage(ctx: NanoContext, wallet: NanoWallet, { balanceRaw }: Standing, due: readonly DueGroup[]): Promise<void> {
  const sumRaw = sumDue(due)
  await noteTreasury(ctx, 'xno', {
    treasury_address: wallet.treasury.address,
    treasury_raw: String(balanceRaw),
    treasury_short_raw: String(sumRaw > balanceRaw ? sumRaw - balanceRaw : 0n),
  })
}
