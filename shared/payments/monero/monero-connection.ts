import http from 'node:http'
import https from 'node:https'
import type { Socket } from 'node:net'
import type { MoneroRpcConnection } from 'monero-ts'
import { decodeUrlPart } from '../../foundation/http.ts'
import { createSerializer } from '../../foundation/serializer.ts'
import { AnswerTooLong, NodeRefused, NodeUnreachable } from '../node-errors.ts'

/** One monero-wallet-rpc, asked one thing at a time: it works on one at a time itself. */
export interface MoneroConnection {
  readonly origin: string
  /** Whole numbers of 16 digits and more are strings. @throws AnswerTooLong, NodeUnreachable, NodeRefused */
  call(method: string, params: Record<string, unknown>): Promise<unknown>
}

export interface CallLimits {
  /** For each call, from its turn to the last byte. */
  readonly timeoutMs: number
  readonly maxAnswerBytes: number
}

interface Call {
  bytesLeft: number
  ended?: 'late' | 'long'
}

interface Host {
  readonly sockets: Set<Socket>
  call?: Call
}

const hosts = new Map<string, Host>()
// monero-ts keeps one queue of requests for each host, so this does too.
const serialize = createSerializer()

function hostAt(name: string): Host {
  const host = hosts.get(name) ?? { sockets: new Set() }
  hosts.set(name, host)
  return host
}

/** The library would wait on, and whatever is asked later would wait behind it. */
function end({ sockets }: Host, call: Call, how: 'late' | 'long'): void {
  call.ended = how
  for (const socket of sockets) socket.destroy(new Error(how))
}

/** User and password in it are for the digest login. @throws TypeError; the text isn't repeated */
export function openMoneroConnection(
  url: string,
  { timeoutMs, maxAnswerBytes }: CallLimits,
): MoneroConnection {
  const parsed = URL.parse(url)
  if (parsed === null || !['http:', 'https:'].includes(parsed.protocol))
    throw new TypeError('"url" expected a URL that begins with http:// or https://')
  const [username, password] = [decodeUrlPart(parsed.username), decodeUrlPart(parsed.password)]
  if ((username === '') !== (password === ''))
    throw new TypeError('"url" expected a user and a password, or neither')
  const origin = `${parsed.protocol}//${parsed.host}`
  const uri = `${origin}${parsed.pathname.replace(/\/+$/, '')}`
  const port = parsed.port || (parsed.protocol === 'https:' ? '443' : '80')
  const name = `${parsed.hostname.replace(/^\[|\]$/g, '')}:${port}`
  const host = hostAt(name)
  let connection: MoneroRpcConnection | undefined

  async function ask(method: string, params: Record<string, unknown>): Promise<unknown> {
    const asked = `${method} at ${origin}`
    const { MoneroRpcConnection } = await loadLibrary()
    const rpc = (connection ??= new MoneroRpcConnection({ uri, username, password }))
    const call: Call = { bytesLeft: maxAnswerBytes }
    host.call = call
    const limit = setTimeout(() => end(host, call, 'late'), timeoutMs)
    try {
      return ((await rpc.sendJsonRequest(method, params)) as { result?: unknown }).result
    } catch (error) {
      if (call.ended === 'late') throw new NodeUnreachable(`${asked} was not answered within ${timeoutMs} ms`)
      if (call.ended === 'long')
        throw new AnswerTooLong(`${asked} was answered with more than ${maxAnswerBytes} bytes`)
      throw readFailure(asked, error)
    } finally {
      clearTimeout(limit)
      delete host.call
    }
  }

  return { origin, call: (method, params) => serialize(name, () => ask(method, params)) }
}

/** Only what is known to hold no secret goes into a message: the library's own errors carry the request. */
function readFailure(asked: string, error: unknown): NodeRefused | NodeUnreachable {
  const { message, code } = error as { message?: unknown; code?: unknown }
  // JSON-RPC's numbers are 0 or below with monero-wallet-rpc, HTTP's are above.
  if (typeof code === 'number' && Number.isSafeInteger(code) && code <= 0 && typeof message === 'string')
    return new NodeRefused(asked, message === '' ? 'no reason given' : message, code)
  if (code === 401)
    return new NodeUnreachable(`${asked} was answered with HTTP status 401: user or password are not right`)
  if (typeof code === 'number') return new NodeUnreachable(`${asked} was answered with HTTP status ${code}`)
  const cause = typeof message === 'string' ? /due to underlying error:\n(.*)/.exec(message)?.[1] : undefined
  return new NodeUnreachable(
    cause === undefined
      ? `${asked} was answered with something that is not JSON-RPC`
      : `${asked} failed: ${cause}`,
  )
}

let library: Promise<typeof import('monero-ts')> | undefined

/** 45 MB, so it comes with the first call. Its requests are unbounded, so its sockets are bounded. */
function loadLibrary(): Promise<typeof import('monero-ts')> {
  library ??= import('monero-ts').then((loaded) => {
    // A login holds for its connection alone, so connections are kept.
    const [plain, overTls] = [new http.Agent({ keepAlive: true }), new https.Agent({ keepAlive: true })].map(
      boundSockets,
    )
    Object.assign(loaded.HttpClient, { HTTP_AGENT: plain, HTTPS_AGENT: overTls })
    return loaded
  })
  return library
}

function boundSockets(agent: http.Agent): http.Agent {
  const create = agent.createConnection.bind(agent)
  agent.createConnection = (options, callback) => {
    const socket = create(options, callback) as Socket
    const host = hostAt(`${options.host ?? ''}:${options.port ?? ''}`)
    if (host.call?.ended !== undefined) socket.destroy(new Error(host.call.ended))
    host.sockets.add(socket)
    socket.once('close', () => host.sockets.delete(socket))
    socket.on('data', ({ length }: Buffer) => {
      const { call } = host
      if (call !== undefined && (call.bytesLeft -= length) < 0) end(host, call, 'long')
    })
    return socket
  }
  return agent
}
