import type { Context } from '../context.ts'
import { change } from '../platform/change.ts'
import type { Session } from '../platform/database.ts'
import { omitUndefined } from '../platform/omit-undefined.ts'
import type { PayoutRecord } from '../money/payout.ts'
import { withdrawPayout } from '../money/payout-service.ts'
import { payoutFor, type OrderUpdate, type Side } from './order-rules.ts'
import { applyChange, journalLinesOf, sumAmounts, type OrderRecord } from './order.ts'

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
    now: () => ctx.database.now(),
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
 * Withdraws a side's open payouts if they do not bring what it was sent to `due.raw`. What takes the place of a
 * decision's payout is that decision's too.
 *
 * @returns the payout that the caller has to store in their place, if there has to be one
 */
export async function replaceOpenPayouts(
  ctx: Context,
  order: OrderRecord,
  side: Side,
  { open, sentRaw }: SidePayouts,
  due: { raw: bigint; reason: string; at: number; decided?: PayoutRecord['decided'] },
  session: Session,
): Promise<PayoutRecord[]> {
  const openRaw = due.raw - sentRaw
  if (openRaw === sumAmounts(open)) return []
  for (const payout of open) await withdrawPayout(ctx, payout._id, session)
  if (openRaw <= 0n) return []
  const decided = due.decided ?? open.findLast((payout) => payout.decided !== undefined)?.decided
  return [{ ...payoutFor(order, side, due.reason, openRaw, due.at), ...omitUndefined({ decided }) }]
}
