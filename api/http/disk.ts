import type { Context } from '../../shared/context.ts'
import { isOutage } from '../../shared/platform/database.ts'
import { Refusal } from '../../shared/platform/errors.ts'
import { DISK_LOOK_EVERY_MS } from '../../shared/platform/limits.ts'
import { runInScope } from '../../shared/platform/scope.ts'

/**
 * Creates a function to call before each write. It throws a Refusal `unavailable` while the database's disk
 * is nearly full: a database that can't write loses what is under way, and needs room to be repaired. The
 * free space is read in the background every few seconds, so no request waits for it.
 */
export function createDiskGuard(ctx: Context): () => void {
  /** Undefined before it was read for the first time: then nothing is refused. */
  let freeBytes: number | undefined
  let lookedAtMs = Number.NEGATIVE_INFINITY

  /** Reads the free space; on an error it stays as it was. */
  async function updateFreeBytes(): Promise<void> {
    try {
      freeBytes = await ctx.database.freeDiskBytes()
    } catch (error) {
      if (!isOutage(error))
        ctx.log.error({ err: error }, 'the free disk space of the database could not be read')
    }
  }

  return () => {
    const nowMs = performance.now()
    if (nowMs - lookedAtMs >= DISK_LOOK_EVERY_MS) {
      lookedAtMs = nowMs
      void runInScope({}, updateFreeBytes)
    }
    if (freeBytes === undefined || freeBytes >= ctx.config.minFreeDiskBytes) return
    throw new Refusal(
      'unavailable',
      "The service's disk is nearly full: it answers reads and takes no writes until its operator has made room.",
      {
        countedAs: 'disk',
      },
    )
  }
}
