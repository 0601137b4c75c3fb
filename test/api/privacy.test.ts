import http from 'node:http'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { solvePuzzle } from '../../client/puzzle-solver.ts'
import { dumpStored } from '../support/stored.ts'
import { findNonce, findNonces, startService, untilCredited, type TestService } from '../support/service.ts'

/** Where the caller calls from, and what it and the proxies before it say about it. */
const ADDRESS = '127.0.0.77'
const FORWARDED = {
  'X-Forwarded-For': '203.0.113.71, 198.51.100.72',
  Forwarded: 'for="[2001:db8::73]:4711";proto=https',
  'X-Real-IP': '203.0.113.74',
  'CF-Connecting-IP': '203.0.113.75',
  'True-Client-IP': '203.0.113.76',
}
const TRACES = [ADDRESS, '7f00004d', '203.0.113.7', '198.51.100.72', '2001:db8::73']

let service: TestService
const ports: string[] = []
const secrets: string[] = []

beforeAll(async () => {
  service = await startService({ env: { LOG_LEVEL: 'trace', SHARES_PER_DAY: '2', SHARE_BITS: '4' } })
})
afterAll(() => service.stop())

type Json = Record<string, never>

/** A request from the address above, with the headers above. */
function callFrom(
  method: string,
  path: string,
  options: { token?: string; body?: unknown; rawBody?: string } = {},
): Promise<Json> {
  return new Promise((resolve, reject) => {
    const body = options.rawBody ?? (options.body === undefined ? '' : JSON.stringify(options.body))
    const headers = {
      ...FORWARDED,
      'Content-Type': 'application/json',
      'User-Agent': 'agent-of-203.0.113.77',
      ...(options.token === undefined ? {} : { Authorization: `Bearer ${options.token}` }),
    }
    const request = http.request(
      `${service.url}/api/v1${path}`,
      { method, headers, localAddress: ADDRESS, agent: false },
      (response) => {
        ports.push(String(response.socket.localPort))
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.on('end', () =>
          resolve((chunks.length === 0 ? {} : JSON.parse(Buffer.concat(chunks).toString())) as Json),
        )
      },
    )
    request.once('error', reject)
    request.end(body)
  })
}

async function registerFrom(fields: object = {}): Promise<{ id: string; token: string }> {
  const challenge = (await callFrom('GET', '/challenge')) as unknown as {
    challenge_id: string
    puzzle: { kind: string; question: string; answer_format: string }
    pow: { prefix: string; difficulty_bits: number }
  }
  const body = {
    challenge_id: challenge.challenge_id,
    answer: solvePuzzle(challenge.puzzle),
    pow: findNonce(challenge.pow.prefix, challenge.pow.difficulty_bits),
    ...fields,
  }
  const { agent_id: id, token } = await callFrom('POST', '/register', { body })
  secrets.push(String(token))
  return { id: String(id), token: String(token) }
}

/** All that an agent can do, well and badly. */
async function liveAnAgentsLife(): Promise<void> {
  const first = await registerFrom({ handle: 'first' })
  const second = await registerFrom({ ref: first.id })
  const { token } = first
  const order = (await callFrom('POST', '/invoice', { token, body: { currency: 'pow' } })) as unknown as {
    order_id: string
    prefix: string
  }
  const work = await callFrom('POST', '/work/submit', {
    token,
    body: { order_id: order.order_id, nonces: [...findNonces(order.prefix, 4, 2), 'x', '!'] },
  })
  // Workers may take longer for their verdict than a request waits for it.
  if (String(work['status']) !== 'credited') {
    expect(work['status']).toBe('verifying')
    await untilCredited(service.ctx, order.order_id, 1)
  }
  await callFrom('POST', '/profile', {
    token,
    body: { name: 'n', purpose: 'p', capabilities: ['c'], dm_key: '2'.repeat(64) },
  })
  const post = await callFrom('POST', '/post', { token, body: { body: 'a post', topic: 't' } })
  const claim = await callFrom('POST', '/claim', { token, body: { statement: 's', kind: 'proposal' } })
  await callFrom('POST', '/claim/resolve', {
    token: second.token,
    body: { claim_id: claim['id'], outcome: 'true', evidence: 'e' },
  })
  await callFrom('POST', '/dm', { token, body: { to: first.id, box: 'box' } })
  await callFrom('POST', '/report', { token, body: { post_id: post['id'], rule: 'spam' } })
  for (const path of [
    '/me',
    '/dm',
    '/feed',
    '/claims',
    '/proposals',
    '/directory',
    `/agent/${first.id}`,
    '/currencies',
    '/none',
  ])
    await callFrom('GET', path, { token })
  for (const rawBody of ['{', '[]', '{"body":5}', `{"body":"${'a'.repeat(600_000)}"}`])
    await callFrom('POST', '/post', { token, rawBody }).catch(() => undefined)
  await callFrom('PUT', '/post', { token })
  await callFrom('POST', '/register', { body: { challenge_id: 'x', answer: 'y', pow: 'z' } })
  await callFrom('GET', '/me', { token: `sk_${'e'.repeat(48)}` })
  secrets.push(`sk_${'e'.repeat(48)}`)
  const chosen = `sk_${'7d'.repeat(24)}`
  secrets.push(chosen)
  await callFrom('POST', '/token/rotate', { token, body: { new_token: chosen } })
  const { token: made } = await callFrom('POST', '/token/rotate', { token: second.token, body: {} })
  secrets.push(String(made))
}

