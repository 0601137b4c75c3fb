import { Queue, Worker } from 'bullmq'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { openGate } from '../harness/testbed/gate.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { Refusal } from '../../shared/platform/errors.ts'
import { createLog } from '../../shared/platform/log.ts'
import { QUEUES, queuePrefix as prefixOf } from '../../shared/platform/queue-table.ts'
import { connectWaiting, type RedisClient } from '../../shared/platform/redis-connection.ts'
import { HANDLERS } from '../../workers/handlers.ts'
import { startPool } from '../../workers/pool.ts'
import { startQueueWorker, type QueueWorker } from '../../workers/queue-worker.ts'
import { openWorkerContext, type WorkerContext } from '../../workers/worker-context.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { isolate, leaveDatabase, PATIENT } from '../support/servers.ts'
import { closeContext } from '../../shared/context.ts'

/** Long enough for a new worker to connect and to take its first job on a busy machine. */
const QUICK = { everyMs: 100, checks: 15, longMs: 60_000 }
const REPLACED = 'it is replaced by a new one'
const LIMIT = { limitMs: PATIENCE_MS }
vi.setConfig({ testTimeout: 180_000 })

let ctx: WorkerContext
let connection: RedisClient
/** Over a connection that is patient, unlike the producers'. */
let queue: Queue
let worker: QueueWorker
let logged = ''

const log = createLog('test', 'info', { write: (line: string) => void (logged += line) })
const { mongodbUrl, redisUrl, queuePrefix } = isolate()
const openContext = (redis: string): WorkerContext => {
  const env = {
    ...PATIENT,
    MONGODB_URL: mongodbUrl,
    REDIS_URL: redis,
    QUEUE_PREFIX: queuePrefix,
    FREE_UNTIL: 'none',
  }
  return openWorkerContext(readConfig(env, 'workers'), log)
}

beforeAll(async () => {
  ctx = openContext(redisUrl)
  connection = connectWaiting(redisUrl, log)
  queue = new Queue('verify-shares', { connection, prefix: prefixOf(queuePrefix, 'verify-shares') })
  await Promise.all([ctx.database.whenReady(), ctx.queues.whenReady()])
})
beforeEach(() => queue.obliterate({ force: true }))
afterEach(async () => {
  vi.restoreAllMocks()
  await worker.close()
  logged = ''
})
afterAll(async () => {
  await queue.close()
  connection.disconnect()
  await leaveDatabase(ctx.database.connection)
  await closeContext(ctx)
})

const NOTHING = { accepted: 0, rejected: 0 }
const start = (watch = QUICK): void =>
  void (worker = startQueueWorker(ctx, 'verify-shares', connection, watch))
/** There is no such batch, so there is nothing to do. */
const add = () => ctx.queues.enqueue('verify-shares', { batch_id: 'wba_none' })
const untilCompleted = (jobs: number) =>
  waitFor(
    `${jobs} jobs done`,
    async () => ((await queue.getJobCountByTypes('completed')) === jobs ? true : undefined),
    LIMIT,
  )
/** Several times as long as a worker may take nothing. */
const rest = () => new Promise((resolve) => setTimeout(resolve, 3 * QUICK.checks * QUICK.everyMs))

