import { createServer, type RequestListener, type Server, type ServerResponse } from 'node:http'
import { Server as NetServer, type Socket } from 'node:net'
import { Refusal } from '../../shared/errors.ts'
import { STOP_LIMIT_MS } from '../../shared/limits.ts'
import { StartError } from '../../shared/process.ts'
import { MINUTE_MS, SECOND_MS } from '../../shared/time.ts'
import { sendRefusal } from './answer.ts'

export interface LimitedServer {
  http: Server
  /**
   * Takes no new connection, finishes what is under way within the limit, then cuts what is left. Each answer from now
   * on says that its connection closes. A connection that is kept alive and silent is closed after `idleMs`, at once
   * where absent: a request may be on its way on it at this moment, and would be lost. Resolves with how many were cut.
   */
  close(options?: { idleMs?: number }): Promise<number>
}

/** More than this at once is a flood. */
const MAX_CONNECTIONS = 10_000

/** A server with the limits of slow, broken or silent clients set, which answers in JSON what is not HTTP, too. */
export function createLimitedServer(listener: RequestListener): LimitedServer {
  // A request without Host is answered like any other; the check for late requests runs often enough for its limits to mean something.
  const http = createServer({ requireHostHeader: false, connectionsCheckingInterval: 5 * SECOND_MS }, listener)
  makeRoom(http, MAX_CONNECTIONS)
  http.headersTimeout = 10 * SECOND_MS
  http.requestTimeout = 30 * SECOND_MS
  http.keepAliveTimeout = MINUTE_MS
  // Nothing takes longer to answer, so a connection that is silent this long is one whose client does not read.
  http.timeout = 30 * SECOND_MS
  http.on('checkExpectation', (_req, res) => sendRefusal(res, new Refusal('invalid_field', 'The header Expect may only be 100-continue.')))
  http.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    // While an answer is under way, another one would be taken for its text; while a whole request waits for its answer,
    // for that. A request that breaks in its own body is answered like one that breaks before it.
    const answering = (socket as { _httpMessage?: ServerResponse | null })._httpMessage
    const isOwed = answering != null && (answering.headersSent || answering.req.complete)
    if (!socket.writable || isOwed || error.code === 'ECONNRESET') {
      socket.destroy()
      return
    }
    const text = JSON.stringify({
      ok: false,
      error: 'invalid_field',
      message: 'This is not a well-formed HTTP/1.1 request within the limits.',
    })
    socket.end(
      `HTTP/1.1 400 Bad Request\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(text)}\r\nConnection: close\r\n\r\n${text}`,
    )
  })
  return {
    http,
    async close({ idleMs = 0 } = {}) {
      http.prependListener('request', (_req, res: ServerResponse) => res.setHeader('Connection', 'close'))
      // Not the close of http.Server, which cuts idle connections at once.
      const closed = new Promise<void>((resolve) => NetServer.prototype.close.call(http, () => resolve()))
      const idleFrom = performance.now() + idleMs
      // A connection that is kept alive falls idle when its last answer is sent, which may be later.
      const closeIdle = () => {
        if (performance.now() >= idleFrom) http.closeIdleConnections()
      }
      closeIdle()
      const idle = setInterval(closeIdle, 50)
      let left = 0
      const cut = setTimeout(() => {
        http.getConnections((_error, open) => {
          left = open
          http.closeAllConnections()
        })
      }, idleMs + STOP_LIMIT_MS)
      await closed
      clearInterval(idle)
      clearTimeout(cut)
      http.close() // ends its own timers; it is closed, which would only be said to a callback
      return left
    },
  }
}

/**
 * Where there are too many connections, the one whose client has kept the server waiting the longest is cut for the new
 * one: a flood of slow or silent clients takes room from itself, and whoever comes and asks is served.
 */
export function makeRoom(http: Server, most: number): void {
  const waitedFor = new Set<Socket>()
  const isWaitedFor = (socket: Socket): void => {
    if (!socket.destroyed) waitedFor.add(socket)
  }
  let open = 0
  http.on('connection', (socket: Socket) => {
    open++
    isWaitedFor(socket)
    socket.once('close', () => {
      open--
      waitedFor.delete(socket)
    })
    if (open <= most) return
    const [slowest = socket] = waitedFor
    waitedFor.delete(slowest)
    slowest.destroy()
  })
  http.prependListener('request', (req, res: ServerResponse) => {
    const { socket } = req
    // With a body still on its way, it is the client's turn.
    if (req.complete || req.method === 'GET' || req.method === 'HEAD') waitedFor.delete(socket)
    else req.once('end', () => waitedFor.delete(socket))
    res.once('finish', () => isWaitedFor(socket))
  })
}

/** Listens, and gives back the port. A taken port is an error that says so. */
export function listen(http: Server, port: number, host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    http.once('error', (error: NodeJS.ErrnoException) => {
      reject(error.code === 'EADDRINUSE' ? new StartError(`Port ${port} on ${host} is taken by another program; set another port.`) : error)
    })
    http.listen(port, host, () => {
      const address = http.address()
      resolve(typeof address === 'object' && address !== null ? address.port : port)
    })
  })
}
