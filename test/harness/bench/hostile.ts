import { fork } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { waitFor } from '../../../scripts/embedded/wait.ts'
import { solvePuzzle } from '../../../client/puzzle-solver.ts'
import type { Context } from '../../../shared/context.ts'
import { findShares } from '../../../shared/crypto/pow.ts'
import { newId } from '../../../shared/platform/ids.ts'
import type { EntryRecord } from '../../../shared/ledger/entry.ts'
import { DAY_MS, MINUTE_MS, SECOND_MS } from '../../../shared/platform/time.ts'
import { ask, type Question } from './ask.ts'
import { compareWith, median, percentile, type Figure } from './figure.ts'
import type { Attack } from './hostile-child.ts'
import { requestText } from './load.ts'
import { makeOrders, storeOrders, withContext } from './market.ts'
import { readUsage } from './proc.ts'
import { startStack, type BenchStack } from './processes.ts'
import { epochMs, openThreadTime, type ThreadTime } from './thread-time.ts'

/** How long the honest agent is measured before each attack, and during it. */
const ALONE_MS = 5_000
const BESIDE_MS = 20_000
/** How long an attack runs before it is measured, and how long after its end the processor's load is. */
const SETTLE_MS = 2_000
/** The honest agent pauses for as long, on average, between two requests of a kind: it asks for some 80 things a second. */
const THINK_MS = 100
/** The API's limit of open files: the usual default, if the operator has set nothing. */
const OPEN_FILES = 1_024
const ENTRIES = 20_000
const FILL_PAGE = 2_000
const RECEIPT_ENTRIES = 500
const DELIVERIES = 20_000
const SHARE_BITS = 8
const BASE = '/api/v1'

interface Agent {
  id: string
  token: string
}

/** Makes the next request of each kind that the honest agent sends. */
type Work = Record<string, () => Question>

/** How long each request of each kind took, in milliseconds; infinitely long if a kind isn't served. */
interface Times {
  /** The main thread's processor time between a question and its answer. */
  cpu: Kinds
  wall: Kinds
}
type Kinds = Record<string, number[]>

/**
 * Measures what attacks do to an honest agent and to the API: the p99 of the agent's requests, by the processor
 * time of the API's main thread and by the clock, and the API's memory, each beside the value without
 * any attack, and the processor's load after it. The agent alone is measured before each attack, and all of that
 * together is what each row is compared with. The first row is measured without any attack: its ratios show how
 * much is chance.
 *
 * Of one kind a phase has some hundred requests, whose p99 is the longest. So the goal is for those of all kinds
 * together, each in terms of the median of its kind alone; the worst affected kind stands beside it.
 *
 * @param only measures the attacks whose names contain one of these, with commas between them; all if empty
 */
export async function benchHostile(
  report: (line: string) => void = (line) => process.stderr.write(`${line}\n`),
  only = process.env['BENCH_ONLY'] ?? '',
): Promise<Figure[]> {
  const thread = openThreadTime()
  const env = { REGISTER_BITS: '4', SHARE_BITS: String(SHARE_BITS), SHARES_PER_DAY: '100' }
  const stack = await startStack(env, { openFiles: OPEN_FILES, apiEnv: thread.env })
  try {
    return await withContext(stack.mongodbUrl, stack.servers, (ctx) =>
      measureAttacks(stack, ctx, thread, report, only),
    )
  } finally {
    await stack.stop()
    thread.close()
  }
}

async function measureAttacks(
  stack: BenchStack,
  ctx: Context,
  thread: ThreadTime,
  report: (line: string) => void,
  only: string,
): Promise<Figure[]> {
  await waitFor(
    'the API',
    async () => {
      const { status } = await send(stack, { method: 'GET', path: '/feed' })
      return status === 200 ? true : undefined
    },
    { limitMs: MINUTE_MS },
  )
  const [honest, loud, target] = await Promise.all([
    registerWithPass(stack, ctx),
    registerWithPass(stack, ctx),
    registerWithPass(stack, ctx),
  ])
  await fillLedger(ctx, target)
  const work = await prepareWork(stack, ctx, honest)
  const attacks = await prepareAttacks(stack, ctx, loud, target)
  const measure = (durationMs: number) => timeWork(stack, honest, work, thread, durationMs)
  // A warm-up, which does not count.
  await measure(SETTLE_MS + BESIDE_MS)
  const rows: Row[] = []
  for (const [name, attack] of Object.entries(attacks)) {
    if (!only.split(',').some((part) => name.includes(part))) continue
    const alone = await measure(ALONE_MS)
    const mibBefore = readUsage(stack.api.pid).rssMib
    const child = fork(fileURLToPath(new URL('hostile-child.ts', import.meta.url)))
    child.send({ port: stack.port, ...attack })
    await sleep(SETTLE_MS)
    const beside = await measure(BESIDE_MS)
    const mib = readUsage(stack.api.pid).rssMib
    child.kill('SIGKILL')
    await sleep(SETTLE_MS)
    const cores = await readCores(stack)
    report(`alone: ${formatTimes(alone)}, ${Math.round(mibBefore)} MiB`)
    report(`${name}: ${formatTimes(beside)}, ${Math.round(mib)} MiB, ${cores.toFixed(2)} cores 2 s later`)
    rows.push({ name, alone, beside, mibBefore, mib, cores })
  }
  const alone = joinTimes(rows.map((row) => row.alone))
  return rows.flatMap((row) => toFigures(row, alone))
}

