import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createWaits } from '../../api/waits.ts'
import type { Context } from '../../shared/context.ts'
import { SECOND_MS } from '../../shared/platform/time.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** An agent waits, and others see a mark for it `writeMs` after its time. @returns how much later the wait ends */
async function delayOf(writeMs: number): Promise<number> {
  const markedAtMs = Date.now() + 2 * SECOND_MS
  const isStored = (): boolean => Date.now() >= markedAtMs + writeMs
  const listNews = (sinceMs: number) =>
    Promise.resolve({
      marked: new Set(isStored() && markedAtMs >= sinceMs ? ['agt_1'] : []),
      numbered: new Map(),
    })
  const waits = createWaits({ events: { listNews }, database: { now: Date.now } } as unknown as Context)
  const look = () => Promise.resolve({ found: isStored(), seq: Number(isStored()) })
  let endedAtMs = 0
  const waiting = waits
    .wait('agt_1', 60, look, new AbortController().signal)
    .then(() => (endedAtMs = Date.now()))
  await vi.advanceTimersByTimeAsync(61 * SECOND_MS)
  await waiting
  waits.end()
  return endedAtMs - markedAtMs - writeMs
}

test('a wait ends within half a second of a write that took up to two, and within six of any that may be', async () => {
  for (const writeMs of [10, 900, 1_900])
    expect([writeMs, (await delayOf(writeMs)) <= 500]).toEqual([writeMs, true])
  for (const writeMs of [4_000, 9_000])
    expect([writeMs, (await delayOf(writeMs)) <= 6_000]).toEqual([writeMs, true])
})

test('a wait ends when another process has numbered what it waited for', async () => {
  let seq = 0
  const listNews = () => Promise.resolve({ marked: new Set(), numbered: new Map([['agt_1', seq]]) })
  const waits = createWaits({ events: { listNews }, database: { now: Date.now } } as unknown as Context)
  let looks = 0
  const look = () => Promise.resolve({ found: (looks++, seq > 0), seq })
  const waiting = waits.wait('agt_1', 60, look, new AbortController().signal)
  await vi.advanceTimersByTimeAsync(10 * SECOND_MS)
  // What it has seen doesn't wake it again.
  expect(looks).toBe(1)
  seq = 1
  await vi.advanceTimersByTimeAsync(500)
  await waiting
  expect(looks).toBe(2)
  waits.end()
})
