import type { Server } from 'node:http'
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
