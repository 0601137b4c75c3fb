import { randomInt } from 'node:crypto'
import net from 'node:net'
import { StartError } from '../../shared/platform/process.ts'

/** A port cannot be used. */
export class PortError extends StartError {
  override readonly name = 'PortError'
}

/**
 * Checks that a server can listen on a port.
 *
 * @param variable the setting that names the port, such as PORT; its host is in the one named …HOST
 * @throws PortError saying which setting to change, and to what
 */
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

/** The ports that findFreePort has looked at in this process. */
const drawn = new Set<number>()

/**
 * Finds a free port on the loopback address: `wished` if it is free, else a random one that this process has
 * not looked at before. So two that search at once find two.
 */
export async function findFreePort(wished?: number): Promise<number> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const isWished = attempt === 0 && wished !== undefined
    const port = isWished ? wished : randomInt(FIRST_PORT, LAST_PORT + 1)
    if (!isWished && drawn.has(port)) continue
    drawn.add(port)
    if ((await tryListen(port, '127.0.0.1')) === undefined) return port
  }
  throw new PortError(`No port between ${FIRST_PORT} and ${LAST_PORT} is free on 127.0.0.1.`)
}

/** The ports that reservePort has given out in this process. */
const reserved = new Set<number>()

/**
 * As {@link findFreePort}, but gives no port twice in this process: between the search and the server that
 * listens on it there is time for another search.
 */
export async function reservePort(wished?: number): Promise<number> {
  for (;;) {
    const port = await findFreePort(wished !== undefined && reserved.has(wished) ? undefined : wished)
    if (reserved.has(port)) continue
    reserved.add(port)
    return port
  }
}

/** Finds `count` free ports, each given only once in this process. */
export const reservePorts = (count: number): Promise<number[]> =>
  Promise.all(Array.from({ length: count }, () => reservePort()))

/** Listens on a port for a moment. @returns the error's code if that fails, such as EADDRINUSE */
function tryListen(port: number, host: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const server = net.createServer()
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
    server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(undefined)))
  })
}

/** Whether something takes connections at a port. */
export function isPortAnswering(port: number, host = '127.0.0.1'): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect({ port, host })
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}
