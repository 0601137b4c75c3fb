import type { Context } from '../context.ts'
import type { Session } from '../platform/database.ts'
import { Refusal } from '../platform/errors.ts'
import { nowSeconds, SECOND_MS } from '../platform/time.ts'
import type { PayoutRecord } from '../money/payout.ts'
import { withdrawPayout } from '../money/payout-service.ts'
import {
  decide,
  decidedPayouts,
  decisionChange,
  undoneChange,
  undoObstacle,
  type Decision,
  type DisputedMoney,
  type Ruling,
} from './dispute-rules.ts'
import { isSellerPaid, markPaidOut, netReceivedRaw } from './order-money.ts'
import { type Side } from './order-rules.ts'
import { readPayouts, replaceOpenPayouts, storeUpdate, type SidePayouts } from './order-updates.ts'
import { applyChange, sumAmounts, type OrderRecord } from './order.ts'

/**
 * Stores the operator's decision of a disputed order. What is owed or freed by it isn't sent for
 * DISPUTE_HOLD_MINUTES.
 *
 * @returns the decision, with the order after it
 * @throws Refusal `no_such_order`; as decide()
 */
export async function decideDispute(ctx: Context, orderId: string, ruling: Ruling): Promise<Decision> {
  return ctx.database.transaction(async (session) => {
    const order = await findOrder(ctx, orderId, session)
    const payouts = await readPayouts(ctx, order, session)
    const decision = decide(order, ruling, await readMoney(ctx, order, payouts, session))
    return storeDecision(ctx, order, ruling, decision, payouts, session)
  })
}

/**
 * Takes the operator's last decision of an order back: it is disputed again, and the decision's payouts are
 * withdrawn.
 *
 * @returns the order afterwards, and the payouts as they were
 * @throws Refusal `no_such_order`; `wrong_state` if a payout of the decision is signed, held or paid, or the order
 *   is not as the decision left it
 */
export async function undoDecision(
  ctx: Context,
  orderId: string,
): Promise<{ order: OrderRecord; withdrawn: PayoutRecord[] }> {
  return ctx.database.transaction(async (session) => {
    const order = await findOrder(ctx, orderId, session)
    const payouts = await ctx.payouts.listByOrder(order._id, session)
    const at = nowSeconds(ctx)
    const obstacle = undoObstacle(order, payouts, at)
    if (obstacle !== undefined) throw new Refusal('wrong_state', obstacle)
    const withdrawn = decidedPayouts(order, payouts)
    for (const { _id } of withdrawn) await withdrawPayout(ctx, _id, session)
    const change = undoneChange(order, at)
    await storeUpdate(ctx, order, { change }, session)
    const disputed = applyChange(order, change)
    await ctx.payouts.setFrozen(order._id, disputed.disputed_by === 'chain', session)
    return { order: disputed, withdrawn }
  })
}

async function findOrder(ctx: Context, orderId: string, session: Session): Promise<OrderRecord> {
  const order = await ctx.orders.find(orderId, session)
  if (order === undefined) throw new Refusal('no_such_order', 'There is no market order with this id.')
  return order
}

/** Reads what was received for an order, and what its two sides were paid. */
async function readMoney(
  ctx: Context,
  order: OrderRecord,
  payouts: Record<Side, SidePayouts>,
  session: Session,
): Promise<DisputedMoney> {
  const invoice = await ctx.invoices.find(order.invoice_id, session)
  if (invoice === undefined) throw new Error(`order ${order._id} has no invoice`)
  const lostRaw =
    sumAmounts(await ctx.invoices.arrivals.listReversed(invoice._id, session)) - BigInt(order.written_off_raw)
  return {
    receivedRaw: netReceivedRaw(order, invoice),
    lostRaw: lostRaw > 0n ? lostRaw : 0n,
    sentRaw: { seller: payouts.seller.sentRaw, buyer: payouts.buyer.sentRaw },
  }
}

/**
 * Stores a decision, with payouts that bring each side to its sum. If the seller has been paid before, the order is
 * paid out at once.
 */
async function storeDecision(
  ctx: Context,
  order: OrderRecord,
  ruling: Ruling,
  decision: Decision,
  payouts: Record<Side, SidePayouts>,
  session: Session,
): Promise<Decision> {
  const at = nowSeconds(ctx)
  const change = decisionChange(order, ruling, decision, at)
  const decided = {
    version: order.version + 1,
    until: at + Math.ceil(ctx.config.disputeHoldMs / SECOND_MS),
  }
  await ctx.payouts.free(order._id, decided, session)
  const dueRaw = { seller: decision.sellerRaw, buyer: decision.buyerRaw }
  const owed = []
  for (const side of ['seller', 'buyer'] as const) {
    const due = { raw: dueRaw[side], reason: `decided/${side}`, at, decided }
    owed.push(...(await replaceOpenPayouts(ctx, order, side, payouts[side], due, session)))
  }
  await storeUpdate(ctx, order, { change, payouts: owed }, session)
  const after = applyChange(order, change)
  if (after.status === 'released' && (await isSellerPaid(ctx, after, session)))
    await markPaidOut(ctx, after, session)
  return { ...decision, order: after }
}
