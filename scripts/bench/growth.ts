import { setTimeout as sleep } from 'node:timers/promises'
import mongoose from 'mongoose'
import { newToken, toStoredToken } from '../../shared/agents/token.ts'
import { startServers, type TemporaryServers } from '../embedded/temporary.ts'
import { compareInTurns, compareWith, type Figure } from './figure.ts'
import { requestText, startLoad, type Load } from './load.ts'
import { databaseUrl, startStack, type BenchStack } from './processes.ts'
import { makeAgent, makeClaim, makeMessage, makePost } from './records.ts'

const FEW = 1_000
const MANY = 1_000_000
const CALLERS = 64
const CONNECTIONS = 4
const SAMPLE_MS = 500
const ROUNDS = 9
/** Large enough for a million records of each kind, so that the disk's speed is not measured. */
const CACHE_GB = 4
const FIRST_REQUESTS = 10_000
const ALL_REQUESTS = 1_000_000
const SETUP_BATCH = 10_000
const MIB = 2 ** 20
const POST_BODY = 'A post of a usual length. '.repeat(8)
/** The share of requests that may fail, for a machine that is busy with other things. */
const MAY_FAIL = 0.01

/**
 * Compares latencies over a million records with those over a thousand, and the API's memory after a million
 * requests with that after ten thousand.
 */
export async function benchGrowth(): Promise<Figure[]> {
  const servers = await startServers(() => undefined, { cacheGb: CACHE_GB })
  const load = startLoad()
  const stacks: BenchStack[] = []
  try {
    const [few, many] = [await openNetwork(servers, 'few', FEW), await openNetwork(servers, 'many', MANY)]
    stacks.push(few.stack, many.stack)
    const figures: Figure[] = []
    for (const name of Object.keys(few.requests) as (keyof Requests)[]) {
      const p50 = (network: Network) => async () =>
        (await sendFor(load, network, network.requests[name])).p50Ms
      const figure = await compareInTurns(
        ROUNDS,
        { name: `over ${FEW} records of each kind`, sample: p50(few) },
        {
          name: `growth: p50 of ${name} over ${MANY} records of each kind`,
          sample: p50(many),
          unit: 'ms',
          better: 'lower',
          goal: 1.3,
        },
      )
      figures.push(figure)
    }
    figures.push(await benchMemory(load, few))
    return figures
  } finally {
    load.stop()
    await Promise.all(stacks.map((stack) => stack.stop()))
    await servers.stop()
  }
}

interface Network {
  stack: BenchStack
  requests: Requests
}

/** Starts an API on a database with this many agents, posts, claims and messages. */
async function openNetwork(servers: TemporaryServers, database: string, records: number): Promise<Network> {
  const { agentIds, tokens } = await storeRecords(databaseUrl(servers.mongod.url, database), records)
  // The API makes the indexes, over what is there already.
  const stack = await startStack({}, { workers: 0, isProbed: true, database, servers })
  while ((await fetch(`${stack.url}/api/v1/feed`)).status !== 200) await sleep(200)
  return { stack, requests: makeRequests(agentIds, tokens, records) }
}

/**
 * Stores agents with a post, a claim and a message each; fifty agents share a capability.
 *
 * @returns all their ids, and the tokens of the first CALLERS
 */
async function storeRecords(
  mongodbUrl: string,
  records: number,
): Promise<{ agentIds: string[]; tokens: string[] }> {
  const client = await new mongoose.mongo.MongoClient(mongodbUrl, { writeConcern: { w: 1 } }).connect()
  const tokens = Array.from({ length: CALLERS }, newToken)
  const unknownToken = toStoredToken(newToken())
  const agentIds: string[] = []
  const insert = (collection: string, documents: { _id: string }[]) =>
    client.db().collection<{ _id: string }>(collection).insertMany(documents, { ordered: false })
  for (let start = 0; start < records; start += SETUP_BATCH) {
    const agents = Array.from({ length: Math.min(SETUP_BATCH, records - start) }, (_, place) => {
      const index = start + place
      const token = tokens[index]
      // Hashing a million tokens would take longer than what is measured.
      const storedToken =
        token === undefined
          ? { ...unknownToken, token_key: index.toString(16).padStart(16, '0') }
          : toStoredToken(token)
      return makeAgent(index, storedToken, capability(index, records), 1)
    })
    const ids = agents.map(({ _id }) => _id)
    const [first = ''] = ids
    agentIds.push(...ids)
    await Promise.all([
      insert('agents', agents),
      insert(
        'posts',
        ids.map((id) => makePost(id, POST_BODY)),
      ),
      insert('claims', ids.map(makeClaim)),
      insert(
        'messages',
        ids.map((id) => makeMessage(first, id, 'b'.repeat(200))),
      ),
    ])
  }
  await client.close()
  return { agentIds, tokens }
}

