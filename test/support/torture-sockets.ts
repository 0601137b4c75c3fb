import fs from 'node:fs'
import net from 'node:net'

/** A connection of which only bytes are known. */
export interface RawConnection {
  readonly socket: net.Socket
  /** Everything that came so far. */
  received(): string
  /** Resolves when the other side has ended or cut it. */
  readonly closed: Promise<void>
}

/** @param reads false: nothing is taken off the connection, as a client does that doesn't read */
export function connectRaw(url: string, reads = true): Promise<RawConnection> {
  const { port, hostname } = new URL(url)
  const socket = net.connect({ port: Number(port), host: hostname, allowHalfOpen: false })
  const chunks: Buffer[] = []
  if (reads) socket.on('data', (chunk: Buffer) => void chunks.push(chunk))
  else socket.pause()
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  socket.on('error', () => undefined) // a cut connection, which `closed` tells
  return new Promise((resolve, reject) => {
    socket.once('error', reject)
    socket.once('connect', () => {
      socket.off('error', reject)
      resolve({ socket, closed, received: () => Buffer.concat(chunks).toString('latin1') })
    })
  })
}

/** Many at once, in groups that a listen backlog holds. */
export async function connectMany(url: string, count: number, reads = true): Promise<RawConnection[]> {
  const connections: RawConnection[] = []
  while (connections.length < count)
    connections.push(
      ...(await Promise.all(
        Array.from({ length: Math.min(200, count - connections.length) }, () => connectRaw(url, reads)),
      )),
    )
  return connections
}

/** Memory of a process that is really there, in MB. */
export function residentMb(pid: number): number {
  const [, kilobytes] = /^VmRSS:\s+(\d+) kB/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return Number(kilobytes) / 1_024
}

/** How many answers a connection has had: of their status lines, the codes. */
export const statusesOf = (text: string): number[] =>
  [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, code]) => Number(code))
