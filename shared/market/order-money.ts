import type { Context } from '../context.ts'
import type { Session } from '../platform/database.ts'
import type { PendingEntry } from '../ledger/pending.ts'
import type { InvoiceRecord } from '../money/invoice.ts'
import { nowSeconds } from '../platform/time.ts'
import { feeOf } from './order-states.ts'
import { payoutFor, type OrderUpdate } from './order-rules.ts'
import { storeUpdate } from './order-updates.ts'
import { forgiveDust, priceFields, stepChange, type OrderRecord } from './order.ts'

/* What changes of an order's money have in common. */

/** Everything that was received for an order and not written off, in the coin's smallest unit. */
export const netReceivedRaw = (order: OrderRecord, invoice: Pick<InvoiceRecord, 'received_raw'>): bigint =>
  BigInt(invoice.received_raw) - BigInt(order.written_off_raw)

/** Makes the update for an order whose price is covered by what was received; undefined if it isn't. */
export function paidUpdate(
  order: OrderRecord,
  receivedRaw: bigint,
  at: number,
  step: 'paid' | 'resumed_paid' = 'paid',
): OrderUpdate | undefined {
  const priced = forgiveDust(order, receivedRaw)
  if (priced === undefined) return undefined
  const excessRaw = receivedRaw - BigInt(priced.amount_raw)
  const deliverBy = at + order.delivery_seconds
  return {
    change: stepChange(order, step, at, {
      set: { paid_at: at, deliver_by: deliverBy, due_at: deliverBy, ...priceFields(priced) },
      unset: ['unpaid_slot', 'payment_seen_at'],
      data: { deliver_by: deliverBy, ...(priced === order ? {} : priceFields(priced)) },
    }),
    payouts: excessRaw === 0n ? [] : [payoutFor(order, 'buyer', 'excess', excessRaw, at)],
  }
}

/** Makes the change back to awaiting the full price, in a slot that may lie beyond those of new orders. */
export async function unpaidChange(
  ctx: Context,
  order: OrderRecord,
  invoice: InvoiceRecord,
  at: number,
  step: 'payment_undone' | 'resumed_unpaid' = 'payment_undone',
) {
  const used = new Set(await ctx.orders.listUnpaidSlots(order.buyer_id))
  let slot = 0
  while (used.has(slot)) slot++
  const { amount_raw } = invoice
  return stepChange(order, step, at, {
    set: { unpaid_slot: slot, amount_raw, fee_raw: String(feeOf(BigInt(amount_raw))) },
    unset: ['paid_at', 'deliver_by', 'due_at'],
  })
}

/**
 * Disputes an order, and freezes what is owed for it.
 *
 * @param about fields of the ledger entry
 * @param suspects the transfers that may have paid a side, if it is disputed because of them alone
 */
export async function disputeByChain(
  ctx: Context,
  order: OrderRecord,
  step: 'payment_lost' | 'suspected',
  about: PendingEntry['data'],
  session: Session,
  suspects?: readonly string[],
): Promise<void> {
  const at = nowSeconds(ctx)
  const suspected =
    suspects === undefined ? undefined : { suspects: [...suspects], suspected_from: order.status }
  const change = stepChange(order, step, at, {
    set: { disputed_at: at, disputed_by: 'chain', ...suspected },
    unset: [
      'due_at',
      'unpaid_slot',
      ...(suspected === undefined ? (['suspects', 'suspected_from'] as const) : []),
    ],
    kind: 'dispute',
    data: { by: 'chain', ...about },
  })
  await storeUpdate(ctx, order, { change }, session)
  await ctx.payouts.setFrozen(order._id, true, session)
}

/** Whether all that the seller is owed has arrived, or was paid by hand. */
export async function isSellerPaid(ctx: Context, order: OrderRecord, session: Session): Promise<boolean> {
  const payouts = await ctx.payouts.listByOrder(order._id, session)
  const own = payouts.filter(({ agent_id: id, state }) => id === order.seller_id && state !== 'withdrawn')
  return own.length > 0 && own.every(({ state }) => state === 'confirmed' || state === 'manual')
}

/** Stores that the seller has its payout, in the transaction that read the order. */
export async function markPaidOut(ctx: Context, order: OrderRecord, session: Session): Promise<void> {
  const at = nowSeconds(ctx)
  const change = stepChange(order, 'paid_out', at, { set: { paid_out_at: at } })
  await storeUpdate(ctx, order, { change }, session)
}
