import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Refusal } from '../../shared/foundation/errors.ts'
import {
  AGENT_BODY_SHARE,
  BEGUN_IN_A_PASS,
  CALLERS_SHARE,
  FREE_BODY_BYTES,
  HEAVY_AT_ONCE,
  MAX_HEAVY_WAITING,
  MAX_HELD_BODY_BYTES,
  MAX_UNDER_WAY,
  MAX_UNREAD_ANSWER_BYTES,
  MAX_WAITING,
  RETRY_AFTER_SECONDS,
} from '../../shared/foundation/limits.ts'

/*
 * What one API process takes on at the same time. Without bounds a flood queues up in memory until everyone's
 * time is over; with them, whoever finds no room is told at once to come back, which costs next to nothing. A
 * client that is slow must not take the room of others, so time in which the service waits for a client is
 * never counted as work.
 */

/** What is refused for lack of room; nothing was done for it. */
export function overloaded(): Refusal {
  return new Refusal(
    'unavailable',
    `The service has as much under way as it can hold, and did nothing with this request; try again in ${RETRY_AFTER_SECONDS} s.`,
    { countedAs: 'no_room' },
  )
}

export type RequestKind = keyof typeof MAX_UNDER_WAY

export interface Admission {
  /**
   * Does a part of a request's work.
   *
   * @param caller the agent that asks, if it is known: it gets at most a share of the room
   * @throws Refusal `unavailable` where too much of its kind is under way
   */
  work<T>(kind: RequestKind, part: () => Promise<T>, caller?: string): Promise<T>
  /**
   * Within a part, waits for workers without keeping the part's room: they may be away, and whoever needs
   * none of them is served then too. @returns undefined, at once, where too many wait
   */
  aside<T>(kind: RequestKind, wait: () => Promise<T>): Promise<T | undefined>
  /**
   * Within a part, does what costs much: see {@link createLane}. Agents and those who have shown nothing have
   * a lane each.
   */
  heavy<T>(caller: Caller, part: () => Promise<T>, over?: AbortSignal): Promise<T>
  /**
   * Resolves when a caller may begin a write: see {@link createPace}. Those who have shown nothing share one.
   */
  turn(caller: Caller, over?: AbortSignal): Promise<void>
}

/** Who is served in turn: an agent by its id, or a connection of somebody who has shown no token. */
export type Caller = string | Socket

/** Reads and writes are counted apart, so that a flood of writes leaves reads served. */
export function createAdmission(
  most: Record<RequestKind, number> = MAX_UNDER_WAY,
  mostWaiting = MAX_WAITING,
): Admission {
  const underWay = { reads: 0, writes: 0 }
  const own = { reads: new Map<string, number>(), writes: new Map<string, number>() }
  const lanes = { agents: createLane(), open: createLane() }
  const paces = {
    agents: createPace(BEGUN_IN_A_PASS.agents, most.writes),
    open: createPace(BEGUN_IN_A_PASS.open, most.writes),
  }
  let waiting = 0
  return {
    async work(kind, part, caller) {
      const ofCaller = caller === undefined ? 0 : (own[kind].get(caller) ?? 0)
      if (underWay[kind] >= most[kind] || ofCaller >= Math.ceil(most[kind] / CALLERS_SHARE))
        throw overloaded()
      underWay[kind]++
      if (caller !== undefined) own[kind].set(caller, ofCaller + 1)
      try {
        return await part()
      } finally {
        underWay[kind]--
        if (caller !== undefined) countDown(own[kind], caller)
      }
    },
    async aside(kind, wait) {
      if (waiting >= mostWaiting) return undefined
      waiting++
      underWay[kind]--
      try {
        return await wait()
      } finally {
        // What follows is the short end of a part that was let in.
        underWay[kind]++
        waiting--
      }
    },
    heavy: (caller, part, over) =>
      (typeof caller === 'string' ? lanes.agents : lanes.open)(caller, part, over),
    turn: (caller, over) => (typeof caller === 'string' ? paces.agents : paces.open)(caller, over),
  }
}

function countDown<Key>(counts: Map<Key, number>, key: Key): void {
  const left = (counts.get(key) ?? 0) - 1
  if (left > 0) counts.set(key, left)
  else counts.delete(key)
}

