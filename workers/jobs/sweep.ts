import { setTimeout as sleep } from 'node:timers/promises'
import { enqueueUnsignedAnnouncements } from '../../shared/announcements/announcement-service.ts'
import { applyBans } from '../../shared/agents/ban-service.ts'
import type { Context } from '../../shared/context.ts'
import { SHARE_PAGES_KEPT_MS } from '../../shared/platform/limits.ts'
import { storeOverdueClaims } from '../../shared/claims/claim-service.ts'
import { enqueueChainCheck } from '../../shared/ledger/seal-service.ts'
import { SECOND_MS, unixSeconds } from '../../shared/platform/time.ts'
import { enqueueOverdueDeadlines } from '../../shared/market/order-deadlines.ts'
import { replaceRedisMarker } from '../../shared/operation/redis-marker.ts'
import type { JobResult } from '../job-result.ts'

/** Batches enqueued again by one sweep; the next sweep goes on. */
const SWEEP_BATCHES = 1_000
/** Orders whose pages of counted shares one sweep deletes: some MB each at most. */
const FORGOTTEN_ORDERS = 20

/**
 * Finds due work in MongoDB whose job may be lost, and enqueues it again; also moves on overdue claims,
 * applies bans, and deletes old pages of counted nonces. It may run at any time and in several processes at once: every job
 * that it enqueues takes effect once.
 */
export async function sweep(ctx: Context): Promise<JobResult> {
  // A batch younger than one sweep still has its own job, or is just getting it. One from the future was
  // stored by a clock that was ahead, and would otherwise wait until that time.
  const { sweepMs } = ctx.config
  const waiting = await ctx.work.listWaiting(
    ctx.database.now() - sweepMs,
    SWEEP_BATCHES,
    ctx.database.now() + sweepMs,
  )
  for (const batchId of waiting)
    await ctx.queues.enqueue('verify-shares', { batch_id: batchId }, { debounceId: batchId })
  const overdueClaims = await storeOverdueClaims(ctx)
  const announcements = await enqueueUnsignedAnnouncements(ctx)
  const deadlines = await enqueueOverdueDeadlines(ctx)
  await enqueueChainCheck(ctx)
  const before = unixSeconds(ctx.database.now() - SHARE_PAGES_KEPT_MS)
  const ordersForgotten = await ctx.work.deleteOldPages(before, FORGOTTEN_ORDERS)
  const bans = await applyBans(ctx)
  await noteEmptiedRedis(ctx)
  return {
    batches: waiting.length,
    overdue_claims: overdueClaims,
    announcements,
    deadlines,
    orders_forgotten: ordersForgotten,
    bans,
  }
}

/** Within this time a marker that is in MongoDB is in Redis too. */
const MARKING_MS = SECOND_MS

/**
 * Checks whether Redis has lost its data, and stores the time for the operator if it has. A marker is kept in
 * Redis and in MongoDB: if Redis hasn't the same one, both get a new one. It is looked at twice, since another
 * process may be about to store a new one in Redis.
 */
async function noteEmptiedRedis(ctx: Context): Promise<void> {
  const readMarks = () => Promise.all([ctx.queues.readMark(), ctx.operation.watch.readRedis()])
  const [markInRedis, noted] = await readMarks()
  if (noted === undefined) return await replaceRedisMarker(ctx, undefined, {})
  if (markInRedis === noted.mark) return
  await sleep(MARKING_MS)
  const [markNow, notedNow] = await readMarks()
  // A newer marker is looked at by the next sweep.
  if (notedNow?.mark !== noted.mark || markNow === noted.mark) return
  await replaceRedisMarker(ctx, notedNow, { emptied_at: unixSeconds(ctx.database.now()) })
}
