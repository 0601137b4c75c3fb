import net from 'node:net'
import { findFreePort } from '../../scripts/embedded/ports.ts'

export interface Gate {
  port: number
  /** Listens and lets connections through. */
  open(): Promise<void>
  /** Cuts every connection and refuses new ones, as a server that is gone does. */
  shut(): Promise<void>
}

/** A way to a server's port that can be shut: what stands behind it is the real server. Begins shut. */
export async function startGate(targetPort: number): Promise<Gate> {
  const sockets = new Set<net.Socket>()
  const server = net.createServer((inward) => {
    const outward = net.connect(targetPort, '127.0.0.1')
    for (const [socket, other] of [
      [inward, outward],
      [outward, inward],
    ] as const) {
      sockets.add(socket)
      socket.on('error', () => other.destroy())
      socket.on('close', () => {
        sockets.delete(socket)
        other.destroy()
      })
      socket.pipe(other)
    }
  })
  // Not one of the system's choice: while the gate is shut, that may be given to an outgoing connection.
  const port = await findFreePort()
  const shut = async () => {
    if (!server.listening) return
    const closed = new Promise<void>((resolve) => server.close(() => resolve()))
    for (const socket of sockets) socket.destroy()
    await closed
  }
  return {
    port,
    open: () =>
      new Promise<void>((resolve, reject) => {
        server.once('error', reject)
        server.listen(port, '127.0.0.1', () => {
          server.off('error', reject)
          resolve()
        })
      }),
    shut,
  }
}
