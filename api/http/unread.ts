import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { MAX_UNREAD_ANSWER_BYTES } from '../../shared/platform/limits.ts'

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
