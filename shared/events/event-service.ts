import type { Context } from '../context.ts'
import { Refusal } from '../foundation/errors.ts'
import { unlessOvertaken } from '../servers/database.ts'
import { DAY_MS, isoTime } from '../foundation/time.ts'
import type { EventRecord } from './event.ts'
import { seqOf } from './event.ts'
import type { Told } from './event-store.ts'
import { hint, type EventMark } from './mark.ts'

/** Whose events: what authentication knows of it. */
export interface Reader {
  _id: string
  pass_until_ms?: number
}

/** Batches numbered for one look: what one request has time for. */
const BATCHES = 8
/** How often what is too old is looked for, in numbers. */
const FORGET_EVERY = 500

/**
 * Numbers what waits to be told to an agent.
 *
 * @returns the number of its last event, which a majority has, and whether more waits
 */
export async function numberEvents(ctx: Context, reader: Reader): Promise<{ seq: number; more: boolean }> {
  let told = await ctx.events.look(reader._id)
  for (let batch = 0; batch < BATCHES; batch++) {
    const due = passEnding(ctx, reader, told)
    if (told.marked.size === 0 && due === undefined) return { seq: told.seq, more: false }
    const before = told.seq
    const numbered = { seq: before, more: false }
    const isStored = await unlessOvertaken(
      ctx.database.transaction(async (session) => {
        Object.assign(
          numbered,
          await ctx.events.number(reader._id, told.marked, due, ctx.databaseNow(), session),
        )
      }),
    )
    if (isStored && numbered.seq > before) {
      // Others may wait for the same agent, in other processes too.
      hint(reader._id)
      if (Math.floor(numbered.seq / FORGET_EVERY) > Math.floor(before / FORGET_EVERY))
        await ctx.events.forget(reader._id, numbered.seq)
    }
    if (isStored && !numbered.more) return numbered
    told = await ctx.events.look(reader._id)
  }
  return { seq: told.seq, more: true }
}

/** That a pass ends within a day: what no record tells of, since nothing is written then. */
function passEnding(
  ctx: Context,
  { _id, pass_until_ms: untilMs }: Reader,
  { passToldMs }: Told,
): { mark: EventMark; passToldMs: number } | undefined {
  if (untilMs === undefined || passToldMs === untilMs || untilMs - DAY_MS > ctx.databaseNow())
    return undefined
  const fields = { pass_until: isoTime(untilMs) }
  return {
    mark: { to: _id, at_ms: untilMs - DAY_MS, kind: 'pass_ending', id: _id, fields },
    passToldMs: untilMs,
  }
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
 * @param after absent: none, and a cursor to begin from
 * @param peek nothing is numbered, so what nobody has asked for yet is left out
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
    ? { seq: (await ctx.events.look(reader._id)).seq, more: false }
    : await numberEvents(ctx, reader)
  if (after === undefined) return { events: [], next: seq, more, truncated: false }
  if (after > seq)
    throw new Refusal(
      'invalid_field',
      `after is ahead of your last event, ${seq}: the service has not given it to you, or has been set back to an earlier copy; go on after ${seq}.`,
      { field: 'after' },
    )
  const events = await ctx.events.list(reader._id, after, limit)
  const first = events[0]
  const next = events.length === 0 ? seq : seqOf(events.at(-1) as EventRecord)
  return {
    events,
    next,
    more: more || next < seq,
    truncated: first === undefined ? seq > after : seqOf(first) > after + 1,
  }
}
