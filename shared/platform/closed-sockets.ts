import { createRequire } from 'node:module'
import type { Duplex } from 'node:stream'

/** The driver's own wait for an event of a socket; it rejects at the socket's `error`. */
type WaitFor = (socket: Duplex, event: string, options?: object) => Promise<unknown>

let isMended = false

/**
 * Makes MongoDB's driver give up writing to a connection that is closed, for every client of this process.
 *
 * The driver (7.5 to 7.9 at least) waits for a socket's `drain` or `error` whenever a write isn't done at
 * once. A socket that is destroyed without an error has neither: the driver does so itself when a server is
 * silent for too long or is found to be away, and Node when the server has ended the connection. Then the
 * operation would never end, and no setting bounds it but `timeoutMS`, which also ends work that may take long.
 *
 * So the wait ends when the socket is closed. After it, as after every write, the driver looks whether the
 * connection has failed, and tries again what it may.
 */
export function endWaitsAtClose(): void {
  if (isMended) return
  const driver = createRequire(import.meta.resolve('mongoose'))('mongodb/lib/utils.js') as { once: WaitFor }
  const waitFor = driver.once
  if (typeof waitFor !== 'function') throw new Error("MongoDB's driver waits for its sockets in another way")
  driver.once = async (socket, event, options) => {
    const closed = Promise.withResolvers<void>()
    if (socket.closed) closed.resolve()
    else socket.once('close', closed.resolve)
    // An error destroys the socket too, and by then the connection has it for whoever looks after the write.
    const ready = waitFor(socket, event, options).catch((error: unknown) => {
      if (!socket.destroyed) throw error
    })
    try {
      await Promise.race([ready, closed.promise])
    } finally {
      socket.off('close', closed.resolve)
    }
  }
  isMended = true
}
