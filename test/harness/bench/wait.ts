import http from 'node:http'
import net from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { noResolutions } from '../../../shared/agents/agent.ts'
import { newToken, toStoredToken } from '../../../shared/agents/token.ts'
import type { Context } from '../../../shared/context.ts'
import { newId } from '../../../shared/platform/ids.ts'
import { newSalt } from '../../../shared/ledger/pending.ts'
import { DAY_MS, MINUTE_MS, SECOND_MS, unixSeconds } from '../../../shared/platform/time.ts'
import { waitFor } from '../../../scripts/embedded/wait.ts'
import { ask } from './ask.ts'
import { compareWith, percentile, type Figure } from './figure.ts'
import { requestText } from './load.ts'
import { withContext } from './market.ts'
import { startStack } from './processes.ts'

const CALLERS = 10_000
const CONNECTED_AT_ONCE = 100
const SENDERS = 50
const MESSAGES = 500
const MESSAGES_PER_SECOND = 20
const WAIT_SECONDS = 60
const MIB = 2 ** 20

interface Agent {
  id: string
  token: string
}

/**
 * Measures agents that wait for events, each over its own connection: the API's memory beside that with idle
 * connections, and the time from sending a message until its recipient has it.
 */
export async function benchWait(callers = CALLERS): Promise<Figure[]> {
  const stack = await startStack({}, { isProbed: true })
  const connections = new http.Agent({ keepAlive: true, maxSockets: SENDERS })
  const waiters: Waiter[] = []
  try {
    const agents = await withContext(stack.mongodbUrl, stack.servers, (ctx) =>
      storeAgents(ctx, callers + SENDERS),
    )
    const senders = agents.splice(0, SENDERS)
    /** When the recipient was told of a message, by its id. */
    const toldAt = new Map<string, number>()
    const onEvent = (id: string): void => void toldAt.set(id, performance.now())
    await inGroups(agents, CONNECTED_AT_ONCE, async (one) => {
      waiters.push(await connectWaiter(stack.port, one, onEvent))
    })
    await sleep(2 * SECOND_MS)
    const connectedBytes = (await stack.api.readVitals()).rssBytes

    for (const [index, waiter] of waiters.entries()) {
      waiter.begin()
      if (index % CONNECTED_AT_ONCE === 0) await sleep(50)
    }
    await sleep(5 * SECOND_MS)
    const waitingBytes = (await stack.api.readVitals()).rssBytes

    const sent: SentMessage[] = []
    const sending: Promise<void>[] = []
    const startedAt = performance.now()
    for (let nth = 0; nth < MESSAGES; nth++) {
      const [from, to] = [senders[nth % SENDERS] as Agent, agents[(nth * 7_919) % agents.length] as Agent]
      sending.push(sendMessage(stack.port, connections, from, to).then((message) => void sent.push(message)))
      await sleep(Math.max(0, startedAt + (nth * SECOND_MS) / MESSAGES_PER_SECOND - performance.now()))
    }
    await Promise.all(sending)
    await waitFor(
      'every recipient to have its message',
      () => (sent.every(({ id }) => toldAt.has(id)) ? true : undefined),
      { limitMs: MINUTE_MS },
    )
    const wakes = sent.map(({ id, atMs }) => (toldAt.get(id) ?? Number.NaN) - atMs)
    const writes = sent.map(({ tookMs }) => tookMs)
    const perCaller = `one of ${callers} callers`
    return [
      {
        ...compareWith(
          { name: 'the same connections, kept alive with nothing asked', value: connectedBytes / MIB },
          {
            name: `wait: memory of the API while ${callers} callers wait`,
            value: waitingBytes / MIB,
            unit: 'MiB',
            better: 'lower',
          },
        ),
      },
      {
        name: 'wait: more memory for all that wait',
        value: (waitingBytes - connectedBytes) / MIB,
        unit: 'MiB',
        reference: `300 MiB, ${perCaller} being ${Math.round((waitingBytes - connectedBytes) / callers / 1024)} KiB`,
        reference_value: 300,
        ratio: (waitingBytes - connectedBytes) / MIB / 300,
        goal: 1,
        better: 'lower',
      },
      {
        name: `wait: p99 from sending a message to its recipient's answer, ${MESSAGES_PER_SECOND}/s`,
        value: percentile(wakes, 0.99),
        unit: 'ms',
        reference: `1,000 ms; p50 ${Math.round(percentile(wakes, 0.5))} ms, p99 of the sender's own answer ${Math.round(percentile(writes, 0.99))} ms`,
        reference_value: 1_000,
        ratio: percentile(wakes, 0.99) / 1_000,
        goal: 1,
        better: 'lower',
      },
    ]
  } finally {
    for (const waiter of waiters) waiter.end()
    connections.destroy()
    await stack.stop()
  }
}

