import { readAuthorship } from '../agents/authorship.ts'
import type { Context } from '../context.ts'
import type { Authorship, SeenLog } from '../crypto/author.ts'
import { commitRecord } from '../crypto/commitment.ts'
import type { Session } from '../servers/database.ts'
import { Refusal } from '../foundation/errors.ts'
import { newSalt } from '../ledger/pending.ts'
import { SECOND_MS, nowSeconds } from '../foundation/time.ts'
import { MAX_PAYOUTS_SHOWN } from './market-terms.ts'
import { enqueueDeadline, extendForOutage } from './order-schedule.ts'
import { ORDER_STEPS, stepObstacle, stepRule, type OrderStep } from './order-states.ts'
import { releaseOrder, storeOwnUpdate, storeUpdate, type OrderUpdate } from './order-updates.ts'
import type { OrderDetails, PayoutActor } from './order-views.ts'
import { changeOrder, orderEntry, signedChange, stepChange } from './order.ts'
import type { OrderChange, OrderRecord } from './order.ts'
import { requireAddress } from '../payments/payout-address.ts'

/** The order of a step, and the signature that the agent may send with the log that it has seen. */
interface StepFields {
  order_id: string
  signature?: string | undefined
  seen?: SeenLog | undefined
}

/** The seller delivers. @throws Refusal as takeStep() and readAuthorship() */
export async function deliverOrder(
  ctx: Context,
  sellerId: string,
  fields: StepFields & { delivery: string },
) {
  const { order_id: orderId, delivery } = fields
  const signed = { order_id: orderId, delivery }
  const author = await readAuthorship(ctx, sellerId, 'order delivered', signed, fields)
  const salt = newSalt()
  const deliveryHash = commitRecord(orderId, salt, { delivery })
  const order = await takeStep(ctx, sellerId, orderId, 'delivered', author, (before, at) => {
    const acceptBy = at + before.accept_seconds
    const set = { delivery, delivery_salt: salt, delivered_at: at, accept_by: acceptBy, due_at: acceptBy }
    const data = { accept_by: acceptBy, delivery_hash: deliveryHash }
    return { change: stepChange(before, 'delivered', at, { set, data }) }
  })
  await enqueueDeadline(ctx, order)
  return order
}

/** The buyer accepts: the seller is owed its share. @throws Refusal as takeStep() and readAuthorship() */
export async function acceptDelivery(ctx: Context, buyerId: string, fields: StepFields) {
  const { order_id: orderId } = fields
  const author = await readAuthorship(ctx, buyerId, 'order accepted', { order_id: orderId }, fields)
  return takeStep(ctx, buyerId, orderId, 'accepted', author, (before, at) =>
    releaseOrder(before, 'accepted', at),
  )
}

/**
 * The buyer disputes the delivery: nothing is owed to either side until the operator decides.
 *
 * @throws Refusal as takeStep() and readAuthorship()
 */
export async function disputeOrder(ctx: Context, buyerId: string, fields: StepFields & { reason: string }) {
  const { order_id: orderId, reason } = fields
  const author = await readAuthorship(ctx, buyerId, 'dispute disputed', { order_id: orderId, reason }, fields)
  const salt = newSalt()
  const data = { by: 'buyer', reason_hash: commitRecord(orderId, salt, { reason }) }
  return takeStep(ctx, buyerId, orderId, 'disputed', author, (before, at) => {
    const set = { disputed_at: at, disputed_by: 'buyer', dispute_reason: reason, dispute_salt: salt } as const
    return { change: stepChange(before, 'disputed', at, { set, unset: ['due_at'], kind: 'dispute', data }) }
  })
}

/**
 * Takes a step of the side that the table in order-states.ts names, and reads the order again if it changed
 * meanwhile.
 *
 * @throws Refusal `no_such_order`; `not_yours`; `wrong_state`
 */
async function takeStep(
  ctx: Context,
  agentId: string,
  orderId: string,
  step: 'delivered' | 'accepted' | 'disputed',
  author: Authorship | undefined,
  updateFor: (before: OrderRecord, at: number) => OrderUpdate,
): Promise<OrderRecord> {
  for (;;) {
    const before = await refreshOrder(ctx, agentId, orderId)
    requireSide(before, agentId, ORDER_STEPS[step].actor)
    const at = nowSeconds(ctx)
    requireStep(before, step, at)
    const { change: unsigned, payouts } = updateFor(before, at)
    const change = signedChange(before, unsigned, agentId, author)
    const isStored =
      payouts === undefined
        ? await ctx.orders.change(before, change)
        : await ctx.database.transaction((session) => storeUpdate(ctx, before, { change, payouts }, session))
    if (isStored) return changeOrder(before, change)
  }
}

function requireSide(order: OrderRecord, agentId: string, side: 'buyer' | 'seller'): void {
  if ((side === 'buyer' ? order.buyer_id : order.seller_id) === agentId) return
  const why = `This step is the ${side}'s, and you are the ${side === 'buyer' ? 'seller' : 'buyer'} of this order.`
  throw new Refusal('not_yours', why, { field: 'order_id' })
}

function requireStep(order: OrderRecord, step: OrderStep, at: number): void {
  const obstacle = stepObstacle(order, step, at)
  if (obstacle === undefined) return
  const { from, deadline } = stepRule(step)
  const why =
    obstacle === 'status'
      ? `The order is ${order.status}; this step needs one that is ${from.join(' or ')}.`
      : `The order's ${deadline?.name} has passed.`
  throw new Refusal('wrong_state', why, { field: 'order_id' })
}

