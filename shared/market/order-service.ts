import { readAuthorship } from '../agents/authorship.ts'
import type { Context } from '../context.ts'
import type { Authorship, SeenLog } from '../crypto/author.ts'
import { commitRecord } from '../crypto/commitment.ts'
import { requireOwn, type Session } from '../servers/database.ts'
import { Refusal } from '../foundation/errors.ts'
import { newSalt } from '../ledger/pending.ts'
import type { PayoutRecord } from '../payments/payout.ts'
import { newPayout } from '../payments/payout-service.ts'
import { SECOND_MS, nowSeconds } from '../foundation/time.ts'
import { MAX_PAYOUTS_SHOWN } from './market-terms.ts'
import { extendForOutage } from './order-outages.ts'
import { enqueueDeadline } from './order-schedule.ts'
import { stepObstacle, stepRule, type OrderStep } from './order-states.ts'
import type { OrderBelongings } from './order-views.ts'
import {
  changeOrder,
  feeEntry,
  moveLines,
  orderEntry,
  sellerShare,
  signedChange,
  stepChange,
  type OrderChange,
  type OrderRecord,
} from './order.ts'
import { requireAddress } from '../payments/payout-address.ts'

type Side = 'buyer' | 'seller'

/** What the side that takes a step may send beside it. */
type Signed = { signature?: string | undefined; seen?: SeenLog | undefined }

/** The seller delivers. @throws Refusal as takeStep() and readAuthorship() */
export async function deliverOrder(
  ctx: Context,
  sellerId: string,
  fields: { order_id: string; delivery: string } & Signed,
) {
  const { order_id: orderId, delivery } = fields
  const said = { order_id: orderId, delivery }
  const author = await readAuthorship(ctx, sellerId, 'order delivered', said, fields)
  const salt = newSalt()
  const deliveryHash = commitRecord(orderId, salt, { delivery })
  const order = await takeStep(
    ctx,
    { agentId: sellerId, side: 'seller', orderId, step: 'delivered', author },
    (before, at) => {
      const acceptBy = at + before.accept_seconds
      return {
        change: stepChange(before, 'delivered', at, {
          set: { delivery, delivery_salt: salt, delivered_at: at, accept_by: acceptBy, due_at: acceptBy },
          data: { accept_by: acceptBy, delivery_hash: deliveryHash },
        }),
      }
    },
  )
  await enqueueDeadline(ctx, order)
  return order
}

/** The buyer accepts: the seller is owed its part. @throws Refusal as takeStep() and readAuthorship() */
export async function acceptDelivery(
  ctx: Context,
  buyerId: string,
  fields: { order_id: string } & Signed,
): Promise<OrderRecord> {
  const { order_id: orderId } = fields
  const author = await readAuthorship(ctx, buyerId, 'order accepted', { order_id: orderId }, fields)
  const by = { agentId: buyerId, side: 'buyer', orderId, step: 'accepted', author } as const
  return takeStep(ctx, by, (before, at) => releaseOrder(before, 'accepted', at))
}

/**
 * Nothing is owed to anyone until the operator decides.
 *
 * @throws Refusal as takeStep() and readAuthorship()
 */
export async function disputeOrder(
  ctx: Context,
  buyerId: string,
  fields: { order_id: string; reason: string } & Signed,
) {
  const { order_id: orderId, reason } = fields
  const author = await readAuthorship(ctx, buyerId, 'dispute disputed', { order_id: orderId, reason }, fields)
  const salt = newSalt()
  const reasonHash = commitRecord(orderId, salt, { reason })
  return takeStep(
    ctx,
    { agentId: buyerId, side: 'buyer', orderId, step: 'disputed', author },
    (before, at) => ({
      change: stepChange(before, 'disputed', at, {
        set: { disputed_at: at, disputed_by: 'buyer', dispute_reason: reason, dispute_salt: salt },
        unset: ['due_at'],
        kind: 'dispute',
        data: { by: 'buyer', reason_hash: reasonHash },
      }),
    }),
  )
}

export interface Move {
  change: OrderChange
  payouts?: PayoutRecord[]
}

