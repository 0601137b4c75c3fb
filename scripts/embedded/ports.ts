import { randomInt } from 'node:crypto'
import net from 'node:net'
import { StartError } from '../../shared/foundation/process.ts'

/** A port that cannot be had. */
export class PortError extends StartError {
  override readonly name = 'PortError'
}

/** @throws PortError saying which variable to set to what */
export async function assertPortFree(variable: string, port: number, host: string): Promise<void> {
  const code = await tryListen(port, host)
  if (code === undefined) return
  const hostVariable = variable.replace(/PORT$/, 'HOST')
  if (code === 'EADDRINUSE')
    throw new PortError(
      `Port ${port} on ${host} is taken by another program: set ${variable} to a free port.`,
    )
  if (code === 'EACCES')
    throw new PortError(`Port ${port} is not open to this user: set ${variable} to a free port above 1023.`)
  throw new PortError(
    `${host} is no address of this machine (${code}): set ${hostVariable} to one, such as 127.0.0.1.`,
  )
}

/**
 * Below the ports that systems give to outgoing connections (from 32768 or 49152 on): such a connection must
 * not sit on a server's port while the server is being started again, least of all a client's own attempt to
 * reach it.
 */
const FIRST_PORT = 20_000
const LAST_PORT = 32_767
const ATTEMPTS = 200

/** `wished` if it is free on the loopback address, else any free port there. */
export async function findFreePort(wished?: number): Promise<number> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const port = attempt === 0 && wished !== undefined ? wished : randomInt(FIRST_PORT, LAST_PORT + 1)
    if ((await tryListen(port, '127.0.0.1')) === undefined) return port
  }
  throw new PortError(`No port between ${FIRST_PORT} and ${LAST_PORT} is free on 127.0.0.1.`)
}

/** What reservePort has given out in this process. */
const reserved = new Set<number>()

/**
 * As {@link findFreePort}, and no port twice in this process: a server listens a while after its port was
 * found.
 */
export async function reservePort(wished?: number): Promise<number> {
  for (;;) {
    const port = await findFreePort(wished !== undefined && reserved.has(wished) ? undefined : wished)
    if (reserved.has(port)) continue
    reserved.add(port)
    return port
  }
}

export const reservePorts = (count: number): Promise<number[]> =>
  Promise.all(Array.from({ length: count }, () => reservePort()))

/** The error's code if the port cannot be listened on. */
function tryListen(port: number, host: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const server = net.createServer()
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
    server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(undefined)))
  })
}
