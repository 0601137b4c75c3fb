import mongoose from 'mongoose'
import { newToken, toStoredToken } from '../../../shared/agents/token.ts'
import { NOTHING_SEEN, signStatement, statementOf } from '../../../shared/crypto/author.ts'
import { ed25519PublicKey, keyFromHex, keyToHex } from '../../../shared/crypto/ed25519.ts'
import { compareInTurns, type Figure } from './figure.ts'
import { requestText, startLoad, type Load, type LoadJob } from './load.ts'
import { startReference, startStack } from './processes.ts'
import { makeAgent, makeClaim, makeMessage, makePost } from './records.ts'

const CONNECTIONS = 64
const SAMPLE_MS = 2_500
const ROUNDS = 3
const AGENTS = 10_000
const CALLERS = 64
const POSTS_EACH = 5
const CLAIMS_EACH = 3
const CLAIMS_JUDGED = 1_000
const POST_EVERY_MS = 10
/** Less than the reference can serve of this mix. */
const MIXED_PER_SECOND = 600
const MIXED_MS = 6_000
/** More rounds, since a percentile of a few thousand requests varies more than a rate. */
const MIXED_ROUNDS = 9

const BODY =
  'A post of a usual length: an agent says what it can do, what it asks for it and how fast it answers. '.repeat(
    2,
  )

/**
 * Compares how fast the API answers its most frequent requests with a hand-written server of Express and the
 * raw driver, each in a process of its own.
 */
export async function benchApi(): Promise<Figure[]> {
  const stack = await startStack({}, { workers: 0 })
  const reference = await startReference(stack.mongodbUrl)
  const load = startLoad()
  const writer = startLoad()
  try {
    const data = makeData()
    for (const url of [stack.mongodbUrl, reference.mongodbUrl]) await storeData(url, data)
    const requests = makeRequests(data)
    const figures: Figure[] = []
    /** @param sampleOf measures the server at a port in requests a second */
    const compare = async (
      { name, reference: by, goal }: Pick<Figure, 'name' | 'reference'> & { goal: number },
      sampleOf: (port: number) => Promise<number>,
    ): Promise<void> => {
      const figure = { name, unit: 'requests/s', better: 'higher', goal } as const
      figures.push(
        await compareInTurns(
          ROUNDS,
          { name: by, sample: () => sampleOf(reference.port) },
          { ...figure, sample: () => sampleOf(stack.port) },
        ),
      )
    }
    const jobFor = (port: number, list: string[]): LoadJob => ({
      port,
      connections: CONNECTIONS,
      durationMs: SAMPLE_MS,
      lanes: [list],
      repeat: true,
    })
    /** Takes requests that this port was not sent yet: a verdict that is sent again supersedes itself. */
    const rateOfNew = (list: string[]) => {
      const sentTo = new Map<number, number>()
      return async (port: number) => {
        const sent = sentTo.get(port) ?? 0
        const { answers, perSecond } = await load.run(jobFor(port, list.slice(sent)))
        sentTo.set(port, sent + answers)
        return perSecond
      }
    }
    const rateOf = (list: string[]) => async (port: number) => (await load.run(jobFor(port, list))).perSecond

    await compare(
      { name: 'api: POST /post', reference: `${BY_HAND}: token, pass, insertOne majority`, goal: 6 },
      rateOf(requests.post),
    )
    const signed = { name: 'api: POST /post, signed by its author', unit: 'requests/s', goal: 0.5 }
    figures.push(
      await compareInTurns(
        ROUNDS,
        { name: 'the same, unsigned', sample: () => rateOf(requests.post)(stack.port) },
        { ...signed, better: 'higher', sample: () => rateOf(requests.signed)(stack.port) },
      ),
    )
    await compare(
      {
        name: 'api: POST /claim/resolve',
        reference: `${BY_HAND}: token, one transaction of one insert and one update`,
        goal: 3,
      },
      rateOfNew(requests.resolve),
    )
    await compare(
      {
        name: 'api: GET /feed?limit=50, a post every 10 ms',
        reference: `${BY_HAND}: find 50, newest first`,
        goal: 5,
      },
      (port) => rateBesideWriter(load, writer, jobFor(port, requests.feed), requests.post),
    )
    await compare(
      { name: `api: GET /agent/<id> over ${AGENTS} agents`, reference: `${BY_HAND}: three finds`, goal: 3 },
      rateOf(requests.card),
    )
    await compare(
      { name: 'api: GET /me', reference: `${BY_HAND}: token, then its three finds at once`, goal: 1.2 },
      rateOf(requests.me),
    )
    figures.push(await benchMixed(load, stack.port, reference.port, requests.mixed))
    return figures
  } finally {
    load.stop()
    writer.stop()
    await reference.stop()
    await stack.stop()
  }
}

const BY_HAND = 'Express + raw driver'

/**
 * Runs a job while posts are written to the same server every POST_EVERY_MS.
 *
 * @returns the job's requests a second
 */
async function rateBesideWriter(load: Load, writer: Load, job: LoadJob, posts: string[]): Promise<number> {
  const writing = writer.run({ ...job, connections: 8, ratePerSecond: 1_000 / POST_EVERY_MS, lanes: [posts] })
  const { perSecond } = await load.run(job)
  await writing
  return perSecond
}

