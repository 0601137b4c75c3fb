import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { reservePort } from '../../scripts/embedded/ports.ts'
import { openGate, type Gate } from '../harness/testbed/gate.ts'
import { MAX_BODY_BYTES, MAX_WAIT_SECONDS } from '../../shared/platform/limits.ts'
import { startApiProcess, type RunningProcess } from '../support/processes.ts'
import { startCaddy, startHaproxy, type Proxied, type Proxy } from '../support/proxies.ts'
import { isolate } from '../support/servers.ts'
import { CHALLENGE_SECRET, solveChallenge, type TestService } from '../support/service.ts'

/** The longest that may be asked for with FAULTS=1; else longer than any limit for what a client sends. */
const WAIT_SECONDS = MAX_WAIT_SECONDS
const REGISTRATIONS = 5
/** A machine that is held up takes minutes to start two APIs. */
const START_LIMIT_MS = 240_000

let mongo: Gate
const apis: (RunningProcess & { url: string; readyPort: number })[] = []
const proxies = {} as Record<'HAProxy' | 'Caddy', Proxy>

beforeAll(async () => {
  const { mongodbUrl, redisUrl, queuePrefix } = isolate()
  const gated = new URL(mongodbUrl)
  mongo = await openGate(Number(gated.port))
  gated.port = String(mongo.port)
  // The set names its member by the port behind the gate.
  gated.search = '?directConnection=true'
  const startApi = async () => {
    const readyPort = await reservePort()
    const api = await startApiProcess({
      MONGODB_URL: gated.href,
      REDIS_URL: redisUrl,
      QUEUE_PREFIX: queuePrefix,
      CHALLENGE_SECRET,
      METRICS_TOKEN: 'metrics-token-of-this-test',
      METRICS_PORT: String(readyPort),
      REGISTER_BITS: '4',
    })
    apis.push({ ...api, readyPort })
    return { port: Number(new URL(api.url).port), readyPort }
  }
  const [first, second] = await Promise.all([startApi(), startApi()])
  const limits = { REGISTRATIONS_PER_ADDRESS: String(REGISTRATIONS) }
  ;[proxies.HAProxy, proxies.Caddy] = await Promise.all([
    startHaproxy([first, second], limits),
    startCaddy(first),
  ])
}, START_LIMIT_MS)
afterAll(async () => {
  await Promise.all(Object.values(proxies).map((proxy) => proxy.stop()))
  await Promise.all(apis.map((api) => api.stop()))
  await mongo?.close()
})

const read = ({ text }: Proxied) => JSON.parse(text) as Record<string, unknown>
const CLIENT = '127.0.0.9'

describe.each(['HAProxy', 'Caddy'] as const)('behind %s with its sample configuration', (name) => {
  // holds: contract.retention.ip_addresses
  it('the API answers over TLS alone, a wait takes its time, and no address of a client is written down', async () => {
    const proxy = proxies[name]
    const call = (async (method: string, path: string, { body }: { body?: unknown } = {}) => {
      const answer = await proxy.send(method, `/api/v1${path}`, {
        from: CLIENT,
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      return { status: answer.status, json: read(answer), headers: new Headers() }
    }) as TestService['call']
    const { json } = await call('POST', '/register', { body: await solveChallenge(call) })
    const startedMs = performance.now()
    const waited = await proxy.send('GET', `/api/v1/events?wait=${WAIT_SECONDS}`, {
      token: String(json['token']),
      from: CLIENT,
    })
    expect([waited.status, read(waited)['ok']]).toEqual([200, true])
    expect(performance.now() - startedMs).toBeGreaterThan(WAIT_SECONDS * 900)
    expect(waited.headers['strict-transport-security']).toBe('max-age=31536000')
    const plain = await fetch(`http://localhost:${proxy.httpPort}/api/v1/me`, { redirect: 'manual' })
    expect(plain.status).toBe(403)
    expect(proxy.logged()).not.toContain(CLIENT)
    for (const api of apis) expect(api.logged()).not.toContain(CLIENT)
  })

  it('a body that is too large is refused in the form of the contract, and the largest is let through', async () => {
    const tooLarge = await proxies[name].send('POST', '/api/v1/post', {
      body: Buffer.alloc(MAX_BODY_BYTES + 1),
    })
    expect([tooLarge.status, read(tooLarge)]).toEqual([
      413,
      expect.objectContaining({ ok: false, error: 'body_too_large' }),
    ])
    const largest = await proxies[name].send('POST', '/api/v1/post', {
      body: Buffer.alloc(MAX_BODY_BYTES, ' '),
      token: 'f'.repeat(48),
    })
    expect([largest.status, read(largest)['error']]).toEqual([401, 'invalid_token'])
  })

  it('requests go on coming while MongoDB is away: what needs none is answered, the rest says so itself', async () => {
    const proxy = proxies[name]
    mongo.hang()
    try {
      const untilMs = performance.now() + 5_000
      do {
        const [feed, challenge, rules] = await Promise.all(
          ['/feed', '/challenge', '/rules'].map((path) => proxy.send('GET', `/api/v1${path}`)),
        )
        expect([feed?.status, feed && read(feed)]).toEqual([
          503,
          expect.objectContaining({
            ok: false,
            error: 'unavailable',
            message: expect.stringContaining('read before you send it again') as string,
          }),
        ])
        expect(Number(feed?.headers['retry-after'])).toBeGreaterThan(0)
        expect([challenge?.status, rules?.status]).toEqual([200, 200])
        // Longer than it takes a proxy to leave out what is not ready.
      } while (performance.now() < untilMs)
    } finally {
      mongo.heal()
    }
  })
})

describe('the sample configuration of HAProxy', () => {
  it('bounds registrations for each address, and says so in the form of the contract', async () => {
    const register = (from: string) => proxies.HAProxy.send('POST', '/api/v1/register', { from, body: '{}' })
    const flood = await Promise.all(Array.from({ length: 3 * REGISTRATIONS }, () => register('127.0.0.10')))
    expect(flood.filter(({ status }) => status === 400)).toHaveLength(REGISTRATIONS)
    const refused = flood.filter(({ status }) => status === 503)
    expect(refused).toHaveLength(2 * REGISTRATIONS)
    for (const answer of refused) {
      expect(read(answer)).toMatchObject({ ok: false, error: 'unavailable' })
      expect(answer.headers['retry-after']).toBe('2')
    }
    expect((await register('127.0.0.11')).status).toBe(400)
  })
})
