import { enqueueUnsignedAnnouncements } from '../../shared/announcements/announcement-service.ts'
import type { Context } from '../../shared/context.ts'
import { SHARE_PAGES_KEPT_MS } from '../../shared/foundation/limits.ts'
import { markOverdueClaims } from '../../shared/claims/claim-service.ts'
import { enqueueChainCheck } from '../../shared/ledger/seal-service.ts'
import { newStepId } from '../../shared/foundation/ids.ts'
import { unixSeconds } from '../../shared/foundation/time.ts'
import { enqueueOverdueDeadlines } from '../../shared/market/order-schedule.ts'

/** Batches enqueued again by one sweep; the next sweep goes on. */
const SWEEP_BATCHES = 1_000
/** Orders whose pages of counted shares one sweep deletes: some MB each at most. */
const FORGOTTEN_ORDERS = 20

/**
 * Finds due work in MongoDB whose job may be lost, and enqueues it again. It may run at any time and in
 * several processes at once: every job that it enqueues takes effect once.
 */
export async function sweep(ctx: Context): Promise<void> {
  // A batch younger than one sweep still has its own job, or is just getting it. One from the future was
  // stored by a clock that was ahead, and would otherwise wait until that time.
  const { sweepMs } = ctx.config
  const waiting = await ctx.work.listWaiting(
    ctx.databaseNow() - sweepMs,
    SWEEP_BATCHES,
    ctx.databaseNow() + sweepMs,
  )
  for (const batchId of waiting)
    await ctx.queues.enqueue('verify-shares', { batch_id: batchId }, { debounceId: batchId })
  await markOverdueClaims(ctx)
  await enqueueUnsignedAnnouncements(ctx)
  await enqueueOverdueDeadlines(ctx)
  await enqueueChainCheck(ctx)
  await ctx.work.deleteOldPages(unixSeconds(ctx.databaseNow() - SHARE_PAGES_KEPT_MS), FORGOTTEN_ORDERS)
  await noteEmptiedRedis(ctx)
}

/** Notes for the operator when Redis has lost its data: then the mark that is stored there is gone. */
async function noteEmptiedRedis(ctx: Context): Promise<void> {
  const [there, noted] = await Promise.all([ctx.queues.readMark(), ctx.watch.readRedis()])
  if (there !== undefined && there === noted?.mark) return
  const mark = newStepId()
  const lost = noted === undefined ? {} : { emptied_at: unixSeconds(ctx.databaseNow()) }
  if (await ctx.watch.noteRedis({ mark, ...lost }, noted)) await ctx.queues.setMark(mark)
}
