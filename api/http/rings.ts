import type { Socket } from 'node:net'
import { SECOND_MS } from '../../shared/platform/time.ts'

/** Who takes turns: an agent by its id, or a connection that has sent no known token. */
export type Caller = string | Socket

/** What waits for its turn. */
export interface Waiting {
  caller: Caller
  weight: number
  begin(): void
}

/** What waits of each caller, in the order in which the callers have their turns. */
export interface Ring {
  add(waiting: Waiting): void
  remove(waiting: Waiting): void
  /** Takes the next one; undefined if there is none, or it may not begin. */
  take(): Waiting | undefined
}

/** Creates a ring with nothing in it. @param mayBegin whether what is next may have its turn now */
export function createRing(mayBegin: (next: Waiting) => boolean): Ring {
  const callers = new Map<Caller, Set<Waiting>>()
  return {
    add(waiting) {
      const ofCaller = callers.get(waiting.caller) ?? new Set()
      callers.set(waiting.caller, ofCaller.add(waiting))
    },
    remove(waiting) {
      const ofCaller = callers.get(waiting.caller)
      ofCaller?.delete(waiting)
      if (ofCaller?.size === 0) callers.delete(waiting.caller)
    },
    take() {
      const [entry] = callers
      const [next] = entry?.[1] ?? []
      if (entry === undefined || next === undefined || !mayBegin(next)) return undefined
      const [caller, ofCaller] = entry
      ofCaller.delete(next)
      // At the end, if it has more.
      callers.delete(caller)
      if (ofCaller.size > 0) callers.set(caller, ofCaller)
      return next
    },
  }
}

/** How often the counts of turns are halved. */
const HALVED_EVERY_MS = SECOND_MS

/** Counts the turns of each caller; a turn counts half after a second, and so on. */
export function createTurnCounts(): { add(caller: Caller): void; of(caller: Caller): number } {
  const counts = new Map<Caller, number>()
  let halvedAtMs = performance.now()
  const halve = (): void => {
    const times = Math.floor((performance.now() - halvedAtMs) / HALVED_EVERY_MS)
    if (times === 0) return
    halvedAtMs += times * HALVED_EVERY_MS
    for (const [caller, count] of counts) {
      const left = count / 2 ** times
      if (left < 1) counts.delete(caller)
      else counts.set(caller, left)
    }
  }
  return {
    add(caller) {
      halve()
      counts.set(caller, (counts.get(caller) ?? 0) + 1)
    },
    of: (caller) => counts.get(caller) ?? 0,
  }
}
