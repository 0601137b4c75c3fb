import type { Context } from '../../shared/context.ts'
import { nameOf, severityOf, type Finding } from '../../shared/operation/finding.ts'
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
      .catch((error: unknown) => ctx.log.warn({ err: error }, 'the network could not be looked at'))
      .finally(() => (isLooking = false))
  }, everyMs)
  return { close: () => clearInterval(timer) }
}

/**
 * A look says in the log what isn't fine, each finding once it was met at two looks in a row (a restart is none),
 * and once more when it is over; and it keeps since when each has stood, and how much of the disk was free.
 */
export function openAlarm(ctx: Context): () => Promise<void> {
  /** By name; those that were said are in `said`. */
  let since: Map<string, number> | undefined
  const said = new Map<string, Finding>()
  return async () => {
    const found = await readFindings(ctx, LOOK_LIMIT_MS)
    const before = since ?? new Map()
    const now = unixSeconds(ctx.now())
    // After a restart it goes on from what was noted.
    since = new Map(found.map((one) => [nameOf(one), one.since ?? before.get(nameOf(one)) ?? now]))
    for (const one of found)
      if (before.has(nameOf(one)) && !said.has(nameOf(one))) {
        said.set(nameOf(one), one)
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
