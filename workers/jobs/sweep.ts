import { enqueueUnsignedAnnouncements } from '../../shared/announcements/announcement-service.ts'
import type { Context } from '../../shared/context.ts'
import { moveOverdueClaims } from '../../shared/claims/claim-service.ts'
import { enqueueChainCheck } from '../../shared/ledger/seal-service.ts'
import { enqueueOverdueDeadlines } from '../../shared/market/order-schedule.ts'

/** Batches enqueued again by one sweep; the next sweep goes on. */
const SWEEP_BATCHES = 1_000

/**
 * Finds due work in MongoDB whose job may be lost, and enqueues it again. It may run at any time, any number
 * of times and in several processes: every job that it enqueues takes effect once.
 */
export async function sweep(ctx: Context): Promise<void> {
  // A batch younger than one sweep still has its own job, or is just getting it. A batch with a time in the
  // future was stored by a clock that was ahead, and would otherwise wait until then.
  const { sweepMs } = ctx.config
  const waiting = await ctx.work.listWaiting(
    ctx.databaseNow() - sweepMs,
    SWEEP_BATCHES,
    ctx.databaseNow() + sweepMs,
  )
  for (const batchId of waiting)
    await ctx.queues.enqueue('verify-shares', { batch_id: batchId }, { debounceId: batchId })
  await moveOverdueClaims(ctx)
  await enqueueUnsignedAnnouncements(ctx)
  await enqueueOverdueDeadlines(ctx)
  await enqueueChainCheck(ctx)
}