/**
 * Reads an order for one of its sides. If its deadline passed during an outage of the API, it is extended
 * first.
 *
 * @throws Refusal `no_such_order`; `not_yours`
 */
export async function refreshOrder(ctx: Context, agentId: string, orderId: string): Promise<OrderRecord> {
  const order = await ctx.orders.find(orderId)
  if (order === undefined)
    throw new Refusal('no_such_order', 'There is no market order with this id.', { field: 'order_id' })
  if (order.buyer_id !== agentId && order.seller_id !== agentId)
    throw new Refusal('not_yours', 'This order is of two other agents.', { field: 'order_id' })
  return extendIfOverdue(ctx, order)
}

/** An agent's orders on either side, newest first, older than `before`; extended as by refreshOrder(). */
export async function listOrders(
  ctx: Context,
  agentId: string,
  before: string | undefined,
  limit: number,
): Promise<OrderRecord[]> {
  const found = await ctx.orders.listByAgent(agentId, before, limit)
  return Promise.all(found.map((order) => extendIfOverdue(ctx, order)))
}

/** Extends a deadline that has passed if it fell into an outage of the API, which this request has ended. */
async function extendIfOverdue(ctx: Context, order: OrderRecord): Promise<OrderRecord> {
  const nowMs = ctx.databaseNow()
  if (order.due_at === undefined || order.due_at * SECOND_MS > nowMs) return order
  await ctx.serving.recordRequest(nowMs)
  return extendForOutage(ctx, order)
}

/**
 * Sets the address at which the buyer is paid, once.
 *
 * @throws Refusal as takeStep() and readAuthorship(); `wrong_state` if one is set; `invalid_field`
 */
export async function setRefundAddress(
  ctx: Context,
  buyerId: string,
  fields: StepFields & { address: string },
) {
  const { order_id: orderId, address } = fields
  const signed = { order_id: orderId, address }
  const author = await readAuthorship(ctx, buyerId, 'order refund_address', signed, fields)
  for (;;) {
    const before = await refreshOrder(ctx, buyerId, orderId)
    requireSide(before, buyerId, 'buyer')
    const changed = await ctx.database.transaction((session) =>
      storeRefundAddress(ctx, before, address, session, author),
    )
    if (changed !== undefined) return changed
  }
}

/**
 * Stores the refund address in the order and in the buyer's payouts that are still owed.
 *
 * @returns undefined, with nothing written, if the order has changed since it was read
 * @throws Refusal `wrong_state` if an address is set; `invalid_field` if no payout can be sent to this one
 */
export async function storeRefundAddress(
  ctx: Context,
  before: OrderRecord,
  text: string,
  session: Session,
  author?: Authorship,
): Promise<OrderRecord | undefined> {
  if (before.refund_address !== undefined)
    throw new Refusal('wrong_state', 'This order has a refund address, and it stays as it is.', {
      field: 'order_id',
    })
  const address = await requireAddress(ctx, before.coin, text, 'address')
  const at = nowSeconds(ctx)
  const salt = newSalt()
  const data = { refund_address_hash: commitRecord(before._id, salt, { address }) }
  const unsigned = {
    step: 'refund_address',
    at,
    set: { refund_address: address, refund_salt: salt },
    entries: [orderEntry(before, 'refund_address', at, data)],
  } as const
  const change = signedChange(before, unsigned, before.buyer_id, author)
  if (!(await ctx.orders.change(before, change, session))) return undefined
  await ctx.payouts.setAddress(before._id, before.buyer_id, address, session)
  return changeOrder(before, change)
}

/**
 * Removes the buyer's refund address from an order and notes it there as undone. It is for an address that
 * the operator gave for a payment that was then not made.
 *
 * @returns false, with nothing changed, if there is no such address or a payout to the buyer may use it
 */
export async function forgetRefundAddress(ctx: Context, orderId: string, session: Session): Promise<boolean> {
  const before = await ctx.orders.find(orderId, session)
  if (before?.refund_address === undefined || before.refund_salt === undefined) return false
  const { buyer_id: buyerId, refund_address: address, refund_salt: salt } = before
  const payouts = await ctx.payouts.listByOrder(orderId, session)
  if (payouts.some((one) => one.agent_id === buyerId && !['owed', 'withdrawn'].includes(one.state)))
    return false
  const at = nowSeconds(ctx)
  const change: OrderChange = {
    step: 'refund_address',
    at,
    set: { refunds_undone: [...(before.refunds_undone ?? []), { address, salt }] },
    unset: ['refund_address', 'refund_salt'],
    entries: [orderEntry(before, 'refund_address', at, { refund_address_hash: null })],
  }
  await storeOwnUpdate(ctx, before, { change }, session)
  await ctx.payouts.forgetAddress(orderId, buyerId, session)
  return true
}

/** What `agentId` sees of an order besides the order itself. */
export async function readOrderDetails(
  ctx: Context,
  order: OrderRecord,
  agentId: string,
): Promise<OrderDetails> {
  const [invoice, payouts, unseen] = await Promise.all([
    agentId === order.buyer_id ? ctx.invoices.find(order.invoice_id) : undefined,
    ctx.payouts.listNewest(order._id, agentId, MAX_PAYOUTS_SHOWN + 1),
    ctx.invoices.listUnshownOrders(order.coin, order._id),
  ])
  return { invoice, payouts, isUnseen: unseen.length > 0, payoutActor: payoutActor(ctx) }
}

/** Who sends payouts: this service by itself, or the operator by hand. */
export const payoutActor = (ctx: Context): PayoutActor =>
  ctx.config.payouts === 'automatic' ? 'service' : 'operator'
