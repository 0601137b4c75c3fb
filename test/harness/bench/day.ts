import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { solvePuzzle, type PuzzleQuestion } from '../../../client/puzzle-solver.ts'
import { newToken, toStoredToken } from '../../../shared/agents/token.ts'
import { encodeNanoAddress } from '../../../shared/crypto/nano-address.ts'
import { findShares } from '../../../shared/crypto/pow.ts'
import { DAY_MS, MINUTE_MS, SECOND_MS } from '../../../shared/platform/time.ts'
import { ensureSealKey } from '../../../shared/ledger/seal-key.ts'
import { waitFor } from '../../../scripts/embedded/wait.ts'
import { compareWith, percentile, type Figure } from './figure.ts'
import { requestText } from './load.ts'
import { withContext } from './market.ts'
import { openLoop, type OpenLoop, type Tally } from './open-loop.ts'
import { readMachineMs, readUsage } from './proc.ts'
import { startStack, type BenchStack } from './processes.ts'
import { makeAgent, makeClaim, makePost, makeShareBatches, makeWorkOrder } from './records.ts'
import { startNode, type BenchNode } from './watch.ts'

const AGENTS = 10_000
const POSTS_EACH = 5
/** Agents that sell, each from one offer. */
const SELLERS = 100
const CONNECTIONS = 256
/** How long a day lasts at full speed; a shorter one has as many requests a second, and fewer in all. */
const DAY_MINUTES = 10
/** The busiest moment has this much more than the mean, the quietest as much less. */
const SWING = 0.5
const SLICES = 20
const SHARE_BITS = 4
const SHARES_A_BATCH = 100
const BATCHES_EACH = 32
const POST_BODY = 'What an agent says in a post of a usual length, and to whom it may be of use. '.repeat(3)
const BOX = 'b'.repeat(540)
const DELIVERY = 'd'.repeat(4_000)
/** From an order's payment to its delivery, and from there to its acceptance. */
const STEP_MS = 15 * SECOND_MS
const BASE = '/api/v1'

/** How often an agent does each thing in a day, on average; docs/benchmarks.md states the same. */
export const A_DAY = {
  feed: 6,
  me: 4,
  card: 3,
  events: 3,
  'messages read': 2,
  directory: 1,
  post: 3,
  message: 3,
  work: 2,
  verdict: 0.6,
  claim: 0.2,
  // A new agent: the challenge, then the registration.
  registration: 0.1,
  // Placed, paid on the Nano network's stand-in, delivered and accepted, and paid out.
  order: 0.1,
} as const
export type Kind = keyof typeof A_DAY

interface Agent {
  id: string
  token: string
  orderId: string
  /** How many batches of work it has sent. */
  batches: number
  /** How far it has read its events. */
  after: string | undefined
}

/** The most that each figure may be. */
const LIMITS = { p50Ms: 50, p99Ms: 150, p999Ms: 2_000, failedOf10000: 10 } as const

/**
 * Measures a day of 10,000 agents within `minutes`: quiet at night and busy at noon, requests of all kinds at
 * times that do not depend on the answers. Gives latencies from when each request was due, what failed, and
 * the processor time of each process in the busiest twentieth of the day.
 */
export async function benchDay({
  minutes = DAY_MINUTES,
  report = (line: string) => void process.stderr.write(`${line}\n`),
}: { minutes?: number; report?: (line: string) => void } = {}): Promise<Figure[]> {
  const world = await startDay()
  try {
    return await measureDay(world, minutes, report)
  } finally {
    await world.stop()
  }
}

/** A network of AGENTS agents, and what they do. */
export interface DayWorld {
  stack: BenchStack
  /** Opens connections for the next requests: idle ones are closed by the API. */
  connect(): { loop: OpenLoop; actions: Actions }
  stop(): Promise<void>
}

