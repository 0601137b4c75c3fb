import type { Context } from '../context.ts'
import { unavailable } from '../platform/database.ts'
import { withDeadline } from '../platform/deadline.ts'
import { SECOND_MS } from '../platform/time.ts'

const CACHE_MS = 5 * SECOND_MS
const READ_LIMIT_MS = SECOND_MS / 2

/**
 * Returns a function that reads the public keys that sign rings: those of the last CACHE_MS, or the last that could
 * be read while the database is away, since GET /rules answers then too. None if doorbells are off.
 */
export function createDoorbellKeyReader({
  config,
  doorbells,
  log,
}: Pick<Context, 'config' | 'doorbells' | 'log'>): () => Promise<readonly string[]> {
  let known: readonly string[] = []
  let readAtMs = -Infinity
  return async () => {
    if (!config.doorbells.isOn || performance.now() - readAtMs < CACHE_MS) return known
    try {
      known = await withDeadline(doorbells.listKeys(), READ_LIMIT_MS, unavailable)
      readAtMs = performance.now()
    } catch (error) {
      log.debug({ err: error }, 'the doorbells’ keys could not be read; those that are known are shown')
    }
    return known
  }
}
