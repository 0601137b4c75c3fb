import { makeMark, type EventMark } from '../events/mark.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../platform/time.ts'
import type { DoorbellRecord, QuietHours } from './doorbell.ts'

/*
 * What becomes of a doorbell, as data: times are parameters, and nothing is read or written.
 */

/** The pauses between tries begin with this and double, so that there are eleven within the hour. */
const FIRST_PAUSE_MS = 2 * SECOND_MS
/** So long a ring is tried. */
export const TRIED_FOR_MS = HOUR_MS
/** A doorbell that has not answered for so long is off. */
export const OFF_AFTER_MS = 7 * DAY_MS
/** Longer than a ring takes: if its process dies, another tries it then. */
const CLAIMED_MS = 10 * SECOND_MS
/** Processes know the database's clock to some milliseconds: by another's a ring may be due a little later. */
const EARLY_MS = SECOND_MS / 2
/** A ring that took longer is kept apart from others. */
const SLOW_MS = SECOND_MS / 2

/** What changes: fields that get a value, those that go, and what the agent is told. */
export interface DoorbellStep {
  set: Partial<Omit<DoorbellRecord, '_id' | 'tells'>>
  unset: readonly OptionalField[]
  tells: readonly EventMark[]
}
type OptionalField = 'due_ms' | 'begun_ms' | 'failing_ms' | 'failure' | 'slow' | 'secret'

const step = (
  set: DoorbellStep['set'],
  unset: readonly OptionalField[] = [],
  tells: readonly EventMark[] = [],
): DoorbellStep => ({ set, unset, tells })

/** Takes off the ring that was due. */
const NOT_DUE: readonly OptionalField[] = ['due_ms', 'begun_ms']
const ANSWERS: readonly OptionalField[] = ['failing_ms', 'failure']

/** Minutes since midnight of a time of day. */
const minutesOf = (hour: string): number => Number(hour.slice(0, 2)) * 60 + Number(hour.slice(3))

/** Returns the time itself, or when the quiet hours end that it lies in. If both hours are the same, none are quiet. */
export function afterQuiet(atMs: number, quiet: QuietHours | undefined): number {
  if (quiet === undefined) return atMs
  const [from, to] = [minutesOf(quiet.from) * MINUTE_MS, minutesOf(quiet.to) * MINUTE_MS]
  const inDayMs = atMs % DAY_MS
  const sinceFromMs = (inDayMs - from + DAY_MS) % DAY_MS
  const lengthMs = (to - from + DAY_MS) % DAY_MS
  return sinceFromMs < lengthMs ? atMs + (lengthMs - sinceFromMs) : atMs
}

/** An event that should ring, by its time, and the number of its agent's last event that is numbered. */
export interface News {
  atMs: number
  seq: number
}

/**
 * There is an event that its agent hasn't asked for. It is one to ring for if it is newer than the last ring, or
 * the agent has asked for its events since that ring. Nothing rings more often than once an interval.
 */
export function onNews(
  bell: DoorbellRecord,
  { atMs, seq }: News,
  nowMs: number,
  intervalMs: number,
): DoorbellStep | undefined {
  if (bell.state !== 'on') return undefined
  if (atMs <= (bell.rung_ms ?? 0) && seq <= (bell.rung_seq ?? 0)) return undefined
  const set = { news_ms: Math.max(atMs, bell.news_ms ?? 0), news_seq: seq }
  if (bell.due_ms === undefined) {
    const fromMs = Math.max(atMs, (bell.tried_ms ?? 0) + intervalMs)
    const loudMs = afterQuiet(Math.max(nowMs, fromMs), bell.quiet_hours)
    // Due since the event, though it is found later: so it can be said how late a ring is.
    return step({ ...set, due_ms: loudMs > nowMs ? loudMs : fromMs })
  }
  return set.news_ms === bell.news_ms && seq === bell.news_seq ? undefined : step(set)
}

