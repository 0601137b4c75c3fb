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
 * A slow client must not take others' room, so a request doesn't count while the service waits for its
 * client.
 */

/** Returns the refusal `unavailable` of a request for which there is no room and nothing was done. */
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
   * Runs a part of a request's work if there is room for it, and returns its result.
   *
   * @param caller id of the agent that sent it, if known: one agent gets at most a share of the room
   * @throws Refusal `unavailable` if too many requests of its kind are under way
   */
  run<T>(kind: RequestKind, part: () => Promise<T>, caller?: string): Promise<T>
  /**
   * Within a part, gives the part's room to other requests during a wait for the workers: if these are down,
   * requests that don't need them are still served.
   *
   * @returns undefined at once, without waiting, if too many wait already
   */
  releaseRoomWhile<T>(kind: RequestKind, wait: () => Promise<T>): Promise<T | undefined>
  /**
   * Within a part, runs costly work: see {@link createTurnQueue}. Agents and callers without a token have
   * separate queues.
   */
  runHeavy<T>(caller: Caller, part: () => Promise<T>, signal?: AbortSignal): Promise<T>
  /**
   * Resolves when a caller may begin a write: see {@link createPacer}. Agents and callers without a token
   * have separate limits.
   */
  waitForTurn(caller: Caller, signal?: AbortSignal): Promise<void>
}

/** Who takes turns: an agent by its id, or a connection that has sent no known token. */
export type Caller = string | Socket

/**
 * Creates the bounds of one process. Reads and writes are counted apart, so that a flood of writes doesn't
 * stop reads.
 *
 * @param maxUnderWay requests of each kind under way at once
 * @param maxWaiting requests at once whose room is released
 */
export function createAdmission(
  maxUnderWay: Record<RequestKind, number> = MAX_UNDER_WAY,
  maxWaiting = MAX_WAITING,
): Admission {
  const underWay = { reads: 0, writes: 0 }
  const underWayOf = { reads: new Map<string, number>(), writes: new Map<string, number>() }
  const queues = { agents: createTurnQueue(), open: createTurnQueue() }
  const paces = {
    agents: createPacer(BEGUN_IN_A_PASS.agents, maxUnderWay.writes),
    open: createPacer(BEGUN_IN_A_PASS.open, maxUnderWay.writes),
  }
  let waiting = 0
  return {
    async run(kind, part, caller) {
      const ofCaller = caller === undefined ? 0 : (underWayOf[kind].get(caller) ?? 0)
      const maxOfCaller = Math.ceil(maxUnderWay[kind] / CALLERS_SHARE)
      if (underWay[kind] >= maxUnderWay[kind] || ofCaller >= maxOfCaller) throw overloaded()
      underWay[kind]++
      if (caller !== undefined) underWayOf[kind].set(caller, ofCaller + 1)
      try {
        return await part()
      } finally {
        underWay[kind]--
        if (caller !== undefined) countDown(underWayOf[kind], caller)
      }
    },
    async releaseRoomWhile(kind, wait) {
      if (waiting >= maxWaiting) return undefined
      waiting++
      underWay[kind]--
      try {
        return await wait()
      } finally {
        // Without a check for room: only the short rest of an admitted part follows.
        underWay[kind]++
        waiting--
      }
    },
    runHeavy: (caller, part, signal) =>
      (typeof caller === 'string' ? queues.agents : queues.open)(caller, part, signal),
    waitForTurn: (caller, signal) => (typeof caller === 'string' ? paces.agents : paces.open)(caller, signal),
  }
}

/** Lowers a count by 1, and removes it if that makes it 0. */
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
   * @throws Refusal `unavailable` if too many wait; the reason of `signal` if that is aborted before the turn
   */
  wait(caller: Caller, signal: AbortSignal | undefined): Promise<void>
  /**
   * Gives a turn to the oldest request of the next caller for whom `mayBegin` is true.
   *
   * @returns that caller, or undefined if no such caller waits
   */
  callNext(mayBegin?: (caller: Caller) => boolean): Caller | undefined
}

