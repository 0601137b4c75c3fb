import type { Context } from '../context.ts'
import { SECOND_MS, nowSeconds, unixSeconds } from '../foundation/time.ts'
import { DEADLINE_OVERDUE_SECONDS, DEADLINE_SLACK_MS, OUTAGE_GRACE_MS } from './market-terms.ts'
import { deadlineStep } from './order-states.ts'
import { changeOrder, orderEntry, type OrderChange, type OrderRecord } from './order.ts'
import type { OutageRecord } from './serving-store.ts'

const SWEEP_TIMES = 1_000

/** Puts the job for an order's deadline on its queue: one for all orders that are due in that second. */
export async function enqueueDeadline(
  ctx: Context,
  { due_at: dueAt }: Pick<OrderRecord, 'due_at'>,
): Promise<void> {
  if (dueAt === undefined) return
  const delayMs = Math.max(0, dueAt * SECOND_MS + DEADLINE_SLACK_MS - ctx.databaseNow())
  await ctx.queues.enqueue('order-deadlines', { due_at: dueAt }, { debounceId: `due-${dueAt}`, delayMs })
}

/**
 * For the sweep. The job's own id keeps it apart from the deadline's first job, which may still be delayed.
 */
export async function enqueueOverdueDeadlines(ctx: Context): Promise<void> {
  const now = nowSeconds(ctx)
  for (const dueAt of await ctx.orders.listDueTimes(now - DEADLINE_OVERDUE_SECONDS, SWEEP_TIMES))
    await ctx.queues.enqueue('order-deadlines', { due_at: dueAt }, { debounceId: `overdue-${dueAt}` })
}

/**
 * If the order's deadline fell into an outage of the API, extends it to an hour after the first request that
 * was served again. Not the pay-by time: the chain can be paid meanwhile.
 *
 * @returns the order as it stands now
 */
export async function extendForOutage(ctx: Context, order: OrderRecord): Promise<OrderRecord> {
  let current = order
  while (current.due_at !== undefined) {
    const outage = await ctx.serving.findOutage(current.due_at * SECOND_MS)
    const change = outage === undefined ? undefined : extensionFor(current, outage, nowSeconds(ctx))
    if (change === undefined) break
    if (await ctx.orders.change(current, change)) {
      // The new deadline may lie in another outage.
      current = changeOrder(current, change)
      await enqueueDeadline(ctx, current)
    } else {
      const found = await ctx.orders.find(current._id)
      if (found === undefined) throw new Error(`order ${current._id} was there and is gone`)
      current = found
    }
  }
  return current
}

function extensionFor(order: OrderRecord, outage: OutageRecord, at: number): OrderChange | undefined {
  const due = deadlineStep(order.status)
  if (due === undefined || order.due_at === undefined) return undefined
  const until = Math.ceil((outage.to_ms + OUTAGE_GRACE_MS) / SECOND_MS)
  const extension = {
    deadline: due.deadline,
    was: order.due_at,
    until,
    outage_from: unixSeconds(outage._id),
    outage_to: unixSeconds(outage.to_ms),
  }
  const extensions = [...(order.extensions ?? []), extension]
  return {
    step: 'extended',
    at,
    set: { [due.deadline]: until, due_at: until, extensions },
    entries: [orderEntry(order, 'extended', at, extension)],
  }
}