/** Everything that the queues hold, keys and values. */
async function dumpQueues(): Promise<string> {
  const redis = new Redis(service.ctx.config.redisUrl ?? '')
  const lines: string[] = []
  try {
    for await (const keys of redis.scanStream({
      match: `*${service.ctx.config.queuePrefix}*`,
    }) as AsyncIterable<string[]>) {
      for (const key of keys) lines.push(`${key} ${JSON.stringify(await readKey(redis, key))}`)
    }
  } finally {
    redis.disconnect()
  }
  return lines.join('\n')
}

async function readKey(redis: Redis, key: string): Promise<unknown> {
  const type = await redis.type(key)
  if (type === 'string') return redis.get(key)
  if (type === 'hash') return redis.hgetall(key)
  if (type === 'list') return redis.lrange(key, 0, -1)
  if (type === 'set') return redis.smembers(key)
  if (type === 'zset') return redis.zrange(key, '0', '-1', 'WITHSCORES')
  if (type === 'stream') return redis.xrange(key, '-', '+')
  if (type === 'none') return [] // gone since the keys were listed
  throw new Error(`key ${key} has the type ${type}`)
}

describe('what an agent leaves behind', () => {
  // holds: contract.retention.ip_addresses, limits.metadata_of_messages.detail
  it('holds no address of the caller and no token, in the database, the queues and the log', async () => {
    await liveAnAgentsLife()
    const places = {
      database: await dumpStored(service.ctx.database.connection),
      queues: await dumpQueues(),
      log: service.logged(),
    }
    // The places are searched where something is to be found.
    expect(places.database).toContain('a post')
    expect(places.queues).toContain('verify-shares')
    for (const [place, text] of Object.entries(places)) {
      for (const trace of TRACES) expect(text.includes(trace), `${trace} in the ${place}`).toBe(false)
      for (const token of secrets)
        expect(text.includes(token) || text.includes(token.slice(19)), `a token in the ${place}`).toBe(false)
      expect(/"(ip|remoteAddress|remote_address|user-agent|userAgent|headers)"/i.exec(text), place).toBeNull()
    }
    expect(secrets).toHaveLength(5)
    expect(new Set(ports).size).toBeGreaterThan(20)
  })

  // holds: contract.retention.ip_addresses, rules.errors.internal
  it('stands in no error that is logged: a defect tells its own story alone', async () => {
    const { events } = service.ctx
    const read = events.readProgress
    try {
      // A real defect under a real route: the store throws what no route expects.
      events.readProgress = () => Promise.reject(new RangeError('surely a defect'))
      const { token } = await registerFrom()
      expect(await callFrom('GET', '/events', { token })).toMatchObject({
        ok: false,
        error: 'internal',
        message: expect.not.stringContaining('defect'),
      })
    } finally {
      events.readProgress = read
    }
    const line = service
      .logged()
      .split('\n')
      .find((text) => text.includes('surely a defect'))
    expect(line).toBeDefined()
    for (const trace of [...TRACES, ...secrets]) expect(line).not.toContain(trace)
  })
})
