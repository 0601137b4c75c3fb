import os from 'node:os'
import type { Context } from '../context.ts'
import { describeWait, listUnreached, type WithSigning } from '../ledger/signing-state.ts'
import { readBuild } from '../platform/build.ts'
import { newStepId } from '../platform/ids.ts'
import { omitUndefined } from '../platform/omit-undefined.ts'
import { SECOND_MS, unixSeconds } from '../platform/time.ts'
import { hashSettings } from './agreement.ts'

const CHECK_EVERY_MS = 5 * SECOND_MS
/** How often the record is renewed, with what the process has counted, even if nothing else has changed. */
const RENEW_EVERY_MS = 10 * SECOND_MS
/** If the clock has moved further than this, the record is renewed with the next check. */
const CLOCK_STEP_MS = SECOND_MS

/**
 * Keeps a record of this process in MongoDB for as long as it runs: which program it is, which queues it
 * serves, of which Redis, with which settings, and how far its clock is ahead of the database's. Begins once
 * MongoDB is ready.
 *
 * @returns a function that ends this and deletes the record
 */
export function keepHeartbeat(
  ctx: Context & Partial<WithSigning>,
  part: 'api' | 'workers',
  queues: readonly string[] = [],
) {
  const fields = {
    _id: newStepId(),
    host: os.hostname(),
    pid: process.pid,
    part,
    queues: [...queues],
    ...readBuild(),
    queue_prefix: ctx.config.queuePrefix,
    settings: hashSettings(ctx.config),
    started_at: unixSeconds(ctx.now()),
  }
  let stored: { atMs: number; aheadMs: number; said: string } | undefined
  const renewIfDue = async (): Promise<void> => {
    if (!ctx.database.isReady()) return
    const aheadMs = Math.round(ctx.now() - ctx.database.now())
    const nowMs = performance.now()
    const changing = readChanging(ctx)
    const said = JSON.stringify(changing)
    const isDue =
      stored === undefined ||
      nowMs - stored.atMs >= RENEW_EVERY_MS ||
      stored.said !== said ||
      Math.abs(stored.aheadMs - aheadMs) > CLOCK_STEP_MS
    if (!isDue) return
    const counts = await ctx.metrics.readCounts()
    await ctx.operation.processes.note({ ...fields, ...changing, counts, clock_ahead_ms: aheadMs })
    stored = { atMs: nowMs, aheadMs, said }
  }
  const check = (): void =>
    void renewIfDue().catch((error: unknown) =>
      ctx.log.debug({ err: error }, 'this process could not be noted'),
    )
  const timer = setInterval(check, CHECK_EVERY_MS).unref()
  ctx.database.whenReady().then(check, () => undefined)
  return async (): Promise<void> => {
    clearInterval(timer)
    if (stored !== undefined) await ctx.operation.processes.forget(fields._id).catch(() => undefined)
  }
}

/** What may change while a process runs, besides its clock. */
function readChanging({ queues, metrics, signing }: Context & Partial<WithSigning>) {
  const stalled = metrics.stalledJobs()
  return {
    ...omitUndefined({
      redis_run_id: queues.runId(),
      signing_waits: signing && describeWait(signing),
    }),
    ...(stalled.count === 0 ? {} : { stalled_jobs: stalled.count, stalled_at: stalled.lastAt }),
    unreached: signing === undefined ? [] : listUnreached(signing),
  }
}
