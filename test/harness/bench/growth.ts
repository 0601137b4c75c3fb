import type { Connection } from 'mongoose'
import { startServers, type TemporaryServers } from '../../../scripts/embedded/temporary.ts'
import { eventId } from '../../../shared/events/event.ts'
import { newToken, toStoredToken } from '../../../shared/agents/token.ts'
import type { OrderRecord } from '../../../shared/market/order.ts'
import { newId } from '../../../shared/platform/ids.ts'
import { DAY_MS, MINUTE_MS } from '../../../shared/platform/time.ts'
import { waitFor } from '../../../scripts/embedded/wait.ts'
import { compareWith, median, type Figure } from './figure.ts'
import { requestText, startLoad, type Load } from './load.ts'
import { makeOrders, withContext } from './market.ts'
import { readUsage } from './proc.ts'
import { databaseUrl, startStack, type BenchStack } from './processes.ts'
import { makeAgent, makeClaim, makeMessage, makePost } from './records.ts'

/*
 * What each list and page costs with many records beside what it costs with few: processor time of the API and of
 * MongoDB together for each request, in turns. Half of the records are one agent's own, who reads.
 */

const FEW = 1_000
const ROUNDS = 9
const REQUESTS = 100
const GOAL = 1.3
const CHUNK = 10_000
const BODY = 'What an agent says in a post of a usual length, and to whom it may be of use. '.repeat(3)
const TOPICS = 20
const SKILLS = 10

/** One of the two networks. */
interface Network {
  stack: BenchStack
  token: string
  /** The agent that reads. */
  reader: string
  /** Ids in the middle of each collection, where a later page begins. */
  middle: Record<string, string>
  /** The last message to the reader. */
  last: string
  /** The claim that half of all verdicts are on. */
  judged: string
  size: number
}

/** Each list, as the path below /api/v1; with a token if it is the reader's own. */
const LISTS: readonly { path: (network: Network) => string; name: string; isOwn?: true }[] = [
  { name: '/feed', path: () => '/feed?limit=50' },
  { name: '/feed?topic', path: () => '/feed?limit=50&topic=topic-7' },
  { name: '/agent/<id>, with half of all posts and claims', path: ({ reader }) => `/agent/${reader}` },
  { name: '/agent/<id>/posts', path: ({ reader }) => `/agent/${reader}/posts?limit=50` },
  {
    name: '/agent/<id>/posts, a page in the middle',
    path: ({ reader, middle }) => `/agent/${reader}/posts?limit=50&before=${middle['posts']}`,
  },
  { name: '/directory', path: () => '/directory?limit=50' },
  { name: '/directory?capability', path: () => '/directory?limit=50&capability=skill-7' },
  {
    name: '/directory, a page in the middle',
    path: ({ middle }) => `/directory?limit=50&before=${middle['agents']}`,
  },
  { name: '/claims', path: () => '/claims?limit=50' },
  { name: '/claims?status', path: () => '/claims?limit=50&status=judged' },
  { name: '/claims?kind', path: () => '/claims?limit=50&kind=proposal' },
  { name: '/claims?kind of which there is none', path: () => '/claims?limit=50&kind=nothing' },
  { name: '/claims?agent', path: ({ reader }) => `/claims?limit=50&agent=${reader}` },
  {
    name: '/claims?agent&status, of which there is none',
    path: ({ reader }) => `/claims?limit=50&agent=${reader}&status=accepted`,
  },
  { name: '/claim/<id>, with half of all verdicts', path: ({ judged }) => `/claim/${judged}?limit=50` },
  {
    name: '/claim/<id>, verdicts from the middle',
    path: ({ judged, middle }) => `/claim/${judged}?limit=50&before=${middle['verdicts']}`,
  },
  { name: '/proposals', path: () => '/proposals?limit=50' },
  { name: '/market/offers', path: () => '/market/offers?limit=50' },
  {
    name: '/market/offers, a page in the middle',
    path: ({ middle }) => `/market/offers?limit=50&before=${middle['offers']}`,
  },
  { name: '/market/offers?agent', path: ({ reader }) => `/market/offers?limit=50&agent=${reader}` },
  { name: '/market/offers?status=closed', path: () => '/market/offers?limit=50&status=closed' },
  { name: '/market/offers?max_price', path: () => '/market/offers?limit=50&max_price=5' },
  { name: '/market/orders', path: () => '/market/orders?limit=50', isOwn: true },
  {
    name: '/market/orders, a page in the middle',
    path: ({ middle }) => `/market/orders?limit=50&before=${middle['orders']}`,
    isOwn: true,
  },
  { name: '/events from the first kept', path: () => '/events?limit=100&after=0', isOwn: true },
  {
    name: '/events, the last',
    path: ({ size }) => `/events?limit=100&after=${Math.floor(size / 2) - 100}`,
    isOwn: true,
  },
  { name: '/dm?after=0', path: () => '/dm?after=0', isOwn: true },
  { name: '/dm?after, in the middle', path: ({ middle }) => `/dm?after=${middle['messages']}`, isOwn: true },
  { name: '/dm?after, the last', path: ({ last }) => `/dm?after=${last}`, isOwn: true },
  { name: '/dm/sent', path: () => '/dm/sent?limit=50', isOwn: true },
  { name: '/me', path: () => '/me', isOwn: true },
  { name: '/ledger', path: () => '/ledger?limit=100' },
  { name: '/ledger, in the middle', path: ({ size }) => `/ledger?limit=100&from_id=${size >> 1}` },
  { name: '/ledger?kind', path: () => '/ledger?limit=100&kind=verdict' },
  { name: '/stats', path: () => '/stats' },
]

