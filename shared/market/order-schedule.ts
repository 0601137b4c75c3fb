import type { Context } from '../context.ts'
import { SECOND_MS, nowSeconds } from '../foundation/time.ts'
import { DEADLINE_OVERDUE_SECONDS, DEADLINE_SLACK_MS } from './market-terms.ts'
import type { OrderRecord } from './order.ts'

const SWEEP_TIMES = 1_000

/** All orders that are due in one second share one job. */
export async function enqueueDeadline(ctx: Context, order: Pick<OrderRecord, 'due_at'>): Promise<void> {
  const { due_at: dueAt } = order
  if (dueAt === undefined) return
  const delayMs = Math.max(0, dueAt * SECOND_MS + DEADLINE_SLACK_MS - ctx.databaseNow())
  await ctx.queues.enqueue('order-deadlines', { due_at: dueAt }, { debounceId: `due-${dueAt}`, delayMs })
}

/** Their own name keeps them apart from a job that is still delayed. */
export async function enqueueOverdueDeadlines(ctx: Context): Promise<void> {
  const now = nowSeconds(ctx)
  for (const dueAt of await ctx.orders.listDueTimes(now - DEADLINE_OVERDUE_SECONDS, SWEEP_TIMES))
    await ctx.queues.enqueue('order-deadlines', { due_at: dueAt }, { debounceId: `overdue-${dueAt}` })
}
