import type { Server, ServerResponse } from 'node:http'
import { Server as NetServer } from 'node:net'
import { STOP_LIMIT_MS } from './limits.ts'
import { StartError } from './process.ts'

/**
 * Starts listening, and returns the port, which the system chooses if `port` is 0.
 *
 * @param setting the name of the port's setting, for the error
 * @throws StartError if the port is taken
 */
export function listen(server: Server, port: number, host: string, setting = 'PORT'): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const isTaken = error.code === 'EADDRINUSE'
      reject(
        isTaken
          ? new StartError(
              `Port ${port} on ${host} is taken by another program; set ${setting} to a free one.`,
            )
          : error,
      )
    })
    server.listen(port, host, () => {
      const address = server.address()
      resolve(typeof address === 'object' && address !== null ? address.port : port)
    })
  })
}

/** Stops listening, closes every connection at once, and waits until the server is closed. */
export async function closeNow(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  server.closeAllConnections()
  await closed
}

/**
 * Takes no new connections, finishes requests under way within `idleMs` + STOP_LIMIT_MS, then cuts the rest.
 * Answers from now on have `Connection: close`.
 *
 * @param idleMs when idle connections are closed. Until then they are served, since a request may be on its way.
 * @returns how many connections were cut
 */
export async function closeGently(server: Server, idleMs: number): Promise<number> {
  server.prependListener('request', (_req, res: ServerResponse) => res.setHeader('Connection', 'close'))
  // Not the close of http.Server, which cuts idle connections at once.
  const closed = new Promise<void>((resolve) => NetServer.prototype.close.call(server, () => resolve()))
  const idleFrom = performance.now() + idleMs
  // Repeatedly: a connection becomes idle only when its last answer is sent.
  const closeIdle = (): void => {
    if (performance.now() >= idleFrom) server.closeIdleConnections()
  }
  closeIdle()
  const idleTimer = setInterval(closeIdle, 50)
  let cutConnections = 0
  const cutTimer = setTimeout(() => {
    server.getConnections((_error, open) => {
      cutConnections = open
      server.closeAllConnections()
    })
  }, idleMs + STOP_LIMIT_MS)
  await closed
  clearInterval(idleTimer)
  clearTimeout(cutTimer)
  server.close() // ends Node's timers; that the server is closed already is reported only to a callback
  return cutConnections
}
