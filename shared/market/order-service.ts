import type { Context } from '../context.ts'
import { commit } from '../crypto/commitment.ts'
import type { Session } from '../database.ts'
import { Refusal } from '../errors.ts'
import { newSalt } from '../ledger/pending.ts'
import type { PayoutRecord } from '../payments/payout.ts'
import { newPayout } from '../payments/payout-service.ts'
import { SECOND_MS, unixSeconds } from '../time.ts'
import { extendForOutage } from './order-outages.ts'
import { enqueueDeadline, secondsBehind } from './order-schedule.ts'
import { stepObstacle, stepRule, type OrderStep } from './order-states.ts'
import type { OrderBelongings } from './order-views.ts'
import { changeOrder, feeEntry, moveLines, orderEntry, sellerShare, stepChange, type OrderChange, type OrderRecord } from './order.ts'
import { commitAddress, requireAddress } from '../payments/payout-address.ts'

/** The seller delivers. @throws Refusal as takeStep() */
export async function deliverOrder(ctx: Context, sellerId: string, orderId: string, delivery: string): Promise<OrderRecord> {
  const salt = newSalt()
  const deliveryHash = commit(Buffer.from(salt, 'hex'), { delivery })
  const behind = await secondsBehind(ctx)
  const order = await takeStep(ctx, { agentId: sellerId, side: 'seller', orderId, step: 'delivered' }, (before, at) => {
    const acceptBy = at + behind + before.accept_seconds
    return {
      change: stepChange(before, 'delivered', at, {
        set: { delivery, delivery_salt: salt, delivered_at: at, accept_by: acceptBy, due_at: acceptBy },
        data: { accept_by: acceptBy, delivery_hash: deliveryHash },
      }),
    }
  })
  await enqueueDeadline(ctx, order)
  return order
}

/** The buyer accepts: the seller is owed its part. @throws Refusal as takeStep() */
export function acceptDelivery(ctx: Context, buyerId: string, orderId: string): Promise<OrderRecord> {
  return takeStep(ctx, { agentId: buyerId, side: 'buyer', orderId, step: 'accepted' }, (before, at) => releaseOrder(before, 'accepted', at))
}

/** The buyer disputes a delivery; nothing is owed to anyone until the operator decides. @throws Refusal as takeStep() */
export function disputeOrder(ctx: Context, buyerId: string, orderId: string, reason: string): Promise<OrderRecord> {
  const salt = newSalt()
  const reasonHash = commit(Buffer.from(salt, 'hex'), { reason })
  return takeStep(ctx, { agentId: buyerId, side: 'buyer', orderId, step: 'disputed' }, (before, at) => ({
    change: stepChange(before, 'disputed', at, {
      set: { disputed_at: at, disputed_by: 'buyer', dispute_reason: reason, dispute_salt: salt },
      unset: ['due_at'],
      kind: 'dispute',
      data: { by: 'buyer', reason_hash: reasonHash },
    }),
  }))
}

/** A change, and what is owed from then on. */
export interface Move {
  change: OrderChange
  payouts?: PayoutRecord[]
}

/** From then on the seller is owed the price without the fee. */
export function releaseOrder(order: OrderRecord, step: 'accepted' | 'unanswered', at: number, set: OrderChange['set'] = {}): Move {
  return {
    change: stepChange(order, step, at, {
      set: { ...set, closed_at: at, fee_taken: true },
      unset: ['due_at'],
      entries: feeEntries(order, at),
    }),
    payouts: [payoutFor(order, 'seller', step, sellerShare(order), at)],
  }
}

/** A fee of 0 is none: the smallest order of a coin that is worth very much. */
export function feeEntries(order: OrderRecord, at: number) {
  return BigInt(order.fee_raw) === 0n ? [] : [feeEntry(order, at, 'taken')]
}

/** A sum that is owed to one side of an order. The change that owes it makes its source unique. */
export function payoutFor(order: OrderRecord, side: 'buyer' | 'seller', what: string, amountRaw: bigint, at: number): PayoutRecord {
  return newPayout({
    source: `${order._id}/${what}/${order.version + 1}`,
    coin: order.coin,
    agentId: side === 'buyer' ? order.buyer_id : order.seller_id,
    orderId: order._id,
    amountRaw,
    address: side === 'buyer' ? order.refund_address : order.payout_address,
    at,
  })
}

/** @returns false where the order has changed since it was read: nothing was written */
export async function makeMove(ctx: Context, before: OrderRecord, move: Move, session: Session): Promise<boolean> {
  if (!(await ctx.orders.change(before, move.change, session))) return false
  await ctx.payouts.insert(move.payouts ?? [], session)
  await ctx.journal.write(moveLines(before, move.change, move.payouts), session)
  return true
}

/**
 * One side takes a step, by the state and the time that it finds. Where somebody else was faster it looks again, and is
 * refused by what it finds then.
 *
 * @throws Refusal `no_such_order`; `not_yours`, for the other side too; `wrong_state`, also where a deadline has passed
 */
