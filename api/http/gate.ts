import { untilAborted } from '../../shared/platform/deadline.ts'
import { Refusal } from '../../shared/platform/errors.ts'
import {
  BEGUN_IN_A_PASS,
  CALLERS_SHARE,
  MAX_UNDER_WAY,
  MAX_WEIGHT_AT_ONCE,
  RETRY_AFTER_SECONDS,
} from '../../shared/platform/limits.ts'
import { createRing, createTurnCounts, type Caller, type Ring, type Waiting } from './rings.ts'

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
   * The same for work that can't be divided, such as parsing a long body. The next such work of its line begins
   * only after a rest of REST_TIMES as long, so that all else has most of the process.
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

/** A rest, in terms of the work before it: to read a long body takes a few times as long as to parse it. */
const REST_TIMES = 5

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
      await lines[line].wait(caller, 'beginning', signal)
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
      await lines[line].wait(caller, weight, signal)
      try {
        return await (signal === undefined ? part() : untilAborted(part(), signal))
      } finally {
        lines[line].putDown(weight)
      }
    },
    async runWhole({ line, caller, signal }, work) {
      await lines[line].wait(caller, 'whole', signal)
      const startedAt = performance.now()
      try {
        return work()
      } finally {
        lines[line].rest(REST_TIMES * (performance.now() - startedAt))
      }
    },
    next: ({ line, caller, signal }) => lines[line].wait(caller, 'next part', signal),
  }
}

/** What waits for its turn: something of a weight, or something that weighs nothing. */
type Task = number | 'beginning' | 'next part' | 'whole'

/** Callers that take turns. */
interface Line {
  /**
   * Resolves when the caller's turn has come and the line has room for the task's weight, which it then holds.
   */
  wait(caller: Caller, task: Task, signal: AbortSignal | undefined): Promise<void>
  /** Gives back the room that a weight took. */
  putDown(weight: number): void
  /** Begins nothing whole for a while. */
  rest(ms: number): void
}

/** A caller that has had fewer turns lately is fresh; a request takes one or two. */
const FRESH_TURNS = 3
/**
 * Creates a line. What waits stands in rings, which have turns one after the other, and in a ring its callers
 * have. A caller that has had few turns lately stands in another ring than the others: so whoever asks now and
 * then doesn't wait for those who ask without a pause, however many these are.
 *
 * @param pace turns in one pass of the event loop, of all callers and of each
 */
function createLine({ perPass, perCaller }: { perPass: number; perCaller: number }): Line {
  let weightUnderWay = 0
  let isResting = false
  /** How many turns each caller has had in this pass. */
  const inThisPass = new Map<Caller, number>()
  const mayTake = ({ caller }: Waiting): boolean => (inThisPass.get(caller) ?? 0) < perCaller
  const rings = {
    parts: createRing(mayTake),
    fresh: createRing(mayTake),
    served: createRing(mayTake),
    // What doesn't fit is waited for, or smaller weights would pass it for ever.
    weighty: createRing(
      ({ weight }) => weightUnderWay === 0 || weightUnderWay + weight <= MAX_WEIGHT_AT_ONCE,
    ),
    whole: createRing(() => !isResting),
  }
  /** The rings in the order of their turns. */
  const order = Object.values(rings)
  const lately = createTurnCounts()
  let left = perPass
  let isPassDue = false

  /** Takes what is next out of the rings; undefined if nothing may begin. */
  function takeNext(): Waiting | undefined {
    for (const ring of order) {
      const next = ring.take()
      if (next === undefined) continue
      order.push(...order.splice(order.indexOf(ring), 1))
      return next
    }
    return undefined
  }

  /** Gives the turns that are left in this pass. */
  function giveTurns(): void {
    while (left > 0) {
      const next = takeNext()
      if (next === undefined) break
      left--
      weightUnderWay += next.weight
      lately.add(next.caller)
      inThisPass.set(next.caller, (inThisPass.get(next.caller) ?? 0) + 1)
      next.begin()
    }
    if (left === perPass || isPassDue) return
    isPassDue = true
    setImmediate(() => {
      isPassDue = false
      left = perPass
      inThisPass.clear()
      giveTurns()
    })
  }

  function ringOf(caller: Caller, task: Task): Ring {
    if (typeof task === 'number') return rings.weighty
    if (task === 'whole') return rings.whole
    if (task === 'next part') return rings.parts
    return lately.of(caller) < FRESH_TURNS ? rings.fresh : rings.served
  }

  return {
    wait(caller, task, signal) {
      return new Promise((resolve, reject) => {
        if (signal?.aborted === true) return reject(signal.reason as Error)
        const ring = ringOf(caller, task)
        const leave = (): void => {
          ring.remove(waiting)
          reject(signal?.reason as Error)
        }
        const waiting: Waiting = {
          caller,
          weight: typeof task === 'number' ? task : 0,
          begin() {
            signal?.removeEventListener('abort', leave)
            resolve()
          },
        }
        ring.add(waiting)
        signal?.addEventListener('abort', leave, { once: true })
        giveTurns()
      })
    },
    putDown(weight) {
      weightUnderWay -= weight
      giveTurns()
    },
    rest(ms) {
      isResting = true
      setTimeout(() => {
        isResting = false
        giveTurns()
      }, ms)
    },
  }
}
