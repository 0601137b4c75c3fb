import type { Context } from '../context.ts'
import type { Session } from '../platform/database.ts'
import { Refusal } from '../platform/errors.ts'
import { newStepId } from '../platform/ids.ts'
import { nowSeconds } from '../platform/time.ts'
import { formatAmount, type Coin } from './coin.ts'
import { requireAddress } from './payout-address.ts'
import { newWithdrawal, withdrawPayout } from './payout-service.ts'
import { leastToMove, type PayoutRecord } from './payout.ts'

/* What the venue takes out of what is its own: a payout like any other, to an address that the operator names. */

/** What is the venue's own and not on its way out already, in the smallest unit; below 0 if others' money is missing. */
async function readFree(ctx: Context, coin: Coin, session: Session): Promise<bigint> {
  const leaving = await ctx.payouts.listWithdrawals(coin, session)
  return leaving.reduce((sum, { amount_raw: raw }) => sum - BigInt(raw), await ctx.journal.own(coin, session))
}

/**
 * Makes a payout of what is the venue's own. It stays on the operator's account until it has left.
 *
 * @throws Refusal `invalid_field` if nothing can be sent to the address; `wrong_state` if it is more than is the
 *   venue's own, or too little to be sent
 */
export function withdrawOwn(
  ctx: Context,
  coin: Coin,
  amountRaw: bigint,
  text: string,
): Promise<PayoutRecord> {
  const stepId = newStepId()
  return ctx.database.transaction(async (session) => {
    const address = await requireAddress(ctx, coin, text, 'ADDRESS')
    const at = nowSeconds(ctx)
    if (!(await ctx.coins.noteWithdrawal(coin, at, session)))
      throw new Refusal('wrong_state', `No worker has set ${coin} up.`)
    const leastRaw = leastToMove(ctx.config, coin)
    if (amountRaw < leastRaw)
      throw new Refusal('wrong_state', `The least that is sent is ${formatAmount(leastRaw, coin)} ${coin}.`)
    const freeRaw = await readFree(ctx, coin, session)
    if (amountRaw > freeRaw)
      throw new Refusal(
        'wrong_state',
        freeRaw > 0n
          ? `Of what is held, ${formatAmount(freeRaw, coin)} ${coin} are the venue's own; the rest is owed, held for orders, or paid for what is not bought yet.`
          : `Nothing of what is held in ${coin} is the venue's own.`,
      )
    const payout = newWithdrawal({ source: `withdrawal/${stepId}`, coin, amountRaw, address, at })
    await ctx.payouts.insert([payout], session)
    return payout
  })
}

/**
 * Takes back that the venue takes something out, as long as nothing is signed for it.
 *
 * @throws Refusal `no_such_record`; `wrong_state` if it is signed, held or paid
 */
export function undoWithdrawal(ctx: Context, payoutId: string): Promise<PayoutRecord> {
  return ctx.database.transaction(async (session) => {
    const payout = await ctx.payouts.find(payoutId, session)
    if (payout?.withdraws !== true)
      throw new Refusal(
        'no_such_record',
        'There is no withdrawal with this id; "payouts" lists what is open.',
      )
    if (payout.state !== 'owed')
      throw new Refusal('wrong_state', `The payout ${payoutId} is ${payout.state}, so it stays.`)
    await withdrawPayout(ctx, payoutId, session)
    return { ...payout, state: 'withdrawn' }
  })
}
