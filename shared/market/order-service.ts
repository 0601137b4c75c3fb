import { readAuthorship } from '../agents/authorship.ts'
import type { Context } from '../context.ts'
import type { Authorship, SeenLog } from '../crypto/author.ts'
import type { Session } from '../platform/database.ts'
import { Refusal } from '../platform/errors.ts'
import { newSalt } from '../ledger/pending.ts'
import type { PayoutRecord } from '../money/payout.ts'
import { SECOND_MS, nowSeconds, unixSeconds } from '../platform/time.ts'
import { MAX_PAYOUTS_SHOWN } from './market-terms.ts'
import { enqueueDeadline, extendForOutage } from './order-deadlines.ts'
import {
  deliveryUpdate,
  disputeUpdate,
  refundAddressUpdate,
  releaseUpdate,
  requireSide,
  takeStep,
  type OrderUpdate,
} from './order-rules.ts'
import type { PayoutActor } from './order-states.ts'
import { changeOrder, storeUpdate } from './order-updates.ts'
import type { OrderDetails } from './order-views.ts'
import { orderEntry, type OrderChange, type OrderRecord } from './order.ts'
import { requireAddress } from '../money/payout-address.ts'

/** The order of a step, and the signature that the agent may send, with the log that it has seen. */
interface StepFields {
  order_id: string
  signature?: string | undefined
  seen?: SeenLog | undefined
}

/**
 * Stores the seller's delivery.
 *
 * @throws Refusal `no_such_order`; `not_yours`; `wrong_state`; `invalid_field` for a signature
 *   that does not verify
 */
export async function deliverOrder(
  ctx: Context,
  sellerId: string,
  fields: StepFields & { delivery: string },
) {
  const { order_id, delivery } = fields
  const author = await readAuthorship(ctx, sellerId, 'order delivered', { order_id, delivery }, fields)
  const salt = newSalt()
  const order = await changeByStep(ctx, sellerId, order_id, 'delivered', author, (before, at) =>
    deliveryUpdate(before, at, delivery, salt),
  )
  await enqueueDeadline(ctx, order)
  return order
}

/**
 * Releases the order, which its buyer accepts.
 *
 * @throws Refusal `no_such_order`; `not_yours`; `wrong_state`; `invalid_field` for a signature
 *   that does not verify
 */
export async function acceptDelivery(ctx: Context, buyerId: string, fields: StepFields) {
  const { order_id } = fields
  const author = await readAuthorship(ctx, buyerId, 'order accepted', { order_id }, fields)
  return changeByStep(ctx, buyerId, order_id, 'accepted', author, (before, at) =>
    releaseUpdate(before, 'accepted', at),
  )
}

/**
 * Stores the buyer's dispute of a delivery.
 *
 * @throws Refusal `no_such_order`; `not_yours`; `wrong_state`; `invalid_field` for a signature
 *   that does not verify
 */
export async function disputeOrder(ctx: Context, buyerId: string, fields: StepFields & { reason: string }) {
  const { order_id, reason } = fields
  const author = await readAuthorship(ctx, buyerId, 'dispute disputed', { order_id, reason }, fields)
  const salt = newSalt()
  return changeByStep(ctx, buyerId, order_id, 'disputed', author, (before, at) =>
    disputeUpdate(before, at, reason, salt),
  )
}

/**
 * Changes an order by a step of one of its sides.
 *
 * @param make makes the step's own part, at a time in Unix seconds
 * @throws Refusal `no_such_order`; as takeStep()
 */
const changeByStep = (
  ctx: Context,
  agentId: string,
  orderId: string,
  step: 'delivered' | 'accepted' | 'disputed',
  author: Authorship | undefined,
  make: (before: OrderRecord, at: number) => OrderUpdate,
): Promise<OrderRecord> =>
  changeOrder(
    ctx,
    async () => ({ order: await refreshOrder(ctx, agentId, orderId) }),
    ({ order }, nowMs) => {
      const at = unixSeconds(nowMs)
      return takeStep(order, step, { agentId, at, author }, () => make(order, at))
    },
  )

/**
 * Reads an order for one of its sides. If its deadline passed during an outage of the API, extends that
 * first.
 *
 * @throws Refusal `no_such_order`; `not_yours` if the agent is neither side
 */
export async function refreshOrder(ctx: Context, agentId: string, orderId: string): Promise<OrderRecord> {
  const order = await ctx.orders.find(orderId)
  if (order === undefined)
    throw new Refusal('no_such_order', 'There is no market order with this id.', { field: 'order_id' })
  if (order.buyer_id !== agentId && order.seller_id !== agentId)
    throw new Refusal('not_yours', 'This order is of two other agents.', { field: 'order_id' })
  return extendIfOverdue(ctx, order)
}

/**
 * Lists an agent's orders on either side, newest first, with ids below `before`. A deadline that passed
 * during an outage of the API is extended first.
 */