/** The seller is owed its part, and the fee is taken. */
export function releaseOrder(
  order: OrderRecord,
  step: 'accepted' | 'unanswered',
  at: number,
  set: OrderChange['set'] = {},
): Move {
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
export const feeEntries = (order: OrderRecord, at: number) =>
  BigInt(order.fee_raw) === 0n ? [] : [feeEntry(order, at, 'taken')]

/** The change that owes it makes its source unique. */
export function payoutFor(
  order: OrderRecord,
  side: 'buyer' | 'seller',
  what: string,
  amountRaw: bigint,
  at: number,
): PayoutRecord {
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

/** @returns false if the order has changed since it was read: nothing was written */
export async function makeMove(ctx: Context, before: OrderRecord, move: Move, session: Session) {
  if (!(await ctx.orders.change(before, move.change, session))) return false
  await ctx.payouts.insert(move.payouts ?? [], session)
  await ctx.journal.write(moveLines(before, move.change, move.payouts), session)
  return true
}

/** In the transaction that read the order, so nothing can have changed: a conflict ends all of it. */
export async function makeOwnMove(ctx: Context, order: OrderRecord, move: Move, session: Session) {
  await requireOwn(makeMove(ctx, order, move, session), `order ${order._id}`)
}

/** If somebody else was faster it looks again. @throws Refusal `no_such_order`; `not_yours`; `wrong_state` */
async function takeStep(
  ctx: Context,
  by: { agentId: string; side: Side; orderId: string; step: OrderStep; author: Authorship | undefined },
  move: (before: OrderRecord, at: number) => Move,
): Promise<OrderRecord> {
  for (;;) {
    const before = await refreshOrder(ctx, by.agentId, by.orderId)
    requireSide(before, by.agentId, by.side)
    const at = nowSeconds(ctx)
    requireStep(before, by.step, at)
    const moved = move(before, at)
    const made = { ...moved, change: signedChange(before, moved.change, by.agentId, by.author) }
    const isDone =
      made.payouts === undefined
        ? await ctx.orders.change(before, made.change)
        : await ctx.database.transaction((session) => makeMove(ctx, before, made, session))
    if (isDone) return changeOrder(before, made.change)
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

/** A deadline that passed in an outage is put off first. @throws Refusal `no_such_order`; `not_yours` */
export async function refreshOrder(ctx: Context, agentId: string, orderId: string): Promise<OrderRecord> {
  const order = await ctx.orders.find(orderId)
  if (order === undefined)
    throw new Refusal('no_such_order', 'There is no market order with this id.', { field: 'order_id' })
  if (order.buyer_id !== agentId && order.seller_id !== agentId)
    throw new Refusal('not_yours', 'This order is of two other agents.', { field: 'order_id' })
  return putOff(ctx, order)
}

/** Either side's, newest first, older than `before`. Deadlines that passed in an outage are put off first. */
export async function listOrders(
  ctx: Context,
  agentId: string,
  before: string | undefined,
  limit: number,
): Promise<OrderRecord[]> {
  const found = await ctx.orders.listByAgent(agentId, before, limit)
  return Promise.all(found.map((order) => putOff(ctx, order)))
}

async function putOff(ctx: Context, order: OrderRecord): Promise<OrderRecord> {
  const nowMs = ctx.databaseNow()
  if (order.due_at === undefined || order.due_at * SECOND_MS > nowMs) return order
  await ctx.serving.serve(nowMs)
  return extendForOutage(ctx, order)
}

/**
 * Names the address at which the buyer is paid, once.
 *
 * @throws Refusal as takeStep() and readAuthorship(); `wrong_state` if one is set; `invalid_field`
 */
export async function setRefundAddress(
  ctx: Context,
  buyerId: string,
  fields: { order_id: string; address: string } & Signed,
) {
  const { order_id: orderId, address } = fields
  const said = { order_id: orderId, address }
  const author = await readAuthorship(ctx, buyerId, 'order refund_address', said, fields)
  for (;;) {
    const before = await refreshOrder(ctx, buyerId, orderId)
    requireSide(before, buyerId, 'buyer')
    const name = (session: Session) => nameRefundAddress(ctx, before, address, session, author)
    const named = await ctx.database.transaction(name)
    if (named !== undefined) return named
  }
}

/** @returns undefined, with nothing written, if the order has changed since. @throws Refusal as above */
export async function nameRefundAddress(
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
  const refund_address_hash = commitRecord(before._id, salt, { address })
  const unsigned: OrderChange = {
    step: 'refund_address',
    at,
    set: { refund_address: address, refund_salt: salt },
    entries: [orderEntry(before, 'refund_address', at, { refund_address_hash })],
  }
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
  await makeOwnMove(ctx, before, { change }, session)
  await ctx.payouts.forgetAddress(orderId, buyerId, session)
  return true
}

/** What `agentId` sees of an order beside the order itself. */
export async function readBelongings(
  ctx: Context,
  order: OrderRecord,
  agentId: string,
): Promise<OrderBelongings> {
  const [invoice, payouts, unseen] = await Promise.all([
    agentId === order.buyer_id ? ctx.invoices.find(order.invoice_id) : undefined,
    ctx.payouts.listNewest(order._id, agentId, MAX_PAYOUTS_SHOWN + 1),
    ctx.invoices.listUnshownOrders(order.coin, order._id),
  ])
  return { invoice, payouts, isUnseen: unseen.length > 0, paysOut: paysOut(ctx) }
}

export const paysOut = (ctx: Context) =>
  ctx.config.payouts === 'automatic' ? ('service' as const) : ('operator' as const)
