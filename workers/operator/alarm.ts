import type { Context } from '../../shared/context.ts'
import { keyOf, severityOf, type Finding } from '../../shared/operation/finding.ts'
import { readFindings } from '../../shared/operation/findings.ts'
import { MINUTE_MS, SECOND_MS, unixSeconds } from '../../shared/foundation/time.ts'

const LOOK_EVERY_MS = 15 * SECOND_MS
const LOOK_LIMIT_MS = 10 * SECOND_MS
const DISK_EVERY_SECONDS = (30 * MINUTE_MS) / SECOND_MS

/** Looks again and again until it is closed. */
export function watchFindings(ctx: Context, everyMs = LOOK_EVERY_MS): { close(): void } {
  const look = openAlarm(ctx)
  let isLooking = false
  const timer = setInterval(() => {
    if (isLooking) return
    isLooking = true
    look()
      .catch((error: unknown) => ctx.log.warn({ err: error }, 'the state of the network could not be read'))
      .finally(() => (isLooking = false))
  }, everyMs)
  return { close: () => clearInterval(timer) }
}

/**
 * A look logs each finding once, when two looks in a row have met it (so that a restart of something isn't one),
 * and again when it is over. It also stores since when each has stood, and how much of the disk is free.
 */
export function openAlarm(ctx: Context): () => Promise<void> {
  /** When each finding began (Unix seconds), by name; `said` has those that were logged. */
  let since: Map<string, number> | undefined
  const said = new Map<string, Finding>()
  return async () => {
    const found = await readFindings(ctx, LOOK_LIMIT_MS)
    const before = since ?? new Map()
    const now = unixSeconds(ctx.now())
    // `one.since` is what a former process noted.
    since = new Map(found.map((one) => [keyOf(one), one.since ?? before.get(keyOf(one)) ?? now]))
    for (const one of found)
      if (before.has(keyOf(one)) && !said.has(keyOf(one))) {
        said.set(keyOf(one), one)
        const { kind, about, what, ...rest } = one
        ctx.log[severityOf(one) === 'act' ? 'error' : 'warn']({ finding: kind, about, ...rest }, what)
      }
    for (const [name, { kind, about, what }] of said)
      if (!since.has(name)) {
        said.delete(name)
        ctx.log.info({ finding: kind, about }, `over: ${what}`)
      }
    if (!ctx.database.isReady()) return
    await ctx.watch.noteSince(since)
    await noteDisk(ctx, now)
  }
}

async function noteDisk(ctx: Context, now: number): Promise<void> {
  const last = (await ctx.watch.readDiskSamples()).at(-1)
  if (last !== undefined && now - last.at < DISK_EVERY_SECONDS) return
  const free = await ctx.database.freeDiskBytes()
  if (free !== undefined) await ctx.watch.noteDisk({ at: now, free })
}
