import type { Context } from '../context.ts'
import type { Session } from '../platform/database.ts'
import { nowSeconds } from '../platform/time.ts'
import { decidePayout, type PayoutEvent, type PayoutStays, type PayoutUpdate } from './payout-steps.ts'
import type { StoredPayout } from './payout.ts'
import { purposeOf } from './purpose.ts'

/* How a decision about a payout is stored. */

/** Takes a payout's step in a transaction of its own. @returns whether it was taken */
export function takePayoutStepAlone(
  ctx: Context,
  payoutId: string,
  event: PayoutEvent,
  attempt: string,
): Promise<boolean> {
  return ctx.database.transaction(async (session) => {
    const [payout] = await ctx.payouts.findStored([payoutId], session)
    if (payout === undefined) return false
    return (await takePayoutStep(ctx, payout, event, attempt, session)).kind === 'moves'
  })
}

/**
 * Decides what an event makes of a payout and stores it, with its ledger entry, its journal lines and what its
 * order notes of it.
 *
 * @param payout as it was read in this transaction
 * @param attempt see decidePayout()
 * @returns the decision; nothing is written if the payout stays
 * @throws Overtaken if the payout is another than was read
 */
export async function takePayoutStep(
  ctx: Context,
  payout: StoredPayout,
  event: PayoutEvent,
  attempt: string | undefined,
  session: Session,
): Promise<PayoutUpdate | PayoutStays> {
  const decision = decidePayout(payout, event, nowSeconds(ctx), attempt)
  if (decision.kind === 'stays') return decision
  await ctx.payouts.move(payout, decision, session)
  if (decision.lines.length > 0) await ctx.journal.write(decision.lines, session)
  await purposeOf(ctx, payout).payoutMoved?.(ctx, payout, decision.told, session)
  return decision
}

/** Takes a payout's step that has to be possible, like takePayoutStep(). @throws Error if the payout stays */
export async function requirePayoutStep(
  ctx: Context,
  payout: StoredPayout,
  event: PayoutEvent,
  attempt: string | undefined,
  session: Session,
): Promise<void> {
  const decision = await takePayoutStep(ctx, payout, event, attempt, session)
  if (decision.kind === 'moves') return
  const hold = decision.because === 'state' ? '' : ` (${decision.because})`
  throw new Error(`payout ${payout._id} is ${payout.state}${hold}, so it can't be ${event.step}`)
}
