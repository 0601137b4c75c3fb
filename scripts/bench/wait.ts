import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { noResolutions } from '../../shared/agents/agent.ts'
import { newToken, toStoredToken } from '../../shared/agents/token.ts'
import type { Context } from '../../shared/context.ts'
import { newId } from '../../shared/foundation/ids.ts'
import { newSalt } from '../../shared/ledger/pending.ts'
import { DAY_MS, SECOND_MS, unixSeconds } from '../../shared/foundation/time.ts'
import { compareWith, type Figure } from './figure.ts'
import { withContext } from './market.ts'
import { startStack, type BenchStack } from './processes.ts'

const CALLERS = 10_000
const CONNECTED_AT_ONCE = 100
const SENDERS = 50
const MESSAGES = 1_000
const MESSAGES_PER_SECOND = 50
const WAIT_SECONDS = 60
const MIB = 2 ** 20

interface Agent {
  id: string
  token: string
}

/**
 * So many agents that wait for an event, each over a connection of its own: what a caller costs the API's memory
 * beside one that only keeps its connection open, and how long after a message was sent its recipient has it.
 */
export async function benchWait(callers = CALLERS): Promise<Figure[]> {
  const stack = await startStack({}, { isProbed: true })
  const agent = new http.Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY })
  try {
    const agents = await withContext(stack.mongodbUrl, stack.servers, (ctx) =>
      makeAgents(ctx, callers + SENDERS),
    )
    const senders = agents.splice(0, SENDERS)
    const ask = (one: Agent, path: string, body?: object) => call(stack, agent, one, path, body)
    await inGroups(agents, CONNECTED_AT_ONCE, (one) => ask(one, '/events?limit=1'))
    await sleep(2 * SECOND_MS)
    const connected = (await stack.api.readVitals()).rssBytes

    const waiters = new Map(agents.map((one) => [one.id, follow(one, ask)]))
    await inGroups(agents, CONNECTED_AT_ONCE, async (one) => {
      waiters.get(one.id)?.begin()
      await sleep(10)
    })
    await sleep(5 * SECOND_MS)
    const waiting = (await stack.api.readVitals()).rssBytes

    const wakes: number[] = []
    const writes: number[] = []
    const sending: Promise<void>[] = []
    for (let nth = 0; nth < MESSAGES; nth++) {
      const [from, to] = [senders[nth % SENDERS] as Agent, agents[(nth * 7_919) % agents.length] as Agent]
      sending.push(sendAndWake(from, to, waiters.get(to.id) as Follower, ask, { wakes, writes }))
      await sleep(SECOND_MS / MESSAGES_PER_SECOND)
    }
    await Promise.all(sending)
    for (const one of waiters.values()) one.end()
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
    agent.destroy()
    await stack.stop()
  }
}

type Ask = (one: Agent, path: string, body?: object) => Promise<Record<string, unknown>>

interface Follower {
  begin(): void
  /** Resolves with the time at which the event about this message was there. */
  told(messageId: string): Promise<number>
  end(): void
}

function follow(one: Agent, ask: Ask): Follower {
  const toldAt = new Map<string, number>()
  const awaited = new Map<string, (at: number) => void>()
  let isOver = false
  const run = async (): Promise<void> => {
    for (let after = '0'; !isOver;) {
      // A service that says that it has no time is asked again.
      const page = await ask(one, `/events?after=${after}&wait=${WAIT_SECONDS}`).catch(() => undefined)
      if (page === undefined) {
        await sleep(SECOND_MS)
        continue
      }
      const now = performance.now()
      after = String(page['next'])
      for (const { id } of page['events'] as { id: string }[]) {
        toldAt.set(id, now)
        awaited.get(id)?.(now)
      }
    }
  }
  return {
    begin: () => void run(),
    told: (id) =>
      new Promise((resolve) => {
        const at = toldAt.get(id)
        if (at === undefined) awaited.set(id, resolve)
        else resolve(at)
      }),
    end: () => (isOver = true),
  }
}

async function sendAndWake(
  from: Agent,
  to: Agent,
  follower: Follower,
  ask: Ask,
  { wakes, writes }: { wakes: number[]; writes: number[] },
): Promise<void> {
  const sentAt = performance.now()
  const { id } = await ask(from, '/dm', { to: to.id, box: 'x'.repeat(200) })
  writes.push(performance.now() - sentAt)
  wakes.push((await follower.told(String(id))) - sentAt)
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
          const json = JSON.parse(Buffer.concat(parts).toString()) as Record<string, unknown>
          if (json['ok'] === true) resolve(json)
          else reject(new Error(`${path} was answered ${answer.statusCode}: ${String(json['message'])}`))
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
