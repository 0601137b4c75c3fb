import { untilAborted } from '../../shared/platform/deadline.ts'
import { Refusal } from '../../shared/platform/errors.ts'
import {
  CALLERS_SHARE,
  MAX_LIGHT_AT_ONCE,
  MAX_LOOK_UPS_AT_ONCE,
  MAX_UNDER_WAY,
  MAX_WEIGHT_AT_ONCE,
  RETRY_AFTER_SECONDS,
} from '../../shared/platform/limits.ts'
import { createRoom, type Room } from './room.ts'
import { createTurns, perLine, type Visitor } from './turns.ts'

/*
 * The gate in front of the handlers of one API process. A process has one thread, and between two passes of
 * its event loop it takes one new connection: so passes must stay short, whoever asks for what.
 *
 * Whatever costs time begins with a turn: a request, refused ones included, and each further part of a long
 * answer. Turns are given by time, fairly by caller (turns.ts). Since a connection sends its next request
 * after its answer, a flood is slowed down by waiting.
 *
 * What the database answers comes without a turn, so of what asks it a line has only so much under way at a
 * time (room.ts): so many look-ups of tokens that the process doesn't know, so many light requests, and so much of
 * what has a weight, which is known before it begins.
 */

export type RequestKind = keyof typeof MAX_UNDER_WAY

/** What a part of a request asks of the database: a token's look-up, something light, or so much weight. */
export type Load = 'look-up' | 'light' | number

export interface Gate {
  /**
   * Runs a part of a request's work when its turn has come, and returns its result.
   *
   * @throws Refusal `unavailable` if as many of its kind are under way as the process, or one agent, may have;
   *   the reason of the visitor's signal if that is aborted before
   */
  run<T>(visitor: Visitor, kind: RequestKind, part: () => Promise<T>): Promise<T>
  /** Runs work that asks the database, within run(): it begins when its line has room for it. */
  runWithRoom<T>(visitor: Visitor, load: Load, part: () => Promise<T>): Promise<T>
  /**
   * The same for work that can't be divided, such as reading a part of a long body, parsing all of it, or checking
   * its fields. The next such work of its line begins in a later pass, after a rest of REST_TIMES as long, so
   * that all else has most of the process.
   */
  runWhole<T>(visitor: Visitor, work: () => T): Promise<T>
  /** Resolves when the visitor's next turn has come: for the next part of work that is under way. */
  next(visitor: Visitor): Promise<void>
  /** The same, but at once if the visitor's last turn lasts still: for what comes after something that may wait. */
  goOn(visitor: Visitor): Promise<void>
  /** Call it for each connection that the server accepts. */
  noteConnection(): void
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
  const turns = createTurns()
  const lookUps = perLine(() => createRoom(MAX_LOOK_UPS_AT_ONCE))
  const light = perLine((line) => createRoom(MAX_LIGHT_AT_ONCE[line]))
  const weighty = perLine((line) => createRoom(MAX_WEIGHT_AT_ONCE[line]))
  const wholes = perLine(() => createRoom({ all: 1, ofCaller: 1 }))
  const goOn = async (visitor: Visitor): Promise<void> => {
    if (!turns.isRunning(visitor)) await turns.wait(visitor, 'part')
  }
  const createKind = (all: number): Room => createRoom({ all, ofCaller: Math.ceil(all / CALLERS_SHARE) })
  const underWay = { reads: createKind(maxUnderWay.reads), writes: createKind(maxUnderWay.writes) }
  return {
    async run(visitor, kind, part) {
      await turns.wait(visitor, 'beginning')
      if (!underWay[kind].tryTake(visitor.caller, 1)) throw overloaded()
      try {
        return await part()
      } finally {
        underWay[kind].putDown(visitor.caller, 1)
      }
    },
    async runWithRoom(visitor, load, part) {
      const { line, caller, signal } = visitor
      const rooms = load === 'look-up' ? lookUps : load === 'light' ? light : weighty
      const room = rooms[line]
      const taken = typeof load === 'number' ? load : 1
      await room.take(caller, taken, signal)
      try {
        await goOn(visitor)
        return await (signal === undefined ? part() : untilAborted(part(), signal))
      } finally {
        room.putDown(caller, taken)
      }
    },
    async runWhole(visitor, work) {
      const { line, caller, signal } = visitor
      await wholes[line].take(caller, 1, signal)
      let tookMs = 0
      try {
        await turns.wait(visitor, 'part')
        const startedAt = performance.now()
        try {
          return work()
        } finally {
          tookMs = performance.now() - startedAt
        }
      } finally {
        setTimeout(() => wholes[line].putDown(caller, 1), REST_TIMES * tookMs)
      }
    },
    next: (visitor) => turns.wait(visitor, 'part'),
    goOn,
    noteConnection: turns.noteConnection,
  }
}
