import type { Socket } from 'node:net'
import { Refusal } from '../../shared/foundation/errors.ts'
import {
  BEGUN_IN_A_PASS,
  CALLERS_SHARE,
  MAX_UNDER_WAY,
  MAX_WEIGHT_AT_ONCE,
  RETRY_AFTER_SECONDS,
} from '../../shared/foundation/limits.ts'

/*
 * The gate in front of the handlers of one API process. A process has one thread, and between two passes of
 * its event loop it takes one new connection: so passes must stay short, whoever asks for what.
 *
 * The unit is a turn: what begins with it keeps the thread busy for less than a millisecond. It may be the
 * beginning of a request, refused ones included, or the next part of a long answer. A pass gives a few turns
 * to each line, by turns over the line's callers. So a caller waits for others' turns, and never for others'
 * requests; and since a connection sends its next request after its answer, a flood is slowed down by
 * waiting.
 *
 * What holds much memory, or keeps the database busy, has a weight that is known before it begins; of that, a
 * line has only so much under way.
 */

/** Who takes turns: an agent by its id, or a connection that has sent no known token. */
export type Caller = string | Socket

/**
 * The lines have turns of their own, so a crowd in one doesn't delay another: agents, registrations that have
 * shown their work, and everybody else.
 */
export type LineName = keyof typeof BEGUN_IN_A_PASS

export type RequestKind = keyof typeof MAX_UNDER_WAY

/** For whom something takes its turn. */
export interface Visitor {
  line: LineName
  caller: Caller
  /** Takes what waits out of the line when it is aborted. */
  signal?: AbortSignal | undefined
}

export interface Gate {
  /**
   * Runs a part of a request's work when its turn has come, and returns its result.
   *
   * @throws Refusal `unavailable` if as many of its kind are under way as the process, or one agent, may have;
   *   the reason of the visitor's signal if that is aborted before
   */
  run<T>(visitor: Visitor, kind: RequestKind, part: () => Promise<T>): Promise<T>
  /** The same for what weighs something, within run(): it begins when its line has room for its weight. */
  runWeighty<T>(visitor: Visitor, weight: number, part: () => Promise<T>): Promise<T>
  /**
   * The same for work that can't be divided, such as parsing a long body. Afterwards its line rests for as long
   * as the work took, so that others have at least half of the process.
   */
  runWhole<T>(visitor: Visitor, work: () => T): Promise<T>
  /** Resolves when the visitor's next turn has come: for the next part of work that is under way. */
  next(visitor: Visitor): Promise<void>
}

/** Returns the refusal `unavailable` of a request for which there is no room and nothing was done. */
export function overloaded(): Refusal {
  return new Refusal(
    'unavailable',
    `The service has as much under way as it can hold, and did nothing with this request; try again in ${RETRY_AFTER_SECONDS} s.`,
    { countedAs: 'no_room' },
  )
}

/** Creates the gate of one process. */
export function createGate(maxUnderWay: Record<RequestKind, number> = MAX_UNDER_WAY): Gate {
  const lines: Record<LineName, Line> = {
    agents: createLine(BEGUN_IN_A_PASS.agents),
    proofs: createLine(BEGUN_IN_A_PASS.proofs),
    open: createLine(BEGUN_IN_A_PASS.open),
  }
  const underWay = { reads: 0, writes: 0 }
  const underWayOf = { reads: new Map<Caller, number>(), writes: new Map<Caller, number>() }
  return {
    async run({ line, caller, signal }, kind, part) {
      await lines[line].wait(caller, 0, 'last', signal)
      const ofCaller = underWayOf[kind].get(caller) ?? 0
      if (underWay[kind] >= maxUnderWay[kind] || ofCaller >= Math.ceil(maxUnderWay[kind] / CALLERS_SHARE))
        throw overloaded()
      underWay[kind]++
      underWayOf[kind].set(caller, ofCaller + 1)
      try {
        return await part()
      } finally {
        underWay[kind]--
        const left = (underWayOf[kind].get(caller) ?? 1) - 1
        if (left > 0) underWayOf[kind].set(caller, left)
        else underWayOf[kind].delete(caller)
      }
    },
    async runWeighty({ line, caller, signal }, weight, part) {
      await lines[line].wait(caller, weight, 'last', signal)
      try {
        return await (signal === undefined ? part() : untilAborted(part(), signal))
      } finally {
        lines[line].putDown(weight)
      }
    },
    async runWhole({ line, caller, signal }, work) {
      await lines[line].wait(caller, 0, 'first', signal)
      const startedAt = performance.now()
      try {
        return work()
      } finally {
        lines[line].rest(performance.now() - startedAt)
      }
    },
    next: ({ line, caller, signal }) => lines[line].wait(caller, 0, 'first', signal),
  }
}

