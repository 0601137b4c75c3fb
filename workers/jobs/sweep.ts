import { enqueueUnsignedAnnouncements } from '../../shared/announcements/announcement-service.ts'
import type { Context } from '../../shared/context.ts'
import { moveOverdueClaims } from '../../shared/claims/claim-service.ts'
import { enqueueChainCheck } from '../../shared/ledger/seal-service.ts'
import { enqueueOverdueDeadlines } from '../../shared/market/order-schedule.ts'

/** Batches enqueued again by one sweep; the next sweep goes on. */
const SWEEP_BATCHES = 1_000

/**
 * Finds in MongoDB what is due and has no living job, and brings it back. It may run at any time, any number
 * of times and in several processes: everything that it starts does its one step once.
 */
export async function sweep(ctx: Context): Promise<void> {
  // A batch that is younger than one sweep has its own job, or its own job is being added. One that is from
  // the future came by a clock that was ahead, and would wait until its time has come.
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
