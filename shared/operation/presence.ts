import os from 'node:os'
import type { Context } from '../context.ts'
import { readBuild } from '../foundation/build.ts'
import { newStepId } from '../foundation/ids.ts'
import { SECOND_MS, unixSeconds } from '../foundation/time.ts'

const LOOK_EVERY_MS = 5 * SECOND_MS
/** Without a change it is said again so often. */
const SAY_EVERY_MS = 30 * SECOND_MS
/** A clock is noted anew once it has moved so far. */
const CLOCK_STEP_MS = SECOND_MS

/**
 * Has it known that this process runs, which program it is and how its clock goes, for as long as it does.
 *
 * @returns a function that takes it back
 */
export function sayPresent(ctx: Context, part: 'api' | 'workers', queues: readonly string[] = []) {
  const fixed = {
    ...{ _id: newStepId(), host: os.hostname(), pid: process.pid, part, queues: [...queues] },
    ...{ ...readBuild(), started_at: unixSeconds(ctx.now()) },
  }
  let said: { atMs: number; aheadMs: number } | undefined
  const look = async (): Promise<void> => {
    if (!ctx.database.isReady()) return
    const aheadMs = Math.round(Date.now() - ctx.database.now())
    const nowMs = performance.now()
    const isNews = said === undefined || Math.abs(said.aheadMs - aheadMs) > CLOCK_STEP_MS
    if (!isNews && nowMs - (said?.atMs ?? 0) < SAY_EVERY_MS) return
    await ctx.processes.note({ ...fixed, clock_ahead_ms: aheadMs })
    said = { atMs: nowMs, aheadMs }
  }
  const quietly = (): void =>
    void look().catch((error: unknown) => ctx.log.debug({ err: error }, 'this process could not be noted'))
  const timer = setInterval(quietly, LOOK_EVERY_MS).unref()
  ctx.database.whenReady().then(quietly, () => undefined)
  return async (): Promise<void> => {
    clearInterval(timer)
    if (said !== undefined) await ctx.processes.forget(fixed._id).catch(() => undefined)
  }
}
