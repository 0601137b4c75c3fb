import http from 'node:http'
import type net from 'node:net'
import { text } from 'node:stream/consumers'

/** A call of monero-wallet-rpc, with what it was answered now and before. */
export interface WalletCall {
  readonly method: string
  readonly answerText: string
  /** Other answers to the same question, the oldest first. */
  readonly earlier: readonly string[]
}

/** What becomes of an answer: another text, or `null`: it is lost, and the connection reset. */
export type Lie = (call: WalletCall) => string | null | undefined

/** A proxy before a monero-wallet-rpc that can hang, lose answers, and answer something else. */
export interface MoneroGate {
  readonly port: number
  /** Keeps the answers back; those that were kept are reset when it ends. */
  setHanging(isHanging: boolean): void
  lie(lie: Lie | null): void
  close(): void
}

const KEPT_ANSWERS = 12

/** Opens a gate before the monero-wallet-rpc at a port of this machine. */
export async function openMoneroGate(targetPort: number): Promise<MoneroGate> {
  let isHanging = false
  let lie: Lie | null = null
  const held = new Set<http.IncomingMessage>()
  const earlier = new Map<string, string[]>()
  // A login holds for its connection alone: each connection here has one of its own to the wallet.
  const agents = new WeakMap<net.Socket, http.Agent>()
  const agentOf = (socket: net.Socket): http.Agent => {
    const known = agents.get(socket)
    if (known !== undefined) return known
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
    agents.set(socket, agent)
    socket.once('close', () => agent.destroy())
    return agent
  }
  const server = http.createServer((request, response) => {
    const reset = (): void => void request.socket.resetAndDestroy()
    void (async () => {
      const body = await text(request)
      if (isHanging) return void held.add(request)
      const answered = await forward(request, body, agentOf(request.socket), targetPort)
      if (isHanging) return void held.add(request)
      const told = answered.status === 200 ? retell(body, answered.text, earlier, lie) : answered.text
      if (told === null) return reset()
      const headers = { ...answered.headers, 'content-length': String(Buffer.byteLength(told)) }
      response.writeHead(answered.status, headers).end(told)
    })().catch(reset)
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', resolve)
  })
  return {
    port: (server.address() as net.AddressInfo).port,
    setHanging(isHangingNow) {
      isHanging = isHangingNow
      if (isHanging) return
      for (const { socket } of held) socket.resetAndDestroy()
      held.clear()
    },
    lie: (next) => void (lie = next),
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}

/** Keeps an answer among the earlier ones to its question, and returns what is told instead. */
function retell(
  body: string,
  answerText: string,
  earlier: Map<string, string[]>,
  lie: Lie | null,
): string | null {
  const { method, params } = JSON.parse(body) as { method: string; params?: Record<string, unknown> }
  const { min_height: from, max_height: to, ...rest } = params ?? {}
  // One block is a question of its own; from which on the wallet is asked changes with each block.
  const question = JSON.stringify([method, rest, to === undefined ? [] : [from, to]])
  const before = earlier.get(question) ?? []
  const told = lie?.({ method, answerText, earlier: before })
  if (before.at(-1) !== answerText) earlier.set(question, [...before, answerText].slice(-KEPT_ANSWERS))
  return told === undefined ? answerText : told
}

interface Forwarded {
  status: number
  headers: http.IncomingHttpHeaders
  text: string
}

/** Passes a request on. @throws if the wallet does not answer it */
async function forward(
  { method, url, headers }: http.IncomingMessage,
  body: string,
  agent: http.Agent,
  port: number,
): Promise<Forwarded> {
  return new Promise((resolve, reject) => {
    const passedOn = http.request(
      { port, host: '127.0.0.1', method, path: url, headers, agent },
      (answer) => {
        const { statusCode: status = 502, headers } = answer
        text(answer).then((body) => resolve({ status, headers, text: body }), reject)
      },
    )
    passedOn.on('error', reject)
    passedOn.end(body)
  })
}
