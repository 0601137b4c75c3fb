import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findFreePort } from '../../scripts/embedded/ports.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { closeContext, openContext, type Context } from '../../shared/context.ts'
import { createLog } from '../../shared/platform/log.ts'
import { DAY_MS } from '../../shared/platform/time.ts'
import { startBalancer, type Balancer } from '../support/balancer.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import {
  startApiProcess,
  startWorkersProcess,
  whenAnswering,
  type RunningProcess,
} from '../support/processes.ts'
import { isolate, leaveDatabase, PATIENT } from '../support/servers.ts'
import { CHALLENGE_SECRET, findNonces, solveChallenge, type TestService } from '../support/service.ts'

const TOKEN = 'metrics-token-of-this-test'
const BITS = 8
const SHARES_PER_DAY = 5
const DAYS = 365
/** Fewer than the order needs, so that it stays open. */
const SHARES = 600
const ROUNDS = 2
const CLIENTS = 4
/** At least so many writes of each kind between one restart and the next. */
const WRITES_BETWEEN = 10

type Api = RunningProcess & { url: string; metricsPort: number }

let settings: Record<string, string>
let ctx: Context
let balancer: Balancer
const apis: Api[] = []
const workers: RunningProcess[] = []

beforeAll(async () => {
  const { mongodbUrl, redisUrl, queuePrefix } = isolate()
  settings = {
    MONGODB_URL: mongodbUrl,
    REDIS_URL: redisUrl,
    QUEUE_PREFIX: queuePrefix,
    ...PATIENT,
    CHALLENGE_SECRET,
    METRICS_TOKEN: TOKEN,
    FREE_UNTIL: 'none',
    REGISTER_BITS: '4',
    SHARE_BITS: String(BITS),
    SHARES_PER_DAY: String(SHARES_PER_DAY),
    SWEEP_SECONDS: '1',
    DRAIN_SECONDS: '0.5',
  }
  ctx = openContext(readConfig(settings, 'api'), createLog('test', 'silent'))
  await Promise.all([ctx.database.whenReady(), ctx.queues.whenReady()])
  balancer = startBalancer()
  for (let index = 0; index < 2; index++) {
    apis.push(await startApi(await findFreePort()))
    workers.push(await startWorkersProcess(settings))
  }
})

afterAll(async () => {
  balancer?.close()
  await Promise.all([...apis, ...workers].map((one) => one.stop()))
  if (ctx === undefined) return
  await leaveDatabase(ctx.database.connection)
  await closeContext(ctx)
})

/** An API that answers, and that the balancer knows. */
async function startApi(metricsPort: number): Promise<Api> {
  const api = await startApiProcess({ ...settings, METRICS_PORT: String(metricsPort) })
  const readyUrl = `http://127.0.0.1:${metricsPort}/readyz`
  await whenAnswering(readyUrl)
  balancer.add({ url: api.url, readyUrl })
  return { ...api, metricsPort }
}

interface Load {
  posts: string[]
  claims: string[]
  nonces: string[]
  reads: number
  failures: string[]
}