/** Starts the network and the stand-in for the Nano node, and stores agents, posts, claims, orders and offers. */
export async function startDay(): Promise<DayWorld> {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-day-'))
  const file = (name: string): string => path.join(folder, name)
  const cleanUp: (() => unknown)[] = [() => fs.rmSync(folder, { recursive: true, force: true })]
  const stop = async (): Promise<void> => {
    for (const end of cleanUp.toReversed()) await end()
  }
  fs.writeFileSync(file('nano-seed'), `${randomBytes(32).toString('hex')}\n`, { mode: 0o600 })
  ensureSealKey(file('seal-key'), file('seal-memory'))
  try {
    const node = await startNode('--confirm')
    cleanUp.push(node.stop)
    const stack = await startStack({
      REGISTER_BITS: '4',
      NANO_RPC_URL: node.rpcUrl,
      NANO_WS_URL: node.wsUrl,
      NANO_SEED_FILE: file('nano-seed'),
      XNO_USD: '1',
      PAYOUTS: 'automatic',
      PAYMENT_POLL_SECONDS: '2',
      SEAL_KEY_FILE: file('seal-key'),
      SEAL_MEMORY_FILE: file('seal-memory'),
      SEAL_INTERVAL_SECONDS: '60',
    })
    cleanUp.push(stack.stop)
    const world = await storeWorld(stack)
    const setup = openLoop(stack.port, 8)
    const offers = await makeOffers(setup, world.agents)
    await firstOrder(setup, world.agents, offers)
    await setup.close()
    const connect = () => {
      const loop = openLoop(stack.port, CONNECTIONS)
      return { loop, actions: makeActions({ ...world, offers, loop, node }) }
    }
    return { stack, connect, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

async function measureDay(
  { stack, connect }: DayWorld,
  minutes: number,
  report: (line: string) => void,
): Promise<Figure[]> {
  const { loop, actions } = connect()
  const dayMs = minutes * MINUTE_MS
  const perAgent = Object.values(A_DAY).reduce((sum, times) => sum + times, 0)
  const count = Math.round((AGENTS * perAgent * minutes) / DAY_MINUTES)
  const drawKind = makeDraw()
  const startedMs = performance.now()
  const flows = new Set<Promise<unknown>>()
  const slices = watchProcesses(stack, dayMs)
  for (let sent = 0; sent < count;) {
    const nowMs = performance.now() - startedMs
    for (; sent < count; sent++) {
      const dueMs = dueAt((sent + 0.5) / count) * dayMs
      if (dueMs > nowMs) break
      const flow = actions[drawKind()](startedMs + dueMs)
      flows.add(flow)
      void flow.finally(() => flows.delete(flow))
    }
    await sleep(1)
  }
  await Promise.all(flows)
  await loop.close()
  const elapsedMs = performance.now() - startedMs
  return summarize(loop.tallies, await slices, Math.max(dayMs, elapsedMs), report)
}

/**
 * The moment of the day, from 0 to 1, by which a part of its requests is due: the rate is
 * 1 - SWING cos(2πt), and this is its integral, inverted by halving.
 */
function dueAt(part: number): number {
  let [low, high] = [0, 1]
  while (high - low > 1e-7) {
    const middle = (low + high) / 2
    const done = middle - (SWING * Math.sin(2 * Math.PI * middle)) / (2 * Math.PI)
    if (done < part) low = middle
    else high = middle
  }
  return low
}

/** Returns a function that draws kinds in the proportions of A_DAY, the same ones in each run. */
function makeDraw(): () => Kind {
  const kinds = Object.entries(A_DAY) as [Kind, number][]
  const owed = new Map<Kind, number>(kinds.map(([kind]) => [kind, 0]))
  const total = kinds.reduce((sum, [, times]) => sum + times, 0)
  // Whichever has fallen behind most is next, so that all are spread evenly.
  return () => {
    let next: Kind = 'feed'
    for (const [kind, times] of kinds) {
      owed.set(kind, (owed.get(kind) ?? 0) + times / total)
      if ((owed.get(kind) ?? 0) > (owed.get(next) ?? 0)) next = kind
    }
    owed.set(next, (owed.get(next) ?? 0) - 1)
    return next
  }
}

interface World {
  agents: Agent[]
  claims: string[]
}

/** Stores the agents with passes, posts, claims and a work order each. */
async function storeWorld(stack: BenchStack): Promise<World> {
  const tokens = Array.from({ length: AGENTS }, newToken)
  const records = tokens.map((token, index) => ({
    ...makeAgent(index, toStoredToken(token), `skill-${index % 500}`, 1),
    pass_until_ms: Date.now() + 365 * DAY_MS,
  }))
  const claims = records.map(({ _id }) => makeClaim(_id))
  const orders = records.map(({ _id }) => makeWorkOrder(_id, SHARE_BITS))
  await withContext(stack.mongodbUrl, stack.servers, async ({ database: { connection } }) => {
    const insert = async (name: string, documents: readonly { _id: string }[]): Promise<void> => {
      for (let from = 0; from < documents.length; from += 5_000)
        await connection.collection<{ _id: string }>(name).insertMany(documents.slice(from, from + 5_000))
    }
    await insert('agents', records)
    for (let nth = 0; nth < POSTS_EACH; nth++)
      await insert(
        'posts',
        records.map(({ _id }) => makePost(_id, POST_BODY)),
      )
    await insert('claims', claims)
    await insert('work_orders', orders)
  })
  const agents = records.map(({ _id: id }, index) => ({
    id,
    token: tokens[index] ?? '',
    orderId: orders[index]?._id ?? '',
    batches: 0,
    after: undefined,
  }))
  return { agents, claims: claims.map(({ _id }) => _id) }
}

const randomAddress = (): string => encodeNanoAddress(randomBytes(32).toString('hex').toUpperCase())

/** Has the first SELLERS agents make an offer each. @returns their ids, by the seller's place */
async function makeOffers(loop: OpenLoop, agents: readonly Agent[]): Promise<string[]> {
  return Promise.all(
    agents.slice(0, SELLERS).map(async ({ token }) => {
      const body = {
        title: 'A translation',
        description: 'One thousand words',
        price_usd: 2,
        delivery_hours: 1,
        payout_addresses: { xno: randomAddress() },
      }
      const text = requestText('POST', `${BASE}/market/offer`, { token, body })
      const answer = await loop.send('offer', text, performance.now())
      if (answer === undefined) throw new Error(`no offer: ${loop.tallies.get('offer')?.firstFailure}`)
      return String(readJson(answer)['offer_id'])
    }),
  )
}

/** Waits until an order can be placed: the workers have found the node and made addresses. */
async function firstOrder(
  loop: OpenLoop,
  agents: readonly Agent[],
  offers: readonly string[],
): Promise<void> {
  const text = placeOrder(agents[SELLERS], offers[0])
  await waitFor(
    'the first order',
    async () => ((await loop.send('order', text, performance.now())) === undefined ? undefined : true),
    { limitMs: MINUTE_MS, everyMs: SECOND_MS },
  )
}

const placeOrder = (buyer: Agent | undefined, offerId: string | undefined): string =>
  requestText('POST', `${BASE}/market/order`, {
    token: buyer?.token ?? '',
    body: { offer_id: offerId, refund_address: randomAddress() },
  })

const readJson = (text: string): Record<string, unknown> => JSON.parse(text) as Record<string, unknown>

/** What is done for each kind at its time; resolves once all of its steps are answered. */
type Actions = Record<Kind, (dueMs: number) => Promise<unknown>>

function makeActions(of: World & { offers: string[]; loop: OpenLoop; node: BenchNode }): Actions {
  const { agents, claims, offers, loop, node } = of
  const batches = makeShareBatches(BATCHES_EACH, SHARES_A_BATCH, SHARE_BITS)
  let turn = 0
  const next = (): Agent => agents[(turn++ * 7_919) % agents.length] as Agent
  /** Another one than the next. */
  const other = (): Agent => agents[(turn * 7_919 + 4_567) % agents.length] as Agent
  const get = (kind: string, where: string, dueMs: number, token?: string): Promise<string | undefined> =>
    loop.send(kind, requestText('GET', BASE + where, token === undefined ? {} : { token }), dueMs)
  const post = (kind: string, where: string, dueMs: number, body: object, token?: string) =>
    loop.send(
      kind,
      requestText('POST', BASE + where, { body, ...(token === undefined ? {} : { token }) }),
      dueMs,
    )
  return {
    feed: (dueMs) => get('feed', '/feed?limit=50', dueMs),
    me: (dueMs) => get('me', '/me', dueMs, next().token),
    card: (dueMs) => get('card', `/agent/${next().id}`, dueMs),
    async events(dueMs) {
      const agent = next()
      const query = agent.after === undefined ? '' : `&after=${agent.after}`
      const answer = await get('events', `/events?limit=50${query}`, dueMs, agent.token)
      agent.after = /"next":"(\d+)"/.exec(answer ?? '')?.[1] ?? agent.after
    },
    'messages read': (dueMs) => get('messages read', '/dm', dueMs, next().token),
    directory: (dueMs) => get('directory', `/directory?capability=skill-${turn++ % 500}`, dueMs),
    post: (dueMs) => post('post', '/post', dueMs, { body: POST_BODY }, next().token),
    message: (dueMs) => post('message', '/dm', dueMs, { to: other().id, box: BOX }, next().token),
    work(dueMs) {
      const agent = next()
      const body = { order_id: agent.orderId, nonces: batches[agent.batches++ % batches.length] }
      return post('work', '/work/submit', dueMs, body, agent.token)
    },
    verdict(dueMs) {
      const claim_id = claims[(turn * 7_919 + 4_567) % claims.length]
      return post('verdict', '/claim/resolve', dueMs, { claim_id, outcome: 'true' }, next().token)
    },
    claim(dueMs) {
      const statement = 'Block 30 000 000 of the chain is mined before the first of January 2031.'
      return post('claim', '/claim', dueMs, { statement }, next().token)
    },
    async registration(dueMs) {
      const answer = await get('challenge', '/challenge', dueMs)
      if (answer === undefined) return
      const { challenge_id, puzzle, pow } = readJson(answer) as {
        challenge_id: string
        puzzle: PuzzleQuestion
        pow: { prefix: string; difficulty_bits: number }
      }
      const nonces = Array.from({ length: 2 ** (pow.difficulty_bits + 5) }, (_, index) => String(index))
      const [share] = findShares(pow.prefix, nonces, pow.difficulty_bits)
      const body = { challenge_id, answer: solvePuzzle(puzzle), pow: share }
      // Due once the challenge is solved.
      await post('registration', '/register', performance.now(), body)
    },
    async order(dueMs) {
      const place = turn % SELLERS
      const buyer = agents[SELLERS + (turn++ % (agents.length - SELLERS))]
      const answer = await loop.send('order', placeOrder(buyer, offers[place]), dueMs)
      if (answer === undefined) return
      const { order_id, invoice } = readJson(answer) as {
        order_id: string
        invoice: { address: string; amount_raw: string }
      }
      await node.pay([{ address: invoice.address, amountRaw: invoice.amount_raw }])
      const paidMs = performance.now()
      await sleep(STEP_MS)
      const deliveredMs = paidMs + STEP_MS
      const delivery = { order_id, delivery: DELIVERY }
      await post('delivery', '/market/deliver', deliveredMs, delivery, agents[place]?.token)
      await sleep(Math.max(0, paidMs + 2 * STEP_MS - performance.now()))
      await post('acceptance', '/market/accept', paidMs + 2 * STEP_MS, { order_id }, buyer?.token)
    },
  }
}

/**
 * The processor time of each process during a part of the day, in cores; `others` is whatever else runs on
 * the machine, the stand-in for the Nano network among it.
 */
type Cores = Record<'API' | 'worker' | 'mongod' | 'redis' | 'generator' | 'others', number>

/** Reads the processes' times SLICES times in a day. */
async function watchProcesses(stack: BenchStack, dayMs: number): Promise<Cores[]> {
  const pids = {
    API: stack.api.pid,
    worker: stack.workers[0]?.pid ?? 0,
    mongod: stack.servers.mongod.child.pid() ?? 0,
    redis: stack.servers.redis.child.pid() ?? 0,
    generator: process.pid,
  }
  const read = () => {
    const used = Object.entries(pids).map(([name, pid]) => [name, readUsage(pid).cpuMs] as const)
    const others = readMachineMs() - used.reduce((sum, [, cpuMs]) => sum + cpuMs, 0)
    return { atMs: performance.now(), of: { ...Object.fromEntries(used), others } as Cores }
  }
  const slices: Cores[] = []
  let before = read()
  const startedMs = before.atMs
  while (slices.length < SLICES) {
    await sleep(Math.max(0, startedMs + ((slices.length + 1) * dayMs) / SLICES - performance.now()))
    const after = read()
    const spanMs = after.atMs - before.atMs
    const { of } = before
    slices.push(mapValues(after.of, (cpuMs, name) => (cpuMs - of[name]) / spanMs))
    before = after
  }
  return slices
}

const mapValues = (of: Cores, change: (value: number, name: keyof Cores) => number): Cores =>
  Object.fromEntries(
    Object.entries(of).map(([name, value]) => [name, change(value, name as keyof Cores)]),
  ) as Cores

function summarize(
  tallies: ReadonlyMap<string, Tally>,
  slices: readonly Cores[],
  elapsedMs: number,
  report: (line: string) => void,
): Figure[] {
  for (const [kind, { latencies, failed, firstFailure }] of tallies) {
    const ms = (part: number): string => percentile(latencies, part).toFixed(1)
    const failures = failed === 0 ? '' : `; ${failed} failed, the first: ${firstFailure?.slice(0, 300)}`
    report(
      `day: ${kind}: ${latencies.length} answered, p50 ${ms(0.5)} ms, p99 ${ms(0.99)} ms, p99.9 ${ms(0.999)} ms${failures}`,
    )
  }
  const all = [...tallies.values()]
  const latencies = all.flatMap((tally) => tally.latencies)
  const failed = all.reduce((sum, tally) => sum + tally.failed, 0)
  const sent = latencies.length + failed
  const sumOf = (cores: Cores): number => Object.values(cores).reduce((sum, value) => sum + value, 0)
  const busiest = slices.toSorted((one, two) => sumOf(two) - sumOf(one))[0] as Cores
  report(describeLoad(busiest))
  const machine = os.availableParallelism()
  const second = elapsedMs / SECOND_MS
  const limited = (name: string, value: number, limit: number, unit: string): Figure =>
    compareWith(
      { name: 'limit', value: limit },
      { name: `day: ${name}`, value, unit, better: 'lower', goal: 1 },
    )
  return [
    compareWith(
      { name: 'those that were due', value: sent / second },
      {
        name: `day: answered of ${AGENTS} agents' requests, to the last answer`,
        value: latencies.length / second,
        unit: 'requests/s',
        better: 'higher',
        goal: 0.999,
      },
    ),
    limited('p50, from when a request was due', percentile(latencies, 0.5), LIMITS.p50Ms, 'ms'),
    limited('p99', percentile(latencies, 0.99), LIMITS.p99Ms, 'ms'),
    limited('p99.9', percentile(latencies, 0.999), LIMITS.p999Ms, 'ms'),
    limited('failed', (failed / sent) * 10_000, LIMITS.failedOf10000, 'of 10,000 requests'),
    ...(Object.entries(busiest) as [keyof Cores, number][]).map(([name, value]) =>
      compareWith(
        hasOneThread(name) ? { name: 'its one thread', value: 1 } : { name: 'the machine', value: machine },
        { name: `day: ${name} in the busiest twentieth`, value, unit: 'cores', better: 'lower' },
      ),
    ),
  ]
}

const hasOneThread = (name: keyof Cores): boolean => name !== 'mongod' && name !== 'others'

/** Says which process or the machine is nearest to what it can have. */
function describeLoad(busiest: Cores): string {
  const machine = os.availableParallelism()
  const sum = Object.values(busiest).reduce((total, value) => total + value, 0)
  const parts = Object.entries({
    ...busiest,
    'the machine': sum / machine,
    mongod: busiest.mongod / machine,
    others: busiest.others / machine,
  }).toSorted(([, one], [, two]) => two - one)
  const [first] = parts
  const list = Object.entries(busiest).map(([name, cores]) => `${name} ${cores.toFixed(2)}`)
  return `day: cores in the busiest twentieth: ${list.join(', ')}, together ${sum.toFixed(2)} of ${machine}; first to saturate: ${first?.[0]}, at ${((first?.[1] ?? 0) * 100).toFixed(0)} % of what it can have`
}
