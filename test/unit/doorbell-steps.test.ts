import { describe, expect, it } from 'vitest'
import type { DoorbellRecord } from '../../shared/doorbells/doorbell.ts'
import {
  afterQuiet,
  OFF_AFTER_MS,
  onAsked,
  onNews,
  onOutcome,
  onTime,
  onTry,
  TRIED_FOR_MS,
  type DoorbellStep,
} from '../../shared/doorbells/doorbell-steps.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../shared/platform/time.ts'

const INTERVAL_MS = MINUTE_MS
const NOW = Date.parse('2026-03-01T12:00:00Z')
const BELL: DoorbellRecord = {
  _id: 'agt_1',
  rev: 'r',
  url: 'https://bell.example/',
  kinds: ['message'],
  at: NOW / 1_000,
  state: 'on',
  tries: 0,
}
const after = (bell: DoorbellRecord, step: DoorbellStep | undefined): DoorbellRecord => {
  if (step === undefined) return bell
  const changed = { ...bell, ...step.set }
  for (const name of step.unset) delete changed[name]
  return changed
}
const arrived = { kind: 'arrived', tookMs: 10 } as const
const failed = { kind: 'failed', why: 'no' } as const
const news = (bell: DoorbellRecord, atMs: number, nowMs = atMs, seq = 0) =>
  after(bell, onNews(bell, { atMs, seq }, nowMs, INTERVAL_MS))
const tried = (bell: DoorbellRecord, nowMs: number) => after(bell, onTry(bell, nowMs))
const ended = (bell: DoorbellRecord, outcome: typeof arrived | typeof failed, nowMs: number) =>
  after(bell, onOutcome(bell, outcome, nowMs, INTERVAL_MS))

