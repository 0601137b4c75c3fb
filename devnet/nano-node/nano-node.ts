import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { createServer } from 'node:http'
import type { Socket } from 'node:net'

import { findFreePort } from '../../scripts/embedded/ports.ts'
import { encodeAddress } from './encoding.ts'
import { formatTree } from './json-tree.ts'
import { genesisPublicKey, genesisSecretKey, NodeState } from './node-state.ts'
import { answerRpc } from './rpc.ts'
import { cancelAllWork } from './rpc-work.ts'
import type { WorkThresholds } from './work.ts'
import { devThresholds } from './work.ts'
import { WebsocketHub } from './websocket.ts'

export interface NanoNodeOptions {
  /** Confirms every block this long after it was processed. Default: only `confirm` confirms. */
  readonly autoConfirmMs?: number
  readonly thresholds?: WorkThresholds
  /** Epoch of the genesis account, and so of what it sends. Default 2, as on the live network. */
  readonly genesisEpoch?: 0 | 1 | 2
  readonly enableControl?: boolean
  readonly localWork?: boolean
}

/** A request that was carried out, and the node's answer. */
export interface RpcExchange {
  readonly action: string
  readonly requestText: string
  readonly answerText: string
}

/** What the node sends instead of its answer, after it has carried out the request. */
export interface Lie {
  readonly body?: string
  readonly status?: number
  /** The connection is cut after this many bytes of the body; `content-length` still promises all of it. */
  readonly cutAfterBytes?: number
}

export interface NanoNode {
  readonly rpcUrl: string
  readonly wsUrl: string
  readonly genesis: { readonly address: string; readonly publicKey: string; readonly secretKey: string }
  /** Ledger, elections and settings, to look at and to change. */
  readonly state: NodeState
  /**
   * Sends from the genesis account; with `confirmed`, the block is confirmed at once, else as any other.
   *
   * @returns the block's hash
   */
  fund(address: string, amountRaw: bigint, options?: { readonly confirmed?: boolean }): string
  /** Adds many confirmed sends, without signatures, work or messages: about 50,000 a second. */
  fundMany(payments: Iterable<{ readonly address: string; readonly amountRaw: bigint }>): string[]
  /** Confirms a block and all that it depends on, and notifies subscribers. */
  confirm(hash: string): void
  /**
   * Removes an unconfirmed block and all that depend on it, as when the network decides against it.
   *
   * @returns the hashes of the removed blocks
   */
  rollback(hash: string): string[]
  /** Sets how long after a block it is confirmed, for blocks from now on; null: only `confirm` confirms. */
  setAutoConfirm(delayMs: number | null): void
  /** `true` cuts and refuses connections, `false` listens on the same ports again. The ledger stays. */
  setDown(isDown: boolean): Promise<void>
  /** `true` accepts requests without carrying them out or answering; `false` then does both for them. */
  setHanging(isHanging: boolean): void
  /** How many requests wait because the node is hanging. */
  waitingRequests(): number
  /** Calls `distort` with each answer, which it may replace; null stops that. */
  lie(distort: ((exchange: RpcExchange) => string | Lie | undefined) | null): void
  /** Forgets what a restart forgets; connections are cut. */
  restart(): void
  dropNextWebsocketMessages(count: number): void
  duplicateWebsocketMessages(isDuplicating: boolean): void
  disconnectWebsockets(): void
  readonly websocket: {
    readonly connections: number
    readonly sent: number
    readonly dropped: number
    /** Pings answered since the start. */
    readonly pings: number
    subscribers(topic: string): number
  }
  /** How many requests were answered since resetCalls(), of one action or of all. */
  calls(action?: string): number
  resetCalls(): void
  /** Stops the node. @throws Error if the stand-in itself failed on a request */
  close(): Promise<void>
}

/** An HTTP server that can go away and come back on the same port. */
class Listener {
  private readonly sockets = new Set<Socket>()
  private readonly server: Server
  private port = 0

  constructor(server: Server) {
    this.server = server
    server.on('connection', (socket) => {
      this.sockets.add(socket)
      socket.on('close', () => this.sockets.delete(socket))
    })
  }

  /**
   * Listens, the first time on a free port and then on the same again; does nothing if it does already.
   *
   * @returns the port
   */
  async open(): Promise<number> {
    if (this.server.listening) return this.port
    while (this.port === 0) {
      // Not port 0: the system may give a port of its choice to an outgoing connection while the node is
      // down.
      const port = await findFreePort()
      const isOurs = await this.listen(port).then(
        () => true,
        (error: NodeJS.ErrnoException) => (error.code === 'EADDRINUSE' ? false : Promise.reject(error)),
      )
      if (!isOurs) continue
      this.port = port
      return port
    }
    await this.listen(this.port)
    return this.port
  }

  private listen(port: number): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      this.server.once('error', reject)
      this.server.listen(port, '127.0.0.1', () => {
        this.server.off('error', reject)
        resolve()
      })
    })
  }

  /** Cuts the open connections. */
  cut(): void {
    for (const socket of this.sockets) socket.destroy()
  }

  /** Accepts no new connections; open ones may finish. */
  stopListening(): Promise<void> {
    if (!this.server.listening) return Promise.resolve()
    return new Promise<void>((resolve, reject) =>
      this.server.close((error) => (error === undefined ? resolve() : reject(error))),
    )
  }

  /** Stops listening and cuts the open connections. */
  async close(): Promise<void> {
    const closed = this.stopListening()
    this.cut()
    await closed
  }
}

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Uint8Array[] = []
  for await (const chunk of request) chunks.push(chunk as Uint8Array)
  return Buffer.concat(chunks).toString('utf8')
}

