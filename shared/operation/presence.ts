import os from 'node:os'
import type { Context } from '../context.ts'
import { readBuild } from '../foundation/build.ts'
import { newStepId } from '../foundation/ids.ts'
import { SECOND_MS, unixSeconds } from '../foundation/time.ts'

const LOOK_EVERY_MS = 5 * SECOND_MS
/** The record is renewed so often even if nothing has changed. */
const RENEW_EVERY_MS = 30 * SECOND_MS
/** The record is renewed at once if the clock has moved so far. */
const CLOCK_STEP_MS = SECOND_MS

/**
 * Keeps a record in MongoDB that this process runs, which program it is and how far its clock is ahead, for as
 * long as it runs.
 *
 * @returns a function that ends this and deletes the record
 */
export function keepPresence(ctx: Context, part: 'api' | 'workers', queues: readonly string[] = []) {
  const fixed = {
    ...{ _id: newStepId(), host: os.hostname(), pid: process.pid, part, queues: [...queues] },
    ...{ ...readBuild(), started_at: unixSeconds(ctx.now()) },
  }
  let noted: { atMs: number; aheadMs: number } | undefined
  const renewIfDue = async (): Promise<void> => {
    if (!ctx.database.isReady()) return
    const aheadMs = Math.round(Date.now() - ctx.database.now())
    const nowMs = performance.now()
    const isDue = noted === undefined || nowMs - noted.atMs >= RENEW_EVERY_MS
    if (!isDue && Math.abs((noted?.aheadMs ?? 0) - aheadMs) <= CLOCK_STEP_MS) return
    await ctx.processes.note({ ...fixed, clock_ahead_ms: aheadMs })
    noted = { atMs: nowMs, aheadMs }
  }
  const look = (): void =>
    void renewIfDue().catch((error: unknown) =>
      ctx.log.debug({ err: error }, 'this process could not be noted'),
    )
  const timer = setInterval(look, LOOK_EVERY_MS).unref()
  ctx.database.whenReady().then(look, () => undefined)
  return async (): Promise<void> => {
    clearInterval(timer)
    if (noted !== undefined) await ctx.processes.forget(fixed._id).catch(() => undefined)
  }
}