const capability = (index: number, records: number): string => `skill-${index % Math.max(1, records / 50)}`

type Requests = Record<
  'feed' | 'claims' | 'directory' | 'card' | 'post' | 'a sent dm' | 'a read dm',
  string[]
>

/** Requests of each kind, as HTTP text, spread over the agents. */
function makeRequests(agentIds: readonly string[], tokens: readonly string[], records: number): Requests {
  const base = '/api/v1'
  const token = (index: number): { token: string } => ({ token: tokens[index % tokens.length] ?? '' })
  const each = <T>(length: number, make: (index: number) => T): T[] =>
    Array.from({ length }, (_, index) => make(index))
  const someAgent = (index: number): string => agentIds[(index * 7_919 * 104_729) % agentIds.length] ?? ''
  return {
    feed: [requestText('GET', `${base}/feed`)],
    claims: [requestText('GET', `${base}/claims`)],
    directory: each(1_000, (index) =>
      requestText('GET', `${base}/directory?capability=${capability(index * 7_919, records)}`),
    ),
    card: each(20_000, (index) => requestText('GET', `${base}/agent/${someAgent(index)}`)),
    post: each(CALLERS, (index) =>
      requestText('POST', `${base}/post`, { ...token(index), body: { body: POST_BODY } }),
    ),
    'a sent dm': each(1_000, (index) =>
      requestText('POST', `${base}/dm`, {
        ...token(index),
        body: { to: someAgent(index), box: 'b'.repeat(200) },
      }),
    ),
    'a read dm': each(CALLERS, (index) => requestText('GET', `${base}/dm`, token(index))),
  }
}

/** Sends a list's requests again and again for one sample. */
const sendFor = (load: Load, { stack }: Network, list: string[]) =>
  load.run({ port: stack.port, connections: CONNECTIONS, durationMs: SAMPLE_MS, lanes: [list], repeat: true })

/** Compares the API's memory after few and after many requests of all kinds, four fifths of them reads. */
async function benchMemory(load: Load, { stack, requests }: Network): Promise<Figure> {
  const reads = [requests.feed, requests.claims, requests.directory, requests.card]
  const writes = [requests.post, requests['a sent dm'], requests['a read dm']]
  const mix = Array.from({ length: 20_000 }, (_, index) => {
    const isWrite = index % 5 === 4
    const list = isWrite ? writes[((index - 4) / 5) % writes.length] : reads[index % reads.length]
    return list?.[index % list.length] ?? ''
  })
  const serve = (count: number) =>
    load.run({
      port: stack.port,
      connections: 64,
      durationMs: Number.POSITIVE_INFINITY,
      count,
      lanes: [mix],
      repeat: true,
      mayFail: MAY_FAIL,
    })
  await serve(FIRST_REQUESTS)
  const before = await stack.api.readVitals()
  await serve(ALL_REQUESTS - FIRST_REQUESTS)
  const after = await stack.api.readVitals()
  return compareWith(
    { name: `after ${FIRST_REQUESTS} requests`, value: before.rssBytes / MIB },
    {
      name: `growth: memory of the API after ${ALL_REQUESTS} requests`,
      value: after.rssBytes / MIB,
      unit: 'MiB',
      better: 'lower',
      goal: 1.2,
    },
  )
}
