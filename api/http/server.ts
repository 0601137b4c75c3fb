import {
  createServer,
  maxHeaderSize,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http'
import { Server as NetServer, type Socket } from 'node:net'
import { Refusal, type ErrorCode } from '../../shared/platform/errors.ts'
import { CLOSE_LIMIT_MS, STOP_LIMIT_MS } from '../../shared/platform/limits.ts'
import { MINUTE_MS, SECOND_MS } from '../../shared/platform/time.ts'
import {
  limitConnections,
  maxConnectionsFor,
  readDescriptorLimit,
} from '../../shared/platform/limit-connections.ts'
import { sendRefusal } from './answer.ts'
import { deferContinue } from './body.ts'
import type { NoteRefusal } from './refusals.ts'

export interface LimitedServer {
  http: Server
  /**
   * Takes no new connections, finishes requests under way within `idleMs` + STOP_LIMIT_MS, then cuts the
   * rest. Answers from now on have `Connection: close`.
   *
   * @param options `idleMs`: when idle connections are closed, at once if absent. Until then they are served,
   *   since a request may be on its way.
   * @returns how many connections were cut
   */
  close(options?: { idleMs?: number }): Promise<number>
}

export interface ServerOptions {
  maxConnections?: number
  /** Counts what is refused or cut before there is a request. */
  note?: NoteRefusal
  /** Called for each connection that is accepted. */
  noteConnection?: () => void
}

/**
 * Creates an HTTP server with limits for slow, broken and silent clients; it doesn't listen yet. Malformed
 * requests are answered in JSON, too.
 */
export function createLimitedServer(listener: RequestListener, options: ServerOptions = {}): LimitedServer {
  const {
    maxConnections = maxConnectionsFor(readDescriptorLimit()),
    note = () => undefined,
    noteConnection,
  } = options
  // refuseAmbiguous() refuses a request without Host, with a sentence. Time limits are checked every second,
  // since Node's default of 30 s is longer than they are.
  const http = createServer({ requireHostHeader: false, connectionsCheckingInterval: SECOND_MS }, listener)
  limitConnections(http, maxConnections, () => note('cut_for_room'))
  if (noteConnection !== undefined) http.on('connection', noteConnection)
  http.headersTimeout = 10 * SECOND_MS
  http.requestTimeout = 30 * SECOND_MS
  http.keepAliveTimeout = MINUTE_MS
  // No answer takes longer (a wait raises this), so the client of a connection that is silent so long doesn't
  // read.
  http.timeout = 30 * SECOND_MS
  http.on('checkContinue', (req, res) => {
    deferContinue(req)
    http.emit('request', req, res)
  })
  http.on('checkExpectation', (_req, res) =>
    sendRefusal(res, new Refusal('invalid_field', 'The header Expect may only be 100-continue.')),
  )
  http.on('clientError', (error: NodeJS.ErrnoException, stream) => {
    const socket = stream as Socket
    const answering = answerUnderWay(socket)
    if (!socket.writable || error.code === 'ECONNRESET') return void socket.destroy()
    const { kind, ...refusal } = PARSER_REFUSALS[error.code ?? ''] ?? MALFORMED
    note(kind)
    // While an answer is being sent, or a complete request waits for one, the client would take this refusal
    // for that answer. A request that breaks in its own body is refused here.
    if (answering !== undefined && (answering.headersSent || answering.req.complete))
      return closeWhenAnswered(socket)
    const text = JSON.stringify({ ok: false, error: refusal.error, message: refusal.message })
    closeSoon(
      socket,
      `HTTP/1.1 ${refusal.status}\r\nContent-Type: application/json; charset=utf-8\r\nCache-Control: no-store\r\nContent-Length: ${Buffer.byteLength(text)}\r\nConnection: close\r\n\r\n${text}`,
    )
  })
  return {
    http,
    async close({ idleMs = 0 } = {}) {
      http.prependListener('request', (_req, res: ServerResponse) => res.setHeader('Connection', 'close'))
      // Not the close of http.Server, which cuts idle connections at once.
      const closed = new Promise<void>((resolve) => NetServer.prototype.close.call(http, () => resolve()))
      const idleFrom = performance.now() + idleMs
      // Repeatedly: a connection becomes idle only when its last answer is sent.
      const closeIdle = () => {
        if (performance.now() >= idleFrom) http.closeIdleConnections()
      }
      closeIdle()
      const idleTimer = setInterval(closeIdle, 50)
      let cutConnections = 0
      const cutTimer = setTimeout(() => {
        http.getConnections((_error, open) => {
          cutConnections = open
          http.closeAllConnections()
        })
      }, idleMs + STOP_LIMIT_MS)
      await closed
      clearInterval(idleTimer)
      clearTimeout(cutTimer)
      http.close() // ends Node's timers; that the server is closed already is reported only to a callback
      return cutConnections
    },
  }
}

/**
 * Refusals of requests that Node's HTTP parser gives up. Their statuses are more precise than their codes.
 */
const MALFORMED = {
  kind: 'malformed',
  status: '400 Bad Request',
  error: 'invalid_field',
  message: 'This is not a well-formed HTTP/1.1 request within the limits.',
} as const
const PARSER_REFUSALS: Record<
  string,
  { kind: 'slow_request' | 'large_headers'; status: string; error: ErrorCode; message: string }
> = {
  ERR_HTTP_REQUEST_TIMEOUT: {
    kind: 'slow_request',
    status: '408 Request Timeout',
    error: 'unavailable',
    message: 'The request did not come in time; send its headers within 10 s and all of it within 30 s.',
  },
  HPE_HEADER_OVERFLOW: {
    kind: 'large_headers',
    status: '431 Request Header Fields Too Large',
    error: 'invalid_field',
    message: `The request line and the headers are longer than ${maxHeaderSize} bytes; send less.`,
  },
}

/** Returns the answer that a connection is sending or about to send; undefined if there is none. */
const answerUnderWay = (socket: Socket) =>
  (socket as { _httpMessage?: ServerResponse | null })._httpMessage ?? undefined

/**
 * Sends the last bytes of a connection, and destroys it after CLOSE_LIMIT_MS if its client hasn't closed it
 * by then.
 */
function closeSoon(socket: Socket, text = ''): void {
  socket.end(text)
  const cut = setTimeout(() => socket.destroy(), CLOSE_LIMIT_MS)
  socket.once('close', () => clearTimeout(cut))
}

/** Reads nothing more, and closes once what was asked before is answered. */
function closeWhenAnswered(socket: Socket): void {
  socket.pause()
  const answering = answerUnderWay(socket)
  if (answering === undefined) return closeSoon(socket)
  answering.once('close', () => setImmediate(closeWhenAnswered, socket))
}
