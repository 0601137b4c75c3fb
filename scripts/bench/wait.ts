import http from 'node:http'
import net from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { noResolutions } from '../../shared/agents/agent.ts'
import { newToken, toStoredToken } from '../../shared/agents/token.ts'
import type { Context } from '../../shared/context.ts'
import { newId } from '../../shared/foundation/ids.ts'
import { newSalt } from '../../shared/ledger/pending.ts'
import { DAY_MS, MINUTE_MS, SECOND_MS, unixSeconds } from '../../shared/foundation/time.ts'
import { waitFor } from '../embedded/wait.ts'
import { compareWith, type Figure } from './figure.ts'
import { requestText } from './load.ts'
import { withContext } from './market.ts'
import { startStack, type BenchStack } from './processes.ts'

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
 * Agents that wait for events, each over its own connection: the API's memory compared with idle connections,
 * and the time from sending a message until its recipient has it.
 */
export async function benchWait(callers = CALLERS): Promise<Figure[]> {
  const stack = await startStack({}, { isProbed: true })
  const agent = new http.Agent({ keepAlive: true, maxSockets: SENDERS })
  const waiters: Waiter[] = []
  try {
    const agents = await withContext(stack.mongodbUrl, stack.servers, (ctx) =>
      makeAgents(ctx, callers + SENDERS),
    )
    const senders = agents.splice(0, SENDERS)
    const ask = (one: Agent, path: string, body?: object) => call(stack, agent, one, path, body)
    const toldAt = new Map<string, number>()
    const told = (id: string): void => void toldAt.set(id, performance.now())
    await inGroups(agents, CONNECTED_AT_ONCE, async (one) => {
      waiters.push(await connect(stack.port, one, told))
    })
    await sleep(2 * SECOND_MS)
    const connected = (await stack.api.readVitals()).rssBytes

    for (const [index, one] of waiters.entries()) {
      one.begin()
      if (index % CONNECTED_AT_ONCE === 0) await sleep(50)
    }
    await sleep(5 * SECOND_MS)
    const waiting = (await stack.api.readVitals()).rssBytes

    const sent: { id: string; atMs: number; tookMs: number }[] = []
    const sending: Promise<void>[] = []
    const startedAt = performance.now()
    for (let nth = 0; nth < MESSAGES; nth++) {
      const [from, to] = [senders[nth % SENDERS] as Agent, agents[(nth * 7_919) % agents.length] as Agent]
      sending.push(send(from, to, ask).then((one) => void sent.push(one)))
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
          { name: 'the same connections, kept alive with nothing asked', value: connected / MIB },
          {
            name: `wait: memory of the API while ${callers} callers wait`,
            value: waiting / MIB,
            unit: 'MiB',
            better: 'lower',
          },
        ),
      },
      {
        name: 'wait: more memory for all that wait',
        value: (waiting - connected) / MIB,
        unit: 'MiB',
        reference: `300 MiB, ${perCaller} being ${Math.round((waiting - connected) / callers / 1024)} KiB`,
        reference_value: 300,
        ratio: (waiting - connected) / MIB / 300,
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
    for (const one of waiters) one.end()
    agent.destroy()
    await stack.stop()
  }
}

type Ask = (one: Agent, path: string, body?: object) => Promise<Record<string, unknown>>

/** A caller that waits. It does little work, because it shares the machine with what it measures. */
interface Waiter {
  begin(): void
  end(): void
}

/**
 * Opens a caller's connection. Resolves after its first answer, which gives its position among its events.
 */
function connect(port: number, { token }: Agent, told: (id: string) => void): Promise<Waiter> {
  return new Promise((resolve, reject) => {
    let after: string | undefined
    let isWaiting = false
    let held = ''
    let isOver = false
    const socket = net.connect({ port, host: '127.0.0.1', noDelay: true })
    const ask = (): void => {
      const query = after === undefined ? 'limit=1' : `after=${after}&wait=${WAIT_SECONDS}`
      socket.write(requestText('GET', `/api/v1/events?${query}`, { token }))
    }
    const answered = (status: string, body: string): void => {
      // Refused as unavailable: try again.
      if (status !== '200') return void setTimeout(ask, SECOND_MS * (1 + Math.random()))
      after = /"next":"(\d+)"/.exec(body)?.[1]
      if (body.includes('"events":[{'))
        for (const { id } of (JSON.parse(body) as { events: { id: string }[] }).events) told(id)
      if (isWaiting && !isOver) ask()
      resolve({
        begin() {
          isWaiting = true
          ask()
        },
        end() {
          isOver = true
          socket.destroy()
        },
      })
    }
    socket.on('connect', ask)
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
      answered(status, body)
    })
  })
}

async function send(from: Agent, to: Agent, ask: Ask): Promise<{ id: string; atMs: number; tookMs: number }> {
  for (;;) {
    const atMs = performance.now()
    const answer = await ask(from, '/dm', { to: to.id, box: 'x'.repeat(200) })
    if (answer['ok'] === true) return { id: String(answer['id']), atMs, tookMs: performance.now() - atMs }
    process.stderr.write(`wait: a message was answered ${JSON.stringify(answer)}\n`)
    await sleep(SECOND_MS)
  }
}

async function makeAgents(ctx: Context, count: number): Promise<Agent[]> {
  const made = Array.from({ length: count }, () => ({ id: newId('agent'), token: newToken() }))
  const records = made.map(({ id, token }) => ({
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
  return made
}

async function inGroups<Item>(
  items: readonly Item[],
  size: number,
  work: (item: Item) => Promise<unknown>,
): Promise<void> {
  for (let from = 0; from < items.length; from += size)
    await Promise.all(items.slice(from, from + size).map(work))
}

function percentile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN
}

function call(
  { port }: Pick<BenchStack, 'port'>,
  agent: http.Agent,
  { token }: Pick<Agent, 'token'>,
  path: string,
  body?: object,
): Promise<Record<string, unknown>> {
  return new Promise((resolve, reject) => {
    const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' }
    const asked = http.request(
      {
        port,
        host: '127.0.0.1',
        agent,
        path: `/api/v1${path}`,
        method: body === undefined ? 'GET' : 'POST',
        headers,
      },
      (answer) => {
        const parts: Buffer[] = []
        answer.on('data', (part: Buffer) => parts.push(part))
        answer.on('end', () => {
          resolve(JSON.parse(Buffer.concat(parts).toString()) as Record<string, unknown>)
        })
      },
    )
    // A connection that was kept alive may have ended just then.
    asked.on('error', (error) => {
      if (asked.reusedSocket || body === undefined) resolve(call({ port }, agent, { token }, path, body))
      else reject(error)
    })
    asked.end(body === undefined ? undefined : JSON.stringify(body))
  })
}
