import type { Config } from './config.ts'
import { isOutage, type Database } from './database.ts'
import { Refusal } from './errors.ts'
import { DISK_LOOK_EVERY_MS } from './limits.ts'
import type { Log } from './log.ts'
import { runInScope } from './scope.ts'

/**
 * Creates a function to call before each write. It throws a Refusal `unavailable` while the database's disk
 * is nearly full: a database that can't write loses what is under way, and needs room to be repaired. The
 * free space is read in the background every few seconds, so no request waits for it. If the database doesn't tell
 * it, that is logged once, and no write is refused.
 */
export function createDiskGuard(ctx: {
  database: Pick<Database, 'freeDiskBytes'>
  config: Pick<Config, 'minFreeDiskBytes'>
  log: Log
}): () => void {
  /** Undefined if it is not known: then nothing is refused. */
  let freeBytes: number | undefined
  let lookedAtMs = Number.NEGATIVE_INFINITY
  let isBlindLogged = false
  const note = (bytes: number | undefined): void => {
    freeBytes = bytes
    if (bytes !== undefined || isBlindLogged) return
    isBlindLogged = true
    ctx.log.warn(
      'the database does not tell how much of its disk is free, as some routers and services do not: writes are not refused when it is nearly full, so watch it by other means',
    )
  }
  return () => {
    const nowMs = performance.now()
    if (nowMs - lookedAtMs >= DISK_LOOK_EVERY_MS) {
      lookedAtMs = nowMs
      // On an error it stays as it was.
      runInScope({}, () => ctx.database.freeDiskBytes()).then(note, (error: unknown) => {
        if (!isOutage(error))
          ctx.log.error({ err: error }, 'the free disk space of the database could not be read')
      })
    }
    if (freeBytes === undefined || freeBytes >= ctx.config.minFreeDiskBytes) return
    throw new Refusal(
      'unavailable',
      "The service's disk is nearly full: it answers reads and takes no writes until its operator has made room.",
      { countedAs: 'disk' },
    )
  }
}
