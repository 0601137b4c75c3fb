import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createWaits } from '../../api/http/waits.ts'
import type { Context } from '../../shared/context.ts'
import { makeMark } from '../../shared/events/mark.ts'
import { SECOND_MS } from '../../shared/platform/time.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** Waits over a working channel for hints, on a database that has the agent's event from `storedAtMs` on. */
function waitForEvent(storedAtMs: () => number) {
  const seq = (): number => (performance.now() >= storedAtMs() ? 1 : 0)
  const waits = createWaits({
    queues: { listenToHints: () => ({ isUp: () => true, close: () => undefined }) },
    events: {
      readProgress: (agentId: string) => Promise.resolve({ agentId, seq: seq(), marked: new Map() }),
    },
  } as unknown as Context)
  let isOver = false
  const look = () => Promise.resolve({ found: seq() > 0, seq: seq() })
  const waiting = waits.wait('agt_1', 60, look, new AbortController().signal).then(() => (isOver = true))
  return { isOver: () => isOver, waiting, end: waits.end }
}

test('a wait ends within three seconds of a mark, however long its write takes of them', async () => {
  for (const writeMs of [10, 500, 2_500]) {
    let storedAtMs = Number.POSITIVE_INFINITY
    const { isOver, waiting, end } = waitForEvent(() => storedAtMs)
    // The look for all agents is over, and the next one comes in fifteen seconds.
    await vi.advanceTimersByTimeAsync(2 * SECOND_MS)
    storedAtMs = performance.now() + writeMs
    makeMark('agt_1', 'order', 'mkt_1')
    await vi.advanceTimersByTimeAsync(3 * SECOND_MS)
    expect([writeMs, isOver()]).toEqual([writeMs, true])
    await waiting
    end()
  }
})
