import net from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/** How long the last answers are waited for. */
const LAST_ANSWERS_MS = 30_000

/** The answers to one kind of request. */
export interface Tally {
  /** Of the answers that were 2xx, from when each request was due, in ms. */
  latencies: number[]
  /** How many answers were not 2xx, or never came. */
  failed: number
  /** What the first of these said. */
  firstFailure?: string
}

export interface OpenLoop {
  /** By the kind of request. */
  readonly tallies: ReadonlyMap<string, Tally>
  /**
   * Sends a request as soon as a connection is free, and counts from when it was due, so that a stalled
   * service can't hide its queue.
   *
   * @param text the request as HTTP
   * @param dueMs by performance.now()
   * @returns the answer's body; undefined if the request failed
   */
  send(kind: string, text: string, dueMs: number): Promise<string | undefined>
  /** Resolves once all that was sent is answered; after half a minute the rest counts as failed. */
  close(): Promise<void>
}

interface Request {
  text: string
  /** @param answer undefined if none came */
  done(answer: { status: number; body: string } | undefined): void
}

/** Opens kept-alive connections, over which requests go at times that do not depend on the answers. */
export function openLoop(port: number, connections: number): OpenLoop {
  const tallies = new Map<string, Tally>()
  const waiting: Request[] = []
  const idle: Connection[] = []
  const all = new Set<Connection>()
  let underWay = 0
  let isClosed = false

  const give = (connection: Connection): void => {
    const request = waiting.shift()
    if (request === undefined) idle.push(connection)
    else connection.ask(request)
  }
  const open = (): void => {
    const connection = connect(port, give, () => {
      all.delete(connection)
      const place = idle.indexOf(connection)
      if (place !== -1) idle.splice(place, 1)
      // Another one in its place, not at once: the service may be away.
      if (!isClosed) setTimeout(open, 100).unref()
    })
    all.add(connection)
  }
  for (let count = 0; count < connections; count++) open()

  return {
    tallies,
    async send(kind, text, dueMs) {
      const tally = tallies.get(kind) ?? { latencies: [], failed: 0 }
      tallies.set(kind, tally)
      underWay++
      const answer = await new Promise<{ status: number; body: string } | undefined>((resolve) => {
        const request = { text, done: resolve }
        const connection = idle.shift()
        if (connection === undefined) waiting.push(request)
        else connection.ask(request)
      })
      underWay--
      if (answer === undefined || answer.status < 200 || answer.status > 299) {
        tally.failed++
        tally.firstFailure ??= answer === undefined ? 'no answer' : `${answer.status} ${answer.body}`
        return undefined
      }
      tally.latencies.push(performance.now() - dueMs)
      return answer.body
    },
    async close() {
      const untilMs = performance.now() + LAST_ANSWERS_MS
      while (underWay > 0 && performance.now() < untilMs) await sleep(20)
      isClosed = true
      for (const request of waiting.splice(0)) request.done(undefined)
      for (const connection of all) connection.end()
      await sleep(0) // what was under way is counted
    },
  }
}

interface Connection {
  ask(request: Request): void
  end(): void
}

/**
 * @param onFree called when it is connected, and after each answer
 * @param onGone called once when it is closed; a request under way has got no answer
 */
function connect(port: number, onFree: (connection: Connection) => void, onGone: () => void): Connection {
  const socket = net.connect({ port, host: '127.0.0.1', noDelay: true })
  let asked: Request | undefined
  let chunks: Buffer[] = []
  let [held, wanted, bodyAt] = [0, Number.POSITIVE_INFINITY, 0]
  const connection: Connection = {
    ask(request) {
      if (socket.destroyed) return request.done(undefined)
      asked = request
      ;[chunks, held, wanted] = [[], 0, Number.POSITIVE_INFINITY]
      socket.write(request.text)
    },
    end: () => void socket.destroy(),
  }
  socket.on('connect', () => onFree(connection))
  socket.on('error', () => undefined) // it is closed then
  socket.on('close', () => {
    asked?.done(undefined)
    asked = undefined
    onGone()
  })
  socket.on('data', (chunk: Buffer) => {
    // A 408: the service closes what has been silent for too long.
    if (asked === undefined) return void socket.destroy()
    chunks.push(chunk)
    held += chunk.length
    if (wanted === Number.POSITIVE_INFINITY) {
      const bytes = Buffer.concat(chunks)
      chunks = [bytes]
      const end = bytes.indexOf('\r\n\r\n')
      if (end === -1) return
      bodyAt = end + 4
      const length = /\r\ncontent-length: (\d+)/i.exec(bytes.toString('latin1', 0, end))?.[1]
      if (length === undefined) return void socket.destroy()
      wanted = bodyAt + Number(length)
    }
    if (held < wanted) return
    const bytes = Buffer.concat(chunks)
    const request = asked
    asked = undefined
    request?.done({
      status: Number(bytes.toString('latin1', 9, 12)),
      body: bytes.toString('utf8', bodyAt),
    })
    onFree(connection)
  })
  return connection
}
