import type { Context } from '../context.ts'
import { SECOND_MS, unixSeconds, nowSeconds } from '../foundation/time.ts'
import { OUTAGE_GRACE_MS } from './market-terms.ts'
import { enqueueDeadline } from './order-schedule.ts'
import { deadlineStep } from './order-states.ts'
import { changeOrder, orderEntry, type OrderChange, type OrderRecord } from './order.ts'
import type { OutageRecord } from './serving-store.ts'

/**
 * Puts off a deadline that fell into an outage of the API, to an hour after the first request served again.
 * Not the pay-by time: that is met on the chain.
 *
 * @returns the order as it stands now
 */
export async function extendForOutage(ctx: Context, order: OrderRecord): Promise<OrderRecord> {
  let current = order
  for (;;) {
    if (current.due_at === undefined) return current
    const outage = await ctx.serving.findOutage(current.due_at * SECOND_MS)
    const change = outage === undefined ? undefined : extension(current, outage, nowSeconds(ctx))
    if (change === undefined) return current
    if (await ctx.orders.change(current, change)) {
      current = changeOrder(current, change)
      await enqueueDeadline(ctx, current)
      continue
    }
    const found = await ctx.orders.find(current._id)
    if (found === undefined) throw new Error(`order ${current._id} was there and is gone`)
    current = found
  }
}

function extension(order: OrderRecord, outage: OutageRecord, at: number): OrderChange | undefined {
  const due = deadlineStep(order.status)
  if (due === undefined || order.due_at === undefined) return undefined
  const until = Math.ceil((outage.to_ms + OUTAGE_GRACE_MS) / SECOND_MS)
  const made = {
    deadline: due.deadline,
    was: order.due_at,
    until,
    outage_from: unixSeconds(outage._id),
    outage_to: unixSeconds(outage.to_ms),
  }
  return {
    step: 'extended',
    at,
    set: { [due.deadline]: until, due_at: until, extensions: [...(order.extensions ?? []), made] },
    entries: [orderEntry(order, 'extended', at, made)],
  }
}
