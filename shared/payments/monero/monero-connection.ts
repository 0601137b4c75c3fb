import { AsyncLocalStorage } from 'node:async_hooks'
import http from 'node:http'
import https from 'node:https'
import type { Socket } from 'node:net'
import type { MoneroRpcConnection } from 'monero-ts'
import { createTurns } from '../../one-at-a-time.ts'
import { NodeRefused, NodeUnreachable } from '../node-errors.ts'

/** One monero-wallet-rpc, asked one thing at a time: it works on one at a time itself. */
export interface MoneroConnection {
  /** What messages and logs call it: scheme, host and port. */
  readonly origin: string
  /**
   * The `result` of a call, unchecked; whole numbers of 16 digits and more are strings, so that none loses a digit.
   *
   * @throws NodeUnreachable where no whole answer came within the time
   * @throws NodeRefused with the JSON-RPC error's message and number
   */
  call(method: string, params: Record<string, unknown>): Promise<unknown>
}

/** About 40,000 transfers in one answer. */
const MAX_ANSWER_BYTES = 25 * 1024 * 1024

// monero-ts keeps one queue of requests for each host, so this does too.
const takeTurn = createTurns()

/** The sockets to one host, which its connections share, and whether the call that is on has run out of time. */
interface Sockets {
  readonly open: Set<Socket>
  isLate: boolean
}

const socketsOfHosts = new Map<string, Set<Socket>>()

/** Says for whom a socket is opened, deep in the library. */
const caller = new AsyncLocalStorage<Sockets>()

/**
 * @param url user and password in it are for monero-wallet-rpc's digest login (`--rpc-login`)
 * @param timeoutMs for each call, from its turn to the last byte
 * @throws TypeError for text that is no such URL; the text isn't repeated, it may hold a password
 */
export function openMoneroConnection(url: string, timeoutMs: number): MoneroConnection {
  const parsed = URL.parse(url)
  if (parsed === null || !['http:', 'https:'].includes(parsed.protocol)) {
    throw new TypeError('"url" expected a URL that begins with http:// or https://')
  }
  const [username, password] = [decode(parsed.username), decode(parsed.password)]
  if ((username === '') !== (password === '')) throw new TypeError('"url" expected a user and a password, or neither')
  const { host } = parsed
  const origin = `${parsed.protocol}//${host}`
  const uri = `${origin}${parsed.pathname.replace(/\/+$/, '')}`
  const open = socketsOfHosts.get(host) ?? new Set<Socket>()
  socketsOfHosts.set(host, open)
  let connection: MoneroRpcConnection | undefined

  async function ask(method: string, params: Record<string, unknown>): Promise<unknown> {
    const asked = `${method} at ${origin}`
    const { MoneroRpcConnection } = await loadLibrary()
    connection ??= new MoneroRpcConnection({ uri, username, password })
    const sockets: Sockets = { open, isLate: false }
    const limit = setTimeout(() => {
      sockets.isLate = true
      // The library would wait on, and whatever is asked later would wait behind it.
      for (const socket of open) socket.destroy(new Error('late'))
    }, timeoutMs)
    const rpc = connection
    try {
      const answer = (await caller.run(sockets, () => rpc.sendJsonRequest(method, params))) as { result?: unknown }
      return answer.result
    } catch (error) {
      throw sockets.isLate ? new NodeUnreachable(`${asked} was not answered within ${timeoutMs} ms`) : readFailure(asked, error)
    } finally {
      clearTimeout(limit)
    }
  }

  return { origin, call: (method, params) => takeTurn(host, () => ask(method, params)) }
}

/** A part of a URL as it was meant; a stray percent sign stands for itself. */
function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

/**
 * Only what is known to hold no secret goes into a message: the library's own errors carry the request, and repeat
 * whatever the other side sent.
 */
function readFailure(asked: string, error: unknown): NodeRefused | NodeUnreachable {
  const { message, code } = error as { message?: unknown; code?: unknown }
  // JSON-RPC's numbers are 0 or below with monero-wallet-rpc, HTTP's are above.
  if (typeof code === 'number' && Number.isSafeInteger(code) && code <= 0 && typeof message === 'string') {
    return new NodeRefused(asked, message === '' ? 'no reason given' : message, code)
  }
  if (code === 401) return new NodeUnreachable(`${asked} was answered with HTTP status 401: user or password are not right`)
  if (typeof code === 'number') return new NodeUnreachable(`${asked} was answered with HTTP status ${code}`)
  const cause = typeof message === 'string' ? /due to underlying error:\n(.*)/.exec(message)?.[1] : undefined
  return new NodeUnreachable(
    cause === undefined ? `${asked} was answered with something that is not JSON-RPC` : `${asked} failed: ${cause}`,
  )
}

let library: Promise<typeof import('monero-ts')> | undefined

/**
 * The library takes a fifth of a second and 45 MB, so it comes with the first call. It starts no thread and loads no
 * WebAssembly for this use. Its requests have no bound of their own on time (that of its timers leaves the request
 * running) or size, so they go through sockets that have.
 */
function loadLibrary(): Promise<typeof import('monero-ts')> {
  library ??= import('monero-ts').then((loaded) => {
    class Bounded extends loaded.HttpClient {
      static useAgents(plain: http.Agent, overTls: http.Agent): void {
        loaded.HttpClient.HTTP_AGENT = plain
        loaded.HttpClient.HTTPS_AGENT = overTls
      }
    }
    // A login holds for its connection alone, so connections are kept.
    Bounded.useAgents(boundSockets(new http.Agent({ keepAlive: true })), boundSockets(new https.Agent({ keepAlive: true })))
    return loaded
  })
  return library
}

function boundSockets(agent: http.Agent): http.Agent {
  const bytesBefore = new WeakMap<object, number>()
  agent.on('free', (socket: Socket) => bytesBefore.set(socket, socket.bytesRead))
  const create = agent.createConnection.bind(agent)
  agent.createConnection = (options, callback) => {
    const socket = create(options, callback) as Socket
    const sockets = caller.getStore()
    if (sockets === undefined) return socket
    if (sockets.isLate) socket.destroy(new Error('late'))
    sockets.open.add(socket)
    socket.once('close', () => sockets.open.delete(socket))
    socket.on('data', () => {
      if (socket.bytesRead - (bytesBefore.get(socket) ?? 0) > MAX_ANSWER_BYTES)
        socket.destroy(new Error(`the answer has more than ${MAX_ANSWER_BYTES} bytes`))
    })
    return socket
  }
  return agent
}