/**
 * Creates a queue in which callers take turns: after one request of a caller comes one of the next caller,
 * however many the first has waiting.
 *
 * @param maxWaiting requests that may wait at once, of all callers; one caller may have a share of it
 */
function createWaitingRequests(maxWaiting: number): WaitingRequests {
  /** The waiting requests of each caller, in the order of the callers' turns. */
  const waiting = new Map<Caller, Set<() => void>>()
  let count = 0
  return {
    callNext(mayBegin = () => true) {
      for (const [caller, ofCaller] of waiting) {
        const [begin] = ofCaller
        if (begin !== undefined && !mayBegin(caller)) continue
        waiting.delete(caller)
        // All of its requests have left.
        if (begin === undefined) continue
        ofCaller.delete(begin)
        if (ofCaller.size > 0) waiting.set(caller, ofCaller)
        begin()
        return caller
      }
      return undefined
    },
    wait(caller, signal) {
      if (count >= maxWaiting || (waiting.get(caller)?.size ?? 0) >= maxWaiting / CALLERS_SHARE)
        throw overloaded()
      return new Promise((resolve, reject) => {
        const ofCaller = waiting.get(caller) ?? new Set()
        const leave = (): void => {
          ofCaller.delete(begin)
          count--
          reject(signal?.reason as Error)
        }
        const begin = (): void => {
          signal?.removeEventListener('abort', leave)
          count--
          resolve()
        }
        ofCaller.add(begin)
        waiting.set(caller, ofCaller)
        count++
        signal?.addEventListener('abort', leave, { once: true })
      })
    },
  }
}

/** Longest pause after a costly part, during which the process may have been busy with others' work. */
const MAX_REST_MS = 50

/**
 * Creates a function that runs costly parts a few at a time, in turns over the callers, with pauses for light
 * requests in between, and returns a part's result. A part whose signal is aborted before its turn isn't
 * begun. The function throws a Refusal `unavailable` if too many wait.
 */
export function createTurnQueue(
  atOnce = HEAVY_AT_ONCE,
  maxWaiting = MAX_HEAVY_WAITING,
): <T>(caller: Caller, part: () => Promise<T>, signal?: AbortSignal) => Promise<T> {
  const waitingRequests = createWaitingRequests(maxWaiting)
  let underWay = 0
  const beginNext = (): void => {
    if (underWay < atOnce && waitingRequests.callNext() !== undefined) underWay++
  }
  return async (caller, part, signal) => {
    signal?.throwIfAborted()
    const turn = waitingRequests.wait(caller, signal)
    beginNext()
    await turn
    const begun = performance.eventLoopUtilization()
    try {
      // A part that hangs in the database gives up its turn when its request ends.
      return await (signal === undefined ? part() : untilAborted(part(), signal))
    } finally {
      // The pause before the next costly part is as long as this one kept the process busy, so light requests
      // get at least half of the process.
      const { active } = performance.eventLoopUtilization(begun)
      setTimeout(
        () => {
          underWay--
          beginNext()
        },
        Math.min(active, MAX_REST_MS),
      )
    }
  }
}

export interface Pace {
  /** The most writes that begin in one pass of the event loop. */
  perPass: number
  /** The most of these by one caller. */
  perCaller: number
}

/**
 * Creates a function that resolves when a caller may begin a light request. In a pass of the event loop at
 * most `perPass` begin and `perCaller` of one caller, in turns over the callers. Between two passes is a
 * pause for everything else, as long as the last pass took. Callers with few concurrent requests never wait.
 * The function throws a Refusal `unavailable` if too many wait.
 */
