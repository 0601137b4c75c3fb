import type { Context } from '../context.ts'
import { Refusal } from '../foundation/errors.ts'
import { unlessOvertaken } from '../servers/database.ts'
import { DAY_MS, isoTime } from '../foundation/time.ts'
import { seqOf, type EventRecord } from './event.ts'
import type { EventProgress } from './event-store.ts'
import { hint, type EventMark } from './mark.ts'

/** The agent whose events are read, as authentication knows it. */
export interface Reader {
  _id: string
  pass_until_ms?: number
}

/** Batches of marks that one call numbers at most: what one request has time for. */
const BATCHES = 8
/** After each so many events of an agent, those beyond the kept number are removed. */
const FORGET_EVERY = 500

/**
 * Numbers the marks for an agent, so that they become its events.
 *
 * @returns the number of its last event, which a majority has, and whether more marks wait
 */
export async function numberEvents(ctx: Context, reader: Reader): Promise<{ seq: number; more: boolean }> {
  for (let batch = 0; batch < BATCHES; batch++) {
    const progress = await ctx.events.readProgress(reader._id)
    const due = passEnding(ctx, reader, progress)
    if (progress.marked.size === 0 && due === undefined) return { seq: progress.seq, more: false }
    let numbered = { seq: progress.seq, more: false }
    const isStored = await unlessOvertaken(
      ctx.database.transaction(async (session) => {
        numbered = await ctx.events.number(reader._id, progress.marked, due, ctx.databaseNow(), session)
      }),
    )
    if (!isStored) continue
    if (numbered.seq > progress.seq) {
      // Others may wait for the same agent, in other processes too.
      hint(reader._id)
      if (Math.floor(numbered.seq / FORGET_EVERY) > Math.floor(progress.seq / FORGET_EVERY))
        await ctx.events.forget(reader._id, numbered.seq)
    }
    if (!numbered.more) return numbered
  }
  return { seq: (await ctx.events.readProgress(reader._id)).seq, more: true }
}

/** The event that the agent's pass ends within a day, unless it was told: no record is written then. */
function passEnding(
  ctx: Context,
  { _id: to, pass_until_ms: untilMs }: Reader,
  { passToldMs }: EventProgress,
): { mark: EventMark; passToldMs: number } | undefined {
  if (untilMs === undefined || passToldMs === untilMs || untilMs - DAY_MS > ctx.databaseNow())
    return undefined
  const fields = { pass_until: isoTime(untilMs) }
  return { mark: { to, at_ms: untilMs - DAY_MS, kind: 'pass_ending', id: to, fields }, passToldMs: untilMs }
}

export interface EventPage {
  events: EventRecord[]
  next: number
  more: boolean
  truncated: boolean
}

/**
 * An agent's events after a cursor, each once and in one order.
 *
 * @param after if absent, the page has no events, only a cursor to begin from
 * @param peek numbers nothing, so events that nobody has asked for yet are left out
 * @throws Refusal `invalid_field` for a cursor that was not handed out
 */
export async function readEvents(
  ctx: Context,
  reader: Reader,
  after: number | undefined,
  limit: number,
  peek = false,
): Promise<EventPage> {
  const { seq, more } = peek
    ? { seq: (await ctx.events.readProgress(reader._id)).seq, more: false }
    : await numberEvents(ctx, reader)
  if (after === undefined) return { events: [], next: seq, more, truncated: false }
  if (after > seq)
    throw new Refusal(
      'invalid_field',
      `after is ahead of your last event, ${seq}: the service has not given it to you, or has been set back to an earlier copy; go on after ${seq}.`,
      { field: 'after' },
    )
  const events = await ctx.events.list(reader._id, after, limit)
  const [first, last] = [events.at(0), events.at(-1)]
  const next = last === undefined ? seq : seqOf(last)
  const truncated = first === undefined ? seq > after : seqOf(first) > after + 1
  return { events, next, more: more || next < seq, truncated }
}
