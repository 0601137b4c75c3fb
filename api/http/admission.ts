import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Refusal } from '../../shared/errors.ts'
import {
  FREE_BODY_BYTES,
  MAX_HELD_BODY_BYTES,
  MAX_UNDER_WAY,
  MAX_UNREAD_ANSWER_BYTES,
  MAX_WAITING,
  RETRY_AFTER_SECONDS,
} from '../../shared/limits.ts'

/*
 * What one API process takes on at the same time. Without bounds a flood queues up in memory until everyone's time is
 * over; with them, whoever finds no room is told at once to come back, which costs next to nothing. A client that is
 * slow must not take the room of others, so time in which the service waits for a client is never counted as work.
 */

/** What is refused for lack of room; nothing was done for it. */
export function overloaded(): Refusal {
  return new Refusal(
    'unavailable',
    `The service has as much under way as it can hold, and did nothing with this request; try again in ${RETRY_AFTER_SECONDS} s.`,
  )
}

export type RequestKind = keyof typeof MAX_UNDER_WAY

export interface Admission {
  /** Does a part of a request's work. @throws Refusal `unavailable` where too much of its kind is under way */
  work<T>(kind: RequestKind, part: () => Promise<T>): Promise<T>
  /**
   * Within a part, waits for workers without keeping the part's room: they may be away, and whoever needs none of them is
   * served then too. @returns undefined, at once, where too many wait
   */
  aside<T>(kind: RequestKind, wait: () => Promise<T>): Promise<T | undefined>
}

/** Reads and writes are counted apart, so that a flood of writes leaves reads served. */
export function createAdmission(most: Record<RequestKind, number> = MAX_UNDER_WAY, mostWaiting = MAX_WAITING): Admission {
  const underWay = { reads: 0, writes: 0 }
  let waiting = 0
  return {
    async work(kind, part) {
      if (underWay[kind] >= most[kind]) throw overloaded()
      underWay[kind]++
      try {
        return await part()
      } finally {
        underWay[kind]--
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
  }
}

/** Whose room a body takes: a token's, or that of everyone who has shown nothing. */
export type BodyShare = keyof typeof MAX_HELD_BODY_BYTES

const heldBytes = { open: 0, token: 0 }
/** What a chunk costs beside its bytes: a body may come a byte at a time. */
const CHUNK_COST = 256

/** The room that one body takes. Its first few KiB are free, so that small ones get in beside large ones that don't end. */
export function takeBodyRoom(share: BodyShare): { add(length: number): boolean; release(): void } {
  let length = 0
  let taken = 0
  return {
    add(more) {
      length += more + CHUNK_COST
      const owed = Math.max(0, length - FREE_BODY_BYTES) - taken
      if (heldBytes[share] + owed > MAX_HELD_BODY_BYTES[share]) return false
      heldBytes[share] += owed
      taken += owed
      return true
    },
    release() {
      heldBytes[share] -= taken
      taken = 0
    },
  }
}

/** Answers that their callers have not taken yet, the oldest first. */
const unread = new Map<ServerResponse, number>()
/** The same by their connections: of an answer that waits behind another one, nothing but the connection's end is told. */
const unreadOver = new WeakMap<Socket, Set<ServerResponse>>()
let unreadBytes = 0
/** An answer on its way over a fair connection is not cut for another's sake. */
const FAIR_MS = 2_000
const sentAt = new WeakMap<ServerResponse, number>()

/**
 * Counts an answer until its caller has taken it. Where callers leave too much lying, those that have done so the
 * longest are cut off.
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