interface Row {
  name: string
  alone: Times
  beside: Times
  mibBefore: number
  mib: number
  cores: number
}

function toFigures({ name, beside, mibBefore, mib, cores }: Row, alone: Times): Figure[] {
  return [
    compareAll(name, 'cpu', alone.cpu, beside.cpu),
    compareWorst(name, 'cpu', alone.cpu, beside.cpu),
    compareAll(name, 'wall', alone.wall, beside.wall),
    compareWith(
      { name: 'alone', value: mibBefore },
      { name: `hostile: memory beside ${name}`, value: mib, unit: 'MiB', better: 'lower', goal: 1.5 },
    ),
    compareWith(
      { name: 'a core', value: 1 },
      {
        name: `hostile: processor 2 s after ${name}`,
        value: cores,
        unit: 'cores',
        better: 'lower',
        goal: 0.2,
      },
    ),
  ]
}

const joinTimes = (parts: readonly Times[]): Times => ({
  cpu: joinKinds(parts.map(({ cpu }) => cpu)),
  wall: joinKinds(parts.map(({ wall }) => wall)),
})
const joinKinds = (parts: readonly Kinds[]): Kinds =>
  Object.fromEntries(
    Object.keys(parts[0] ?? {}).map((kind) => [kind, parts.flatMap((part) => part[kind] ?? [])]),
  )

const MEASURES = { cpu: 'of the main thread', wall: 'by the clock' } as const

/** The p99 of some requests of one kind, in milliseconds, at least the step in which some systems count. */
const p99Of = (times: readonly number[] = []): number => Math.max(percentile(times, 0.99), 1)

/** Compares all requests, each in terms of the median of its kind alone. */
function compareAll(attack: string, measure: 'cpu' | 'wall', alone: Kinds, beside: Kinds): Figure {
  // Some systems count processor time in steps of 4 ms, so a smaller time may stand for nothing at all.
  const usual = Object.fromEntries(
    Object.entries(alone).map(([kind, times]) => [kind, Math.max(median(times), 1)]),
  )
  const p99 = (times: Kinds): number =>
    percentile(
      Object.entries(times).flatMap(([kind, of]) => of.map((ms) => ms / (usual[kind] ?? 1))),
      0.99,
    )
  return compareWith(
    { name: 'alone', value: p99(alone) },
    {
      name: `hostile: p99 of all beside ${attack}, ${MEASURES[measure]}`,
      value: p99(beside),
      unit: 'usual times',
      better: 'lower',
      ...(measure === 'cpu' ? { goal: 2 } : {}),
    },
  )
}

/** Compares the kind of request that an attack affects the most. */
function compareWorst(attack: string, measure: 'cpu' | 'wall', alone: Kinds, beside: Kinds): Figure {
  const slowdown = (kind: string): number => p99Of(beside[kind]) / p99Of(alone[kind])
  const [worst = ''] = Object.keys(beside).toSorted((one, other) => slowdown(other) - slowdown(one))
  return compareWith(
    { name: 'alone', value: p99Of(alone[worst]) },
    {
      name: `hostile: p99 of ${worst} beside ${attack}, ${MEASURES[measure]}`,
      value: p99Of(beside[worst]),
      unit: measure === 'cpu' ? 'CPU ms' : 'ms',
      better: 'lower',
    },
  )
}

const formatTimes = ({ cpu, wall }: Times): string =>
  Object.keys(cpu)
    .map((kind) => `${kind} ${p99Of(cpu[kind]).toFixed(1)} (${p99Of(wall[kind]).toFixed(1)}) ms`)
    .join(', ')

const CONNECTIONS = new http.Agent({ keepAlive: true })

