import type { Context } from '../context.ts'
import type { Session } from '../database.ts'
import type { PayoutRecord, PayoutState } from '../payments/payout.ts'
import { unixSeconds } from '../time.ts'
import { stepChange, type OrderRecord } from './order.ts'

/**
 * A payout took a step, in this transaction: a seller's that has arrived, or was paid by hand, ends its order; one that
 * came back to be sent anew must not leave while its order is disputed because of a lost payment.
 */
export async function notePayoutStep(ctx: Context, payout: PayoutRecord, to: PayoutState, session: Session): Promise<void> {
  if (payout.order_id === undefined || !['confirmed', 'manual', 'owed'].includes(to)) return
  const order = await ctx.orders.find(payout.order_id, session)
  if (order === undefined) throw new Error(`payout ${payout._id} is of an order that does not exist`)
  if (to === 'owed') {
    // Writes the order too: beside a transaction that disputes it, one of the two conflicts and sees the other.
    const touched = { step: 'payout_returned' as const, at: unixSeconds(ctx.now()), set: {}, entries: [] }
    if (!(await ctx.orders.change(order, touched, session))) throw new Error(`order ${order._id} changed inside its own transaction`)
    if (order.status === 'disputed' && order.disputed_by === 'chain') await ctx.payouts.setFrozen(order._id, true, session)
  } else if (payout.agent_id === order.seller_id && order.status === 'released') {
    await endOrder(ctx, order, session)
  }
}

/** Nothing more comes of it. */
export async function endOrder(ctx: Context, order: OrderRecord, session: Session): Promise<void> {
  const at = unixSeconds(ctx.now())
  const change = stepChange(order, 'paid_out', at, { set: { paid_out_at: at } })
  if (!(await ctx.orders.change(order, change, session))) throw new Error(`order ${order._id} changed inside its own transaction`)
}
