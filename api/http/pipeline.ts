import type { RequestListener } from 'node:http'
import type { Socket } from 'node:net'
import { MAX_PIPELINED } from '../../shared/foundation/limits.ts'

/** The requests of each connection that wait for their turn, in order. */
const waiting = new WeakMap<Socket, (() => void)[]>()
let count = 0

/**
 * Serves one request of a connection at a time. Pipelined requests wait, and nothing more is read from the
 * connection, until the operating system has taken the answer before: so a client that reads no answers makes
 * the service do no work.
 */
export function answerInTurn(listener: RequestListener): RequestListener {
  return (req, res) => {
    const { socket } = req
    const line = waiting.get(socket)
    const begin = (): void => {
      res.on('close', () => next(socket))
      listener(req, res)
    }
    if (line === undefined) {
      waiting.set(socket, [])
      socket.once('close', () => {
        count -= waiting.get(socket)?.length ?? 0
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
    if (count >= MAX_PIPELINED) return void socket.destroy()
    line.push(begin)
    count++
    socket.pause()
  }
}

/** Connections that have no answer under way. */
const idleSockets = new WeakSet<Socket>()

function next(socket: Socket): void {
  const line = waiting.get(socket)
  if (line === undefined || socket.destroyed) return
  const begin = line.shift()
  if (begin === undefined) {
    idleSockets.add(socket)
    socket.resume()
    return
  }
  count--
  begin()
}