/**
 * A caller of `GET /events?wait`. It does little work, because it shares the machine with what it measures.
 */
interface Waiter {
  /** Waits for events from now on, again after each answer. */
  begin(): void
  end(): void
}

/**
 * Opens a caller's connection, and resolves after its first answer, which says how far its events go.
 *
 * @param onEvent called with the id of what an event is about
 */
function connectWaiter(port: number, { token }: Agent, onEvent: (id: string) => void): Promise<Waiter> {
  return new Promise((resolve, reject) => {
    let after: string | undefined
    let isWaiting = false
    let held = ''
    let isOver = false
    const socket = net.connect({ port, host: '127.0.0.1', noDelay: true })
    const sendRequest = (): void => {
      const query = after === undefined ? 'limit=1' : `after=${after}&wait=${WAIT_SECONDS}`
      socket.write(requestText('GET', `/api/v1/events?${query}`, { token }))
    }
    const handleAnswer = (status: string, body: string): void => {
      // Refused as unavailable: try again.
      if (status !== '200') return void setTimeout(sendRequest, SECOND_MS * (1 + Math.random()))
      after = /"next":"(\d+)"/.exec(body)?.[1]
      if (body.includes('"events":[{'))
        for (const { id } of (JSON.parse(body) as { events: { id: string }[] }).events) onEvent(id)
      if (isWaiting && !isOver) sendRequest()
      resolve({
        begin() {
          isWaiting = true
          sendRequest()
        },
        end() {
          isOver = true
          socket.destroy()
        },
      })
    }
    socket.on('connect', sendRequest)
    socket.on('error', reject)
    socket.on('close', () => {
      if (!isOver) reject(new Error('a connection was closed while its caller waited'))
    })
    socket.on('data', (chunk: Buffer) => {
      held += chunk.toString('latin1')
      const end = held.indexOf('\r\n\r\n')
      if (end === -1) return
      const length = /\r\ncontent-length: (\d+)/i.exec(held)?.[1] ?? 0
      const whole = end + 4 + Number(length)
      if (held.length < whole) return
      const [status, body] = [held.slice(9, 12), held.slice(end + 4, whole)]
      held = held.slice(whole)
      handleAnswer(status, body)
    })
  })
}

interface SentMessage {
  id: string
  /** When it was sent (performance.now()). */
  atMs: number
  tookMs: number
}

/** Sends a message, again each second until it is accepted. @returns the request that was */
async function sendMessage(
  port: number,
  connections: http.Agent,
  from: Agent,
  to: Agent,
): Promise<SentMessage> {
  const body = { to: to.id, box: 'x'.repeat(200) }
  const post = () => ask(port, connections, { method: 'POST', path: '/dm', token: from.token, body })
  for (;;) {
    const atMs = performance.now()
    // A kept connection may have been closed just as it was used.
    const { json } = await post().catch(post)
    if (json['ok'] === true) return { id: String(json['id']), atMs, tookMs: performance.now() - atMs }
    process.stderr.write(`wait: a message was answered ${JSON.stringify(json)}\n`)
    await sleep(SECOND_MS)
  }
}

/** Stores agents with a pass for a year. */
async function storeAgents(ctx: Context, count: number): Promise<Agent[]> {
  const agents = Array.from({ length: count }, () => ({ id: newId('agent'), token: newToken() }))
  const records = agents.map(({ id, token }) => ({
    _id: id,
    at: unixSeconds(ctx.now()),
    salt: newSalt(),
    challenge: id,
    ...toStoredToken(token),
    pass_until_ms: ctx.now() + 365 * DAY_MS,
    referrals: { paying: 0 },
    record: noResolutions(),
  }))
  await ctx.agents.models.agents.insertMany(records, { lean: true })
  return agents
}

/** Does `work` for all items, `size` of them at a time, each group after the one before. */
async function inGroups<Item>(
  items: readonly Item[],
  size: number,
  work: (item: Item) => Promise<unknown>,
): Promise<void> {
  for (let from = 0; from < items.length; from += size)
    await Promise.all(items.slice(from, from + size).map(work))
}