/** Compares what each list costs with `records` of each kind and with a thousand. */
export async function benchGrowth({ records = 1_000_000 } = {}): Promise<Figure[]> {
  const servers = await startServers(() => undefined, { cacheGb: 4 })
  const load = startLoad()
  const networks: Network[] = []
  try {
    for (const size of [FEW, records]) networks.push(await makeNetwork(servers, size))
    const [few, many] = networks as [Network, Network]
    const mongod = servers.mongod.child.pid() ?? 0
    const figures: Figure[] = []
    for (const { name, path, isOwn } of LISTS) {
      const costs = new Map<Network, number[]>([
        [few, []],
        [many, []],
      ])
      for (let round = 0; round <= ROUNDS; round++)
        for (const [network, list] of costs) {
          const used = await measure(load, network, mongod, path(network), isOwn === true)
          if (round > 0) list.push(used)
        }
      const figure = compareWith(
        { name: `of ${FEW}`, value: median(costs.get(few) ?? []) },
        {
          name: `growth: ${name}, of ${records.toLocaleString('en-US')} records`,
          value: median(costs.get(many) ?? []),
          unit: 'ms of processor time',
          better: 'lower',
          goal: GOAL,
        },
      )
      process.stderr.write(`${name}: ${figure.value.toFixed(3)} / ${figure.reference_value.toFixed(3)} ms\n`)
      figures.push(figure)
    }
    return figures
  } finally {
    load.stop()
    await Promise.all(networks.map(({ stack }) => stack.stop()))
    await servers.stop()
  }
}

/** Processor time of the API and of MongoDB for one request, in ms. */
async function measure(
  load: Load,
  { stack, token }: Network,
  mongod: number,
  path: string,
  isOwn: boolean,
): Promise<number> {
  const cpuMs = (): number => readUsage(stack.api.pid).cpuMs + readUsage(mongod).cpuMs
  const before = cpuMs()
  const { answers } = await load.run({
    port: stack.port,
    connections: 1,
    durationMs: MINUTE_MS,
    count: REQUESTS,
    lanes: [[requestText('GET', `/api/v1${path}`, isOwn ? { token } : {})]],
    repeat: true,
  })
  return (cpuMs() - before) / answers
}

async function makeNetwork(servers: TemporaryServers, size: number): Promise<Network> {
  const database = `growth-${size}`
  const token = newToken()
  const reader = makeAgent(0, toStoredToken(token))
  // First the indexes: the service refuses to serve before they stand, and they are what is measured.
  const { middle, last, judged } = await withContext(
    databaseUrl(servers.mongod.url, database),
    servers,
    ({ database: { connection } }) => fill(connection, reader, size),
  )
  const stack = await startStack({}, { workers: 0, servers, database })
  const network = { stack, token, reader: reader._id, middle, last, judged, size }
  await waitFor(
    'an API that is ready',
    async () => ((await fetch(`${stack.url}/api/v1/feed`)).status === 200 ? true : undefined),
    { limitMs: MINUTE_MS },
  )
  return network
}

