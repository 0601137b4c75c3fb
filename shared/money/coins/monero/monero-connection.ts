import http from 'node:http'
import https from 'node:https'
import { createRequire } from 'node:module'
import type { Socket } from 'node:net'
import type { MoneroRpcConnection } from 'monero-ts'
import { withDeadline } from '../../../platform/deadline.ts'
import { decodeUrlPart } from '../../../platform/http.ts'
import { StartError } from '../../../platform/process.ts'
import { createSerializer } from '../../../platform/serializer.ts'
import { SECOND_MS } from '../../../platform/time.ts'
import { AnswerTooLong, NodeRefused, NodeUnreachable } from '../../node-errors.ts'

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

/** Returns the host of this name, made if it is new. */
function hostAt(name: string): Host {
  const host = hosts.get(name) ?? { sockets: new Set() }
  hosts.set(name, host)
  return host
}

/** Ends a call by closing the host's sockets: the library would wait on, and later calls behind it. */
function end({ sockets }: Host, call: Call, how: 'late' | 'long'): void {
  call.ended = how
  for (const socket of sockets) socket.destroy(new Error(how))
}

/**
 * Makes a connection to monero-wallet-rpc, which connects with its first call. User and password in the URL
 * are for the digest login.
 *
 * @throws TypeError for a URL that can't be used
 */
export function openMoneroConnection(url: string, { timeoutMs, maxAnswerBytes }: CallLimits) {
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
    const { MoneroRpcConnection, HttpClient } = await loadLibrary()
    const rpc = (connection ??= new MoneroRpcConnection({ uri, username, password }))
    const call: Call = { bytesLeft: maxAnswerBytes }
    host.call = call
    /**
     * Leaves the queues of the connection, and of the library for this host, to a request that doesn't end though its
     * sockets are closed: later ones would wait behind it. @returns the error of its call
     */
    const leave = (): Error => {
      connection = undefined
      Reflect.deleteProperty(HttpClient['TASK_QUEUES'], new URL(uri).host)
      return new Error('the request does not end')
    }
    const limit = setTimeout(() => end(host, call, 'late'), timeoutMs)
    try {
      const answer = rpc.sendJsonRequest(method, params) as Promise<{ result?: unknown }>
      return (await withDeadline(answer, timeoutMs + END_LIMIT_MS, leave)).result
    } catch (error) {
      if (call.ended === 'late') throw new NodeUnreachable(`${asked} was not answered within ${timeoutMs} ms`)
      if (call.ended === 'long')
        throw new AnswerTooLong(`${asked} was answered with more than ${maxAnswerBytes} bytes`)
      throw toNodeError(asked, error)
    } finally {
      clearTimeout(limit)
      delete host.call
    }
  }

  return {
    origin,
    /**
     * Calls a method; one call at a time, since the wallet works on one at a time. Whole numbers of 16 digits
     * and more are strings in the result. @throws AnswerTooLong, NodeUnreachable, NodeRefused
     */
    call: (method: string, params: Record<string, unknown>): Promise<unknown> =>
      serialize(name, () => ask(method, params)),
  }
}

/** How long the library may take to notice that its sockets are closed. */
const END_LIMIT_MS = SECOND_MS

/**
 * Makes our error of one of the library's. Of its text only the wallet's own reason or the underlying error
 * is kept: the rest carries the request, with its secrets.
 */
function toNodeError(asked: string, error: unknown): NodeRefused | NodeUnreachable {
  const { message, code } = error as { message?: unknown; code?: unknown }
  // JSON-RPC's numbers are 0 or below with monero-wallet-rpc, HTTP's are above.
  if (typeof code === 'number' && Number.isSafeInteger(code) && code <= 0 && typeof message === 'string')
    return new NodeRefused(asked, message === '' ? 'no reason given' : message, code)
  if (code === 401)
    return new NodeUnreachable(`${asked} was answered with HTTP status 401: user or password are not right`)
  if (typeof code === 'number') return new NodeUnreachable(`${asked} was answered with HTTP status ${code}`)
  const cause = typeof message === 'string' ? /due to underlying error:\n(.*)/.exec(message)?.[1] : undefined
  const what = cause === undefined ? 'was answered with something that is not JSON-RPC' : `failed: ${cause}`
  return new NodeUnreachable(`${asked} ${what}`)
}

/**
 * Checks that monero-ts is installed, which is an optional package.
 *
 * @param from the file whose packages are meant
 * @throws StartError if it isn't
 */
export function requireMoneroLibrary(from = import.meta.filename): void {
  try {
    createRequire(from).resolve('monero-ts')
  } catch (error) {
    throw new StartError(
      'MONERO_WALLET_RPC_URL is set, and the optional package monero-ts, which speaks with the wallet, is not installed: run "npm ci" without --omit=optional, or leave the setting out.',
      { cause: error },
    )
  }
}

let library: Promise<typeof import('monero-ts')> | undefined

/** Loads monero-ts (45 MB) at the first call, and bounds its sockets, since its requests have no bounds. */
function loadLibrary(): Promise<typeof import('monero-ts')> {
  library ??= import('monero-ts').then((loaded) => {
    // A login holds for its connection alone, so connections are kept.
    const HTTP_AGENT = boundSockets(new http.Agent({ keepAlive: true }))
    const HTTPS_AGENT = boundSockets(new https.Agent({ keepAlive: true }))
    Object.assign(loaded.HttpClient, { HTTP_AGENT, HTTPS_AGENT })
    return loaded
  })
  return library
}

/** Makes an agent count what its sockets receive, and end the call under way if that is too much. */
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
