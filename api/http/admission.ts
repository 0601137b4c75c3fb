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
 * Bounds on the concurrent work of one API process. Without them a flood would queue up in memory until every
 * request times out; with them, a request that finds no room is refused at once, which costs next to nothing.
 * A slow client must not take the room of others, so a request doesn't count while the service waits for its
 * client.
 */

/** The refusal of a request for lack of room; nothing was done for it. */
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
   * @param caller the agent that sent it, if known: one agent gets at most a share of the room
   * @throws Refusal `unavailable` if too many requests of its kind are under way
   */
  work<T>(kind: RequestKind, part: () => Promise<T>, caller?: string): Promise<T>
  /**
   * Within a part, waits for the workers without occupying the part's room: if they are down, requests that
   * don't need them are still served.
   *
   * @returns undefined, at once, if too many wait already
   */
  aside<T>(kind: RequestKind, wait: () => Promise<T>): Promise<T | undefined>
  /**
   * Within a part, does costly work: see {@link createTurnQueue}. Requests of agents and requests without a
   * token have a queue each.
   */
  heavy<T>(caller: Caller, part: () => Promise<T>, over?: AbortSignal): Promise<T>
  /**
   * Resolves when a caller may begin a write: see {@link createPace}. Requests without a token share one
   * pace.
   */
  turn(caller: Caller, over?: AbortSignal): Promise<void>
}

/** Who takes turns: an agent by its id, or a connection that has sent no known token. */
export type Caller = string | Socket

/**
 * Makes the bounds of one process. Reads and writes are counted apart, so that a flood of writes doesn't
 * stop reads.
 */
export function createAdmission(
  most: Record<RequestKind, number> = MAX_UNDER_WAY,
  mostWaiting = MAX_WAITING,
): Admission {
  const underWay = { reads: 0, writes: 0 }
  const own = { reads: new Map<string, number>(), writes: new Map<string, number>() }
  const queues = { agents: createTurnQueue(), open: createTurnQueue() }
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
        // Without a check for room: what follows is the short rest of a part that was admitted.
        underWay[kind]++
        waiting--
      }
    },
    heavy: (caller, part, over) =>
      (typeof caller === 'string' ? queues.agents : queues.open)(caller, part, over),
    turn: (caller, over) => (typeof caller === 'string' ? paces.agents : paces.open)(caller, over),
  }
}

function countDown<Key>(counts: Map<Key, number>, key: Key): void {
  const left = (counts.get(key) ?? 0) - 1
  if (left > 0) counts.set(key, left)
  else counts.delete(key)
}

/** Requests that wait for their turn. */
interface WaitingRequests {
  /**
   * Waits for a turn.
   *
   * @throws Refusal `unavailable` if too many wait; the reason of `over` if that is aborted before the turn
   */
  wait(caller: Caller, over: AbortSignal | undefined): Promise<void>
  /**
   * Gives a turn to the oldest request of the next caller for whom `may` is true.
   *
   * @returns that caller, or undefined if no such caller waits
   */
  callNext(may?: (caller: Caller) => boolean): Caller | undefined
}

/**
 * A queue in which callers take turns: however many requests one caller has waiting, the next caller's turn
 * comes after one of them.
 */
function createWaitingRequests(mostWaiting: number): WaitingRequests {
  /** The waiting requests of each caller, in the order of the callers' turns. */
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

/**
 * Longest pause after a costly part: while it waited for the database, the process was busy with others'
 * work.
 */
const MAX_REST_MS = 50

/**
 * Makes a function that does costly parts a few at a time, in turns over the callers. Between two parts light
 * requests are answered. A part whose request ends before its turn is not begun.
 *
 * The function throws a Refusal `unavailable` if too many wait.
 */
export function createTurnQueue(
  atOnce = HEAVY_AT_ONCE,
  mostWaiting = MAX_HEAVY_WAITING,
): <T>(caller: Caller, part: () => Promise<T>, over?: AbortSignal) => Promise<T> {
  const waitingRequests = createWaitingRequests(mostWaiting)
  let underWay = 0
  const next = (): void => {
    if (underWay < atOnce && waitingRequests.callNext() !== undefined) underWay++
  }
  return async (caller, part, over) => {
    over?.throwIfAborted()
    const turn = waitingRequests.wait(caller, over)
    next()
    await turn
    const begun = performance.eventLoopUtilization()
    try {
      // A part that hangs in the database keeps its turn no longer than its request lasts.
      return await (over === undefined ? part() : untilOver(part(), over))
    } finally {
      // The pause before the next costly part is as long as this one kept the process busy, so light requests
      // get at least half of the process.
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
  /** Most writes that begin in one pass of the event loop. */
  perPass: number
  /** Most of them by one caller. */
  perCaller: number
}

/**
 * Makes a function that resolves when a caller may begin a light request: at most `perCaller` of one caller
 * begin in a pass of the event loop, in turns over the callers. The next pass begins after a pause as long as
 * the last one took, in which everything else has the process. A caller's turn doesn't depend on how long
 * another's work takes, and callers with few concurrent requests never wait.
 *
 * The function throws a Refusal `unavailable` if too many wait.
 */
export function createPace(
  { perPass, perCaller }: Pace,
  mostWaiting: number,
): (caller: Caller, over?: AbortSignal) => Promise<void> {
  const waitingRequests = createWaitingRequests(mostWaiting)
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
      const caller = waitingRequests.callNext(may)
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
    if (left === 0 || !may(caller)) return waitingRequests.wait(caller, over)
    if (left === perPass) {
      passBeganMs = performance.now()
      setImmediate(end)
    }
    count(caller)
  }
}

/** The result of `work`. @throws the reason of `over` as soon as that is aborted */
export function untilOver<T>(work: Promise<T>, over: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(over.reason as Error)
    if (over.aborted) stop()
    over.addEventListener('abort', stop, { once: true })
    work.then(resolve, reject).finally(() => over.removeEventListener('abort', stop))
  })
}

/** The part of the room that a body takes: that of requests with a token, or that of all others. */
export type BodyShare = keyof typeof MAX_HELD_BODY_BYTES

const heldBytes = { open: 0, token: 0 }
const heldByAgent = new Map<string, number>()
/** Bytes that a chunk costs besides its content: a body may arrive a byte at a time. */
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

/** Bytes of the answers that their clients have not read yet, the oldest first. */
const unread = new Map<ServerResponse, number>()
/**
 * The same by their connections: of an answer that waits behind another one, nothing but the connection's end
 * is told.
 */
const unreadOver = new WeakMap<Socket, Set<ServerResponse>>()
let unreadBytes = 0
/** An answer is not cut off before this time: a connection of usual speed delivers it by then. */
const FAIR_MS = 2_000
const sentAt = new WeakMap<ServerResponse, number>()

/**
 * Counts an answer until its client has read it. If clients leave too much unread, those that have done so
 * the longest are cut off.
 */
export function countUnread(res: ServerResponse, length: number, most = MAX_UNREAD_ANSWER_BYTES): void {
  const { socket } = res.req
  // The client has left: nothing is sent, and no event would end the counting.
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

/** Bytes of answers that clients have not read yet. */
export const countUnreadBytes = (): number => unreadBytes