describe('a doorbell', () => {
  it('rings at once for the first event, and is done when the ring arrives', () => {
    const due = news(BELL, NOW)
    expect(due.due_ms).toBe(NOW)
    const done = ended(tried(due, NOW + 5), arrived, NOW + 20)
    expect(done).toMatchObject({ rung_ms: NOW + 5, tries: 0, state: 'on' })
    expect(done.due_ms).toBeUndefined()
  })

  it('is due since its event, though that is found later, unless the hours are quiet by then', () => {
    expect(news(BELL, NOW, NOW + 5 * SECOND_MS).due_ms).toBe(NOW)
    const evening = { ...BELL, quiet_hours: { from: '12:00', to: '13:00' } }
    expect(news(evening, NOW - SECOND_MS, NOW + SECOND_MS).due_ms).toBe(NOW + HOUR_MS)
  })

  it('rings for what comes within an interval once, when it is over', () => {
    let bell = ended(tried(news(BELL, NOW), NOW), arrived, NOW + 20)
    for (const at of [1, 2, 3]) bell = news(bell, NOW + at * SECOND_MS)
    expect(bell.due_ms).toBe(NOW + INTERVAL_MS)
    expect(onTry(bell, NOW + INTERVAL_MS - SECOND_MS)).toBeUndefined()
    bell = ended(tried(bell, NOW + INTERVAL_MS), arrived, NOW + INTERVAL_MS + 1)
    expect(bell.due_ms).toBeUndefined()
  })

  it('is due again if something came while it was ringing', () => {
    const ringing = tried(news(BELL, NOW), NOW)
    const bell = ended(news(ringing, NOW + 1), arrived, NOW + 30)
    expect(bell.due_ms).toBe(NOW + INTERVAL_MS)
  })

  it('does not ring again for an event that it has rung for, however often that is found', () => {
    const bell = ended(tried(news(BELL, NOW), NOW + 5), arrived, NOW + 20)
    expect(onNews(bell, { atMs: NOW, seq: 0 }, NOW + SECOND_MS, INTERVAL_MS)).toBeUndefined()
  })

  it('rings for an older event that its agent did not get when it asked after the ring', () => {
    const bell = ended(tried(news(BELL, NOW), NOW + 5), arrived, NOW + 20)
    expect(news(bell, NOW - 1, NOW + SECOND_MS, 1).due_ms).toBe(NOW + 5 + INTERVAL_MS)
  })

  it('needs no ring once its agent has asked for what it was to ring for', () => {
    const due = news(BELL, NOW)
    expect(onAsked(due, NOW - 1)).toBeUndefined()
    expect(after(due, onAsked(due, NOW + 1)).due_ms).toBeUndefined()
  })

  it('is tried by a process whose clock is a little behind that of the one that found it due', () => {
    expect(onTry(news(BELL, NOW), NOW - 20)).toBeDefined()
  })

  it('is claimed by one try at a time, and by another if that one does not end', () => {
    const ringing = tried(news(BELL, NOW), NOW)
    expect(onTry(ringing, NOW + 1)).toBeUndefined()
    expect(onTry(ringing, NOW + 10 * SECOND_MS)).toBeDefined()
  })

  // holds: rules.doorbells.statements.a_ring_that_fails_is_tried
  it('is tried with growing pauses for an hour, then silent until its agent asks', () => {
    let bell = news(BELL, NOW)
    const tries: number[] = []
    while (bell.due_ms !== undefined) {
      const nowMs = bell.due_ms
      tries.push((nowMs - NOW) / SECOND_MS)
      bell = ended(tried(bell, nowMs), failed, nowMs)
    }
    expect(tries).toEqual([0, 2, 6, 14, 30, 62, 126, 254, 510, 1022, 2046])
    expect(tries.at(-1)).toBeLessThanOrEqual(TRIED_FOR_MS / SECOND_MS)
    expect(bell).toMatchObject({ state: 'silent', failure: 'no', failing_ms: NOW })
    expect(onNews(bell, { atMs: NOW + DAY_MS, seq: 9 }, NOW + DAY_MS, INTERVAL_MS)).toBeUndefined()
    expect(onAsked(bell, bell.tried_ms ?? 0)).toBeUndefined()
    const asked = after(bell, onAsked(bell, NOW + 2 * HOUR_MS))
    expect(asked).toMatchObject({ state: 'on', failing_ms: NOW })
    const again = news(asked, NOW + 3 * HOUR_MS)
    expect(again.due_ms).toBe(NOW + 3 * HOUR_MS)
    expect(ended(tried(again, NOW + 3 * HOUR_MS), arrived, NOW + 3 * HOUR_MS).failing_ms).toBeUndefined()
  })

  it('is off after a week without a ring that arrived, and its agent is told', () => {
    const failing: DoorbellRecord = { ...BELL, failing_ms: NOW, state: 'silent' }
    expect(onTime(failing, NOW + OFF_AFTER_MS - 1)).toBeUndefined()
    const step = onTime(failing, NOW + OFF_AFTER_MS)
    expect(step).toMatchObject({ set: { state: 'off' } })
    expect(step?.tells).toMatchObject([
      { to: 'agt_1', kind: 'doorbell', id: 'agt_1', fields: { state: 'off' } },
    ])
    const late = tried({ ...failing, state: 'on', due_ms: NOW + OFF_AFTER_MS }, NOW + OFF_AFTER_MS)
    expect(onOutcome(late, failed, NOW + OFF_AFTER_MS, INTERVAL_MS)).toMatchObject({
      set: { state: 'off' },
      tells: [{ kind: 'doorbell' }],
    })
    const off: DoorbellRecord = { ...failing, state: 'off' }
    expect(onTime(off, NOW + 2 * OFF_AFTER_MS)).toBeUndefined()
    expect(onAsked(off, NOW + 2 * OFF_AFTER_MS)).toBeUndefined()
    expect(onNews(off, { atMs: NOW * 2, seq: 9 }, NOW, INTERVAL_MS)).toBeUndefined()
  })

  it('that is not proven is tried for an hour and rings for no event', () => {
    let bell: DoorbellRecord = { ...BELL, state: 'unproven', secret: 's', due_ms: NOW }
    expect(onNews(bell, { atMs: NOW, seq: 0 }, NOW, INTERVAL_MS)).toBeUndefined()
    const proven = ended(tried(bell, NOW), arrived, NOW)
    expect(proven).toMatchObject({ state: 'on' })
    expect([proven.secret, proven.due_ms, proven.rung_ms]).toEqual([undefined, undefined, undefined])
    while (bell.due_ms !== undefined) bell = ended(tried(bell, bell.due_ms), failed, bell.due_ms)
    expect(bell.state).toBe('unproven')
    expect(onTime(bell, NOW + 2 * OFF_AFTER_MS)).toBeUndefined()
  })

  it('that was slow or failed waits apart, until it is fast again', () => {
    const ringing = tried(news(BELL, NOW), NOW)
    const slow = after(ringing, onOutcome(ringing, { kind: 'arrived', tookMs: 900 }, NOW, INTERVAL_MS))
    expect(slow.slow).toBe(true)
    expect(ended(ringing, failed, NOW).slow).toBe(true)
    expect(ended({ ...ringing, slow: true }, arrived, NOW).slow).toBeUndefined()
  })
})

describe('quiet hours', () => {
  const at = (time: string) => Date.parse(`2026-03-01T${time}Z`)
  it.each([
    ['21:59:59', '22:00', '06:00', '21:59:59'],
    ['22:00:00', '22:00', '06:00', '+06:00'],
    ['23:59:59', '22:00', '06:00', '+06:00'],
    ['05:59:59', '22:00', '06:00', '06:00'],
    ['06:00:00', '22:00', '06:00', '06:00'],
    ['12:30:00', '12:00', '13:00', '13:00'],
    ['13:00:00', '12:00', '13:00', '13:00'],
    ['00:00:00', '00:00', '23:59', '23:59'],
    ['12:00:00', '12:00', '12:00', '12:00'],
  ])('put %s off from %s to %s until %s', (time, from, to, until) => {
    const expected = until.startsWith('+')
      ? at(`${until.slice(1)}:00`) + DAY_MS
      : at(until.length === 5 ? `${until}:00` : until)
    expect(afterQuiet(at(time), { from, to })).toBe(expected)
  })
})
