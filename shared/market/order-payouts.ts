import type { Context } from '../context.ts'
import { requireOwn, type Session } from '../database.ts'
import type { PayoutState, StoredPayout } from '../payments/payout.ts'
import { unixSeconds } from '../time.ts'
import { stepChange, type OrderChange, type OrderRecord } from './order.ts'

/**
 * A payout took a step, in this transaction: a seller's that has arrived, or was paid by hand, ends its order, or will end
 * it with the decision where it is disputed; one that came back to be sent anew must not leave while its order is disputed
 * because of a lost payment, and may leave otherwise.
 */
export async function notePayoutStep(ctx: Context, payout: StoredPayout, to: PayoutState, session: Session): Promise<void> {
  if (payout.order_id === undefined || !['confirmed', 'manual', 'owed'].includes(to)) return
  const order = await ctx.orders.find(payout.order_id, session)
  if (order === undefined) throw new Error(`payout ${payout._id} is of an order that does not exist`)
  if (to === 'owed') {
    if (order.status === 'paid_out' && payout.agent_id === order.seller_id)
      await changeOwn(ctx, order, stepChange(order, 'payout_undone', unixSeconds(ctx.now()), { unset: ['paid_out_at'] }), session)
    else await touchOrder(ctx, order, 'payout_returned', session)
    await ctx.payouts.setFrozen(order._id, order.status === 'disputed' && order.disputed_by === 'chain', session)
  } else if (payout.agent_id === order.seller_id) {
    if (order.status === 'released') await endOrder(ctx, order, session)
    else if (order.status === 'disputed') await touchOrder(ctx, order, 'payout_arrived', session)
  }
}

/** Writes the order though nothing of it changes: beside a transaction that disputes or decides it, one of the two conflicts and sees the other. */
async function touchOrder(ctx: Context, order: OrderRecord, step: 'payout_returned' | 'payout_arrived', session: Session): Promise<void> {
  await changeOwn(ctx, order, { step, at: unixSeconds(ctx.now()), set: {}, entries: [] }, session)
}

/** A change inside the transaction that read the order: a conflict ends that as a whole, so nothing can have changed. */
async function changeOwn(ctx: Context, order: OrderRecord, change: OrderChange, session: Session): Promise<void> {
  await requireOwn(ctx.orders.change(order, change, session), `order ${order._id}`)
}

/** Nothing more comes of it. */
export async function endOrder(ctx: Context, order: OrderRecord, session: Session): Promise<void> {
  const at = unixSeconds(ctx.now())
  await changeOwn(ctx, order, stepChange(order, 'paid_out', at, { set: { paid_out_at: at } }), session)
}
