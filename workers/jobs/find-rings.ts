import type { Context } from '../../shared/context.ts'
import { findRings, sweepDoorbells } from '../../shared/doorbells/find-rings.ts'
import { SECOND_MS } from '../../shared/platform/time.ts'
import type { JobResult } from '../job-result.ts'

/** How far a look goes back behind the beginning of the last one: longer than most writes take. */
const BACK_MS = 2 * SECOND_MS
/** How far one does now and then: longer than a write may take, and than the pause between two such looks. */
const FAR_BACK_MS = 15 * SECOND_MS
const FAR_EVERY_MS = 5 * SECOND_MS
/** A ring that is due for so long has lost its job, or waits behind others: then another job changes nothing. */
const OVERDUE_MS = 3 * SECOND_MS

/**
 * Finds the doorbells that are to ring for what came since the last look of any process. A mark has its time before
 * others can see it, so each look goes back a little. Where the last one ended is in MongoDB: a look after a pause
 * begins there. Now and then it also enqueues again what is overdue, so that Redis may lose any of it.
 */
export async function findRingsSince(ctx: Context): Promise<JobResult> {
  const nowMs = ctx.database.now()
  const last = await ctx.operation.watch.readRings()
  const { looked_ms: lookedMs, far_ms: farMs } = last ?? { looked_ms: nowMs, far_ms: 0 }
  const isFar = nowMs - farMs >= FAR_EVERY_MS
  const rings = await findRings(ctx, lookedMs - (isFar ? FAR_BACK_MS : BACK_MS))
  await ctx.operation.watch.noteRings({ looked_ms: nowMs, far_ms: isFar ? nowMs : farMs })
  return { rings, overdue: isFar ? await sweepDoorbells(ctx, OVERDUE_MS) : 0 }
}
