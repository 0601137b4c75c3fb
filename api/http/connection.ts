import type { RequestListener, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import {
  MAX_PIPELINED,
  MAX_PIPELINED_OF_CONNECTION,
  MAX_UNREAD_ANSWER_BYTES,
} from '../../shared/platform/limits.ts'

/*
 * What connections make the process hold: requests that wait behind another one, and answers that are not
 * read. Each has a limit for all connections together, above which those that hold the most, or the longest,
 * are cut.
 */

/** Of each connection with an answer under way, the requests that wait behind it, in order. */
const behind = new Map<Socket, (() => void)[]>()
/** Number of the requests that wait, of all connections. */
let waitingCount = 0

/**
 * Returns a listener that serves one request of a connection at a time by `listener`. Pipelined requests
 * wait, and nothing more is read from the connection, until the operating system has taken the answer before:
 * so a client that reads no answers makes the service do no work.
 *
 * What was read already may hold many requests. A connection may have MAX_PIPELINED_OF_CONNECTION of them
 * waiting whatever others have; if more than MAX_PIPELINED wait in all, the connection with the most is cut.
 */
export function answerInTurn(listener: RequestListener): RequestListener {
  return (req, res) => {
    const { socket } = req
    if (socket.destroyed) return
    const begin = (): void => {
      // Also when the connection ends.
      res.on('close', () => beginNext(socket))
      listener(req, res)
    }
    const waiting = behind.get(socket)
    if (waiting === undefined) {
      behind.set(socket, [])
      return begin()
    }
    socket.pause()
    waiting.push(begin)
    waitingCount++
    if (waitingCount > MAX_PIPELINED) cutLongest()
  }
}

/** Begins a connection's next request, or reads on from it if none waits. */
function beginNext(socket: Socket): void {
  const begin = socket.destroyed ? undefined : behind.get(socket)?.shift()
  if (begin !== undefined) {
    waitingCount--
    return begin()
  }
  forget(socket)
  socket.resume()
}

/** Cuts the connection that has the most requests waiting, if these are more than every connection may have. */
function cutLongest(): void {
  let longest: Socket | undefined
  let most = MAX_PIPELINED_OF_CONNECTION
  for (const [socket, { length }] of behind) {
    if (length <= most) continue
    longest = socket
    most = length
  }
  if (longest === undefined) return
  forget(longest)
  longest.destroy()
}

/** Takes what waits over a connection off the count. */
function forget(socket: Socket): void {
  waitingCount -= behind.get(socket)?.length ?? 0
  behind.delete(socket)
}

/** The answers that their clients have not read yet, the oldest first. */
const unread = new Map<ServerResponse, { bytes: number; sentAtMs: number }>()
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
  for (const [slow, { bytes, sentAtMs }] of unread) {
    if (unreadBytes + length <= maxBytes || nowMs - sentAtMs < GRACE_MS) break
    unread.delete(slow)
    unreadBytes -= bytes
    slow.req.socket.destroy()
  }
  unread.set(res, { bytes: length, sentAtMs: nowMs })
  unreadBytes += length
  const stopCounting = (): void => {
    if (unread.delete(res)) unreadBytes -= length
    socket.off('close', stopCounting)
  }
  // An answer that waits behind another one has no event but the connection's end.
  res.on('close', stopCounting)
  socket.on('close', stopCounting)
}

/** Returns how many bytes of answers clients have not read yet. */
export const readUnreadBytes = (): number => unreadBytes
