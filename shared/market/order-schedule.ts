import type { Context } from '../context.ts'
import { MAX_CLOCK_OFF_MS } from '../limits.ts'
import { SECOND_MS, unixSeconds } from '../time.ts'
import { DEADLINE_OVERDUE_SECONDS, DEADLINE_SLACK_MS } from './market-terms.ts'
import type { OrderRecord } from './order.ts'

/** Deadlines that one sweep enqueues; the next one goes on. */
const SWEEP_TIMES = 1_000

/**
 * How far this machine's clock is behind the database's, in seconds; 0 where it is right. A side's time begins that much
 * later than this machine's present: otherwise it would be shorter by that, or over before it began.
 */
export async function secondsBehind(ctx: Context): Promise<number> {
  const behindMs = -(await ctx.database.clockAheadMs())
  if (behindMs <= MAX_CLOCK_OFF_MS) return 0
  ctx.log.error({ behind_ms: behindMs }, "this machine's clock is behind the database's: deadlines run by the database's")
  return Math.ceil(behindMs / SECOND_MS)
}

/**
 * Puts an order's deadline on the to-do list. All orders that are due in one second share one job: ten thousand of them
 * in a minute are sixty jobs.
 */
export async function enqueueDeadline(ctx: Context, order: Pick<OrderRecord, 'due_at'>): Promise<void> {
  const { due_at: dueAt } = order
  if (dueAt === undefined) return
  const delayMs = Math.max(0, dueAt * SECOND_MS + DEADLINE_SLACK_MS - ctx.now())
  await ctx.queues.enqueue('order-deadlines', { due_at: dueAt }, { debounceId: `due-${dueAt}`, delayMs })
}

/**
 * Deadlines that passed and whose jobs were lost, or could not act because the API did not serve. Beside a job that is
 * still delayed, because a clock was put forward, theirs have a name of their own.
 */
export async function enqueueOverdueDeadlines(ctx: Context): Promise<void> {
  const now = unixSeconds(ctx.now())
  for (const dueAt of await ctx.orders.listDueTimes(now - DEADLINE_OVERDUE_SECONDS, SWEEP_TIMES))
    await ctx.queues.enqueue('order-deadlines', { due_at: dueAt }, { debounceId: `overdue-${dueAt}` })
}
