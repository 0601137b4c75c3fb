import net from 'node:net'
import mongoose from 'mongoose'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { newId } from '../../shared/platform/ids.ts'
import { MAX_WEIGHT_AT_ONCE, PARSED_AT_ONCE } from '../../shared/platform/limits.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { OFFER } from '../support/market.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { startApiProcess, whenAnswering, type RunningProcess } from '../support/processes.ts'
import { isolate } from '../support/servers.ts'
import { callService, CHALLENGE_SECRET, registerOver, startService } from '../support/service.ts'
import type { CallOptions, TestService } from '../support/service.ts'

const LIMIT = { limitMs: PATIENCE_MS, everyMs: 20 }
const FREE_UNTIL = new Date(Date.now() + 86_400_000).toISOString()

let api: RunningProcess & { url: string }
let settings: Record<string, string>
let token: string

/** Over a new connection each time. */
const call = (method: string, path: string, options: CallOptions = {}) =>
  callService(api.url, method, path, { ...options, headers: { Connection: 'close', ...options.headers } })

beforeAll(async () => {
  const { mongodbUrl, redisUrl, queuePrefix } = isolate()
  settings = {
    MONGODB_URL: mongodbUrl,
    REDIS_URL: redisUrl,
    QUEUE_PREFIX: queuePrefix,
    CHALLENGE_SECRET,
    REGISTER_BITS: '4',
    FREE_UNTIL,
    // What is asked here is how much of a flood comes first, not whether it is done in time.
    REQUEST_SECONDS: '15',
  }
  api = await startApiProcess(settings)
  await whenAnswering(`${api.url}/api/v1/feed`)
  token = (await registerOver(call)).token
})
afterAll(() => api.stop())

interface Flood {
  /** Answers so far. */
  count(): number
  stop(): void
}

/** Sends a request over each of many connections, again after each answer, until it is stopped. */
async function startFlood(request: string, connections: number): Promise<Flood> {
  const { port, hostname } = new URL(api.url)
  let answers = 0
  let answered = 0
  const sockets = Array.from({ length: connections }, () => {
    const socket = net.connect({ port: Number(port), host: hostname })
    socket.on('error', () => undefined)
    socket.once('data', () => void answered++)
    socket.on('data', () => {
      answers++
      socket.write(request)
    })
    socket.once('connect', () => socket.write(request))
    return socket
  })
  await waitFor('an answer over each connection', () => (answered === connections ? true : undefined), LIMIT)
  return { count: () => answers, stop: () => sockets.forEach((socket) => socket.destroy()) }
}

/** How many answers a flood has had while a request was under way. */
async function countBeside(flood: Flood, ask: () => Promise<unknown>): Promise<number> {
  const before = flood.count()
  await ask()
  return flood.count() - before
}

const get = (path: string, withToken?: string): string =>
  `GET /api/v1${path} HTTP/1.1\r\nHost: a\r\n${withToken === undefined ? '' : `Authorization: Bearer ${withToken}\r\n`}\r\n`
const post = (path: string, body: object): string => {
  const text = JSON.stringify(body)
  return `POST /api/v1${path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`
}
const CONNECTIONS = 200

describe('beside a flood of light requests over 200 connections, whoever comes anew is answered before most of it', () => {
  it.each([
    ['reads without a token', () => get('/challenge')],
    ['reads of one agent', () => get('/me', token)],
    ['paths that do not exist', () => get('/nothing')],
    ['tokens that are unknown', () => get('/me', `sk_${'0'.repeat(48)}`)],
    [
      'registrations that show no work',
      () => post('/register', { challenge_id: 'x', answer: 'y', pow: 'z' }),
    ],
  ])('%s', async (_, request) => {
    const flood = await startFlood(request(), CONNECTIONS)
    try {
      const counts: number[] = []
      for (let asked = 0; asked < 5; asked++)
        counts.push(
          await countBeside(flood, async () => expect((await call('GET', '/challenge')).status).toBe(200)),
        )
      expect(counts.toSorted((a, b) => a - b)[2], counts.join()).toBeLessThan(CONNECTIONS)
    } finally {
      flood.stop()
    }
  })
})

describe('beside a flood of registrations that show no work', () => {
  const junk = post('/register', { challenge_id: 'x', answer: 'y', pow: 'z' })

  it('one that shows work does not wait for them', async () => {
    const flood = await startFlood(junk, 600)
    try {
      const counts: number[] = []
      for (let asked = 0; asked < 5; asked++)
        counts.push(await countBeside(flood, async () => registerOver(call)))
      // A registration is two requests.
      expect(counts.toSorted((a, b) => a - b)[2], counts.join()).toBeLessThan(600)
    } finally {
      flood.stop()
    }
  })

  it('the first write of an agent that the process has not seen before is answered as a later one is', async () => {
    await api.stop()
    api = await startApiProcess(settings)
    await whenAnswering(`${api.url}/api/v1/feed`)
    const flood = await startFlood(junk, 600)
    try {
      const write = (name: string) =>
        countBeside(flood, async () =>
          expect((await call('POST', '/profile', { token, body: { name } })).status).toBe(200),
        )
      const first = await write('first')
      const later: number[] = []
      while (later.length < 3) later.push(await write(`later ${later.length}`))
      // It doesn't wait for a round of the flood besides.
      expect(first, later.join()).toBeLessThan(600 + Math.max(...later))
    } finally {
      flood.stop()
    }
  })
})