const send = ({ port }: BenchStack, question: Question, connections = CONNECTIONS) =>
  ask(port, connections, question)

/** Each request over a connection of its own. */
const NEW_CONNECTIONS = new http.Agent({ keepAlive: false })

/** Registers an agent, and gives it a pass in the database. */
async function registerWithPass(stack: BenchStack, ctx: Context): Promise<Agent> {
  const { json: challenge } = await send(stack, { method: 'GET', path: '/challenge' })
  const { prefix, difficulty_bits: bits } = challenge['pow'] as { prefix: string; difficulty_bits: number }
  // So many that one of them is a share all but surely.
  const nonces = Array.from({ length: 2 ** (bits + 5) }, (_, index) => String(index))
  const [pow] = findShares(prefix, nonces, bits)
  const answer = solvePuzzle(challenge['puzzle'] as Parameters<typeof solvePuzzle>[0])
  const body = { challenge_id: challenge['challenge_id'], answer, pow }
  const { json } = await send(stack, { method: 'POST', path: '/register', body })
  const id = String(json['agent_id'])
  await ctx.agents.movePassEnd(id, undefined, Date.now() + 365 * DAY_MS, [])
  return { id, token: String(json['token']) }
}

/** Stores `count` numbered entries, in whole pages; the first RECEIPT_ENTRIES are of the given agent. */
export async function fillLedger(ctx: Context, { id }: { id: string }, count = ENTRIES): Promise<void> {
  const at = Math.floor(Date.now() / SECOND_MS)
  const entry = (number: number, record: string): EntryRecord => {
    const data = { agent_id: id, post_id: record, content_hash: randomBytes(32).toString('hex') }
    return { _id: number, source: `${record}/bench/${number}`, record, at, kind: 'post', data }
  }
  let stored = 0
  while (stored < count) {
    const first = (await ctx.entries.highestId()) + 1
    const recordOf = (index: number) => (stored + index < RECEIPT_ENTRIES ? id : newId('post'))
    const page = Array.from({ length: FILL_PAGE }, (_, index) => entry(first + index, recordOf(index)))
    // The workers number entries too: a page of which they took a number begins again after theirs.
    if (await ctx.entries.append(page)) stored += FILL_PAGE
  }
}

/**
 * Stores paid orders for the honest agent to deliver, asks for a work order, and gives its kinds of requests.
 */
async function prepareWork(stack: BenchStack, ctx: Context, honest: Agent): Promise<Work> {
  const orders = makeOrders(DELIVERIES, Date.now() / SECOND_MS)
  const due = Math.floor(Date.now() / SECOND_MS) + 86_400
  for (const order of orders) {
    for (const field of ['delivery', 'delivery_salt', 'delivered_at', 'accept_by'] as const)
      delete order[field]
    Object.assign(order, { status: 'paid', seller_id: honest.id, deliver_by: due, due_at: due })
  }
  await storeOrders(ctx, orders)
  const order = await orderWork(stack, honest)
  let nonce = 0
  const nextShare = (): string => {
    for (;;) {
      const [share] = findShares(order.prefix, [(nonce++).toString(36)], SHARE_BITS)
      if (share !== undefined) return share
    }
  }
  let delivered = 0
  return {
    // Without a token, over a new connection each time.
    [NEWCOMER]: () => ({ method: 'GET', path: '/challenge' }),
    challenge: () => ({ method: 'GET', path: '/challenge' }),
    me: () => ({ method: 'GET', path: '/me' }),
    feed: () => ({ method: 'GET', path: '/feed?limit=20' }),
    events: () => ({ method: 'GET', path: '/events?after=0' }),
    post: () => ({ method: 'POST', path: '/post', body: { body: 'an honest word' } }),
    deliver: () => ({
      method: 'POST',
      path: '/market/deliver',
      body: { order_id: orders[delivered++]?._id, delivery: 'x'.repeat(30_000) },
    }),
    submit: () => ({
      method: 'POST',
      path: '/work/submit',
      body: { order_id: order.order_id, nonces: [nextShare()] },
    }),
  }
}

const NEWCOMER = 'newcomer'
const NANO_ADDRESS = 'nano_3e3j5tkog48pnny9dmfzj1r16pg8t1e76dz5tmac6iq689wyjfpiij4txtdo'

async function orderWork(stack: BenchStack, { token }: Agent): Promise<{ order_id: string; prefix: string }> {
  const body = { currency: 'pow', days: 365 }
  const { json } = await send(stack, { method: 'POST', path: '/invoice', token, body })
  return { order_id: String(json['order_id']), prefix: String(json['prefix']) }
}