/** The agent has asked for its events at this time: it needs no ring for what came before. */
export function onAsked(bell: DoorbellRecord, askedMs: number): DoorbellStep | undefined {
  if (bell.state === 'silent' && askedMs > (bell.tried_ms ?? 0)) return step({ state: 'on' }, NOT_DUE)
  if (bell.state === 'on' && bell.due_ms !== undefined && askedMs >= (bell.news_ms ?? 0))
    return step({ tries: 0 }, NOT_DUE)
  return undefined
}

/** Before it is tried. Undefined if nothing is due, or it has been claimed. */
export function onTry(bell: DoorbellRecord, nowMs: number): DoorbellStep | undefined {
  const isRinging = bell.state === 'on' || bell.state === 'unproven'
  if (!isRinging || bell.due_ms === undefined || bell.due_ms > nowMs + EARLY_MS) return undefined
  return step({
    due_ms: nowMs + CLAIMED_MS,
    tried_ms: nowMs,
    begun_ms: bell.begun_ms ?? nowMs,
    tries: bell.tries + 1,
  })
}

/** How a try went. */
export type Outcome = { kind: 'arrived'; tookMs: number } | { kind: 'failed'; why: string }

/**
 * After it was tried: a challenge that was answered proves it, a ring that arrived is done unless there is news
 * since. What failed is tried again with growing pauses for an hour.
 */
export function onOutcome(
  bell: DoorbellRecord,
  outcome: Outcome,
  nowMs: number,
  intervalMs: number,
): DoorbellStep {
  if (outcome.kind === 'failed') return onFailure(bell, outcome.why, nowMs)
  const { tried_ms: triedMs = nowMs } = bell
  const isSlow = outcome.tookMs > SLOW_MS
  const set = { tries: 0, ...(isSlow ? { slow: true as const } : {}) }
  const unset = [...ANSWERS, 'begun_ms' as const, ...(isSlow ? [] : ['slow' as const])]
  if (bell.state === 'unproven') return step({ ...set, state: 'on' }, [...unset, 'due_ms', 'secret'])
  const rung = { ...set, rung_ms: triedMs, rung_seq: bell.news_seq ?? 0 }
  if ((bell.news_ms ?? 0) <= triedMs) return step(rung, [...unset, 'due_ms'])
  return step({ ...rung, due_ms: afterQuiet(Math.max(nowMs, triedMs + intervalMs), bell.quiet_hours) }, unset)
}

function onFailure(bell: DoorbellRecord, failure: string, nowMs: number): DoorbellStep {
  const failingMs = bell.failing_ms ?? bell.tried_ms ?? nowMs
  const failed = { failure, failing_ms: failingMs, slow: true as const }
  if (bell.state === 'on' && nowMs - failingMs >= OFF_AFTER_MS) return switchOff(bell, failed)
  const nextMs = nowMs + FIRST_PAUSE_MS * 2 ** (bell.tries - 1)
  if (nextMs - (bell.begun_ms ?? nowMs) <= TRIED_FOR_MS)
    return step({ ...failed, due_ms: afterQuiet(nextMs, bell.state === 'on' ? bell.quiet_hours : undefined) })
  // An unproven one waits until it is set again.
  return step({ ...failed, tries: 0, ...(bell.state === 'on' ? { state: 'silent' as const } : {}) }, NOT_DUE)
}

/** Time has passed. */
export const onTime = (bell: DoorbellRecord, nowMs: number): DoorbellStep | undefined =>
  (bell.state === 'on' || bell.state === 'silent') &&
  bell.failing_ms !== undefined &&
  nowMs - bell.failing_ms >= OFF_AFTER_MS
    ? switchOff(bell, {})
    : undefined

const switchOff = (bell: DoorbellRecord, set: DoorbellStep['set']): DoorbellStep =>
  step({ ...set, state: 'off', tries: 0 }, NOT_DUE, [
    makeMark(bell._id, 'doorbell', bell._id, { state: 'off' }),
  ])
