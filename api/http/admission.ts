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

/** The refusal for lack of room of a request for which nothing was done. */
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
   * Runs a part of a request's work.
   *
   * @param caller the agent that sent it, if known: one agent gets at most a share of the room
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
    agents: createPacer(BEGUN_IN_A_PASS.agents, most.writes),
    open: createPacer(BEGUN_IN_A_PASS.open, most.writes),
  }
  let waiting = 0
  return {
    async run(kind, part, caller) {
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
    async releaseRoomWhile(kind, wait) {
      if (waiting >= mostWaiting) return undefined
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
   * Gives a turn to the oldest request of the next caller for whom `may` is true.
   *
   * @returns that caller, or undefined if no such caller waits
   */
  callNext(may?: (caller: Caller) => boolean): Caller | undefined
}

/**
 * A queue in which callers take turns: after one request of a caller comes one of the next caller, however
 * many the first has waiting.
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
    wait(caller, signal) {
      if (count >= mostWaiting || (waiting.get(caller)?.size ?? 0) >= mostWaiting / CALLERS_SHARE)
        throw overloaded()
      return new Promise((resolve, reject) => {
        const own = waiting.get(caller) ?? new Set()
        const leave = (): void => {
          own.delete(begin)
          count--
          reject(signal?.reason as Error)
        }
        const begin = (): void => {
          signal?.removeEventListener('abort', leave)
          count--
          resolve()
        }
        own.add(begin)
        waiting.set(caller, own)
        count++
        signal?.addEventListener('abort', leave, { once: true })
      })
    },
  }
}

/** Longest pause after a costly part, during which the process may have been busy with others' work. */
const MAX_REST_MS = 50

/**
 * Makes a function that runs costly parts a few at a time, in turns over the callers, with pauses for light
 * requests in between. A part whose signal is aborted before its turn isn't begun. The function throws a
 * Refusal `unavailable` if too many wait.
 */
export function createTurnQueue(
  atOnce = HEAVY_AT_ONCE,
  mostWaiting = MAX_HEAVY_WAITING,
): <T>(caller: Caller, part: () => Promise<T>, signal?: AbortSignal) => Promise<T> {
  const waitingRequests = createWaitingRequests(mostWaiting)
  let underWay = 0
  const next = (): void => {
    if (underWay < atOnce && waitingRequests.callNext() !== undefined) underWay++
  }
  return async (caller, part, signal) => {
    signal?.throwIfAborted()
    const turn = waitingRequests.wait(caller, signal)
    next()
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
          next()
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
 * Makes a function that resolves when a caller may begin a light request. In a pass of the event loop at most
 * `perPass` begin and `perCaller` of one caller, in turns over the callers. Between two passes is a pause for
 * everything else, as long as the last pass took. Callers with few concurrent requests never wait. The
 * function throws a Refusal `unavailable` if too many wait.
 */
export function createPacer(
  { perPass, perCaller }: Pace,
  mostWaiting: number,
): (caller: Caller, signal?: AbortSignal) => Promise<void> {
  const waitingRequests = createWaitingRequests(mostWaiting)
  /** How many of each caller have begun in this pass. */
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

  return async (caller, signal) => {
    signal?.throwIfAborted()
    if (left === 0 || !may(caller)) return waitingRequests.wait(caller, signal)
    if (left === perPass) {
      passBeganMs = performance.now()
      setImmediate(end)
    }
    count(caller)
  }
}

/**
 * The result of `work`.
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
 * @returns `add`, which is false if there is no room for so many more bytes; and `release`, for all of them
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

/** The answers that their clients have not read yet, the oldest first. */
const unread = new Map<ServerResponse, { bytes: number; sentAtMs: number }>()
/** The same by connection: an answer that waits behind another one has no event but the connection's end. */
const unreadByConnection = new WeakMap<Socket, Set<ServerResponse>>()
let unreadBytes = 0
/** An answer isn't cut off earlier: usual connections deliver it in this time. */
const GRACE_MS = 2_000

/**
 * Counts an answer's bytes as unread until its client has read them. If clients leave more than `most` bytes
 * unread, the connections of the oldest such answers are cut.
 */
export function trackUnread(res: ServerResponse, length: number, most = MAX_UNREAD_ANSWER_BYTES): void {
  const { socket } = res.req
  // The client has left, so no event would end the counting.
  if (socket.destroyed) return
  const nowMs = performance.now()
  for (const [slow, { sentAtMs }] of unread) {
    if (unreadBytes + length <= most || nowMs - sentAtMs < GRACE_MS) break
    forget(slow)
    slow.req.socket.destroy()
  }
  unread.set(res, { bytes: length, sentAtMs: nowMs })
  unreadBytes += length
  unreadAnswersOver(socket).add(res)
  res.on('close', () => forget(res))
}

function unreadAnswersOver(socket: Socket): Set<ServerResponse> {
  let answers = unreadByConnection.get(socket)
  if (answers === undefined) {
    answers = new Set()
    unreadByConnection.set(socket, answers)
    socket.once('close', () => unreadByConnection.get(socket)?.forEach(forget))
  }
  return answers
}

function forget(res: ServerResponse): void {
  unreadBytes -= unread.get(res)?.bytes ?? 0
  unread.delete(res)
  unreadByConnection.get(res.req.socket)?.delete(res)
}

/** Bytes of answers that clients have not read yet. */
export const readUnreadBytes = (): number => unreadBytes
