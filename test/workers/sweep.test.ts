import { Queue } from 'bullmq'
import { Redis } from 'ioredis'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { closeContext, openContext, type Context } from '../../shared/context.ts'
import { SHARE_PAGES_KEPT_MS } from '../../shared/platform/limits.ts'
import { newId } from '../../shared/platform/ids.ts'
import { runChecks } from '../../shared/operation/check.ts'
import { queuePrefix, type QueueName } from '../../shared/platform/queue-table.ts'
import { jobOptions } from '../../shared/platform/queues.ts'
import { submitShares } from '../../shared/passes/work-service.ts'
import { startPool } from '../../workers/pool.ts'
import { sweep } from '../../workers/jobs/sweep.ts'
import { FULL } from '../support/full.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { findNonces, startService, type TestAgent, type TestService } from '../support/service.ts'
import { withSigning } from '../support/signing.ts'

const LIMIT = { limitMs: PATIENCE_MS }
vi.setConfig({ testTimeout: 240_000 })

let service: TestService
let redis: Redis
let closeLater: (() => Promise<void>)[]

beforeEach(async () => {
  service = await startService({ queues: [] })
  redis = new Redis(service.ctx.config.redisUrl ?? '')
  closeLater = []
})
afterEach(async () => {
  for (const close of closeLater) await close()
  redis.disconnect()
  await service.stop()
})

/** Another worker process, as far as Redis and MongoDB can tell. */
async function serve(queues: readonly QueueName[]): Promise<Context> {
  const ctx = openContext(service.ctx.config, service.ctx.log, { now: service.ctx.now })
  await Promise.all([ctx.database.whenReady(), ctx.queues.whenReady()])
  const pool = startPool(withSigning(ctx), queues)
  closeLater.push(async () => {
    await pool.close()
    await closeContext(ctx)
  })
  return ctx
}

/** A queue over a connection that is patient, unlike the service's own. */
const queueOf = (name: QueueName): Queue =>
  new Queue(name, {
    connection: redis,
    prefix: queuePrefix(service.ctx.config.queuePrefix, name),
    defaultJobOptions: jobOptions(name),
  })

const listKeys = async () => {
  const keys: string[] = []
  for await (const found of redis.scanStream({
    match: `*${service.ctx.config.queuePrefix}*`,
  }) as AsyncIterable<string[]>)
    keys.push(...found)
  return keys
}
/** What a Redis that lost everything looks like to this service; other tests share the server. */
const emptyRedis = async () => {
  const keys = await listKeys()
  if (keys.length > 0) await redis.del(keys)
}
const orderWork = async (agent: TestAgent, days = 1) =>
  (await service.call('POST', '/invoice', { token: agent.token, body: { currency: 'pow', days } }))
    .json as unknown as {
    order_id: string
    prefix: string
  }
const creditedDays = async (orderId: string) => (await service.ctx.work.findOrder(orderId))?.credited_days

