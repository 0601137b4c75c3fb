import type { RequestHandler } from 'express'
import type { Context } from '../../shared/context.ts'
import { isOutage } from '../../shared/platform/database.ts'
import { OUTAGE_GAP_MS, SERVING_BEAT_MS } from '../../shared/market/market-terms.ts'
import { runInScope } from '../../shared/platform/scope.ts'

/**
 * Returns middleware that records in the database, every SERVING_BEAT_MS, that this process serves: from the
 * first request on that it answers with a status below 500 while the database is ready. From these records
 * the market knows which order deadlines passed during an outage: see serving-store.ts.
 *
 * A process that could not record this for OUTAGE_GAP_MS stops recording, and begins again with the next
 * such answer: an outage ends when a request is served, not when the database is back.
 */
export function markServing(ctx: Context): RequestHandler {
  /** Set while records are made. */
  let timer: NodeJS.Timeout | undefined
  let isBeginning = false
  /** Monotonic time of the last record. */
  let lastRecordMs = 0

  /** Records a request, which ends an outage, and starts the regular records. */
  async function begin(): Promise<void> {
    isBeginning = true
    try {
      await ctx.serving.recordRequest(ctx.databaseNow())
      lastRecordMs = performance.now()
      timer ??= setInterval(() => void beat(), SERVING_BEAT_MS).unref()
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
      if (await ctx.serving.moveMark(ctx.databaseNow())) lastRecordMs = performance.now()
      else isUnbroken = false
    } catch (error) {
      logDefect(error)
    }
    if (isUnbroken || timer === undefined) return
    clearInterval(timer)
    timer = undefined
  }

  /** Logs an error, unless it is an outage of the database. */
  function logDefect(error: unknown): void {
    if (!isOutage(error)) ctx.log.error({ err: error }, 'the API could not record that it is serving')
  }

  return (_req, res, next) => {
    if (timer === undefined && !isBeginning) {
      res.once('finish', () => {
        if (timer === undefined && !isBeginning && res.statusCode < 500 && ctx.database.isReady())
          void runInScope({}, begin)
      })
    }
    next()
  }
}
