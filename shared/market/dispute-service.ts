import type { Context } from '../context.ts'
import type { Session } from '../servers/database.ts'
import { Refusal } from '../foundation/errors.ts'
import { nowSeconds } from '../foundation/time.ts'
import { markPaidOut, netReceivedRaw } from './order-payments.ts'
import {
  readPayouts,
  replaceOpenPayouts,
  storeOwnUpdate,
  type Side,
  type SidePayouts,
} from './order-updates.ts'
import { changeOrder, feeEntries, priceAtReceived, priceFields, sellerShare } from './order.ts'
import { stepChange, sumAmounts, type OrderChange, type OrderRecord } from './order.ts'

export const DISPUTE_OUTCOMES = ['release', 'refund'] as const
export type DisputeOutcome = (typeof DISPUTE_OUTCOMES)[number]

/** What each side has or is owed after a decision; amounts in the coin's smallest unit. */
export interface Decision {
  order: OrderRecord
  sellerRaw: bigint
  buyerRaw: bigint
  feeRaw: bigint
  /** Payments that the chain took back, given up by this decision. */
  writtenOffRaw: bigint
}

/**
 * The operator decides a disputed order. A payment that the chain took back counts as received only if
 * somebody must have it: a release owes the seller its whole share, if need be from the venue's own money; a
 * refund writes off the whole loss.
 *
 * @throws Refusal `no_such_order`, `wrong_state`
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
    return outcome === 'release' ? release(ctx, order, money, session) : refund(ctx, order, money, session)
  })
}

interface OrderMoney {
  /** Received and not written off, payments that the chain took back included. */
  receivedRaw: bigint
  /** Of that, taken back by the chain. */
  lostRaw: bigint
  payouts: Record<Side, SidePayouts>
}

async function readMoney(ctx: Context, order: OrderRecord, session: Session): Promise<OrderMoney> {
  const invoice = await ctx.invoices.find(order.invoice_id, session)
  if (invoice === undefined) throw new Error(`order ${order._id} has no invoice`)
  const payouts = await readPayouts(ctx, order, session)
  const reversed = sumAmounts(await ctx.invoices.listReversed(invoice._id, session))
  const lostRaw = larger(reversed - BigInt(order.written_off_raw), 0n)
  return { receivedRaw: netReceivedRaw(order, invoice), lostRaw, payouts }
}

const larger = (a: bigint, b: bigint): bigint => (a > b ? a : b)

/** The seller is owed its share, and the buyer what was paid beyond the price. */
async function release(
  ctx: Context,
  found: OrderRecord,
  { receivedRaw, lostRaw, payouts }: OrderMoney,
  session: Session,
): Promise<Decision> {
  const order = priceAtReceived(found, receivedRaw)
  if (order === undefined)
    throw new Refusal(
      'wrong_state',
      'The order was never paid in full, so there is nothing to release; it can only be refunded.',
    )
  const price = BigInt(order.amount_raw)
  const buyerRaw = larger(receivedRaw - lostRaw - price, payouts.buyer.sentRaw)
  const writtenOffRaw = receivedRaw - price - buyerRaw
  if (writtenOffRaw < 0n)
    throw new Refusal(
      'wrong_state',
      "The buyer's payout is signed or paid already, so the order can only be refunded.",
    )
  const sellerRaw = sellerShare(order)
  const at = nowSeconds(ctx)
  const change = decisionChange(order, 'release', at, writtenOffRaw, {
    set: { ...priceFields(order), fee_taken: true },
    unset: ['undelivered'],
    entries: order.fee_taken === true ? [] : feeEntries(order, at, 'taken'),
  })
  await storeDecision(ctx, found, change, payouts, { seller: sellerRaw, buyer: buyerRaw }, session)
  const decided = changeOrder(order, change)
  const isSellerPaid = (await ctx.payouts.listByOrder(order._id, session)).some(
    ({ agent_id: agentId, state }) =>
      agentId === order.seller_id && (state === 'confirmed' || state === 'manual'),
  )
  if (isSellerPaid) await markPaidOut(ctx, decided, session)
  return { order: decided, sellerRaw, buyerRaw, feeRaw: BigInt(order.fee_raw), writtenOffRaw }
}

/** The buyer is owed everything that was received and not lost. */
async function refund(
  ctx: Context,
  order: OrderRecord,
  { receivedRaw, lostRaw, payouts }: OrderMoney,
  session: Session,
): Promise<Decision> {
  if (payouts.seller.sentRaw > 0n)
    throw new Refusal(
      'wrong_state',
      "The seller's payout is signed or paid already, so the order can only be released.",
    )
  const buyerRaw = larger(receivedRaw - lostRaw, payouts.buyer.sentRaw)
  const writtenOffRaw = receivedRaw - buyerRaw
  const at = nowSeconds(ctx)
  const change = decisionChange(order, 'refund', at, writtenOffRaw, {
    unset: ['fee_taken', 'undelivered'],
    entries: order.fee_taken === true ? feeEntries(order, at, 'returned') : [],
  })
  await storeDecision(ctx, order, change, payouts, { seller: 0n, buyer: buyerRaw }, session)
  return { order: changeOrder(order, change), sellerRaw: 0n, buyerRaw, feeRaw: 0n, writtenOffRaw }
}

function decisionChange(
  order: OrderRecord,
  outcome: DisputeOutcome,
  at: number,
  writtenOffRaw: bigint,
  { set, ...more }: Pick<OrderChange, 'set' | 'unset' | 'entries'>,
): OrderChange {
  const written_off_raw = String(BigInt(order.written_off_raw) + writtenOffRaw)
  return stepChange(order, outcome === 'release' ? 'dispute_released' : 'dispute_refunded', at, {
    ...more,
    set: { ...set, closed_at: at, written_off_raw },
    kind: 'dispute_outcome',
    data: { outcome, coin: order.coin, written_off_raw: String(writtenOffRaw) },
  })
}

/** Stores the change, with payouts that bring each side to its sum; from then on they may be sent. */
async function storeDecision(
  ctx: Context,
  order: OrderRecord,
  change: OrderChange,
  payouts: OrderMoney['payouts'],
  dueRaw: Record<Side, bigint>,
  session: Session,
): Promise<void> {
  await ctx.payouts.setFrozen(order._id, false, session)
  const made = []
  for (const side of ['seller', 'buyer'] as const) {
    const { open, sentRaw } = payouts[side]
    const owed = { raw: dueRaw[side] - sentRaw, reason: `decided/${side}`, at: change.at }
    made.push(...(await replaceOpenPayouts(ctx, order, side, open, owed, session)))
  }
  await storeOwnUpdate(ctx, order, { change, payouts: made }, session)
}