export function createPacer(
  { perPass, perCaller }: Pace,
  maxWaiting: number,
): (caller: Caller, signal?: AbortSignal) => Promise<void> {
  const waitingRequests = createWaitingRequests(maxWaiting)
  /** How many of each caller have begun in this pass. */
  const begun = new Map<Caller, number>()
  let left = perPass
  let passBeganMs = 0

  const mayBegin = (caller: Caller): boolean => (begun.get(caller) ?? 0) < perCaller
  const countBegun = (caller: Caller): void => {
    begun.set(caller, (begun.get(caller) ?? 0) + 1)
    left--
  }
  const beginPass = (): void => {
    begun.clear()
    left = perPass
    passBeganMs = performance.now()
    while (left > 0) {
      const caller = waitingRequests.callNext(mayBegin)
      if (caller === undefined) break
      countBegun(caller)
    }
    if (left < perPass) setImmediate(endPass)
  }
  const endPass = (): void => {
    setTimeout(beginPass, Math.min(performance.now() - passBeganMs, MAX_REST_MS))
  }

  return async (caller, signal) => {
    signal?.throwIfAborted()
    if (left === 0 || !mayBegin(caller)) return waitingRequests.wait(caller, signal)
    if (left === perPass) {
      passBeganMs = performance.now()
      setImmediate(endPass)
    }
    countBegun(caller)
  }
}

/**
 * Waits for `work` and returns its result, unless `signal` is aborted before.
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

/** Which part of the room for bodies a body takes: that of requests with a token, or of all others. */
export type BodyShare = keyof typeof MAX_HELD_BODY_BYTES

const heldBytes = { open: 0, token: 0 }
const heldByAgent = new Map<string, number>()
/** Bytes that a chunk costs besides its content: a body may arrive a byte at a time. */
const CHUNK_COST = 256

/**
 * Reserves memory for one body as it arrives. Its first few KiB are free, so that small bodies get in beside
 * large ones that don't end, and no agent gets more than a share of the memory.
 *
 * @param agentId whose token the body came with; undefined for a body that needs none
 * @returns `add`, which reserves `more` bytes and returns false if there is no room for them; and
 *   `release`, which gives back all of them
 */
export function takeBodyRoom(agentId: string | undefined): { add(length: number): boolean; release(): void } {
  const share: BodyShare = agentId === undefined ? 'open' : 'token'
  let length = 0
  let taken = 0
  /** Counts more bytes as held; fewer if negative. */
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

/** The answers that their clients have not read yet, the oldest first. */
const unread = new Map<ServerResponse, { bytes: number; sentAtMs: number }>()
/** The same by connection: an answer that waits behind another one has no event but the connection's end. */
const unreadByConnection = new WeakMap<Socket, Set<ServerResponse>>()
let unreadBytes = 0
/** An answer is cut off only after this time, in which usual connections deliver it. */
const GRACE_MS = 2_000

/**
 * Counts an answer's bytes as unread until its client has read them. If all clients together would leave more
 * than `maxBytes` unread, cuts the connections of the oldest unread answers that are older than GRACE_MS.
 */
export function trackUnread(res: ServerResponse, length: number, maxBytes = MAX_UNREAD_ANSWER_BYTES): void {
  const { socket } = res.req
  // The client has left, so no event would end the counting.
  if (socket.destroyed) return
  const nowMs = performance.now()
  for (const [slow, { sentAtMs }] of unread) {
    if (unreadBytes + length <= maxBytes || nowMs - sentAtMs < GRACE_MS) break
    stopCounting(slow)
    slow.req.socket.destroy()
  }
  unread.set(res, { bytes: length, sentAtMs: nowMs })
  unreadBytes += length
  unreadAnswersOver(socket).add(res)
  res.on('close', () => stopCounting(res))
}

/** Returns the set of unread answers of a connection; they are no longer counted when it closes. */
function unreadAnswersOver(socket: Socket): Set<ServerResponse> {
  let answers = unreadByConnection.get(socket)
  if (answers === undefined) {
    answers = new Set()
    unreadByConnection.set(socket, answers)
    socket.once('close', () => unreadByConnection.get(socket)?.forEach(stopCounting))
  }
  return answers
}

/** Takes an answer's bytes off the count of unread ones. */
function stopCounting(res: ServerResponse): void {
  unreadBytes -= unread.get(res)?.bytes ?? 0
  unread.delete(res)
  unreadByConnection.get(res.req.socket)?.delete(res)
}

/** Returns how many bytes of answers clients have not read yet. */
export const readUnreadBytes = (): number => unreadBytes