describe('the sweep', () => {
  it('brings batches back whose jobs Redis lost', async () => {
    const agent = await service.register()
    const orders = await Promise.all(Array.from({ length: 5 }, () => orderWork(agent)))
    for (const { order_id: id, prefix } of orders)
      await submitShares(service.ctx, agent.id, id, findNonces(prefix, 8, 5))
    expect((await listKeys()).length).toBeGreaterThan(5)
    await emptyRedis()
    expect(await listKeys()).toEqual([])
    await serve(['verify-shares', 'sweep'])
    for (const { order_id: id } of orders)
      await waitFor('the credit', async () => ((await creditedDays(id)) === 1 ? true : undefined), LIMIT)
    expect(
      Math.abs(((await service.ctx.agents.find(agent.id))?.pass_until_ms ?? 0) - Date.now() - 5 * 86_400_000),
    ).toBeLessThan(60_000)
  })

  it('brings back what a clock that was ahead has stamped, without waiting for that time', async () => {
    const agent = await service.register()
    const { order_id: id, prefix } = await orderWork(agent)
    service.advance(600_000)
    await submitShares(service.ctx, agent.id, id, findNonces(prefix, 8, 5))
    service.advance(-600_000)
    await emptyRedis()
    await serve(['verify-shares', 'sweep'])
    await waitFor('the credit', async () => ((await creditedDays(id)) === 1 ? true : undefined), LIMIT)
  })

  it('deletes the nonces of an order a week after its time, and keeps what they earned', async () => {
    const { ctx } = service
    const agent = await service.register()
    const { order_id: id, prefix } = await orderWork(agent)
    const nonces = findNonces(prefix, 8, 3)
    await submitShares(ctx, agent.id, id, nonces)
    const { listPages, findOrder } = (await serve(['verify-shares'])).work
    const pages = async () => (await listPages(id, 1, 9)).flatMap((page) => page.nonces)
    await waitFor('the shares', async () => ((await pages()).length === 3 ? true : undefined), LIMIT)
    const before = await findOrder(id)
    service.advance((before?.expires_at ?? 0) * 1_000 - ctx.database.now() + SHARE_PAGES_KEPT_MS - 60_000)
    await sweep(ctx)
    expect(await pages()).toHaveLength(3)
    service.advance(120_000)
    await sweep(ctx)
    expect(await pages()).toEqual([])
    expect(await findOrder(id)).toMatchObject({ shares_accepted: 3, expires_at: before?.expires_at })
    await expect(submitShares(ctx, agent.id, id, nonces)).rejects.toThrow(/is expired/)
    const [checked] = await runChecks(ctx, { mends: false, only: 'shares' })
    expect(checked?.faults).toEqual([])
  })

  it('schedules itself again when Redis was emptied under it', async () => {
    await serve(['verify-shares', 'sweep'])
    const { token } = await service.register()
    const moveOne = async () => {
      const { id } = (
        await service.call('POST', '/claim', {
          token,
          body: { statement: 's', resolve_by: Math.floor(service.ctx.now() / 1_000) + 1_000 },
        })
      ).json
      service.advance(1_000_000)
      await waitFor(
        'a sweep',
        async () => ((await service.ctx.claims.find(String(id)))?.status === 'overdue' ? true : undefined),
        LIMIT,
      )
    }
    await moveOne()
    for (let round = 0; round < 2; round++) {
      await emptyRedis()
      await moveOne()
    }
  })

  it('says that Redis was emptied if its marker is gone, and not while another process stores a new one', async () => {
    const { ctx } = service
    await sweep(ctx)
    const first = await ctx.operation.watch.readRedis()
    await ctx.operation.watch.noteRedis({ mark: 'next' }, first)
    const readMark = async () => {
      const found = await ctx.queues.readMark()
      await ctx.queues.setMark('next')
      return found
    }
    await sweep({ ...ctx, queues: { ...ctx.queues, readMark } })
    expect(await ctx.operation.watch.readRedis()).toEqual({ mark: 'next' })
    await ctx.queues.setMark('of another Redis')
    await sweep(ctx)
    expect(await ctx.operation.watch.readRedis()).toMatchObject({ emptied_at: expect.any(Number) as number })
  })

  it('marks a new Redis at its first look, once, though two sweeps come at the same moment', async () => {
    const { ctx } = service
    await ctx.operation.watch.models.watch.deleteMany({})
    let looks = 0
    const looked = Promise.withResolvers<void>()
    const readRedis = async () => {
      const found = await ctx.operation.watch.readRedis()
      if (++looks === 2) looked.resolve()
      await looked.promise
      return found
    }
    const operation = { ...ctx.operation, watch: { ...ctx.operation.watch, readRedis } }
    const beside = { ...ctx, operation }
    await Promise.all([sweep(beside), sweep(beside)])
    expect(looks).toBe(2)
    expect(await ctx.operation.watch.readRedis()).toEqual({ mark: await ctx.queues.readMark() })
  })

  it('gives no job an id that one from before had', async () => {
    const { queues } = service.ctx
    const patient = [queueOf('sweep'), queueOf('verify-shares')]
    // Whoever adds a job waits for Redis for half a second, and the job may come after that.
    const listWaiting = async (queue: Queue) => {
      const jobs = await queue.getWaiting()
      return jobs.length === 0 ? undefined : jobs
    }
    const ids = new Set<string | undefined>()
    for (let round = 0; round < 3; round++) {
      await queues.enqueueRegular('sweep', 1_000)
      await queues.enqueue('verify-shares', { batch_id: newId('work_batch') })
      for (const queue of patient)
        for (const { id } of await waitFor(`a job of ${queue.name}`, () => listWaiting(queue), LIMIT))
          ids.add(id)
      await emptyRedis()
    }
    expect(ids.size).toBe(6)
  })

  it.runIf(FULL)('goes on in its time while several processes keep its schedule', async () => {
    const [workers] = await Promise.all([serve(['sweep']), serve(['sweep']), serve(['sweep'])])
    const queue = queueOf('sweep')
    // Sweeps that found nothing are not kept.
    const countDone = async () =>
      (await redis.xrange(queue.toKey('events'), '-', '+')).filter(([, fields]) =>
        fields.includes('completed'),
      ).length
    await waitFor('four sweeps', async () => ((await countDone()) >= 4 ? true : undefined), LIMIT)
    // However many keep it, no turn has more than one: by the clock of Redis, which counts the turns.
    const events = await redis.xrange(queue.toKey('events'), '-', '+')
    const times = events.flatMap(([id, fields]) =>
      fields[fields.indexOf('event') + 1] === 'added' ? [Number.parseInt(id)] : [],
    )
    expect(times.length).toBeGreaterThanOrEqual(4)
    const sweepMs = workers.config.sweepMs
    const gaps = times.slice(1).map((time, place) => time - (times[place] ?? 0))
    expect(Math.min(...gaps)).toBeGreaterThan(sweepMs * 0.8)
  })

  it('may run ten times at once: what it brings is judged once', async () => {
    const agent = await service.register()
    const { order_id: id, prefix } = await orderWork(agent, 2)
    const shares = findNonces(prefix, 8, 10)
    for (const nonces of [shares.slice(0, 6), shares.slice(4)])
      await submitShares(service.ctx, agent.id, id, nonces)
    service.advance(10_000)
    await Promise.all(Array.from({ length: 10 }, () => sweep(service.ctx)))
    await Promise.all([serve(['verify-shares']), serve(['verify-shares'])])
    await Promise.all(Array.from({ length: 10 }, () => sweep(service.ctx)))
    await waitFor('the credit', async () => ((await creditedDays(id)) === 2 ? true : undefined), LIMIT)
    await waitFor(
      'the end of the batch',
      async () =>
        (await service.ctx.work.listWaiting(service.ctx.now(), 1)).length === 0 ? true : undefined,
      LIMIT,
    )
    const batches = await service.ctx.work.models.batches.find({ order_id: id }).lean()
    expect(batches.map(({ outcomes = '' }) => outcomes.replaceAll(/[^a]/g, ''))).toEqual(['a'.repeat(10)])
    expect(
      (await service.ctx.work.findOrder(id))?.pending
        ?.map(({ data }) => data['days'])
        .reduce((sum, days) => Number(sum) + Number(days), 0),
    ).toBe(2)
  })

  it('leaves alone what is younger than itself, which has a job of its own', async () => {
    const agent = await service.register()
    const { order_id: id, prefix } = await orderWork(agent)
    // Of a sweep that comes so seldom, the batch is younger however slow the machine is.
    const sweepMs = 600_000
    const ctx = { ...service.ctx, config: { ...service.ctx.config, sweepMs } }
    const queue = queueOf('verify-shares')
    await submitShares(ctx, agent.id, id, findNonces(prefix, 8, 5))
    await sweep(ctx)
    expect(await queue.getJobCountByTypes('wait')).toBe(1)
    service.advance(sweepMs)
    await sweep(ctx)
    // Nor does it put a second job beside one that waits still; one that is gone it brings back.
    expect(await queue.getJobCountByTypes('wait')).toBe(1)
    await queue.drain()
    await sweep(ctx)
    await sweep(ctx)
    expect(await queue.getJobCountByTypes('wait')).toBe(1)
  })
})

