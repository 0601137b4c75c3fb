import fs from 'node:fs'
import {
  createServer,
  maxHeaderSize,
  type RequestListener,
  type Server,
  type ServerOptions as HttpOptions,
  type ServerResponse,
} from 'node:http'
import { Server as NetServer, type Socket } from 'node:net'
import { Refusal, type ErrorCode } from '../../shared/foundation/errors.ts'
import { CLOSE_LIMIT_MS, STOP_LIMIT_MS } from '../../shared/foundation/limits.ts'
import { MINUTE_MS, SECOND_MS } from '../../shared/foundation/time.ts'
import { sendRefusal } from './answer.ts'
import { awaitContinue } from './body.ts'
import type { NoteRefusal } from './refusals.ts'

export interface LimitedServer {
  http: Server
  /**
   * Takes no new connection, finishes what is under way within the limit, then cuts what is left. Each answer
   * from now on says that its connection closes. A connection that is kept alive and silent is closed after
   * `idleMs`, at once where absent: a request may be on its way on it at this moment, and would be lost.
   * Resolves with how many were cut.
   */
  close(options?: { idleMs?: number }): Promise<number>
}

/** More than this at once is a flood. */
const MAX_CONNECTIONS = 20_000
/** Descriptors that are left for MongoDB, Redis, files and connections on their way out. */
const SPARE_DESCRIPTORS = 200

/**
 * How many connections a process takes, given its limit of open files; undefined if the system doesn't tell
 * the limit.
 */
export function connectionsWithin(descriptors: number | undefined): number {
  return Math.max(1, Math.min(MAX_CONNECTIONS, (descriptors ?? Number.POSITIVE_INFINITY) - SPARE_DESCRIPTORS))
}

/** The limit of open files of this process. */
export function readDescriptorLimit(): number | undefined {
  try {
    const [, limit] = /^Max open files +(\d+)/m.exec(fs.readFileSync('/proc/self/limits', 'utf8')) ?? []
    return limit === undefined ? undefined : Number(limit)
  } catch {
    return undefined // a system without /proc
  }
}

export interface ServerOptions {
  maxConnections?: number
  /** Is told of what is refused or cut before there is a request. */
  note?: NoteRefusal
  /** What requests and answers are made of; Node's own if absent. */
  classes?: Pick<HttpOptions, 'IncomingMessage' | 'ServerResponse'>
}

/**
 * A server with the limits of slow, broken or silent clients set, which answers in JSON what is not HTTP,
 * too.
 */
export function createLimitedServer(listener: RequestListener, options: ServerOptions = {}): LimitedServer {
  const {
    maxConnections = connectionsWithin(readDescriptorLimit()),
    note = () => undefined,
    classes,
  } = options
  // A request without Host is answered like any other; the check for late requests runs often enough for its
  // limits to mean something.
  const http = createServer(
    { ...classes, requireHostHeader: false, connectionsCheckingInterval: SECOND_MS },
    listener,
  )
  makeRoom(http, maxConnections, () => note('cut_for_room'))
  http.headersTimeout = 10 * SECOND_MS
  http.requestTimeout = 30 * SECOND_MS
  http.keepAliveTimeout = MINUTE_MS
  // Nothing takes longer to answer, so a connection that is silent this long is one whose client does not
  // read.
  http.timeout = 30 * SECOND_MS
  http.on('checkContinue', (req, res) => {
    awaitContinue(req)
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
    // While an answer is under way, another one would be taken for its text; while a whole request waits for
    // its answer, for that. A request that breaks in its own body is answered like one that breaks before it.
    if (answering !== undefined && (answering.headersSent || answering.req.complete))
      return closeWhenAnswered(socket)
    const text = JSON.stringify({ ok: false, error: refusal.error, message: refusal.message })
    closeSoon(
      socket,
      `HTTP/1.1 ${refusal.status}\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(text)}\r\nConnection: close\r\n\r\n${text}`,
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
 * How a request is refused that the parser gives up: the code is of the table, the status says more than the
 * table has.
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

const answerUnderWay = (socket: Socket) =>
  (socket as { _httpMessage?: ServerResponse | null })._httpMessage ?? undefined

/** Sends the last bytes of a connection, and destroys it soon, whether its client closes its side or not. */
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

/**
 * Where there are too many connections, the one whose client has kept the server waiting the longest is cut
 * for the new one: a flood of slow or silent clients takes room from itself, and whoever comes and asks is
 * served.
 */
export function makeRoom(http: Server, most: number, noteCut = () => {}): void {
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
    noteCut()
  })
  http.prependListener('request', (req, res: ServerResponse) => {
    const { socket } = req
    // With a body still on its way, it is the client's turn.
    if (req.complete || req.method === 'GET' || req.method === 'HEAD') waitedFor.delete(socket)
    else req.once('end', () => waitedFor.delete(socket))
    res.once('finish', () => isWaitedFor(socket))
  })
}
