import { maxHeaderSize, type RequestListener, type Server, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { ErrorCode } from '../../shared/platform/errors.ts'
import { CLOSE_LIMIT_MS } from '../../shared/platform/limits.ts'
import { closeGently } from '../../shared/platform/listen.ts'
import { MINUTE_MS, SECOND_MS } from '../../shared/platform/time.ts'
import {
  createBoundedServer,
  maxConnectionsFor,
  readDescriptorLimit,
} from '../../shared/platform/limit-connections.ts'
import type { MessageClasses } from './messages.ts'
import type { NoteRefusal, RefusalKind } from './refusals.ts'

export interface LimitedServer {
  http: Server
  /** See closeGently(). @param options `idleMs`: when idle connections are closed, at once if absent */
  close(options?: { idleMs?: number }): Promise<number>
}

export interface ServerOptions {
  classes?: MessageClasses
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
  const { note, noteConnection, classes } = options
  const limits = {
    ...classes,
    maxConnections: maxConnectionsFor(readDescriptorLimit()),
    // refuseSmuggling() refuses a request without Host, with a sentence.
    requireHostHeader: false,
    headersTimeout: 10 * SECOND_MS,
    requestTimeout: 30 * SECOND_MS,
    keepAliveTimeout: MINUTE_MS,
    // No answer takes longer (a wait raises this), so the client of a connection that is silent so long doesn't
    // read.
    timeout: 30 * SECOND_MS,
  }
  const http = createBoundedServer(listener, limits, () => note?.('cut_for_room'))
  if (noteConnection !== undefined) http.on('connection', noteConnection)
  // readBody() lets a client send what it has announced, and refuseSmuggling() refuses what else it expects.
  for (const event of ['checkContinue', 'checkExpectation'])
    http.on(event, (req, res) => http.emit('request', req, res))
  http.on('clientError', (error: NodeJS.ErrnoException, stream) => {
    const socket = stream as Socket
    const answering = answerUnderWay(socket)
    if (!socket.writable || error.code === 'ECONNRESET') return void socket.destroy()
    const { kind, status, ...refusal } = PARSER_REFUSALS[error.code ?? ''] ?? MALFORMED
    note?.(kind)
    // While an answer is being sent, or a complete request waits for one, the client would take this refusal
    // for that answer. A request that breaks in its own body is refused here.
    if (answering !== undefined && (answering.headersSent || answering.req.complete))
      return closeWhenAnswered(socket)
    const text = JSON.stringify({ ok: false, ...refusal })
    closeSoon(
      socket,
      `HTTP/1.1 ${status}\r\nContent-Type: application/json; charset=utf-8\r\nCache-Control: no-store\r\nContent-Length: ${Buffer.byteLength(text)}\r\nConnection: close\r\n\r\n${text}`,
    )
  })
  return { http, close: ({ idleMs = 0 } = {}) => closeGently(http, idleMs) }
}

interface ParserRefusal {
  kind: RefusalKind
  status: string
  error: ErrorCode
  message: string
}

/** Refusals of requests that Node's HTTP parser gives up. Their statuses are more precise than their codes. */
const MALFORMED: ParserRefusal = {
  kind: 'malformed',
  status: '400 Bad Request',
  error: 'invalid_field',
  message: 'This is not a well-formed HTTP/1.1 request within the limits.',
}
const PARSER_REFUSALS: Record<string, ParserRefusal> = {
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