/** Sends an answer; with `cutAfterBytes`, only its beginning. */
function send(response: ServerResponse, answer: Lie & { readonly body: string }): void {
  const bytes = Buffer.from(answer.body, 'utf8')
  response.writeHead(answer.status ?? 200, {
    'content-type': 'application/json',
    'content-length': bytes.length,
    connection: 'close',
  })
  if (answer.cutAfterBytes === undefined) {
    response.end(bytes)
    return
  }
  response.flushHeaders()
  response.write(bytes.subarray(0, answer.cutAfterBytes), () => response.destroy())
}

/** Starts a node on 127.0.0.1, on free ports, with a ledger of its own in memory. The caller closes it. */
export async function startNanoNode(options: NanoNodeOptions = {}): Promise<NanoNode> {
  const settings = {
    thresholds: options.thresholds ?? devThresholds,
    autoConfirmMs: options.autoConfirmMs ?? null,
    enableControl: options.enableControl ?? true,
    localWork: options.localWork ?? true,
  }
  const state = new NodeState(settings, options.genesisEpoch ?? 2)
  const hub = new WebsocketHub()
  state.events = hub

  const callCounts = new Map<string, number>()
  let distort: ((exchange: RpcExchange) => string | Lie | undefined) | null = null
  let isHanging = false
  let waiting: (() => void)[] = []
  /** The first error of the stand-in itself, for close(). */
  let failure: unknown = null

  /** Carries out a request and sends the answer, or the lie that a test puts in its place. */
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const requestText = await readBody(request)
    if (isHanging) await new Promise<void>((resume) => waiting.push(resume))
    if (response.destroyed) return
    if (request.method === 'OPTIONS') return send(response, { body: '' })
    if (request.method !== 'POST')
      return send(response, { body: formatTree({ error: 'Can only POST requests' }) })
    const { action, text } = await answerRpc(state, requestText)
    callCounts.set(action, (callCounts.get(action) ?? 0) + 1)
    const lie = distort?.({ action, requestText, answerText: text })
    const isHalted = action === 'stop' && settings.enableControl
    const stopping = isHalted ? [rpcListener.stopListening(), wsListener.close()] : []
    send(response, { body: text, ...(typeof lie === 'string' ? { body: lie } : lie) })
    await Promise.all(stopping)
  }

  const rpcListener = new Listener(
    createServer((request, response) => {
      answer(request, response).catch((error: unknown) => {
        if (request.destroyed && !request.complete) return // the caller went away while sending
        failure ??= error
        response.destroy()
      })
    }),
  )
  const wsServer = createServer((_request, response) => response.writeHead(426).end())
  hub.attach(wsServer)
  const wsListener = new Listener(wsServer)
  const ports = [await rpcListener.open(), await wsListener.open()]

  const releaseWaiting = (): void => {
    const released = waiting
    waiting = []
    for (const resume of released) resume()
  }

  const setDown = async (isDown: boolean): Promise<void> => {
    if (isDown) await Promise.all([rpcListener.close(), wsListener.close()])
    else await Promise.all([rpcListener.open(), wsListener.open()])
  }

  return {
    rpcUrl: `http://127.0.0.1:${ports[0]}`,
    wsUrl: `ws://127.0.0.1:${ports[1]}`,
    genesis: {
      address: encodeAddress(genesisPublicKey),
      publicKey: genesisPublicKey,
      secretKey: genesisSecretKey,
    },
    state,
    fund: (address, amountRaw, { confirmed = false } = {}) => {
      const hash = state.fund(address, amountRaw)
      if (confirmed) state.confirm(hash)
      return hash
    },
    fundMany: (payments) => state.fundUnsigned(payments),
    confirm: (hash) => state.confirm(hash),
    rollback: (hash) => state.rollback(hash),
    setAutoConfirm: (delayMs) => {
      settings.autoConfirmMs = delayMs
    },
    setDown,
    setHanging: (hanging) => {
      isHanging = hanging
      if (!hanging) releaseWaiting()
    },
    waitingRequests: () => waiting.length,
    lie: (next) => {
      distort = next
    },
    restart: () => {
      rpcListener.cut()
      wsListener.cut()
      state.restart()
    },
    dropNextWebsocketMessages: (count) => {
      hub.dropNext = count
    },
    duplicateWebsocketMessages: (isDuplicating) => {
      hub.isDuplicating = isDuplicating
    },
    disconnectWebsockets: () => hub.disconnectAll(),
    websocket: {
      get connections() {
        return hub.connectionCount
      },
      get sent() {
        return hub.sent
      },
      get dropped() {
        return hub.dropped
      },
      get pings() {
        return hub.pings
      },
      subscribers: (topic) => hub.subscriberCount(topic),
    },
    calls: (action) =>
      action === undefined
        ? [...callCounts.values()].reduce((sum, count) => sum + count, 0)
        : (callCounts.get(action) ?? 0),
    resetCalls: () => callCounts.clear(),
    close: async () => {
      cancelAllWork(state)
      state.close()
      await setDown(true)
      isHanging = false
      releaseWaiting()
      if (failure !== null) throw new Error('the stand-in node failed on a request', { cause: failure })
    },
  }
}
