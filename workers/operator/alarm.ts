import type { Context } from '../../shared/context.ts'
import { keyOf, severityOf, type Finding } from '../../shared/operation/finding.ts'
import { readFindings } from '../../shared/operation/findings.ts'
import { MINUTE_MS, SECOND_MS, unixSeconds } from '../../shared/platform/time.ts'

const LOOK_EVERY_MS = 15 * SECOND_MS
const LOOK_LIMIT_MS = 3 * SECOND_MS
const DISK_EVERY_SECONDS = (30 * MINUTE_MS) / SECOND_MS

/** Reads and logs the network's findings again and again until it is closed: see createAlarm(). */
export function watchFindings(ctx: Context, everyMs = LOOK_EVERY_MS): { close(): void } {
  const logFindings = createAlarm(ctx)
  let isRunning = false
  const timer = setInterval(() => {
    if (isRunning) return
    isRunning = true
    logFindings()
      .catch((error: unknown) => ctx.log.warn({ err: error }, 'the state of the network could not be read'))
      .finally(() => (isRunning = false))
  }, everyMs)
  return { close: () => clearInterval(timer) }
}

/**
 * Returns a function to be called again and again. It reads the network's findings and logs each once, when
 * two calls in a row have met it (so that something that only restarts isn't logged), and once more when it
 * is over. It also stores since when each has stood, and now and then how much of the disk is free.
 */
export function createAlarm(ctx: Context): () => Promise<void> {
  /** When each present finding began (Unix seconds), by name. */
  let beganAt: Map<string, number> | undefined
  const logged = new Map<string, Finding>()
  return async () => {
    const findings = await readFindings(ctx, LOOK_LIMIT_MS)
    const beganAtBefore = beganAt ?? new Map<string, number>()
    const now = unixSeconds(ctx.now())
    beganAt = new Map()
    for (const finding of findings) {
      const name = keyOf(finding)
      // `finding.since` is what a former process stored.
      beganAt.set(name, finding.since ?? beganAtBefore.get(name) ?? now)
      if (!beganAtBefore.has(name) || logged.has(name)) continue
      logged.set(name, finding)
      const { kind, about, what, ...rest } = finding
      ctx.log[severityOf(finding) === 'act' ? 'error' : 'warn']({ finding: kind, about, ...rest }, what)
    }
    for (const [name, { kind, about, what }] of logged) {
      if (beganAt.has(name)) continue
      logged.delete(name)
      ctx.log.info({ finding: kind, about }, `over: ${what}`)
    }
    if (!ctx.database.isReady()) return
    await ctx.operation.watch.noteSince(beganAt)
    await noteDisk(ctx, now)
  }
}

/** Stores how much of the database's disk is free, if the last time is long ago. @param now Unix seconds */
async function noteDisk(ctx: Context, now: number): Promise<void> {
  const last = (await ctx.operation.watch.readDiskSamples()).at(-1)
  if (last !== undefined && now - last.at < DISK_EVERY_SECONDS) return
  const free = await ctx.database.freeDiskBytes()
  if (free !== undefined) await ctx.operation.watch.noteDisk({ at: now, free })
}
