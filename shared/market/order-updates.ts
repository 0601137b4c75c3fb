import type { Context } from '../context.ts'
import { requireChanged, type Session } from '../servers/database.ts'
import type { PayoutRecord } from '../payments/payout.ts'
import { newPayout, withdrawPayout } from '../payments/payout-service.ts'
import { feeEntries, journalLinesOf, sellerShare, stepChange, sumAmounts } from './order.ts'
import type { OrderChange, OrderRecord } from './order.ts'

export type Side = 'buyer' | 'seller'

/** A change of an order with the payouts that it makes the venue owe; stored in one transaction. */
export interface OrderUpdate {
  change: OrderChange
  payouts?: PayoutRecord[]
}

/** The seller is owed its share, and the fee is taken. */
export function releaseOrder(
  order: OrderRecord,
  step: 'accepted' | 'unanswered',
  at: number,
  set: OrderChange['set'] = {},
): OrderUpdate {
  const change = stepChange(order, step, at, {
    set: { ...set, closed_at: at, fee_taken: true },
    unset: ['due_at'],
    entries: feeEntries(order, at, 'taken'),
  })
  return { change, payouts: [payoutFor(order, 'seller', step, sellerShare(order), at)] }
}

/** A new payout to one side. `reason` and the order's next version make its source unique. */
export function payoutFor(
  order: OrderRecord,
  side: Side,
  reason: string,
  amountRaw: bigint,
  at: number,
): PayoutRecord {
  return newPayout({
    source: `${order._id}/${reason}/${order.version + 1}`,
    coin: order.coin,
    agentId: side === 'buyer' ? order.buyer_id : order.seller_id,
    orderId: order._id,
    amountRaw,
    address: side === 'buyer' ? order.refund_address : order.payout_address,
    at,
  })
}

/** Writes the order, its payouts and the journal. @returns false, with nothing written, if it has changed */
export async function storeUpdate(
  ctx: Context,
  before: OrderRecord,
  { change, payouts = [] }: OrderUpdate,
  session: Session,
): Promise<boolean> {
  if (!(await ctx.orders.change(before, change, session))) return false
  await ctx.payouts.insert(payouts, session)
  await ctx.journal.write(journalLinesOf(before, change, payouts), session)
  return true
}

/** As storeUpdate(), in the transaction that read the order: if it has changed, the transaction fails. */
export async function storeOwnUpdate(
  ctx: Context,
  order: OrderRecord,
  update: OrderUpdate,
  session: Session,
): Promise<void> {
  await requireChanged(storeUpdate(ctx, order, update, session), `order ${order._id}`)
}

/** What one side of an order is owed or was paid, without withdrawn payouts. */
export interface SidePayouts {
  /** Owed and not yet signed: these can still be withdrawn. */
  open: PayoutRecord[]
  /** Signed, sent, held or paid. */
  sentRaw: bigint
}

export async function readPayouts(
  ctx: Context,
  order: OrderRecord,
  session: Session,
): Promise<Record<Side, SidePayouts>> {
  const payouts = await ctx.payouts.listByOrder(order._id, session)
  const of = (agentId: string): SidePayouts => {
    const own = payouts.filter(({ agent_id, state }) => agent_id === agentId && state !== 'withdrawn')
    const open = own.filter(({ state }) => state === 'owed')
    return { open, sentRaw: sumAmounts(own) - sumAmounts(open) }
  }
  return { buyer: of(order.buyer_id), seller: of(order.seller_id) }
}

/**
 * Withdraws a side's open payouts if they are not `owedRaw` together.
 *
 * @returns the payout to be stored in their place: none if they are right, or if nothing is owed
 */
export async function replaceOpenPayouts(
  ctx: Context,
  order: OrderRecord,
  side: Side,
  open: readonly PayoutRecord[],
  owed: { raw: bigint; reason: string; at: number },
  session: Session,
): Promise<PayoutRecord[]> {
  if (owed.raw === sumAmounts(open)) return []
  for (const payout of open) await withdrawPayout(ctx, payout, session)
  return owed.raw > 0n ? [payoutFor(order, side, owed.reason, owed.raw, owed.at)] : []
}