/**
 * @param loud the attacker that has a token
 * @param target receives the messages, and has the longest receipt
 * @returns the attacks by their names
 */
async function prepareAttacks(
  stack: BenchStack,
  ctx: Context,
  loud: Agent,
  target: Agent,
): Promise<Record<string, Omit<Attack, 'port'>>> {
  const { token } = loud
  await fillLists(stack, loud, target)
  const sybils: Agent[] = []
  while (sybils.length < 50) sybils.push(await registerWithPass(stack, ctx))
  const order = await orderWork(stack, loud)
  const all = Array.from({ length: 11_000 }, (_, index) => String(index))
  const shares = new Set(findShares(order.prefix, all, SHARE_BITS))
  const nonces = all.filter((nonce) => !shares.has(nonce)).slice(0, 10_000)
  /** A POST of this text, which may announce more bytes than come. */
  const post = (path: string, text: string, length = text.length, more = ''): string =>
    `POST ${BASE}${path} HTTP/1.1\r\nHost: a\r\n${more}Content-Type: application/json\r\nContent-Length: ${length}\r\n\r\n${text}`
  const authorization = `Authorization: Bearer ${token}\r\n`
  const ledger = Array.from({ length: 500 }, (_, index) =>
    requestText('GET', `${BASE}/ledger?limit=10000&from_id=${index + 1}`),
  )
  const get = (path: string, more = ''): string => `GET ${BASE}${path} HTTP/1.1\r\nHost: a\r\n${more}\r\n`
  const challenge = get('/challenge')
  const ofSybils = (write: (sybil: Agent) => string[]): string[] => sybils.flatMap(write)
  return {
    nothing: { connections: 0, requests: [] },
    'one name in a query': { connections: 1, requests: [get(`/challenge?${'a&'.repeat(7_500)}`)] },
    'light reads': { connections: 200, requests: [challenge] },
    'many light reads': { connections: 500, requests: [challenge] },
    'light reads over new connections': {
      connections: 300,
      requests: [get('/challenge', 'Connection: close\r\n')],
    },
    'a long Accept': {
      connections: 8,
      requests: [
        `GET / HTTP/1.1\r\nHost: a\r\nAccept: ${Array.from({ length: 1_300 }, (_, at) => `a/${at};q=0.5`).join()}\r\n\r\n`,
      ],
    },
    'long lists': {
      connections: 20,
      requests: Array.from({ length: 11 }, (_, at) => get(`/claims?limit=${50 + at}`)),
    },
    'the longest lists': {
      connections: 20,
      requests: Array.from({ length: 20 }, (_, at) => get(`/market/offers?limit=${200 - at}`)),
    },
    'one of each agent': {
      connections: 20,
      requests: Array.from({ length: 20 }, (_, at) => get(`/claims?per_agent=1&limit=${200 - at}`)),
    },
    'events of one agent': {
      connections: 64,
      requests: [get('/events?after=0&limit=200', authorization)],
    },
    'messages that one agent sent': { connections: 16, requests: [get('/dm/sent', authorization)] },
    'standing of one agent': { connections: 200, requests: [get('/me', authorization)] },
    'fifty agents': {
      connections: 100,
      requests: ofSybils((sybil) => [
        requestText('POST', `${BASE}/post`, { token: sybil.token, body: { body: 'a word' } }),
        requestText('GET', `${BASE}/me`, sybil),
        requestText('GET', `${BASE}/events?after=0`, sybil),
        requestText('POST', `${BASE}/profile`, { token: sybil.token, body: { name: 'one of many' } }),
        requestText('POST', `${BASE}/dm`, { token: sybil.token, body: { to: target.id, box: 'a box' } }),
      ]),
    },
    'long bodies of fifty agents': {
      connections: 50,
      requests: ofSybils((sybil) => [
        requestText('POST', `${BASE}/post`, {
          token: sybil.token,
          body: { body: 'a word', more: 'x'.repeat(500_000) },
        }),
      ]),
    },
    'unknown tokens': {
      connections: 200,
      requests: Array.from({ length: 1_000 }, () =>
        get('/me', `Authorization: Bearer sk_${randomBytes(24).toString('hex')}\r\n`),
      ),
    },
    'a zipped ledger': {
      connections: 100,
      requests: Array.from({ length: 500 }, (_, at) =>
        get(`/ledger?limit=10000&from_id=${at + 1}`, 'Accept-Encoding: gzip\r\n'),
      ),
    },
    'a ledger flood': { connections: 100, requests: ledger },
    'pipelined unread answers': { connections: 50, requests: ledger, pipelined: 400, isDeaf: true },
    'stalled uploads': {
      connections: 258,
      requests: [post('/dm', ' '.repeat(100_000), 524_288, authorization)],
    },
    'trickled headers': { connections: 1_100, requests: [], trickleMs: 200 },
    'a profile storm': {
      connections: 300,
      requests: Array.from({ length: 300 }, () =>
        requestText('POST', `${BASE}/profile`, {
          token,
          body: { dm_key: `${randomBytes(31).toString('hex')}01` },
        }),
      ),
    },
    'junk work': {
      connections: 16,
      requests: [
        requestText('POST', `${BASE}/work/submit`, { token, body: { order_id: order.order_id, nonces } }),
      ],
    },
    'a message flood': {
      connections: 32,
      requests: [
        requestText('POST', `${BASE}/dm`, { token, body: { to: target.id, box: 'b'.repeat(65_536) } }),
      ],
    },
    'a registration flood': {
      connections: 600,
      requests: [
        requestText('POST', `${BASE}/register`, { body: { challenge_id: 'x', answer: 'y', pow: 'z' } }),
      ],
    },
    'deep JSON': { connections: 32, requests: [post('/register', '['.repeat(500_000))] },
    'heavy receipts': { connections: 100, requests: [requestText('GET', `${BASE}/receipt/${target.id}`)] },
  }
}