describe('a rolling restart of two APIs and two workers under load', () => {
  it('fails no request that was accepted and loses no job', async () => {
    const call = (async (method: string, path: string, options: { body?: unknown } = {}) => {
      const { status, json } = await balancer.send(method, path, options)
      return { status, json, headers: new Headers() }
    }) as TestService['call']
    const registered = await call('POST', '/register', { body: await solveChallenge(call) })
    const token = String(registered.json['token'])
    await ctx.agents.movePassEnd(
      String(registered.json['agent_id']),
      undefined,
      Date.now() + DAYS * DAY_MS,
      [],
    )
    const { order_id: orderId, prefix } = (
      await balancer.send('POST', '/invoice', { token, body: { currency: 'pow', days: DAYS } })
    ).json
    const shares = findNonces(String(prefix), BITS, SHARES)

    const load: Load = { posts: [], claims: [], nonces: [], reads: 0, failures: [] }
    let isLoading = true
    const clients = Array.from({ length: CLIENTS }, async (_, client) => {
      for (let turn = client; isLoading; turn++)
        await makeOneRequest(load, turn, token, String(orderId), shares)
    })
    const soMuchMore = async () => {
      const { posts, claims } = load
      const goal = Math.min(posts.length, claims.length) + WRITES_BETWEEN
      const isEnough = () => load.failures.length > 0 || Math.min(posts.length, claims.length) >= goal
      await waitFor('more writes', () => (isEnough() ? true : undefined), { limitMs: PATIENCE_MS })
    }
    for (let round = 0; round < ROUNDS; round++) {
      for (const index of [0, 1]) {
        await soMuchMore()
        const api = apis[index]
        api?.kill('SIGTERM')
        expect(await api?.ended, api?.logged()).toBe(0)
        apis[index] = await startApi(api?.metricsPort ?? 0)
        await soMuchMore()
        workers[index]?.kill('SIGTERM')
        expect(await workers[index]?.ended, workers[index]?.logged()).toBe(0)
        workers[index] = await startWorkersProcess(settings)
      }
    }
    await soMuchMore()
    isLoading = false
    await Promise.all(clients)

    expect(load.failures).toEqual([])
    expect(load.nonces.length).toBeGreaterThan(20)
    for (const id of load.posts) expect(await ctx.posts.find(id), id).toBeDefined()
    for (const id of load.claims) expect(await ctx.claims.find(id), id).toBeDefined()
    await waitFor(
      'the verdict on every batch',
      async () => ((await ctx.work.listWaiting(Date.now() + 1, 1)).length === 0 ? true : undefined),
      {
        limitMs: PATIENCE_MS,
      },
    )
    expect((await ctx.work.findOrder(String(orderId)))?.shares_accepted).toBe(new Set(load.nonces).size)
    expect(await ctx.queues.get('verify-shares').getFailedCount()).toBe(0)
    const entries = async () =>
      ctx.entries.models.entries.countDocuments({ kind: { $in: ['post', 'claim'] } })
    await waitFor(
      'an entry for every write',
      async () => ((await entries()) === load.posts.length + load.claims.length ? true : undefined),
      {
        limitMs: PATIENCE_MS,
      },
    )
    console.log(
      `${load.posts.length + load.claims.length} writes, ${load.nonces.length} shares and ${load.reads} reads over ${ROUNDS * 4} restarts: no failure`,
    )
  }, 300_000)
})

/** Posts, claims, shares and reads by turns; each must be answered well. */
async function makeOneRequest(
  load: Load,
  turn: number,
  token: string,
  orderId: string,
  shares: readonly string[],
): Promise<void> {
  try {
    if (turn % 4 === 0) {
      const { status, json } = await balancer.send('POST', '/post', { token, body: { body: `post ${turn}` } })
      if (status === 201) load.posts.push(String(json['id']))
      else load.failures.push(`post: ${status} ${JSON.stringify(json)}`)
    } else if (turn % 4 === 1) {
      const { status, json } = await balancer.send('POST', '/claim', {
        token,
        body: { statement: `claim ${turn}` },
      })
      if (status === 201) load.claims.push(String(json['id']))
      else load.failures.push(`claim: ${status} ${JSON.stringify(json)}`)
    } else if (turn % 4 === 2) {
      const nonces = shares.slice((turn * 3) % shares.length, ((turn * 3) % shares.length) + 3)
      const { status, json } = await balancer.send('POST', '/work/submit', {
        token,
        body: { order_id: orderId, nonces },
      })
      if (status === 200 || status === 202) load.nonces.push(...nonces)
      else load.failures.push(`work: ${status} ${JSON.stringify(json)}`)
    } else {
      const { status, json } = await balancer.send('GET', '/feed?limit=20')
      if (status === 200) load.reads++
      else load.failures.push(`feed: ${status} ${JSON.stringify(json)}`)
    }
  } catch (error) {
    load.failures.push(
      error instanceof Error
        ? `${error.name}: ${error.message} ${String((error as NodeJS.ErrnoException).code)}`
        : String(error),
    )
  }
}
