/*
 * The load generator, in a process of its own: HTTP/1.1 over kept-alive connections, one request at a time on
 * each. It does little work for each request, because it shares the machine with what it measures.
 */
import net from 'node:net'
import { percentile } from './figure.ts'
import type { LoadJob, LoadResult } from './load.ts'

interface Connection {
  socket: net.Socket
  /** When the request under way was due (performance.now()). */
  dueMs: number
  /** Bytes of the answer that are still to come; undefined until its head is read. */
  missing: number | undefined
  /** The answer so far: until its head is complete, or to its end if its content is compared. */
  held: Buffer | undefined
  /** Why the answer under way counts as failed; undefined if it does not. */
  failure: string | undefined
}

/**
 * Sends the job's requests, each connection one after the other, until the time is over, `count` requests are
 * sent or the lists are at their end, and every answer has come.
 *
 * @throws Error if a connection is closed, or an answer has no Content-Length
 */
async function runJob(job: LoadJob): Promise<LoadResult> {
  const { port, durationMs, count = Number.POSITIVE_INFINITY, ratePerSecond, repeat, expect } = job
  const lists = job.lanes.map((texts) => texts.map((text) => Buffer.from(text, 'utf8')))
  /** How many requests of each list have been sent. */
  const sentOf = lists.map(() => 0)
  const latencies: number[] = []
  let failed = 0
  let firstFailure: string | undefined
  const connections = await Promise.all(Array.from({ length: job.connections }, () => connect(port)))
  const startedMs = performance.now()
  const endMs = startedMs + durationMs
  const idle: Connection[] = []
  let sent = 0
  let underWay = 0
  /** Whether `count` requests are sent, or the list is at its end. */
  let isAtEnd = false
  let finish: () => void = () => {}
  const finished = new Promise<void>((resolve) => (finish = resolve))

  /** Advances the connection's list. @returns its next request, or undefined if none may be sent any more */
  function nextRequest(connection: Connection): Buffer | undefined {
    if (sent >= count) return undefined
    const place = lists.length === 1 ? 0 : connections.indexOf(connection)
    const list = lists[place] ?? []
    const index = sentOf[place] ?? 0
    if (index >= list.length && !repeat) return undefined
    sentOf[place] = index + 1
    return list[index % list.length]
  }

  /** Sends the connection's next request. @returns false if there is none */
  function send(connection: Connection, dueMs: number): boolean {
    const request = nextRequest(connection)
    if (request === undefined) return false
    Object.assign(connection, { dueMs, missing: undefined, held: undefined, failure: undefined })
    underWay++
    sent++
    connection.socket.write(request)
    return true
  }

  /** Counts a complete answer, and sends the next request unless requests are sent at fixed times. */
  function countAnswer(connection: Connection): void {
    const nowMs = performance.now()
    latencies.push(nowMs - connection.dueMs)
    underWay--
    if (connection.failure === undefined && expect !== undefined && !connection.held?.includes(expect))
      connection.failure = `an answer of another content: ${connection.held?.toString('utf8', 0, 600)}`
    if (connection.failure !== undefined) {
      failed++
      firstFailure ??= connection.failure
    }
    if (ratePerSecond !== undefined) {
      idle.push(connection)
      sendDue()
    } else if (nowMs < endMs) send(connection, nowMs)
    if (underWay === 0 && (ratePerSecond === undefined || isAllSent())) finish()
  }

  /** When the next request of a job with a rate is due (performance.now()). */
  const nextDueMs = (): number => startedMs + (sent * 1_000) / (ratePerSecond ?? Number.NaN)

  /** Whether all requests of a job with a rate are sent. */
  const isAllSent = (): boolean => isAtEnd || nextDueMs() >= endMs

  /**
   * Sends what is due, as far as connections are free. A request that was due before the end is sent even
   * after it: a stalled service must not be spared the requests that queue for it.
   */
  function sendDue(): void {
    const nowMs = performance.now()
    while (!isAllSent() && nextDueMs() <= nowMs) {
      const connection = idle.shift()
      if (connection === undefined) return
      if (send(connection, nextDueMs())) continue
      isAtEnd = true
    }
  }

  /** Takes in bytes of the answer under way. */
  function receive(connection: Connection, chunk: Buffer): void {
    if (connection.missing === undefined) {
      const bytes = append(connection.held, chunk)
      const end = bytes.indexOf('\r\n\r\n')
      connection.held = end === -1 || expect !== undefined ? bytes : undefined
      if (end === -1) return
      const head = bytes.toString('latin1', 0, end)
      if (head.charCodeAt(9) !== 50 /* 2.. */) connection.failure = bytes.toString('utf8', 0, 600)
      const length = /\r\ncontent-length: (\d+)/i.exec(head)?.[1]
      if (length === undefined) throw new Error(`an answer without its length: ${head}`)
      connection.missing = end + 4 + Number(length) - bytes.length
    } else {
      if (expect !== undefined) connection.held = append(connection.held, chunk)
      connection.missing -= chunk.length
    }
    if (connection.missing === 0) countAnswer(connection)
    else if (connection.missing < 0) throw new Error('an answer longer than its length')
  }

  for (const connection of connections) {
    connection.socket.on('data', (chunk: Buffer) => receive(connection, chunk))
    connection.socket.on('close', () => {
      throw new Error('a connection was closed under the load')
    })
  }
  if (ratePerSecond === undefined) {
    for (const connection of connections) send(connection, performance.now())
  } else {
    // Latencies count from when a request was due, so that a stalled service can't hide its queue.
    idle.push(...connections)
    const timer = setInterval(() => {
      sendDue()
      if (!isAllSent()) return
      clearInterval(timer)
      if (underWay === 0) finish()
    }, 1)
  }
  await finished
  const elapsedMs = performance.now() - startedMs
  for (const { socket } of connections) {
    socket.removeAllListeners('close')
    socket.destroy()
  }
  return {
    answers: latencies.length,
    perSecond: (latencies.length / elapsedMs) * 1_000,
    p50Ms: percentile(latencies, 0.5),
    p99Ms: percentile(latencies, 0.99),
    failed,
    ...(firstFailure === undefined ? {} : { firstFailure }),
  }
}

const append = (held: Buffer | undefined, chunk: Buffer): Buffer =>
  held === undefined ? chunk : Buffer.concat([held, chunk])

function connect(port: number): Promise<Connection> {
  return new Promise((resolve, reject) => {
    const socket = net.connect({ port, host: '127.0.0.1', noDelay: true })
    socket.once('error', reject)
    socket.once('connect', () => {
      socket.off('error', reject)
      resolve({ socket, dueMs: 0, missing: undefined, held: undefined, failure: undefined })
    })
  })
}

process.on('message', (job: LoadJob) => {
  void runJob(job).then((result) => process.send?.(result))
})
process.on('disconnect', () => process.exit(0))