async function takeStep(
  ctx: Context,
  by: { agentId: string; side: 'buyer' | 'seller'; orderId: string; step: OrderStep },
  move: (before: OrderRecord, at: number) => Move,
): Promise<OrderRecord> {
  for (;;) {
    const before = await readOrder(ctx, by.agentId, by.orderId)
    requireSide(before, by.agentId, by.side)
    const at = unixSeconds(ctx.now())
    requireStep(before, by.step, at)
    const made = move(before, at)
    const isDone =
      made.payouts === undefined
        ? await ctx.orders.change(before, made.change)
        : await ctx.database.transaction((session) => makeMove(ctx, before, made, session))
    if (isDone) return changeOrder(before, made.change)
  }
}

function requireSide(order: OrderRecord, agentId: string, side: 'buyer' | 'seller'): void {
  if ((side === 'buyer' ? order.buyer_id : order.seller_id) === agentId) return
  throw new Refusal('not_yours', `This step is the ${side}'s, and you are the ${side === 'buyer' ? 'seller' : 'buyer'} of this order.`, {
    field: 'order_id',
  })
}

function requireStep(order: OrderRecord, step: OrderStep, at: number): void {
  const obstacle = stepObstacle(order, step, at)
  if (obstacle === undefined) return
  const { from, deadline } = stepRule(step)
  throw new Refusal(
    'wrong_state',
    obstacle === 'status'
      ? `The order is ${order.status}; this step needs one that is ${from.join(' or ')}.`
      : `The order's ${deadline?.name} has passed.`,
    { field: 'order_id' },
  )
}

/**
 * An order as its two sides may see it. A deadline that passed in an outage of the API is put off first.
 *
 * @throws Refusal `no_such_order`; `not_yours` for whoever is neither its buyer nor its seller
 */
export async function readOrder(ctx: Context, agentId: string, orderId: string): Promise<OrderRecord> {
  const order = await ctx.orders.find(orderId)
  if (order === undefined) throw new Refusal('no_such_order', 'There is no market order with this id.', { field: 'order_id' })
  if (order.buyer_id !== agentId && order.seller_id !== agentId)
    throw new Refusal('not_yours', 'This order is of two other agents.', { field: 'order_id' })
  return putOff(ctx, order)
}

/** Either side's orders, newest first. */
export async function listOrders(ctx: Context, agentId: string, limit: number): Promise<OrderRecord[]> {
  return Promise.all((await ctx.orders.listByAgent(agentId, limit)).map((order) => putOff(ctx, order)))
}

/** A request is being served, so what the outage that ends with it did to this order is known now. */
async function putOff(ctx: Context, order: OrderRecord): Promise<OrderRecord> {
  const nowMs = ctx.now()
  if (order.due_at === undefined || order.due_at * SECOND_MS > nowMs) return order
  if (!(await ctx.serving.serve(nowMs)))
    ctx.log.error({ order_id: order._id }, "this machine's clock is ahead of the database's: that the API serves is not written down by it")
  return extendForOutage(ctx, order)
}

/**
 * Names the address that the buyer is paid at, once.
 *
 * @throws Refusal as takeStep(); `wrong_state` where one is set; `invalid_field`
 */
export async function setRefundAddress(ctx: Context, buyerId: string, orderId: string, text: string): Promise<OrderRecord> {
  for (;;) {
    const before = await readOrder(ctx, buyerId, orderId)
    requireSide(before, buyerId, 'buyer')
    const named = await ctx.database.transaction((session) => nameRefundAddress(ctx, before, text, session))
    if (named !== undefined) return named
  }
}

/**
 * The same for whoever may speak for the buyer, in a transaction of its own.
 *
 * @returns undefined where the order has changed since it was read: nothing was written
 * @throws Refusal `wrong_state` where one is set; `invalid_field`
 */
export async function nameRefundAddress(
  ctx: Context,
  before: OrderRecord,
  text: string,
  session: Session,
): Promise<OrderRecord | undefined> {
  if (before.refund_address !== undefined)
    throw new Refusal('wrong_state', 'This order has a refund address, and it stays as it is.', { field: 'order_id' })
  const address = await requireAddress(ctx, before.coin, text, 'address')
  const at = unixSeconds(ctx.now())
  const salt = newSalt()
  const change: OrderChange = {
    step: 'refund_address',
    at,
    set: { refund_address: address, refund_salt: salt },
    entries: [orderEntry(before, 'refund_address', at, { refund_address_hash: commitAddress(salt, address) })],
  }
  if (!(await ctx.orders.change(before, change, session))) return undefined
  await ctx.payouts.setAddress(before._id, before.buyer_id, address, session)
  return changeOrder(before, change)
}

/** What an order's view shows beside the order. */
export async function readBelongings(ctx: Context, order: OrderRecord, agentId: string): Promise<OrderBelongings> {
  const [invoice, payouts] = await Promise.all([
    agentId === order.buyer_id ? ctx.invoices.find(order.invoice_id) : undefined,
    ctx.payouts.listByOrder(order._id),
  ])
  return { invoice, payouts, paysOut: paysOut(ctx) }
}

export const paysOut = (ctx: Context) => (ctx.config.payouts === 'automatic' ? ('service' as const) : ('operator' as const))