/** Something that waits for its turn. */
interface Waiting {
  weight: number
  begin(): void
}

/** Callers that take turns. */
interface Line {
  /**
   * Resolves when the caller's turn has come and the line has room for the weight, which it then holds.
   *
   * @param place before or behind what else waits for this caller
   */
  wait(
    caller: Caller,
    weight: number,
    place: 'first' | 'last',
    signal: AbortSignal | undefined,
  ): Promise<void>
  /** Gives back the room that a weight took. */
  putDown(weight: number): void
  /** Gives no turns for a while. */
  rest(ms: number): void
}

/** The longest rest, during which the process may have been busy with others' work. */
const MAX_REST_MS = 50

/**
 * Creates a line. Callers stand in two rings, and turns are given from both alternately: those that had nothing
 * waiting when they came, and those that have had a turn since. So whoever asks now and then is before all who
 * ask without a pause, however many these are.
 *
 * @param perPass turns in one pass of the event loop
 */
function createLine(perPass: number): Line {
  const rings = { fresh: new Map<Caller, Waiting[]>(), served: new Map<Caller, Waiting[]>() }
  let count = 0
  let left = perPass
  let weightUnderWay = 0
  let isFreshNext = true
  let restUntilMs = 0
  let isPassDue = false

  const fits = ({ weight }: Waiting): boolean =>
    weight === 0 || weightUnderWay === 0 || weightUnderWay + weight <= MAX_WEIGHT_AT_ONCE

  /** Takes what is next out of the rings; undefined if nothing may begin. */
  function takeNext(): Waiting | undefined {
    // What doesn't fit waits before all else that weighs something, or it would wait for ever.
    let isRoomAwaited = false
    for (const ring of isFreshNext ? [rings.fresh, rings.served] : [rings.served, rings.fresh])
      for (const [caller, ofCaller] of ring) {
        const index = ofCaller.findIndex((one) => one.weight === 0 || (!isRoomAwaited && fits(one)))
        const [taken] = index < 0 ? [] : ofCaller.splice(index, 1)
        if (taken !== undefined) {
          ring.delete(caller)
          // Without anything waiting too: what it sends next is not fresh until the ring has come round.
          rings.served.set(caller, ofCaller)
          isFreshNext = ring === rings.served
          return taken
        }
        if (ofCaller.length === 0) ring.delete(caller)
        else isRoomAwaited = true
      }
    return undefined
  }

  /** Gives the turns that are left in this pass. */
  function giveTurns(): void {
    while (left > 0 && count > 0 && performance.now() >= restUntilMs) {
      const next = takeNext()
      if (next === undefined) break
      left--
      count--
      weightUnderWay += next.weight
      next.begin()
    }
    if (count === 0) for (const ring of Object.values(rings)) ring.clear()
    if (left === perPass || isPassDue) return
    isPassDue = true
    setImmediate(endPass)
  }

  function endPass(): void {
    const restMs = restUntilMs - performance.now()
    if (restMs > 0) return void setTimeout(endPass, restMs)
    isPassDue = false
    left = perPass
    giveTurns()
  }

  return {
    wait(caller, weight, place, signal) {
      return new Promise((resolve, reject) => {
        if (signal?.aborted === true) return reject(signal.reason as Error)
        const ofCaller = rings.served.get(caller) ?? rings.fresh.get(caller) ?? []
        if (!rings.served.has(caller)) rings.fresh.set(caller, ofCaller)
        const leave = (): void => {
          ofCaller.splice(ofCaller.indexOf(waiting), 1)
          count--
          reject(signal?.reason as Error)
        }
        const waiting: Waiting = {
          weight,
          begin() {
            signal?.removeEventListener('abort', leave)
            resolve()
          },
        }
        if (place === 'first') ofCaller.unshift(waiting)
        else ofCaller.push(waiting)
        count++
        signal?.addEventListener('abort', leave, { once: true })
        giveTurns()
      })
    },
    putDown(weight) {
      weightUnderWay -= weight
      giveTurns()
    },
    rest(ms) {
      restUntilMs = performance.now() + Math.min(ms, MAX_REST_MS)
    },
  }
}

/**
 * Waits for work that goes on, and returns its result, unless `signal` is aborted before.
 *
 * @throws the reason of `signal` as soon as that is aborted; the work itself goes on
 */
export function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(signal.reason as Error)
    if (signal.aborted) stop()
    signal.addEventListener('abort', stop, { once: true })
    const forget = (): void => signal.removeEventListener('abort', stop)
    work.then(
      (result) => {
        forget()
        resolve(result)
      },
      (error: unknown) => {
        forget()
        reject(error)
      },
    )
  })
}
