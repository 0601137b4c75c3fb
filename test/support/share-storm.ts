import { Redis } from 'ioredis'
import { expect } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { createStandingReader } from '../../shared/about/standing-service.ts'
import { listPending } from './stored.ts'
import { isShare } from '../../shared/crypto/pow.ts'
import { decodeOutcomes } from '../../shared/passes/work.ts'
import { startWorkersProcess, type RunningProcess } from './processes.ts'
import { startServers, type TemporaryServers } from './servers.ts'
import { findNonce, findNonces, startService, type TestService } from './service.ts'

const DAY_MS = 86_400_000
const BITS = 8
const PER_DAY = 5
const DAYS = 20
const SUBMISSIONS = 16
/** A storm's submissions are over in a few hundred ms; the blows fall anywhere in that time. */
const BLOW_WITHIN_MS = 300
const SETTLE_LIMIT_MS = 60_000

export interface ShareStorm {
  /**
   * One order, 16 submissions at once, two workers killed and Redis emptied in the middle; then everything is
   * counted.
   */
  run(): Promise<void>
  stop(): Promise<void>
}

/** Four real worker processes on servers of their own, and the API in this process. */
export async function prepareShareStorm(): Promise<ShareStorm> {
  const servers = await startServers()
  const env = {
    MONGODB_URL: servers.mongod.url,
    REDIS_URL: servers.redis.url,
    SWEEP_SECONDS: '1',
    SHARE_BITS: String(BITS),
    SHARES_PER_DAY: String(PER_DAY),
  }
  const service = await startService({ env, queues: [] })
  // Without the sequencer, so that each credit's entry stays where it was written.
  const startWorkers = () =>
    startWorkersProcess({ ...env, QUEUE_PREFIX: service.ctx.config.queuePrefix }, [
      '--queues',
      'verify-shares,sweep',
    ])
  const workers = await Promise.all([startWorkers(), startWorkers(), startWorkers(), startWorkers()])
  return {
    run: () => runStorm(service, servers, workers, startWorkers),
    async stop() {
      await Promise.all(workers.map((worker) => worker.stop()))
      await service.stop()
      await servers.stop()
    },
  }
}

async function runStorm(
  service: TestService,
  servers: TemporaryServers,
  workers: RunningProcess[],
  startWorkers: () => Promise<RunningProcess>,
): Promise<void> {
  const referrer = await service.register()
  const agent = await service.register({ ref: referrer.id })
  const order = (
    await service.call('POST', '/invoice', { token: agent.token, body: { currency: 'pow', days: DAYS } })
  ).json as unknown as {
    order_id: string
    prefix: string
    shares_required: number
  }
  expect(order.shares_required).toBe(DAYS * PER_DAY)
  const shares = findNonces(order.prefix, BITS, DAYS * PER_DAY)
  // One share more than the order needs, beside them a weak nonce.
  const spare = findNonce(order.prefix, BITS, Number(shares.at(-1)) + 1)
  const weak = ['zz', 'zy', 'zx', 'zw'].find((nonce) => !isShare(order.prefix, nonce, BITS)) ?? 'none'
  const startMs = Date.now()
  const submissions = Array.from({ length: SUBMISSIONS }, async (_, i) => {
    // The first two bring all of it; the others 60 each, so that every share comes at least twice.
    const nonces = i < 2 ? shares : shares.slice((i * 7) % 41, ((i * 7) % 41) + 60)
    const { status, json } = await service.call('POST', '/work/submit', {
      token: agent.token,
      body: { order_id: order.order_id, nonces: [...nonces, spare, weak] },
    })
    // Whoever comes when all is counted is told so.
    expect([200, 202, 409], JSON.stringify(json)).toContain(status)
  })
  const blows = [
    ...[0, 1].map(async (index) => {
      await pause(Math.random() * BLOW_WITHIN_MS)
      workers[index]?.kill('SIGKILL')
      await workers[index]?.ended
    }),
    pause(Math.random() * BLOW_WITHIN_MS).then(() => flush(servers.redis.url)),
  ]
  await Promise.all([...submissions, ...blows])
  ;[workers[0], workers[1]] = await Promise.all([startWorkers(), startWorkers()])
  await waitFor(
    'the end of every batch',
    async () => ((await service.ctx.work.listWaiting(Date.now(), 1)).length === 0 ? true : undefined),
    { limitMs: SETTLE_LIMIT_MS },
  )

  const { batches } = service.ctx.work.models
  const counted = await batches.find({ order_id: order.order_id }).lean()
  expect(counted.every(({ state }) => state === 'verified')).toBe(true)
  const outcomes = counted.flatMap((batch) => decodeOutcomes(batch.outcomes ?? ''))
  expect(outcomes.filter((outcome) => outcome === undefined)).toHaveLength(DAYS * PER_DAY)
  const stored = await service.ctx.work.findOrder(order.order_id)
  expect(stored).toMatchObject({ shares_accepted: DAYS * PER_DAY, credited_days: DAYS })
  const pages = await service.ctx.work.listPages(order.order_id, 1, Number.MAX_SAFE_INTEGER)
  expect(pages.map(({ number }) => number)).toEqual(
    Array.from({ length: stored?.share_pages ?? 0 }, (_, index) => index + 1),
  )
  const claims = pages.flatMap(({ nonces }) => nonces)
  expect(claims).toHaveLength(DAYS * PER_DAY)
  expect(new Set(claims).size).toBe(DAYS * PER_DAY)
  expect(claims.filter((nonce) => !shares.includes(nonce) && nonce !== spare)).toEqual([])

  const entries = await listPending(service.ctx.database.connection, 'work_orders', order.order_id)
  const credits = entries.map(({ source, data }) => ({
    source,
    days: Number(data['days']),
    untilMs: Date.parse(String(data['pass_until'])),
  }))
  let day = 0
  for (const [i, { source, days, untilMs }] of credits.entries()) {
    day += days
    expect(source).toBe(`${order.order_id}/credit/${day}`)
    const before = credits[i - 1]
    if (before !== undefined) expect(untilMs - before.untilMs).toBe(days * DAY_MS)
  }
  expect(day).toBe(DAYS)
  const passEnd = (await service.ctx.agents.find(agent.id))?.pass_until_ms ?? 0
  expect(passEnd).toBe(credits.at(-1)?.untilMs)
  expect(passEnd - DAYS * DAY_MS).toBeGreaterThanOrEqual(startMs)
  expect(passEnd - DAYS * DAY_MS).toBeLessThanOrEqual(Date.now())
  const standing = await createStandingReader(service.ctx)(referrer.id)
  expect(standing.referrals).toMatchObject({ registered: 1, paying: 1 })
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

async function flush(redisUrl: string): Promise<void> {
  const redis = new Redis(redisUrl)
  try {
    await redis.flushall()
  } finally {
    redis.disconnect()
  }
}
