/*
 * The load generator, in a process of its own: HTTP/1.1 over kept-alive connections, one request at a time on
 * each. It does little work for each request, because it shares the machine with what it measures.
 */
import net from 'node:net'
import type { LoadJob, LoadResult } from './load.ts'

interface Lane {
  socket: net.Socket
  /** When the request under way was due; undefined while none is. */
  dueMs: number | undefined
  /** Bytes of the answer that are still to come; undefined until its head is read. */
  missing: number | undefined
  held: Buffer | undefined
  isExpected: boolean
}

async function run(job: LoadJob): Promise<LoadResult> {
  const {
    port,
    connections,
    durationMs,
    count = Number.POSITIVE_INFINITY,
    ratePerSecond,
    lanes: texts,
    repeat,
    expect,
  } = job
  const requests = texts.map((lane) => lane.map((text) => Buffer.from(text, 'utf8')))
  const nextOf = requests.map(() => 0)
  const expected = expect === undefined ? undefined : Buffer.from(expect)
  const latencies: number[] = []
  let failed = 0
  let firstFailure: string | undefined
  const lanes = await Promise.all(Array.from({ length: connections }, () => open(port)))
  const startedMs = performance.now()
  const endMs = startedMs + durationMs
  const idle: Lane[] = []
  let sent = 0
  let underWay = 0
  let finish: () => void = () => {}
  const finished = new Promise<void>((resolve) => (finish = resolve))

  /** The next request of the lane's list, or undefined if the list is at its end. */
  function take(lane: Lane): Buffer | undefined {
    if (sent >= count) return undefined
    const place = requests.length === 1 ? 0 : lanes.indexOf(lane)
    const list = requests[place] ?? []
    const next = nextOf[place] ?? 0
    if (next >= list.length && !repeat) return undefined
    nextOf[place] = next + 1
    return list[next % list.length]
  }

  function send(lane: Lane, dueMs: number): boolean {
    const request = take(lane)
    if (request === undefined) return false
    lane.dueMs = dueMs
    lane.missing = undefined
    lane.isExpected = expected === undefined
    underWay++
    sent++
    lane.socket.write(request)
    return true
  }

  function answered(lane: Lane): void {
    const nowMs = performance.now()
    latencies.push(nowMs - (lane.dueMs ?? nowMs))
    lane.dueMs = undefined
    underWay--
    if (!lane.isExpected) {
      failed++
      firstFailure ??= 'an answer of another content'
    }
    if (ratePerSecond !== undefined) idle.push(lane)
    else if (nowMs < endMs) send(lane, nowMs)
    if (underWay === 0 && (nowMs >= endMs || ratePerSecond === undefined)) finish()
  }

  function read(lane: Lane, chunk: Buffer): void {
    let bytes = chunk
    if (lane.missing === undefined) {
      bytes = lane.held === undefined ? chunk : Buffer.concat([lane.held, chunk])
      const end = bytes.indexOf('\r\n\r\n')
      if (end === -1) return void (lane.held = bytes)
      lane.held = undefined
      const head = bytes.toString('latin1', 0, end)
      if (head.charCodeAt(9) !== 50 /* 2.. */) {
        failed++
        firstFailure ??= bytes.toString('utf8', 0, 600)
      }
      const length = /\r\ncontent-length: (\d+)/i.exec(head)?.[1]
      if (length === undefined) throw new Error(`an answer without its length: ${head}`)
      lane.missing = end + 4 + Number(length)
    }
    if (!lane.isExpected && expected !== undefined) lane.isExpected = bytes.includes(expected)
    lane.missing -= bytes.length
    if (lane.missing === 0) answered(lane)
    else if (lane.missing < 0) throw new Error('an answer longer than its length')
  }

  for (const lane of lanes) {
    lane.socket.on('data', (chunk: Buffer) => read(lane, chunk))
    lane.socket.on('close', () => {
      throw new Error('a connection was closed under the load')
    })
  }
  if (ratePerSecond === undefined) {
    for (const lane of lanes) send(lane, performance.now())
  } else {
    // Latencies count from when a request was due, so that a stalled service can't hide its queue.
    idle.push(...lanes)
    const timer = setInterval(() => {
      const nowMs = performance.now()
      for (;;) {
        const dueMs = startedMs + (sent * 1_000) / ratePerSecond
        if (dueMs > nowMs || dueMs >= endMs || idle.length === 0) break
        const lane = idle.shift()
        if (lane === undefined || !send(lane, dueMs)) break
      }
      if (nowMs >= endMs) {
        clearInterval(timer)
        if (underWay === 0) finish()
      }
    }, 1)
  }
  await finished
  const elapsedMs = performance.now() - startedMs
  for (const lane of lanes) {
    lane.socket.removeAllListeners('close')
    lane.socket.destroy()
  }
  const sorted = Float64Array.from(latencies).sort()
  const at = (part: number): number =>
    sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN
  return {
    answers: latencies.length,
    perSecond: (latencies.length / elapsedMs) * 1_000,
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    failed,
    ...(firstFailure === undefined ? {} : { firstFailure }),
  }
}

function open(port: number): Promise<Lane> {
  return new Promise((resolve, reject) => {
    const socket = net.connect({ port, host: '127.0.0.1', noDelay: true })
    socket.once('error', reject)
    socket.once('connect', () => {
      socket.off('error', reject)
      resolve({ socket, dueMs: undefined, missing: undefined, held: undefined, isExpected: true })
    })
  })
}

process.on('message', (job: LoadJob) => {
  void run(job).then((result) => process.send?.(result))
})
process.on('disconnect', () => process.exit(0))
