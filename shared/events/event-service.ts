import type { Context } from '../context.ts'
import { change } from '../platform/change.ts'
import { orOvertaken } from '../platform/database.ts'
import { invalidField } from '../platform/errors.ts'
import { HOUR_MS, isoTime } from '../platform/time.ts'
import { seqOf, type EventRecord } from './event.ts'
import type { EventProgress } from './event-store.ts'
import type { EventMark } from './mark.ts'

type EventContext = Pick<Context, 'database' | 'events'>

/** The agent whose events are read, as authentication knows it. */
export interface Reader {
  _id: string
  pass_until_ms?: number
}

/** The most transactions in which one call numbers marks: what one request has time for. */
const MAX_BATCHES = 8
/** Each time an agent has had this many more events, those beyond the kept number are removed. */
const FORGET_EVERY = 500

/**
 * Numbers the marks for an agent, so that they become its events; also one for a pass that ends soon.
 *
 * @returns the number of its last event, which a majority has, and whether marks are left
 */
export async function numberEvents(ctx: EventContext, reader: Reader): Promise<Numbered> {
  let numbered = await numberBatch(ctx, reader)
  for (let batch = 1; numbered.more && batch < MAX_BATCHES; batch++) numbered = await numberBatch(ctx, reader)
  return numbered
}

/** The number of an agent's last event, and whether marks are left. */
interface Numbered {
  seq: number
  more: boolean
}

/** Numbers the oldest marks for an agent, in one transaction. */
const numberBatch = (ctx: EventContext, reader: Reader): Promise<Numbered> =>
  change({
    now: () => ctx.database.now(),
    read: () => ctx.events.readProgress(reader._id),
    decide: (progress, nowMs) => ({ nowMs, passEnding: passEndingMark(reader, progress, nowMs) }),
    async store({ nowMs, passEnding }, { seq, marked }) {
      if (marked.size === 0 && passEnding === undefined) return { seq, more: false }
      const numbering = ctx.database.transaction((session) =>
        ctx.events.numberMarks(reader._id, marked, passEnding, nowMs, session),
      )
      const numbered = await orOvertaken(numbering)
      if (Math.floor(numbered.seq / FORGET_EVERY) > Math.floor(seq / FORGET_EVERY))
        await ctx.events.expireOld(reader._id, numbered.seq)
      return numbered
    },
  })

/** Time to buy the next days, and well within a pass of one day, of which it would say nothing at its beginning. */
const PASS_ENDING_MS = 6 * HOUR_MS

/**
 * Returns the mark that says that the agent's pass ends within PASS_ENDING_MS, or has ended, with that end; undefined
 * if the pass ends later, or an event has said so. No record has this mark: nothing is written at that time.
 */
function passEndingMark(
  { _id: to, pass_until_ms: untilMs }: Reader,
  { passToldMs }: EventProgress,
  nowMs: number,
): { mark: EventMark; passToldMs: number } | undefined {
  if (untilMs === undefined || passToldMs === untilMs || untilMs - PASS_ENDING_MS > nowMs) return undefined
  const fields = { pass_until: isoTime(untilMs) }
  return {
    mark: { to, at_ms: untilMs - PASS_ENDING_MS, kind: 'pass_ending', id: to, fields },
    passToldMs: untilMs,
  }
}

export interface EventPage {
  events: EventRecord[]
  /** The number of the last event up to here: the cursor to go on after. */
  next: number
  /** Whether there are events behind these. */
  more: boolean
  /** Whether events between the cursor and these are no longer kept. */
  truncated: boolean
}

/**
 * Reads an agent's events after a cursor, each once and in one order. The agent's marks are numbered first.
 *
 * @param after number of an event; if absent, the page has no events, only a cursor to begin from
 * @param peek true: numbers no marks, so events that nobody has asked for yet are left out
 * @throws Refusal `invalid_field` for a cursor ahead of the last event
 */
export async function readEvents(
  ctx: EventContext,
  reader: Reader,
  after: number | undefined,
  limit: number,
  peek = false,
): Promise<EventPage> {
  const { seq: knownSeq, more } = peek
    ? { seq: (await ctx.events.readProgress(reader._id)).seq, more: false }
    : await numberEvents(ctx, reader)
  if (after === undefined) return { events: [], next: knownSeq, more, truncated: false }
  // A new primary may know less at first than the one that gave out the cursor.
  const seq = after > knownSeq ? await ctx.events.readSeqSurely(reader._id) : knownSeq
  if (after > seq)
    throw invalidField(
      'after',
      `after is ahead of your last event, ${seq}: the service has not given it to you, or has been set back to an earlier copy; go on after ${seq}.`,
    )
  const { events, upTo } = await listEvents(ctx, reader._id, { after, seq }, limit)
  const [first, last] = [events.at(0), events.at(-1)]
  const next = last === undefined ? Math.max(upTo, after) : seqOf(last)
  const truncated = first === undefined ? upTo > after : seqOf(first) > after + 1
  return { events, next, more: more || next < seq, truncated }
}

/**
 * Lists an agent's events between two numbers, or some more. If there are fewer than numbers, events have
 * expired, or this primary knows less than the one that answered before: they are read again with the number
 * up to which this one knows them.
 *
 * @returns `upTo`: what is missing up to here has expired
 */
async function listEvents(
  ctx: EventContext,
  agentId: string,
  { after, seq }: { after: number; seq: number },
  limit: number,
): Promise<{ events: EventRecord[]; upTo: number }> {
  const events = await ctx.events.list(agentId, after, limit)
  if (events.length >= Math.min(limit, seq - after)) return { events, upTo: seq }
  return ctx.database.inOrder(async (session) => {
    const upTo = await ctx.events.readSeq(agentId, session)
    return { events: await ctx.events.list(agentId, after, limit, session), upTo }
  })
}
