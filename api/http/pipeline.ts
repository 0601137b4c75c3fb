import type { RequestListener } from 'node:http'
import type { Socket } from 'node:net'
import { MAX_PIPELINED, MAX_PIPELINED_OF_CONNECTION } from '../../shared/platform/limits.ts'

/** The requests of each connection that wait for their turn, in order; only for connections that have any. */
const waiting = new Map<Socket, (() => void)[]>()
/** Number of the requests that wait, of all connections. */
let waitingCount = 0
/** Connections that have an answer under way. */
const busy = new WeakSet<Socket>()

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
      res.on('close', () => beginNext(socket))
      listener(req, res)
    }
    if (!busy.has(socket)) {
      busy.add(socket)
      return begin()
    }
    socket.pause()
    const ofSocket = waiting.get(socket) ?? []
    if (ofSocket.length === 0) {
      waiting.set(socket, ofSocket)
      socket.once('close', () => forget(socket))
    }
    ofSocket.push(begin)
    waitingCount++
    if (waitingCount > MAX_PIPELINED) cutLongest()
  }
}

/** Begins a connection's next request, or reads on from it if none waits. */
function beginNext(socket: Socket): void {
  const ofSocket = waiting.get(socket)
  if (socket.destroyed) return
  const begin = ofSocket?.shift()
  if (begin === undefined) {
    forget(socket)
    busy.delete(socket)
    socket.resume()
    return
  }
  waitingCount--
  begin()
}

/** Cuts the connection that has the most requests waiting, if these are more than every connection may have. */
function cutLongest(): void {
  let longest: Socket | undefined
  let most = MAX_PIPELINED_OF_CONNECTION
  for (const [socket, { length }] of waiting) {
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
  waitingCount -= waiting.get(socket)?.length ?? 0
  waiting.delete(socket)
}
