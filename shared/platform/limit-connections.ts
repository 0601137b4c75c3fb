import fs from 'node:fs'
import {
  createServer,
  type RequestListener,
  type Server,
  type ServerOptions,
  type ServerResponse,
} from 'node:http'
import type { Socket } from 'node:net'
import { SECOND_MS } from './time.ts'

/** The most connections of one process, whatever its limit of open files. */
const MAX_CONNECTIONS = 20_000
/** Descriptors reserved for MongoDB, Redis, files and closing connections. */
const SPARE_DESCRIPTORS = 200

/**
 * Returns how many connections a process may take.
 *
 * @param descriptors its limit of open files; undefined if the system doesn't tell
 */
export function maxConnectionsFor(descriptors: number | undefined): number {
  return Math.max(1, Math.min(MAX_CONNECTIONS, (descriptors ?? Number.POSITIVE_INFINITY) - SPARE_DESCRIPTORS))
}

/** Reads this process's limit of open files; undefined on a system without /proc, or if there is no limit. */
export function readDescriptorLimit(): number | undefined {
  try {
    const [, limit] = /^Max open files +(\d+)/m.exec(fs.readFileSync('/proc/self/limits', 'utf8')) ?? []
    return limit === undefined ? undefined : Number(limit)
  } catch {
    return undefined
  }
}

/**
 * Limits a server's connections. A new one beyond `maxConnections` cuts the one whose client has kept the
 * server waiting the longest: so a flood of slow or silent clients cuts its own connections, and others are
 * served.
 *
 * @param noteCut is called for each connection that is cut
 */
export function limitConnections(http: Server, maxConnections: number, noteCut = () => {}): void {
  /** Connections whose clients the server waits for, the longest first. */
  const waitedFor = new Set<Socket>()
  const startWaitingFor = (socket: Socket): void => {
    if (!socket.destroyed) waitedFor.add(socket)
  }
  let open = 0
  http.on('connection', (socket: Socket) => {
    open++
    startWaitingFor(socket)
    socket.once('close', () => {
      open--
      waitedFor.delete(socket)
    })
    if (open <= maxConnections) return
    const [slowest = socket] = waitedFor
    waitedFor.delete(slowest)
    slowest.destroy()
    noteCut()
  })
  http.prependListener('request', (req, res: ServerResponse) => {
    const { socket } = req
    // While a body is still arriving, the server waits for the client.
    if (req.complete || req.method === 'GET' || req.method === 'HEAD') waitedFor.delete(socket)
    else req.once('end', () => waitedFor.delete(socket))
    res.once('finish', () => startWaitingFor(socket))
  })
}

/** What a server allows its clients; times are in milliseconds, and `timeout` is that of a silent connection. */
type ServerLimits = Required<
  Pick<ServerOptions, 'requireHostHeader' | 'headersTimeout' | 'requestTimeout' | 'keepAliveTimeout'>
> & { timeout: number; maxConnections: number }

/**
 * Creates an HTTP server that closes connections which are slow or silent, and limits how many there are: see
 * limitConnections(). It doesn't listen yet.
 */
export function createBoundedServer(
  listener: RequestListener,
  limits: ServerLimits,
  noteCut?: () => void,
): Server {
  // Time limits are checked every second, since Node's default of 30 s is longer than they are.
  const http = createServer({ ...limits, connectionsCheckingInterval: SECOND_MS }, listener)
  http.timeout = limits.timeout
  limitConnections(http, limits.maxConnections, noteCut)
  return http
}

/** Connections of a port for the operator and what watches the network, which are a few people and programs. */
export const MAX_WATCHERS = 64

/** The limits of such a port. */
export const WATCHERS: ServerLimits = {
  maxConnections: MAX_WATCHERS,
  requireHostHeader: true,
  headersTimeout: 5 * SECOND_MS,
  requestTimeout: 10 * SECOND_MS,
  keepAliveTimeout: 10 * SECOND_MS,
  timeout: 60 * SECOND_MS,
}