/** Stores `size` records of each kind. */
async function fill(
  connection: Connection,
  reader: ReturnType<typeof makeAgent>,
  size: number,
): Promise<Pick<Network, 'middle' | 'last' | 'judged'>> {
  const middle: Record<string, string> = {}
  const store = async (name: string, make: (index: number) => { _id: string | number }): Promise<void> => {
    const collection = connection.collection<{ _id: string | number }>(name)
    for (let from = 0; from < size; from += CHUNK) {
      const documents = Array.from({ length: Math.min(CHUNK, size - from) }, (_, at) => make(from + at))
      // One of the reader's.
      const place = (size >> 2) * 2 - from
      if (place >= 0 && place < documents.length) middle[name] = String(documents[place]?._id)
      await collection.insertMany(documents, { ordered: false, writeConcern: { w: 1, j: false } })
    }
  }
  const stored = toStoredToken(newToken())
  const ids: string[] = [reader._id]
  await store('agents', (index) => {
    if (index === 0) return reader
    const agent = makeAgent(
      index,
      { ...stored, token_key: `${stored.token_key}-${index}` },
      `skill-${index % SKILLS}`,
    )
    ids.push(agent._id)
    return agent
  })
  /** The reader, or in turn one of the others. */
  const agentOf = (index: number): string => (index % 2 === 0 ? reader._id : (ids[index] ?? reader._id))
  await store('posts', (index) => ({
    ...makePost(agentOf(index), BODY),
    ...(index % 4 === 0 ? {} : { topic: `topic-${index % TOPICS}` }),
  }))
  const judged = makeClaim(reader._id)
  await store('claims', (index) =>
    index === 0
      ? judged
      : {
          ...makeClaim(agentOf(index)),
          ...(index % 3 === 0 ? { kind: 'proposal' } : {}),
          ...(index % 5 === 0 ? { status: 'judged', standing: { true: index % 40, false: 0, void: 0 } } : {}),
        },
  )
  await store('verdicts', (index) => ({
    _id: newId('verdict'),
    claim_id: index % 2 === 0 ? judged._id : `of another ${index}`,
    agent_id: ids[index] ?? '',
    at: 1,
    outcome: 'true',
    salt: reader.salt,
    by_author: false,
    superseded: false,
  }))
  await store('offers', (index) => ({
    _id: newId('offer'),
    agent_id: agentOf(index),
    at: 1,
    title: 'A translation',
    description: BODY,
    price_usd_cents: 100 + (index % 1_000),
    delivery_hours: 24,
    payout_addresses: { xno: 'an address' },
    salt: reader.salt,
    addresses_salt: reader.salt,
    ...(index % 3 === 0 ? { closed_at: 2 } : { open: true }),
  }))
  await store('orders', (index) => {
    const { due_at: _, ...order } = makeOrders(1, 1_000_000)[0] as OrderRecord
    return { ...order, status: 'released', closed_at: 1_000_100, buyer_id: agentOf(index) }
  })
  let last = ''
  await store('messages', (index) => {
    const message = makeMessage(agentOf(index + 1), agentOf(index), 'b'.repeat(300))
    if (message.to === reader._id) last = message._id
    // Each was read alone.
    return { ...message, handed: 1 + index }
  })
  const half = Math.ceil(size / 2)
  await store('events', (index) => ({
    _id: index < half ? eventId(reader._id, index + 1) : eventId(ids[index] ?? '', 1),
    at: 1,
    kind: 'message',
    id: `msg_${index}`,
    fields: {},
    expires: new Date(Date.now() + DAY_MS),
  }))
  await connection
    .collection<{ _id: string; seq: number }>('event_heads')
    .insertOne({ _id: reader._id, seq: half })
  await store('entries', (index) => ({
    _id: index + 1,
    source: `record-${index}/made`,
    record: `record-${index}`,
    at: 1,
    kind: index % 4 === 0 ? 'verdict' : 'post',
    data: { post_id: `record-${index}`, agent_id: agentOf(index), content_hash: reader.salt },
  }))
  return { middle, last, judged: judged._id }
}