describe('while the longest lists are read', () => {
  let service: TestService
  beforeAll(async () => {
    service = await startService({ queues: [], env: { REQUEST_SECONDS: '15' } })
  })
  afterAll(() => service.stop())

  it('others wait for room, equal questions are answered together, and all else is answered', async () => {
    const { claims } = service.ctx
    const { list } = claims
    const gate = Promise.withResolvers<void>()
    const asked: number[] = []
    claims.list = async (filter, nowSeconds, limit, past) => {
      asked.push(limit)
      await gate.promise
      return list(filter, nowSeconds, limit, past)
    }
    const ask = (limit: number) => service.call('GET', `/claims?limit=${limit}`)
    const most = Math.floor(MAX_WEIGHT_AT_ONCE.open.all / (9 * 180))
    const answers = [200, 199, 198, 197, 196].flatMap((limit) => [ask(limit), ask(limit), ask(limit)])
    await waitFor('the first lists', () => (asked.length === most ? true : undefined), LIMIT)
    const { token: own } = await service.register()
    expect((await service.call('GET', '/me', { token: own })).status).toBe(200)
    expect((await service.call('GET', '/challenge')).status).toBe(200)
    expect(asked).toHaveLength(most)
    gate.resolve()
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual(answers.map(() => 200))
    expect(new Set(asked).size).toBe(5)
    expect(asked.length).toBeLessThan(answers.length)
    claims.list = list
  })

  it('the database sends each list in small parts', async () => {
    const agent = await service.registerWithPass()
    const write = async (path: string, body: object) =>
      expect((await service.call('POST', path, { token: agent.token, body })).json).toMatchObject({
        ok: true,
      })
    await write('/profile', { capabilities: ['parts'], purpose: 'p'.repeat(1_000) })
    const claim = { statement: 's'.repeat(2_000), evidence: 'e'.repeat(2_000) }
    await write('/claim', claim)
    await write('/claim', { ...claim, kind: 'proposal' })
    await write('/post', { body: 'b'.repeat(2_000) })
    await write('/market/offer', OFFER)
    const { connection } = service.ctx.database
    let longest = 0
    const kinds = { agents: 'agent', claims: 'claim', posts: 'post', offers: 'offer' } as const
    for (const [name, kind] of Object.entries(kinds)) {
      const own = { [name === 'agents' ? '_id' : 'agent_id']: agent.id }
      const records = await connection
        .collection(name)
        .find(own, { projection: { pending: 0 } })
        .toArray()
      for (const record of records) {
        longest = Math.max(longest, mongoose.mongo.BSON.calculateObjectSize(record))
        const copies = Array.from({ length: 60 }, (_, at) => ({
          ...record,
          _id: newId(kind),
          ...(name === 'agents' ? { token_key: `${agent.id} ${at}`, challenge: `${agent.id} ${at}` } : {}),
          ...(name === 'offers' ? { open_slot: (Number(record['open_slot']) + 1 + at) % 100 } : {}),
        }))
        await connection.collection(name).insertMany(copies as never[], { ordered: false })
      }
    }
    await connection.db?.command({ profile: 2 })
    const paths = [
      'feed',
      'claims',
      'claims?per_agent=60',
      'proposals',
      'market/offers',
      'directory',
      'directory?capability=parts',
      `agent/${agent.id}/posts`,
      `agent/${agent.id}/claims`,
    ]
    for (const path of paths) {
      const { status, json } = await service.call('GET', `/${path}${path.includes('?') ? '&' : '?'}limit=60`)
      expect([path, status, json['count']]).toEqual([path, 200, 60])
    }
    await connection.db?.command({ profile: 0 })
    const answers = await connection
      .collection('system.profile')
      .find({ responseLength: { $gt: 0 } })
      .toArray()
    expect(answers.length).toBeGreaterThan(paths.length)
    expect(Math.max(...answers.map((answer) => Number(answer['responseLength'])))).toBeLessThan(
      (PARSED_AT_ONCE + 1) * longest,
    )
  })

  it('what is never answered gives its room to others once all who asked have left', async () => {
    const { claims } = service.ctx
    const { list } = claims
    const asked: number[] = []
    claims.list = (_filter, _nowSeconds, limit) => {
      asked.push(limit)
      return new Promise(() => undefined)
    }
    const most = Math.floor(MAX_WEIGHT_AT_ONCE.open.all / (9 * 180))
    const leaving = new AbortController()
    const left = [200, 199, 198, 197].map((limit) =>
      fetch(`${service.url}/api/v1/claims?limit=${limit}`, { signal: leaving.signal }).catch(() => 'left'),
    )
    await waitFor('the first lists', () => (asked.length === most ? true : undefined), LIMIT)
    claims.list = list
    leaving.abort()
    expect(await Promise.all(left)).toEqual(left.map(() => 'left'))
    expect((await service.call('GET', '/claims?limit=196')).status).toBe(200)
  })
})
