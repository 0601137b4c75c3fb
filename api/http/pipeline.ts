import type { RequestListener } from 'node:http'
import type { Socket } from 'node:net'
import { MAX_PIPELINED } from '../../shared/foundation/limits.ts'

/** Of each connection what waits for its turn, first in line first. */
const waiting = new WeakMap<Socket, (() => void)[]>()
let count = 0

/**
 * A connection has one answer under way. What was sent behind it waits, and no more is read, until the system
 * has taken the answer: requests whose answers nobody reads cost nothing but their own bytes.
 */
export function answerInTurn(listener: RequestListener): RequestListener {
  return (req, res) => {
    const { socket } = req
    const line = waiting.get(socket)
    const begin = (): void => {
      res.once('close', () => next(socket))
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
    if (isIdle.has(socket)) {
      isIdle.delete(socket)
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
const isIdle = new WeakSet<Socket>()

function next(socket: Socket): void {
  const line = waiting.get(socket)
  if (line === undefined || socket.destroyed) return
  const begin = line.shift()
  if (begin === undefined) {
    isIdle.add(socket)
    socket.resume()
    return
  }
  count--
  begin()
}