/** Gives the lists as many long records as their longest answers hold. */
async function fillLists(stack: BenchStack, loud: Agent, target: Agent): Promise<void> {
  const write = async (agent: Agent, path: string, body: object): Promise<void> => {
    const { status, json } = await send(stack, { method: 'POST', path, token: agent.token, body })
    if (status >= 300) throw new Error(`${path}: ${status} ${String(json['message'])}`)
  }
  for (let at = 0; at < 100; at++)
    for (const agent of [loud, target]) {
      await write(agent, '/claim', { statement: 'c'.repeat(2_000) })
      await write(agent, '/market/offer', {
        title: 'o'.repeat(120),
        description: 'd'.repeat(4_000),
        price_usd: 5,
        delivery_hours: 1,
        payout_addresses: { xno: NANO_ADDRESS },
      })
      await write(target, '/dm', { to: loud.id, box: 'a box' })
    }
  for (let at = 0; at < 5; at++) await write(loud, '/dm', { to: target.id, box: 'b'.repeat(65_536) })
}

/**
 * Sends requests of all kinds for a while, those of one kind one after the other with a pause between them, the
 * kinds at the same time.
 *
 * @returns the times of the 2xx answers of each kind; infinite if others were more than a hundredth of them
 */
async function timeWork(
  stack: BenchStack,
  { token }: Agent,
  work: Work,
  thread: ThreadTime,
  durationMs: number,
): Promise<Times> {
  const endMs = epochMs() + durationMs
  const measured = await Promise.all(
    Object.entries(work).map(async ([kind, nextRequest]) => {
      const taken: [fromMs: number, toMs: number][] = []
      let failed = 0
      while (epochMs() < endMs) {
        const request = nextRequest()
        const startedAt = epochMs()
        const asked =
          kind === NEWCOMER ? send(stack, request, NEW_CONNECTIONS) : send(stack, { ...request, token })
        const status = await asked.then(
          (answer) => answer.status,
          () => 0,
        )
        if (status >= 200 && status < 300) taken.push([startedAt, epochMs()])
        else failed++
        await sleep(2 * THINK_MS * Math.random())
      }
      return { kind, taken, isServed: taken.length > 0 && failed <= taken.length / 100 }
    }),
  )
  const cpuMs = thread.read()
  const timesBy = (measure: (fromMs: number, toMs: number) => number): Kinds =>
    Object.fromEntries(
      measured.map(({ kind, taken, isServed }) => [
        kind,
        isServed ? taken.map(([fromMs, toMs]) => measure(fromMs, toMs)) : [Number.POSITIVE_INFINITY],
      ]),
    )
  return { cpu: timesBy(cpuMs), wall: timesBy((fromMs, toMs) => toMs - fromMs) }
}

/** The part of a core that the API uses during one second. */
async function readCores({ api }: BenchStack): Promise<number> {
  const [beforeMs, startedAt] = [readUsage(api.pid).cpuMs, performance.now()]
  await sleep(SECOND_MS)
  return (readUsage(api.pid).cpuMs - beforeMs) / (performance.now() - startedAt)
}
