import type { RequestHandler } from 'express'
import type { Context } from '../../shared/context.ts'
import { isOutage } from '../../shared/servers/database.ts'
import { OUTAGE_GAP_MS, SERVING_BEAT_MS } from '../../shared/market/market-terms.ts'
import { runInScope } from '../../shared/foundation/scope.ts'

/**
 * Records every SERVING_BEAT_MS in the database that this process serves, from its first answered request on.
 * From these records the market knows which order deadlines passed during an outage: see serving-store.ts.
 *
 * A process that could not record this for OUTAGE_GAP_MS stops, and begins again with the next request that
 * it answers: an outage ends when a request is served, not when the database is back.
 */
export function markServing(ctx: Context): RequestHandler {
  let timer: NodeJS.Timeout | undefined
  let isBeginning = false
  let lastMs = 0

  async function begin(): Promise<void> {
    isBeginning = true
    try {
      await ctx.serving.recordRequest(ctx.databaseNow())
      lastMs = performance.now()
      timer ??= setInterval(() => void beat(), SERVING_BEAT_MS).unref()
    } catch (error) {
      report(error)
    } finally {
      isBeginning = false
    }
  }

  async function beat(): Promise<void> {
    let stands = performance.now() - lastMs < OUTAGE_GAP_MS
    try {
      if (await ctx.serving.moveMark(ctx.databaseNow())) lastMs = performance.now()
      else stands = false
    } catch (error) {
      report(error)
    }
    if (stands || timer === undefined) return
    clearInterval(timer)
    timer = undefined
  }

  function report(error: unknown): void {
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