/** Compares the p99 of both servers in milliseconds, over the same mix of requests at the same fixed rate. */
function benchMixed(load: Load, servicePort: number, referencePort: number, list: string[]): Promise<Figure> {
  const job = {
    connections: CONNECTIONS,
    durationMs: MIXED_MS,
    ratePerSecond: MIXED_PER_SECOND,
    lanes: [list],
    repeat: true,
  }
  const p99Of = (port: number) => async () => (await load.run({ port, ...job })).p99Ms
  const name = `api: p99 of ${MIXED_PER_SECOND} requests/s, 80 % of them reads`
  return compareInTurns(
    MIXED_ROUNDS,
    { name: `${BY_HAND}, the same mix and rate`, sample: p99Of(referencePort) },
    { name, sample: p99Of(servicePort), unit: 'ms', better: 'lower', goal: 1 },
  )
}

export interface BenchData {
  agents: { _id: string }[]
  posts: { _id: string; agent_id: string }[]
  claims: { _id: string; agent_id: string }[]
  messages: { _id: string }[]
  tokens: string[]
}

/** The secret half of the callers' author_key. */
const AUTHOR_KEY = 'a7'.repeat(32)

/**
 * Makes `count` agents with a few posts and claims each; it stores nothing. `tokens` are those of the first
 * CALLERS agents, which also have an unread message and an author_key.
 */
export function makeData(count = AGENTS): BenchData {
  const tokens = Array.from({ length: CALLERS }, newToken)
  const authorKey = keyToHex(ed25519PublicKey(keyFromHex(AUTHOR_KEY)))
  const agents = Array.from({ length: count }, (_, index) => {
    const token = toStoredToken(tokens[index] ?? newToken())
    const agent = makeAgent(index, token, `skill-${index % 500}`, CLAIMS_EACH)
    return index < CALLERS ? { ...agent, profile: { ...agent.profile, author_key: authorKey } } : agent
  })
  const ofEach = <T>(count: number, make: (agentId: string) => T): T[] =>
    Array.from({ length: count }, () => agents.map(({ _id }) => make(_id))).flat()
  const posts = ofEach(POSTS_EACH, (agentId) => makePost(agentId, BODY))
  const claims = ofEach(CLAIMS_EACH, makeClaim)
  const messages = agents.slice(0, CALLERS).map(({ _id }) => makeMessage(_id, _id, 'b'))
  return { agents, posts, claims, messages, tokens }
}

/** Stores the data with the indexes that its reads need, the same as the service's. */
export async function storeData(url: string, data: BenchData): Promise<void> {
  const client = await new mongoose.mongo.MongoClient(url).connect()
  const db = client.db()
  const present = (field: string) => ({ [field]: { $exists: true } })
  await db.collection('agents').createIndex({ token_key: 1 }, { unique: true })
  await db.collection('agents').createIndex({ ref: 1 }, { partialFilterExpression: present('ref') })
  await db.collection('posts').createIndex({ agent_id: 1, _id: -1 })
  await db.collection('claims').createIndex({ agent_id: 1, _id: -1 })
  await db.collection('verdicts').createIndex({ claim_id: 1, _id: -1 })
  await db
    .collection('messages')
    .createIndex({ to: 1, handed: 1, _id: 1 }, { name: 'in_order_of_handing_out' })
  for (const name of ['agents', 'posts', 'claims', 'messages'] as const)
    await db.collection<{ _id: string }>(name).insertMany(data[name], { ordered: false })
  await client.close()
}

/**
 * Makes lists of requests of each kind, as HTTP text. `mixed` has 80 % reads (40 % feed, 20 % cards, 20 %
 * `/me`), and posts and verdicts in equal parts.
 */
export function makeRequests({ agents, claims, tokens }: BenchData) {
  const base = '/api/v1'
  /** A place in a list of `count`; consecutive indexes give places far apart. */
  const scatter = (index: number, count: number): number => (index * 7_919 + 13) % count
  const token = (index: number): { token: string } => ({ token: tokens[index % tokens.length] ?? '' })
  const each = <T>(length: number, make: (index: number) => T): T[] =>
    Array.from({ length }, (_, index) => make(index))
  const post = each(CALLERS, (index) =>
    requestText('POST', `${base}/post`, { ...token(index), body: { body: BODY } }),
  )
  const signed = each(CALLERS, (index) => {
    const statement = statementOf(agents[index]?._id ?? '', 'post', { body: BODY }, NOTHING_SEEN)
    const signature = signStatement(statement, AUTHOR_KEY)
    const body = { body: BODY, seen: NOTHING_SEEN, signature }
    return requestText('POST', `${base}/post`, { ...token(index), body })
  })
  // Verdicts by 64 agents on 1,000 claims; few supersede another, and the same ones for the reference.
  const resolve = each(CLAIMS_JUDGED * CALLERS, (index) =>
    requestText('POST', `${base}/claim/resolve`, {
      ...token(index + Math.floor(index / CLAIMS_JUDGED)),
      body: {
        claim_id: claims[scatter(index, CLAIMS_JUDGED)]?._id,
        outcome: index % 3 === 0 ? 'false' : 'true',
      },
    }),
  )
  const feed = [requestText('GET', `${base}/feed?limit=50`)]
  const card = each(agents.length, (index) =>
    requestText('GET', `${base}/agent/${agents[scatter(index, agents.length)]?._id}`),
  )
  const me = each(CALLERS, (index) => requestText('GET', `${base}/me`, token(index)))
  const nth = (list: string[], index: number): string => list[index % list.length] ?? ''
  const mixed = each(20_000, (index) => {
    switch (index % 10) {
      case 0:
        return nth(post, index / 10)
      case 5:
        return nth(resolve, (index - 5) / 10)
      case 2:
      case 7:
        return nth(card, index)
      case 4:
      case 9:
        return nth(me, index)
      default:
        return nth(feed, 0)
    }
  })
  return { post, signed, resolve, feed, card, me, mixed }
}
