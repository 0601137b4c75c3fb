import { createServer, type RequestListener, type Server } from 'node:http'
import { Refusal } from '../../shared/errors.ts'
import { STOP_LIMIT_MS } from '../../shared/limits.ts'
import { StartError } from '../../shared/process.ts'
import { MINUTE_MS, SECOND_MS } from '../../shared/time.ts'
import { sendRefusal } from './answer.ts'

export interface LimitedServer {
  http: Server
  /** Takes no new connection, finishes what is under way within the limit, then cuts what is left. */
  close(): Promise<void>
}

/** More than this at once is a flood; the operating system lets the rest wait. */
const MAX_CONNECTIONS = 10_000

/** A server with the limits of slow, broken or silent clients set, which answers in JSON what is not HTTP, too. */
export function createLimitedServer(listener: RequestListener): LimitedServer {
  // A request without Host is answered like any other; the check for late requests runs often enough for its limits to mean something.
  const http = createServer({ requireHostHeader: false, connectionsCheckingInterval: 5 * SECOND_MS }, listener)
  http.maxConnections = MAX_CONNECTIONS
  http.headersTimeout = 10 * SECOND_MS
  http.requestTimeout = 30 * SECOND_MS
  http.keepAliveTimeout = MINUTE_MS
  // Nothing takes longer to answer, so a connection that is silent this long is one whose client does not read.
  http.timeout = 30 * SECOND_MS
  http.on('checkExpectation', (_req, res) => sendRefusal(res, new Refusal('invalid_field', 'The header Expect may only be 100-continue.')))
  http.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    // While an answer is under way, another one in its middle would be taken for its text.
    const isAnswering = (socket as { _httpMessage?: unknown })._httpMessage != null
    if (!socket.writable || isAnswering || error.code === 'ECONNRESET') {
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
    async close() {
      const closed = new Promise<void>((resolve) => http.close(() => resolve()))
      // A connection that is kept alive falls idle when its last answer is sent, which may be later.
      const idle = setInterval(() => http.closeIdleConnections(), 50)
      const cut = setTimeout(() => http.closeAllConnections(), STOP_LIMIT_MS)
      await closed
      clearInterval(idle)
      clearTimeout(cut)
    },
  }
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
