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

/** A turn counts half after this time, a quarter after twice as long, and so on. */
const HALF_LIFE_MS = 8 * SECOND_MS
/** Agents whose turns are counted; the counts of connections end with these. */
const MAX_AGENTS = 20_000

/** Counts the turns that each caller has had lately. */
export function createTurnCounts(): { add(caller: Caller): void; of(caller: Caller): number } {
  type Counted = { count: number; atMs: number }
  const ofAgents = new Map<string, Counted>()
  const ofConnections = new WeakMap<Socket, Counted>()
  const countOf = (caller: Caller, nowMs: number): number => {
    const counted = typeof caller === 'string' ? ofAgents.get(caller) : ofConnections.get(caller)
    return counted === undefined ? 0 : counted.count * 2 ** ((counted.atMs - nowMs) / HALF_LIFE_MS)
  }
  return {
    add(caller) {
      const nowMs = performance.now()
      const counted = { count: countOf(caller, nowMs) + 1, atMs: nowMs }
      if (typeof caller !== 'string') return void ofConnections.set(caller, counted)
      if (ofAgents.size >= MAX_AGENTS) ofAgents.clear()
      ofAgents.set(caller, counted)
    },
    of: (caller) => countOf(caller, performance.now()),
  }
}
