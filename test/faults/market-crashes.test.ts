import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { makeCoinReady } from '../support/coins.ts'
import {
  checkMarket,
  expectStatus,
  openMarket,
  type PlacedOrder,
  type TestMarket,
} from '../support/market.ts'
import { checkBooksAfterEach } from '../support/money.ts'
import { startWorkersProcess, type RunningProcess } from '../support/processes.ts'
import { startServers, type TemporaryServers } from '../support/servers.ts'
import { startService } from '../support/service.ts'

const STORMS = 20
const ORDERS = 40
/** In which all deadlines come, and the blows fall. */
const STORM_MS = 4_000
/** A transaction of a killed worker holds its orders until MongoDB gives it up, after a minute. */
const SETTLE_LIMIT_MS = 150_000

let servers: TemporaryServers
let market: TestMarket
let workers: RunningProcess[]
let start: () => Promise<RunningProcess>

beforeAll(async () => {
  servers = await startServers()
  // 11 s from a delivery to its deadline.
  const env = {
    MONGODB_URL: servers.mongod.url,
    REDIS_URL: servers.redis.url,
    SWEEP_SECONDS: '1',
    ACCEPT_HOURS: '0.003',
  }
  market = await openMarket(await startService({ env, queues: [] }))
  start = () =>
    startWorkersProcess({ ...env, QUEUE_PREFIX: market.ctx.config.queuePrefix }, [
      '--queues',
      'order-deadlines,sweep',
    ])
  workers = await Promise.all([start(), start(), start()])
})
checkBooksAfterEach(() => market.ctx)
afterAll(async () => {
  await Promise.all(workers.map((worker) => worker.stop()))
  await market.stop()
  await servers.stop()
})

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

async function flush(): Promise<void> {
  const redis = new Redis(servers.redis.url)
  await redis.flushall()
  redis.disconnect()
}

async function storm(): Promise<void> {
  // As a watcher of the chain would: it is long since the last time, and there are as many addresses less.
  await makeCoinReady(market.ctx, 'xno', { rate: '2', addresses: ORDERS })
  const orders: PlacedOrder[] = []
  // A buyer may have 20 that are not paid.
  while (orders.length < ORDERS)
    orders.push(
      ...(await Promise.all(Array.from({ length: 10 }, () => market.paidOrder({ currency: 'xno' })))),
    )
  for (const order of orders) expectStatus(await market.step('deliver', order), 200)
  const dueTimes = await Promise.all(
    orders.map(async ({ id }) => (await market.ctx.orders.find(id))?.due_at ?? 0),
  )
  await pause(Math.max(0, Math.min(...dueTimes) * 1_000 - Date.now()))
  await Promise.all([
    ...[0, 1].map(async (index) => {
      await pause(Math.random() * STORM_MS)
      workers[index]?.kill('SIGKILL')
      await workers[index]?.ended
    }),
    pause(Math.random() * STORM_MS).then(flush),
    // Some buyers accept at the last moment, or after it.
    ...orders
      .slice(0, 5)
      .map(async (order) => expect([200, 409]).toContain((await market.step('accept', order)).status)),
  ])
  ;[workers[0], workers[1]] = await Promise.all([start(), start()])
  await waitFor(
    'the release of every order',
    async () =>
      (await market.ctx.orders.models.orders.countDocuments({ due_at: { $exists: true } })) === 0
        ? true
        : undefined,
    { limitMs: SETTLE_LIMIT_MS, everyMs: 200 },
  )
  for (const { id } of orders)
    expect(await market.ctx.orders.find(id)).toMatchObject({ status: 'released', fee_taken: true })
  await checkMarket(market.ctx)
}

describe('deadlines that come while two workers are killed and Redis is emptied', () => {
  it(
    `are each acted on once, ${STORMS} times`,
    { timeout: STORMS * (SETTLE_LIMIT_MS + 60_000) },
    async () => {
      for (let round = 0; round < STORMS; round++) await storm()
    },
  )
})
