import type { Context } from '../context.ts'
import { change } from '../platform/change.ts'
import type { Session } from '../platform/database.ts'
import type { PayoutRecord } from '../money/payout.ts'
import { newPayout, withdrawPayout } from '../money/payout-service.ts'
import { applyChange, feeEntries, journalLinesOf, sellerShare, stepChange, sumAmounts } from './order.ts'
import type { OrderChange, OrderRecord } from './order.ts'

export type Side = 'buyer' | 'seller'

/** A change of an order with all that goes with it; stored together. */
export interface OrderUpdate {
  change: OrderChange
  /** What the venue owes by it. */
  payouts?: PayoutRecord[]
  /** The buyer's payouts that are still owed get this address. */
  refundAddress?: string
}

/** Makes the update that releases an order: the seller is owed its share, and the fee is taken. */
export function releaseUpdate(
  order: OrderRecord,
  step: 'accepted' | 'unanswered',
  at: number,
  set: OrderChange['set'] = {},
): OrderUpdate {
  return {
    change: stepChange(order, step, at, {
      set: { ...set, closed_at: at, fee_taken: true },
      unset: ['due_at'],
      entries: feeEntries(order, at, 'taken'),
    }),
    payouts: [payoutFor(order, 'seller', step, sellerShare(order), at)],
  }
}

/** Makes a payout to one side. `reason` and the order's next version make its source unique. */
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
    agentId: order[`${side}_id`],
    orderId: order._id,
    amountRaw,
    address: side === 'buyer' ? order.refund_address : order.payout_address,
    at,
  })
}

/**
 * Changes an order: see change(). An update that moves no money is one write; any other is one transaction.
 *
 * @param read reads the order, and whatever else decides
 * @param decide makes the update; undefined if there is nothing to change
 * @returns the order afterwards
 */
export function changeOrder<Known extends { order: OrderRecord }>(
  ctx: Context,
  read: () => Promise<Known>,
  decide: (known: Known, nowMs: number) => OrderUpdate | undefined,
): Promise<OrderRecord> {
  return change({
    now: () => ctx.databaseNow(),
    read,
    decide,
    async store(update, { order }) {
      if (update === undefined) return order
      const { payouts, refundAddress } = update
      const isOneWrite = payouts === undefined && refundAddress === undefined
      if (isOneWrite) await ctx.orders.change(order, update.change)
      else await ctx.database.transaction((session) => storeUpdate(ctx, order, update, session))
      return applyChange(order, update.change)
    },
  })
}

/**
 * Writes an order, its payouts and the journal. For a transaction that has read the order itself; who has read it
 * before uses changeOrder().
 *
 * @throws Overtaken if `before` is outdated, or it is the wrong side of the deadline; the caller must abort
 */
export async function storeUpdate(
  ctx: Context,
  before: OrderRecord,
  { change: orderChange, payouts = [], refundAddress }: OrderUpdate,
  session: Session,
): Promise<void> {
  await ctx.orders.change(before, orderChange, session)
  await ctx.payouts.insert(payouts, session)
  await ctx.journal.write(journalLinesOf(before, orderChange, payouts), session)
  if (refundAddress !== undefined)
    await ctx.payouts.setAddress(before._id, before.buyer_id, refundAddress, session)
}

/** What one side of an order is owed or was paid, without withdrawn payouts. */
export interface SidePayouts {
  /** Owed and not yet signed: these can still be withdrawn. */
  open: PayoutRecord[]
  /** The sum of those that are signed, sent, held or paid. */
  sentRaw: bigint
}

/** Reads the payouts to both sides of an order. */
export async function readPayouts(
  ctx: Context,
  order: OrderRecord,
  session: Session,
): Promise<Record<Side, SidePayouts>> {
  const payouts = await ctx.payouts.listByOrder(order._id, session)
  const payoutsOf = (agentId: string): SidePayouts => {
    const all = payouts.filter(({ agent_id, state }) => agent_id === agentId && state !== 'withdrawn')
    const open = all.filter(({ state }) => state === 'owed')
    return { open, sentRaw: sumAmounts(all) - sumAmounts(open) }
  }
  return { buyer: payoutsOf(order.buyer_id), seller: payoutsOf(order.seller_id) }
}

/**
 * Withdraws a side's open payouts if they do not bring what it was sent to `due.raw`.
 *
 * @returns the payout that the caller has to store in their place, if there has to be one
 */
export async function replaceOpenPayouts(
  ctx: Context,
  order: OrderRecord,
  side: Side,
  { open, sentRaw }: SidePayouts,
  due: { raw: bigint; reason: string; at: number },
  session: Session,
): Promise<PayoutRecord[]> {
  const openRaw = due.raw - sentRaw
  if (openRaw === sumAmounts(open)) return []
  for (const payout of open) await withdrawPayout(ctx, payout, session)
  return openRaw > 0n ? [payoutFor(order, side, due.reason, openRaw, due.at)] : []
}