/** Those who wait for something, and whose turn is next. */
interface Line {
  /**
   * Waits for a turn. Who leaves before its turn comes has none.
   *
   * @throws Refusal `unavailable` where too many wait; the reason of `over` once that ends
   */
  wait(caller: Caller, over: AbortSignal | undefined): Promise<void>
  /**
   * Lets the first of the next caller's go on, of those callers that may. @returns the caller; undefined if
   * there was none
   */
  callNext(may?: (caller: Caller) => boolean): Caller | undefined
}

/**
 * A line in which callers take turns: however many requests one of them has in it, the next caller is served
 * after one.
 */
function createLine(mostWaiting: number): Line {
  /** Of each caller its requests, first the caller whose turn is next. */
  const waiting = new Map<Caller, Set<() => void>>()
  let count = 0
  return {
    callNext(may = () => true) {
      for (const [caller, own] of waiting) {
        const [begin] = own
        if (begin !== undefined && !may(caller)) continue
        waiting.delete(caller)
        if (begin === undefined) continue
        own.delete(begin)
        if (own.size > 0) waiting.set(caller, own)
        begin()
        return caller
      }
      return undefined
    },
    wait(caller, over) {
      if (count >= mostWaiting || (waiting.get(caller)?.size ?? 0) >= mostWaiting / CALLERS_SHARE)
        throw overloaded()
      return new Promise((resolve, reject) => {
        const own = waiting.get(caller) ?? new Set()
        const leave = (): void => {
          own.delete(begin)
          count--
          reject(over?.reason as Error)
        }
        const begin = (): void => {
          over?.removeEventListener('abort', leave)
          count--
          resolve()
        }
        own.add(begin)
        waiting.set(caller, own)
        count++
        over?.addEventListener('abort', leave, { once: true })
      })
    },
  }
}

/** A part that waited long for the database may have seen much of others' work. */
const MAX_REST_MS = 50

/**
 * Does costly parts a few at a time, in turns over those who ask. Between two parts whatever is light is
 * answered. A part whose request ends before its turn is not begun.
 *
 * @returns a function that does a part in its turn. @throws Refusal `unavailable` where too many wait
 */
export function createLane(
  atOnce = HEAVY_AT_ONCE,
  mostWaiting = MAX_HEAVY_WAITING,
): <T>(caller: Caller, part: () => Promise<T>, over?: AbortSignal) => Promise<T> {
  const line = createLine(mostWaiting)
  let underWay = 0
  const next = (): void => {
    if (underWay < atOnce && line.callNext() !== undefined) underWay++
  }
  return async (caller, part, over) => {
    over?.throwIfAborted()
    const turn = line.wait(caller, over)
    next()
    await turn
    const begun = performance.eventLoopUtilization()
    try {
      // A part that hangs in the database keeps its turn no longer than its request lasts.
      return await (over === undefined ? part() : untilOver(part(), over))
    } finally {
      // As long as the process was busy with it, what is light goes on without another one: it has half of
      // the process.
      const { active } = performance.eventLoopUtilization(begun)
      setTimeout(
        () => {
          underWay--
          next()
        },
        Math.min(active, MAX_REST_MS),
      )
    }
  }
}

export interface Pace {
  /** How many begin in one pass of the event loop. */
  perPass: number
  /** How many of them are one caller's. */
  perCaller: number
}

/**
 * Begins what is light, so many of one caller in a pass of the event loop, in turns over those who ask. As
 * long as the pass took, whoever asks for more waits for the next one, and everything else has the process.
 * Nobody's turn depends on how long another's work takes, and callers with few requests at once never wait.
 *
 * @returns a function that resolves when the caller may begin. @throws Refusal `unavailable` where too many
 *   wait
 */
export function createPace(
  { perPass, perCaller }: Pace,
  mostWaiting: number,
): (caller: Caller, over?: AbortSignal) => Promise<void> {
  const line = createLine(mostWaiting)
  /** Of this pass. */
  const begun = new Map<Caller, number>()
  let left = perPass
  let passBeganMs = 0

  const may = (caller: Caller): boolean => (begun.get(caller) ?? 0) < perCaller
  const count = (caller: Caller): void => {
    begun.set(caller, (begun.get(caller) ?? 0) + 1)
    left--
  }
  const pass = (): void => {
    begun.clear()
    left = perPass
    passBeganMs = performance.now()
    while (left > 0) {
      const caller = line.callNext(may)
      if (caller === undefined) break
      count(caller)
    }
    if (left < perPass) setImmediate(end)
  }
  const end = (): void => {
    setTimeout(pass, Math.min(performance.now() - passBeganMs, MAX_REST_MS))
  }

  return async (caller, over) => {
    over?.throwIfAborted()
    if (left === 0 || !may(caller)) return line.wait(caller, over)
    if (left === perPass) {
      passBeganMs = performance.now()
      setImmediate(end)
    }
    count(caller)
  }
}

