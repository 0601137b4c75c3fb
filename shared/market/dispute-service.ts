import type { Context } from '../context.ts'
import type { Session } from '../platform/database.ts'
import { Refusal } from '../platform/errors.ts'
import { nowSeconds } from '../platform/time.ts'
import { markPaidOut, netReceivedRaw } from './order-money.ts'
import { type Side } from './order-rules.ts'
import { readPayouts, replaceOpenPayouts, storeUpdate, type SidePayouts } from './order-updates.ts'
import { applyChange, feeEntries, forgiveDust, priceFields, sellerShare } from './order.ts'
import { stepChange, sumAmounts, type OrderRecord } from './order.ts'

export const DISPUTE_OUTCOMES = ['release', 'refund'] as const
export type DisputeOutcome = (typeof DISPUTE_OUTCOMES)[number]

/** What each side has or is owed by a decision; amounts in the coin's smallest unit. */
export interface Decision {
  order: OrderRecord
  sellerRaw: bigint
  buyerRaw: bigint
  feeRaw: bigint
  /** Payments that the chain took back, given up by this decision. */
  writtenOffRaw: bigint
}

/**
 * Stores the operator's decision of a disputed order. A payment that the chain took back counts as received
 * only if somebody must have it: a release owes the seller its whole share, if need be from the venue's own
 * money; a refund writes off the whole loss.
 *
 * @throws Refusal `no_such_order`; `wrong_state` if the order is not disputed, or cannot be decided so
 */
export async function decideDispute(
  ctx: Context,
  orderId: string,
  outcome: DisputeOutcome,
): Promise<Decision> {
  return ctx.database.transaction(async (session) => {
    const order = await ctx.orders.find(orderId, session)
    if (order === undefined) throw new Refusal('no_such_order', 'There is no market order with this id.')
    if (order.status !== 'disputed')
      throw new Refusal('wrong_state', `The order is ${order.status}, not disputed.`)
    const money = await readMoney(ctx, order, session)
    const decision = outcome === 'release' ? decideRelease(order, money) : decideRefund(order, money)
    return storeDecision(ctx, order, outcome, decision, money.payouts, session)
  })
}

interface OrderMoney {
  /** Received and not written off, payments that the chain took back included. */
  receivedRaw: bigint
  /** Of that, taken back by the chain. */
  lostRaw: bigint
  payouts: Record<Side, SidePayouts>
}

/** Reads what was received for an order, and what its two sides are owed or were paid. */
async function readMoney(ctx: Context, order: OrderRecord, session: Session): Promise<OrderMoney> {
  const invoice = await ctx.invoices.find(order.invoice_id, session)
  if (invoice === undefined) throw new Error(`order ${order._id} has no invoice`)
  const payouts = await readPayouts(ctx, order, session)
  const reversedRaw = sumAmounts(await ctx.invoices.listReversed(invoice._id, session))
  const lostRaw = larger(reversedRaw - BigInt(order.written_off_raw), 0n)
  return { receivedRaw: netReceivedRaw(order, invoice), lostRaw, payouts }
}

const larger = (a: bigint, b: bigint): bigint => (a > b ? a : b)

/**
 * Works out a release: the seller has its share, and the buyer what was paid beyond the price.
 *
 * @throws Refusal `wrong_state` if the price was never paid, or the buyer has been sent a part of it
 */
function decideRelease(disputed: OrderRecord, { receivedRaw, lostRaw, payouts }: OrderMoney): Decision {
  const order = forgiveDust(disputed, receivedRaw)
  if (order === undefined)
    throw new Refusal(
      'wrong_state',
      'The order was never paid in full, so there is nothing to release; it can only be refunded.',
    )
  const priceRaw = BigInt(order.amount_raw)
  const buyerRaw = larger(receivedRaw - lostRaw - priceRaw, payouts.buyer.sentRaw)
  const writtenOffRaw = receivedRaw - priceRaw - buyerRaw
  if (writtenOffRaw < 0n)
    throw new Refusal(
      'wrong_state',
      "The buyer's payout is signed or paid already, so the order can only be refunded.",
    )
  return { order, sellerRaw: sellerShare(order), buyerRaw, feeRaw: BigInt(order.fee_raw), writtenOffRaw }
}

/**
 * Works out a refund: the buyer has everything that was received and not lost.
 *
 * @throws Refusal `wrong_state` if the seller has been sent something
 */
function decideRefund(order: OrderRecord, { receivedRaw, lostRaw, payouts }: OrderMoney): Decision {
  if (payouts.seller.sentRaw > 0n)
    throw new Refusal(
      'wrong_state',
      "The seller's payout is signed or paid already, so the order can only be released.",
    )
  const buyerRaw = larger(receivedRaw - lostRaw, payouts.buyer.sentRaw)
  return { order, sellerRaw: 0n, buyerRaw, feeRaw: 0n, writtenOffRaw: receivedRaw - buyerRaw }
}

/**
 * Stores a decision, with payouts that bring each side to its sum; from then on they may be sent. If the
 * seller has been paid before, the order is paid out at once.
 */
async function storeDecision(
  ctx: Context,
  before: OrderRecord,
  outcome: DisputeOutcome,
  decision: Decision,
  payouts: OrderMoney['payouts'],
  session: Session,
): Promise<Decision> {
  const { order, sellerRaw, buyerRaw, writtenOffRaw } = decision
  const isReleased = outcome === 'release'
  const wasFeeTaken = order.fee_taken === true
  const at = nowSeconds(ctx)
  const written_off_raw = String(BigInt(order.written_off_raw) + writtenOffRaw)
  const change = stepChange(order, isReleased ? 'dispute_released' : 'dispute_refunded', at, {
    set: {
      closed_at: at,
      written_off_raw,
      ...(isReleased ? { ...priceFields(order), fee_taken: true } : {}),
    },
    unset: [
      ...(isReleased ? (['undelivered'] as const) : (['undelivered', 'fee_taken'] as const)),
      'suspects',
      'suspected_from',
    ],
    entries: isReleased === wasFeeTaken ? [] : feeEntries(order, at, isReleased ? 'taken' : 'returned'),
    kind: 'dispute_outcome',
    data: { outcome, coin: order.coin, written_off_raw: String(writtenOffRaw) },
  })
  await ctx.payouts.setFrozen(order._id, false, session)
  const dueRaw = { seller: sellerRaw, buyer: buyerRaw }
  const owed = []
  for (const side of ['seller', 'buyer'] as const) {
    const due = { raw: dueRaw[side], reason: `decided/${side}`, at }
    owed.push(...(await replaceOpenPayouts(ctx, order, side, payouts[side], due, session)))
  }
  await storeUpdate(ctx, before, { change, payouts: owed }, session)
  const decided = applyChange(order, change)
  if (isReleased) {
    const isSellerPaid = (await ctx.payouts.listByOrder(order._id, session)).some(
      ({ agent_id, state }) => agent_id === order.seller_id && (state === 'confirmed' || state === 'manual'),
    )
    if (isSellerPaid) await markPaidOut(ctx, decided, session)
  }
  return { ...decision, order: decided }
}
