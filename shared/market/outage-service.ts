import type { Context } from '../context.ts'
import { isOutage } from '../platform/database.ts'
import { runInScope } from '../platform/scope.ts'
import { OUTAGE_GAP_MS, SERVED_NOTE_MS } from './market-terms.ts'

/**
 * Returns a function to call when a request has been answered with a status below 500. While the database is
 * ready, the first call begins to record in it, every SERVED_NOTE_MS, that this process serves. From these
 * records the market knows which order deadlines passed during an outage: see outage-store.ts.
 *
 * A process that could not record this for OUTAGE_GAP_MS stops recording, and begins again with the next
 * call: an outage ends when a request is served, not when the database is back.
 */
export function recordAvailability(ctx: Pick<Context, 'orders' | 'database' | 'log'>): () => void {
  /** Set while records are made. */
  let timer: NodeJS.Timeout | undefined
  let isBeginning = false
  /** Monotonic time of the last record. */
  let lastRecordMs = 0

  /** Records a request, which ends an outage, and starts the regular records. */
  async function begin(): Promise<void> {
    isBeginning = true
    try {
      await ctx.orders.outages.recordRequest(ctx.database.now())
      lastRecordMs = performance.now()
      timer = setInterval(() => void beat(), SERVED_NOTE_MS).unref()
    } catch (error) {
      logDefect(error)
    } finally {
      isBeginning = false
    }
  }

  /** Records that the process still serves, or stops recording it if the last record is too long ago. */
  async function beat(): Promise<void> {
    let isUnbroken = performance.now() - lastRecordMs < OUTAGE_GAP_MS
    try {
      if (await ctx.orders.outages.moveMark(ctx.database.now())) lastRecordMs = performance.now()
      else isUnbroken = false
    } catch (error) {
      logDefect(error)
    }
    if (isUnbroken || timer === undefined) return
    clearInterval(timer)
    timer = undefined
  }

  function logDefect(error: unknown): void {
    if (!isOutage(error)) ctx.log.error({ err: error }, 'the API could not record that it is serving')
  }

  return () => {
    if (timer === undefined && !isBeginning && ctx.database.isReady()) void runInScope({}, begin)
  }
}
