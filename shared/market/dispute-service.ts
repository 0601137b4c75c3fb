import type { Context } from '../context.ts'
import type { Session } from '../servers/database.ts'
import { Refusal } from '../foundation/errors.ts'
import type { PayoutRecord } from '../payments/payout.ts'
import { withdrawPayout } from '../payments/payout-service.ts'
import { nowSeconds } from '../foundation/time.ts'
import { countedRaw, endOrder } from './order-payments.ts'
import { feeEntries, makeOwnMove, payoutFor } from './order-service.ts'
import {
  atReceived,
  changeOrder,
  feeEntry,
  priceOf,
  sellerShare,
  stepChange,
  sum,
  type OrderRecord,
} from './order.ts'

export const DISPUTE_OUTCOMES = ['release', 'refund'] as const
export type DisputeOutcome = (typeof DISPUTE_OUTCOMES)[number]

export interface Decision {
  order: OrderRecord
  sellerRaw: bigint
  buyerRaw: bigint
  feeRaw: bigint
  /** Taken back by the chain and given up. */
  writtenOffRaw: bigint
}

/**
 * The operator decides a disputed order. A payment that the chain took back counts as received only if
 * somebody must have it: a release owes the seller its whole part, if need be from the venue's own money; a
 * refund gives up the whole loss.
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
    const book = await readBook(ctx, order, session)
    return outcome === 'release' ? release(ctx, order, book, session) : refund(ctx, order, book, session)
  })
}

interface Book {
  received: bigint
  /** Of that, taken back by the chain now. */
  lost: bigint
  /** Payouts that can still be changed, and what went out or is on its way. */
  open: { seller: PayoutRecord[]; buyer: PayoutRecord[] }
  gone: { seller: bigint; buyer: bigint }
}

async function readBook(ctx: Context, order: OrderRecord, session: Session): Promise<Book> {
  const invoice = await ctx.invoices.find(order.invoice_id, session)
  if (invoice === undefined) throw new Error(`order ${order._id} has no invoice`)
  const payouts = (await ctx.payouts.listByOrder(order._id, session)).filter(
    ({ state }) => state !== 'withdrawn',
  )
  const lost = sum(await ctx.invoices.listReversed(invoice._id, session)) - BigInt(order.written_off_raw)
  const of = (agentId: string, isOpen: boolean) =>
    payouts.filter((payout) => payout.agent_id === agentId && (payout.state === 'owed') === isOpen)
  return {
    received: countedRaw(order, invoice),
    lost: lost > 0n ? lost : 0n,
    open: { seller: of(order.seller_id, true), buyer: of(order.buyer_id, true) },
    gone: { seller: sum(of(order.seller_id, false)), buyer: sum(of(order.buyer_id, false)) },
  }
}

const largest = (a: bigint, b: bigint): bigint => (a > b ? a : b)

async function release(ctx: Context, found: OrderRecord, book: Book, session: Session): Promise<Decision> {
  const order = atReceived(found, book.received)
  if (order === undefined)
    throw new Refusal(
      'wrong_state',
      'The order was never paid in full, so there is nothing to release; it can only be refunded.',
    )
  const at = nowSeconds(ctx)
  const price = BigInt(order.amount_raw)
  const buyer = largest(book.received - book.lost - price, book.gone.buyer)
  const writtenOff = book.received - price - buyer
  if (writtenOff < 0n)
    throw new Refusal(
      'wrong_state',
      "The buyer's payout is signed or paid already, so the order can only be refunded.",
    )
  const change = stepChange(order, 'dispute_released', at, {
    set: {
      ...priceOf(order),
      closed_at: at,
      fee_taken: true,
      written_off_raw: String(BigInt(order.written_off_raw) + writtenOff),
    },
    unset: ['undelivered'],
    kind: 'dispute_outcome',
    data: { outcome: 'release', coin: order.coin, written_off_raw: String(writtenOff) },
    entries: order.fee_taken === true ? [] : feeEntries(order, at),
  })
  await decide(ctx, found, { change, at, seller: sellerShare(order), buyer }, book, session)
  const decided = changeOrder(order, change)
  const paid = (await ctx.payouts.listByOrder(order._id, session)).some(
    ({ agent_id: agentId, state }) =>
      agentId === order.seller_id && (state === 'confirmed' || state === 'manual'),
  )
  if (paid) await endOrder(ctx, decided, session)
  return {
    order: decided,
    sellerRaw: sellerShare(order),
    buyerRaw: buyer,
    feeRaw: BigInt(order.fee_raw),
    writtenOffRaw: writtenOff,
  }
}

async function refund(ctx: Context, order: OrderRecord, book: Book, session: Session): Promise<Decision> {
  if (book.gone.seller > 0n)
    throw new Refusal(
      'wrong_state',
      "The seller's payout is signed or paid already, so the order can only be released.",
    )
  const at = nowSeconds(ctx)
  const buyer = largest(book.received - book.lost, book.gone.buyer)
  const writtenOff = book.received - buyer
  const isFeeReturned = order.fee_taken === true && BigInt(order.fee_raw) > 0n
  const change = stepChange(order, 'dispute_refunded', at, {
    set: { closed_at: at, written_off_raw: String(BigInt(order.written_off_raw) + writtenOff) },
    unset: ['fee_taken', 'undelivered'],
    kind: 'dispute_outcome',
    data: { outcome: 'refund', coin: order.coin, written_off_raw: String(writtenOff) },
    entries: isFeeReturned ? [feeEntry(order, at, 'returned')] : [],
  })
  await decide(ctx, order, { change, at, seller: 0n, buyer }, book, session)
  return {
    order: changeOrder(order, change),
    sellerRaw: 0n,
    buyerRaw: buyer,
    feeRaw: 0n,
    writtenOffRaw: writtenOff,
  }
}

async function decide(
  ctx: Context,
  order: OrderRecord,
  decided: { change: ReturnType<typeof stepChange>; at: number; seller: bigint; buyer: bigint },
  book: Book,
  session: Session,
): Promise<void> {
  await ctx.payouts.setFrozen(order._id, false, session)
  const made: PayoutRecord[] = []
  for (const side of ['seller', 'buyer'] as const) {
    const owed = decided[side] - book.gone[side]
    if (owed === sum(book.open[side])) continue
    for (const payout of book.open[side]) await withdrawPayout(ctx, payout, session)
    if (owed > 0n) made.push(payoutFor(order, side, `decided/${side}`, owed, decided.at))
  }
  await makeOwnMove(ctx, order, { change: decided.change, payouts: made }, session)
}
