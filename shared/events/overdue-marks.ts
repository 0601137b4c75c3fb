import type { Context } from '../context.ts'
import { Refusal } from '../platform/errors.ts'
import { OVERDUE_MARK_DAYS } from '../platform/limits.ts'
import { DAY_MS, SECOND_MS } from '../platform/time.ts'
import { isOutage } from '../platform/database.ts'
import { numberEvents } from './event-service.ts'
import type { MarkPlace } from './event-store.ts'

type OverdueMarksContext = Pick<Context, 'log' | 'database' | 'events'>

const EVERY_MS = 10 * SECOND_MS

/**
 * Numbers marks that are older than OVERDUE_MARK_DAYS, of agents that don't ask for their events: else the marks
 * would stay in the records for ever, while events expire. An agent that asks late finds its events as if it
 * had asked before. A call does one part of a round over all marks.
 *
 * @param place where the previous part of the round ended; undefined begins a round
 * @returns where this part ended; undefined at the end of the round
 */
export async function numberOverdueMarks(
  ctx: OverdueMarksContext,
  place: MarkPlace | undefined,
): Promise<MarkPlace | undefined> {
  const { agentIds, next } = await ctx.events.listOverdue(
    place,
    ctx.database.now() - OVERDUE_MARK_DAYS * DAY_MS,
  )
  for (const agentId of agentIds) await numberEvents(ctx, { _id: agentId })
  return next
}

/**
 * Calls numberOverdueMarks() every EVERY_MS, for part after part, round after round. Errors are logged,
 * except outages of the database.
 *
 * @returns a function that ends it
 */
export function keepNumberingOverdueMarks(ctx: OverdueMarksContext): () => void {
  let place: MarkPlace | undefined
  let isUnderWay = false
  const timer = setInterval(() => {
    if (isUnderWay || !ctx.database.isReady()) return
    isUnderWay = true
    numberOverdueMarks(ctx, place)
      .then((next) => (place = next))
      .catch((error: unknown) => {
        const isAway = isOutage(error) || (error instanceof Refusal && error.code === 'unavailable')
        if (!isAway) ctx.log.error({ err: error }, 'events that nobody asks for could not be numbered')
      })
      .finally(() => (isUnderWay = false))
  }, EVERY_MS).unref()
  return () => clearInterval(timer)
}