describe('a worker of a queue', () => {
  it('whose loop waits for an answer that never comes is replaced, and the jobs are done', async () => {
    // As BullMQ's loop was found: in its wait for a job, with nothing under way on any connection.
    const waits = vi.spyOn(Worker.prototype as unknown as { waitForJob(): Promise<number> }, 'waitForJob')
    waits.mockImplementationOnce(() => new Promise(() => {}))
    start()
    await waitFor('the wait for a job', () => (waits.mock.calls.length > 0 ? true : undefined), LIMIT)
    await add()
    await untilCompleted(1)
    expect(logged).toContain(REPLACED)
    await add()
    await untilCompleted(2)
    expect(logged.split(REPLACED)).toHaveLength(2)
  })

  it('that is paused or has nothing to do is left alone', async () => {
    start()
    await queue.pause()
    await add()
    await rest()
    await queue.resume()
    await untilCompleted(1)
    await rest()
    expect(logged).not.toContain(REPLACED)
  })

  it('that an operator has limited on the board is left alone, and goes on once the limit is lifted', async () => {
    await queue.setGlobalRateLimit(1, 3_600_000)
    start()
    for (let left = 3; left > 0; left--) await add()
    await untilCompleted(1)
    await rest()
    await queue.removeGlobalRateLimit()
    await queue.removeRateLimitKey()
    await worker.close()
    expect(logged).not.toContain(REPLACED)
    start()
    await untilCompleted(3)
  })

  it('tries a job again whose handler threw, and gives up one that is refused for good', async () => {
    const tries: string[] = []
    const handle = HANDLERS['verify-shares']
    HANDLERS['verify-shares'] = async (_, { batch_id: batch }) => {
      tries.push(batch)
      if (batch === 'refused') throw new Refusal('wrong_state', 'This is refused for good.')
      if (tries.filter((tried) => tried === batch).length === 1) throw new Error('the connection broke')
      return NOTHING
    }
    try {
      const [completed, failed] = [await queue.getCompletedCount(), await queue.getFailedCount()]
      start()
      for (const batch_id of ['thrown', 'refused']) await ctx.queues.enqueue('verify-shares', { batch_id })
      const ended = () => queue.getJobCountByTypes('completed', 'failed')
      await waitFor(
        'both',
        async () => ((await ended()) === completed + failed + 2 ? true : undefined),
        LIMIT,
      )
      expect(tries.toSorted()).toEqual(['refused', 'thrown', 'thrown'])
      expect(await queue.getFailedCount()).toBe(failed + 1)
    } finally {
      HANDLERS['verify-shares'] = handle
    }
  })

  it('ends what it has under way before the database is closed under it, though Redis is away', async () => {
    const gate = await openGate(Number(new URL(redisUrl).port))
    const behind = new URL(redisUrl)
    behind.port = String(gate.port)
    const stopping = openContext(behind.href)
    const handle = HANDLERS['verify-shares']
    const [taken, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const ends: string[] = []
    HANDLERS['verify-shares'] = async () => {
      taken.resolve()
      await released.promise
      ends.push('the job')
      return NOTHING
    }
    try {
      const pool = startPool(stopping, ['verify-shares'])
      await add()
      await taken.promise
      gate.cut()
      await waitFor(
        'a Redis that is away',
        () => (logged.includes('Redis is out of reach') ? true : undefined),
        LIMIT,
      )
      const closed = pool.close().then(() => ends.push('the pool'))
      await Promise.race([closed, rest()])
      released.resolve()
      await closed
      expect(ends).toEqual(['the job', 'the pool'])
    } finally {
      HANDLERS['verify-shares'] = handle
      await closeContext(stopping)
      await gate.close()
    }
  })

  it('names a job that takes long while it runs, less and less often, and no more once it has ended', async () => {
    const handle = HANDLERS['verify-shares']
    const released = Promise.withResolvers<void>()
    HANDLERS['verify-shares'] = () => released.promise.then(() => NOTHING)
    const named = (): { seconds: number; job_id: string }[] =>
      logged
        .split('\n')
        .filter((line) => line.includes('a job takes long'))
        .map((line) => JSON.parse(line) as { seconds: number; job_id: string })
    try {
      start({ ...QUICK, longMs: 1_000 })
      const completed = await queue.getCompletedCount()
      await add()
      await waitFor('three lines', () => (named().length === 3 ? true : undefined), LIMIT)
      const [first, second, third] = named()
      expect(first).toMatchObject({ queue: 'verify-shares', job_id: expect.stringMatching(/./) })
      expect(first!.seconds).toBeGreaterThanOrEqual(1)
      expect(second!.seconds).toBeGreaterThanOrEqual(2 * first!.seconds)
      expect(third!.seconds).toBeGreaterThanOrEqual(2 * second!.seconds)
      released.resolve()
      await untilCompleted(completed + 1)
      await rest()
      expect(named()).toHaveLength(3)
    } finally {
      released.resolve()
      HANDLERS['verify-shares'] = handle
    }
  })

  it('that hangs at jobs which Redis has lost is replaced, and those that came since are done', async () => {
    const handle = HANDLERS['verify-shares']
    const { concurrency } = QUEUES['verify-shares']
    const released = Promise.withResolvers<void>()
    let taken = 0
    HANDLERS['verify-shares'] = async () => {
      if (taken++ < concurrency) await released.promise
      return NOTHING
    }
    try {
      start()
      for (let job = 0; job < concurrency; job++) await add()
      await waitFor('a full worker', () => (taken === concurrency ? true : undefined), LIMIT)
      await add()
      await rest()
      expect(logged).not.toContain(REPLACED)
      await queue.obliterate({ force: true })
      await add()
      await untilCompleted(1)
      expect(logged.split(REPLACED)).toHaveLength(2)
    } finally {
      released.resolve()
      HANDLERS['verify-shares'] = handle
    }
  })

  it('says once what trouble it has with Redis, and again after a job was done', async () => {
    const emitted = vi.spyOn(Worker.prototype, 'emit')
    start()
    const completed = await queue.getCompletedCount()
    await add()
    await untilCompleted(completed + 1)
    const inside = emitted.mock.contexts[0] as Worker
    const refuse = (why: string): void =>
      void inside.emit('error', new Error(`MISCONF Errors writing to the AOF file: ${why}`))
    const said = (): number => logged.split('a worker has trouble with Redis').length - 1
    for (let turn = 0; turn < 3; turn++) refuse('No space left on device')
    expect(said()).toBe(1)
    refuse('Input/output error')
    refuse('No space left on device')
    expect(said()).toBe(2)
    await add()
    await untilCompleted(completed + 2)
    await waitFor(
      'the trouble again',
      () => (refuse('No space left on device'), said() === 3 ? true : undefined),
      LIMIT,
    )
  })
})

describe('what a finished job leaves for the board', () => {
  it('is what it did, as its return value', async () => {
    start()
    await add()
    await untilCompleted(1)
    const [job] = await queue.getCompleted()
    expect(job?.returnvalue).toEqual(NOTHING)
  })

  it('is nothing of a regular job that did nothing, but for the first of a process', async () => {
    const handle = HANDLERS.cosign
    const counts = [0, 0, 3, 0, 0]
    let done = 0
    HANDLERS.cosign = () => Promise.resolve({ witnesses_asked: counts[done++] ?? 0 })
    const regular = new Queue('cosign', { connection, prefix: prefixOf(queuePrefix, 'cosign') })
    try {
      worker = startQueueWorker(ctx, 'cosign', connection, QUICK)
      for (const turn of counts.keys()) {
        await ctx.queues.enqueue('cosign', {})
        await waitFor(
          `turn ${turn + 1} to be over`,
          async () =>
            done === turn + 1 && (await regular.getJobCountByTypes('active', 'waiting')) === 0
              ? true
              : undefined,
          LIMIT,
        )
      }
      const kept = await regular.getCompleted()
      expect(kept.map(({ returnvalue }) => returnvalue as unknown)).toEqual([
        { witnesses_asked: 3 },
        { witnesses_asked: 0 },
      ])
    } finally {
      HANDLERS.cosign = handle
      await regular.obliterate({ force: true })
      await regular.close()
    }
  })
})