describe('a worker', () => {
  it('gives up a job whose payload is none, lets one pass whose batch is gone, and works on', async () => {
    await serve(['verify-shares'])
    const queue = queueOf('verify-shares')
    const broken = await queue.add('verify-shares', { batch: 5 })
    await service.ctx.queues.enqueue('verify-shares', { batch_id: newId('work_batch') })
    await waitFor(
      'the end of the broken job',
      async () => ((await broken.isFailed()) ? true : undefined),
      LIMIT,
    )
    await waitFor(
      'the end of the other',
      async () => ((await queue.getCompletedCount()) === 1 ? true : undefined),
      LIMIT,
    )
    // Redis has it before its worker says so.
    await waitFor('the word of it', () => service.logged().includes('the payload of job') || undefined, LIMIT)
    const agent = await service.register()
    const { order_id: id, prefix } = await orderWork(agent)
    const answer = await service.call('POST', '/work/submit', {
      token: agent.token,
      body: { order_id: id, nonces: findNonces(prefix, 8, 5) },
    })
    expect([answer.status, answer.json['credited_days']]).toEqual([200, 1])
  })

  it.runIf(FULL)('finishes what it has under way when it is told to stop', async () => {
    const agent = await service.register()
    const orders = await Promise.all(Array.from({ length: 12 }, () => orderWork(agent)))
    for (const { order_id: id, prefix } of orders)
      await submitShares(service.ctx, agent.id, id, findNonces(prefix, 8, 5))
    await serve(['verify-shares'])
    const queue = queueOf('verify-shares')
    const countTaken = () => queue.getJobCountByTypes('active', 'completed')
    await waitFor('a job that is taken', async () => ((await countTaken()) > 0 ? true : undefined), {
      ...LIMIT,
      everyMs: 1,
    })
    const [close] = closeLater.splice(0)
    await close?.()
    expect(await queue.getJobCounts('active', 'failed')).toEqual({ active: 0, failed: 0 })
    await serve(['verify-shares'])
    for (const { order_id: id } of orders)
      await waitFor('the credit', async () => ((await creditedDays(id)) === 1 ? true : undefined), LIMIT)
  })
})