/** What `work` comes to, or the reason why its request is over. */
export function untilOver<T>(work: Promise<T>, over: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(over.reason as Error)
    if (over.aborted) stop()
    over.addEventListener('abort', stop, { once: true })
    work.then(resolve, reject).finally(() => over.removeEventListener('abort', stop))
  })
}

/** Whose room a body takes: a token's, or that of everyone who has shown nothing. */
export type BodyShare = keyof typeof MAX_HELD_BODY_BYTES

const heldBytes = { open: 0, token: 0 }
const heldByAgent = new Map<string, number>()
/** What a chunk costs beside its bytes: a body may come a byte at a time. */
const CHUNK_COST = 256

/**
 * The room that one body takes. Its first few KiB are free, so that small ones get in beside large ones that
 * don't end, and no agent has more than a share of the room.
 *
 * @param agentId whose token the body came with; undefined for a body that needs none
 */
export function takeBodyRoom(agentId: string | undefined): { add(length: number): boolean; release(): void } {
  const share: BodyShare = agentId === undefined ? 'open' : 'token'
  let length = 0
  let taken = 0
  const hold = (more: number): void => {
    heldBytes[share] += more
    taken += more
    if (agentId === undefined) return
    const held = (heldByAgent.get(agentId) ?? 0) + more
    if (held > 0) heldByAgent.set(agentId, held)
    else heldByAgent.delete(agentId)
  }
  return {
    add(more) {
      length += more + CHUNK_COST
      const owed = Math.max(0, length - FREE_BODY_BYTES) - taken
      if (heldBytes[share] + owed > MAX_HELD_BODY_BYTES[share]) return false
      if (
        agentId !== undefined &&
        (heldByAgent.get(agentId) ?? 0) + owed > MAX_HELD_BODY_BYTES.token / AGENT_BODY_SHARE
      )
        return false
      if (owed > 0) hold(owed)
      return true
    },
    release: () => hold(-taken),
  }
}

/** Answers that their callers have not taken yet, the oldest first. */
const unread = new Map<ServerResponse, number>()
/**
 * The same by their connections: of an answer that waits behind another one, nothing but the connection's end
 * is told.
 */
const unreadOver = new WeakMap<Socket, Set<ServerResponse>>()
let unreadBytes = 0
/** An answer on its way over a fair connection is not cut for another's sake. */
const FAIR_MS = 2_000
const sentAt = new WeakMap<ServerResponse, number>()

/**
 * Counts an answer until its caller has taken it. Where callers leave too much lying, those that have done so
 * the longest are cut off.
 */
export function countUnread(res: ServerResponse, length: number, most = MAX_UNREAD_ANSWER_BYTES): void {
  const { socket } = res.req
  // Its caller has left: nothing is sent, and no event comes that would end the counting.
  if (socket.destroyed) return
  const nowMs = performance.now()
  for (const slow of unread.keys()) {
    if (unreadBytes + length <= most || nowMs - (sentAt.get(slow) ?? nowMs) < FAIR_MS) break
    forget(slow)
    slow.req.socket.destroy()
  }
  unread.set(res, length)
  unreadBytes += length
  sentAt.set(res, nowMs)
  over(socket).add(res)
  res.once('close', () => forget(res))
}

function over(socket: Socket): Set<ServerResponse> {
  let answers = unreadOver.get(socket)
  if (answers === undefined) {
    answers = new Set()
    unreadOver.set(socket, answers)
    socket.once('close', () => unreadOver.get(socket)?.forEach(forget))
  }
  return answers
}

function forget(res: ServerResponse): void {
  unreadBytes -= unread.get(res) ?? 0
  unread.delete(res)
  unreadOver.get(res.req.socket)?.delete(res)
}

/** How many bytes of answers are left lying. */
export const countUnreadBytes = (): number => unreadBytes
