import type { RequestListener } from 'node:http'
import type { Socket } from 'node:net'
import { MAX_PIPELINED } from '../../shared/foundation/limits.ts'

/** The requests of each connection that wait for their turn, in order. */
const waiting = new WeakMap<Socket, (() => void)[]>()
/** Number of the requests that wait, of all connections. */
let waitingCount = 0

/**
 * Returns a listener that serves one request of a connection at a time by `listener`. Pipelined requests
 * wait, and nothing more is read from the connection, until the operating system has taken the answer before:
 * so a client that reads no answers makes the service do no work. If MAX_PIPELINED wait, the connection is
 * cut.
 */
export function answerInTurn(listener: RequestListener): RequestListener {
  return (req, res) => {
    const { socket } = req
    const waitingHere = waiting.get(socket)
    const begin = (): void => {
      res.on('close', () => beginNext(socket))
      listener(req, res)
    }
    if (waitingHere === undefined) {
      waiting.set(socket, [])
      socket.once('close', () => {
        waitingCount -= waiting.get(socket)?.length ?? 0
        waiting.delete(socket)
      })
      begin()
      return
    }
    if (idleSockets.has(socket)) {
      idleSockets.delete(socket)
      begin()
      return
    }
    if (waitingCount >= MAX_PIPELINED) return void socket.destroy()
    waitingHere.push(begin)
    waitingCount++
    socket.pause()
  }
}

/** Connections that have no answer under way. */
const idleSockets = new WeakSet<Socket>()

/** Begins a connection's next request, or reads on from it if none waits. */
function beginNext(socket: Socket): void {
  const waitingHere = waiting.get(socket)
  if (waitingHere === undefined || socket.destroyed) return
  const begin = waitingHere.shift()
  if (begin === undefined) {
    idleSockets.add(socket)
    socket.resume()
    return
  }
  waitingCount--
  begin()
}