export async function listOrders(
  ctx: Context,
  agentId: string,
  before: string | undefined,
  limit: number,
): Promise<OrderRecord[]> {
  const orders = await ctx.orders.listByAgent(agentId, before, limit)
  return Promise.all(orders.map((order) => extendIfOverdue(ctx, order)))
}

/** Extends a deadline that passed during an outage of the API, which this request ends. */
async function extendIfOverdue(ctx: Context, order: OrderRecord): Promise<OrderRecord> {
  const nowMs = ctx.database.now()
  if (order.due_at === undefined || order.due_at * SECOND_MS > nowMs) return order
  await ctx.orders.outages.recordRequest(nowMs)
  return extendForOutage(ctx, order)
}

/**
 * Sets the refund address of an order that has none, and of the buyer's payouts that are still owed.
 *
 * @returns the changed order
 * @throws Refusal `no_such_order`; `not_yours`; `wrong_state` if an address is set; `invalid_field` if no
 *   payout can be sent to this one, or for a signature that does not verify
 */
export async function setRefundAddress(
  ctx: Context,
  buyerId: string,
  fields: StepFields & { address: string },
) {
  const { order_id, address } = fields
  const author = await readAuthorship(ctx, buyerId, 'order refund_address', { order_id, address }, fields)
  return changeOrder(
    ctx,
    async () => {
      const order = await refreshOrder(ctx, buyerId, order_id)
      requireSide(order, buyerId, 'buyer')
      return { order, refundAddress: await requireRefundAddress(ctx, order, address) }
    },
    ({ order, refundAddress }, nowMs) =>
      refundAddressUpdate(order, refundAddress, unixSeconds(nowMs), newSalt(), author),
  )
}

/**
 * Names an order's refund address, in the transaction that has read the order.
 *
 * @param text the address as it was sent
 * @returns the address in canonical form
 * @throws Refusal as requireRefundAddress()
 */
export async function storeRefundAddress(
  ctx: Context,
  before: OrderRecord,
  text: string,
  session: Session,
): Promise<string> {
  const address = await requireRefundAddress(ctx, before, text)
  await storeUpdate(ctx, before, refundAddressUpdate(before, address, nowSeconds(ctx), newSalt()), session)
  return address
}

/**
 * Returns the address in canonical form, if it can become the order's refund address.
 *
 * @throws Refusal `wrong_state` if an address is set; `invalid_field` if no payout can be sent to this one
 */
async function requireRefundAddress(ctx: Context, order: OrderRecord, text: string): Promise<string> {
  if (order.refund_address !== undefined)
    throw new Refusal('wrong_state', 'This order has a refund address, and it stays as it is.', {
      field: 'order_id',
    })
  return requireAddress(ctx, order.coin, text, 'address')
}

/**
 * Removes the buyer's refund address from an order and from the buyer's payouts, and notes it in the order as
 * undone: the operator had named it for a payment that was then not made.
 *
 * @returns false, with nothing changed, if there is no such address or a payout to the buyer may use it
 */
export async function forgetRefundAddress(ctx: Context, orderId: string, session: Session): Promise<boolean> {
  const before = await ctx.orders.find(orderId, session)
  if (before?.refund_address === undefined || before.refund_salt === undefined) return false
  const { buyer_id: buyerId, refund_address: address, refund_salt: salt } = before
  const payouts = await ctx.payouts.listByOrder(orderId, session)
  const isUnused = ({ state }: PayoutRecord): boolean => state === 'owed' || state === 'withdrawn'
  if (payouts.some((payout) => payout.agent_id === buyerId && !isUnused(payout))) return false
  const at = nowSeconds(ctx)
  const change: OrderChange = {
    step: 'refund_address',
    at,
    set: { refunds_undone: [...(before.refunds_undone ?? []), { address, salt }] },
    unset: ['refund_address', 'refund_salt'],
    entries: [orderEntry(before, 'refund_address', at, { refund_address_hash: null })],
  }
  await storeUpdate(ctx, before, { change }, session)
  await ctx.payouts.forgetAddress(orderId, buyerId, session)
  return true
}

/** Reads what `agentId`, a side of the order, sees of it besides the order itself. */
export async function readOrderDetails(
  ctx: Context,
  order: OrderRecord,
  agentId: string,
): Promise<OrderDetails> {
  const [invoice, payouts, unshown] = await Promise.all([
    agentId === order.buyer_id ? ctx.invoices.find(order.invoice_id) : undefined,
    ctx.payouts.listNewest(order._id, agentId, MAX_PAYOUTS_SHOWN + 1),
    ctx.invoices.arrivals.listUnshownOrders(order.coin, order._id),
  ])
  return { invoice, payouts, waitsForChain: unshown.length > 0, payoutActor: payoutActor(ctx) }
}

export const payoutActor = (ctx: Context): PayoutActor =>
  ctx.config.payouts === 'automatic' ? 'service' : 'operator'
