import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { newId } from '../../shared/platform/ids.ts'
import { MAX_BATCH_NONCES } from '../../shared/platform/limits.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { startWorkersProcess, type RunningProcess } from '../support/processes.ts'
import { startServers, type TemporaryServers } from '../support/servers.ts'
import { startService, type TestService } from '../support/service.ts'

const BATCHES = 64
/** A process that is given so much of each tenth of a second, as a container with a twenty-fifth of a core is. */
const SLICE = { everyMs: 100, runsMs: 4 }

let servers: TemporaryServers
let service: TestService
let worker: RunningProcess | undefined

beforeAll(async () => {
  servers = await startServers()
  service = await startService({
    env: { MONGODB_URL: servers.mongod.url, REDIS_URL: servers.redis.url, SHARE_BITS: '0' },
    queues: [],
  })
})

afterAll(async () => {
  await worker?.stop()
  await service.stop()
  await servers.stop()
})

/** Stops and continues a process by turns. @returns ends that, with the process going on */
function throttle({ kill }: RunningProcess): () => void {
  let pause: NodeJS.Timeout | undefined
  const timer = setInterval(() => {
    kill('SIGCONT')
    pause = setTimeout(() => kill('SIGSTOP'), SLICE.runsMs)
  }, SLICE.everyMs)
  return () => {
    clearInterval(timer)
    clearTimeout(pause)
    kill('SIGCONT')
  }
}

it('a worker with a twenty-fifth of a core verifies full batches without losing a lock, and logs no flood', async () => {
  const { ctx } = service
  const batchIds: string[] = []
  for (let index = 0; index < BATCHES; index++) {
    const agent = await service.register()
    const { json } = await service.call('POST', '/invoice', {
      token: agent.token,
      body: { currency: 'pow', days: 365 },
    })
    const orderId = String(json['order_id'])
    const nonces = Array.from({ length: MAX_BATCH_NONCES }, (_, nonce) => `${index}x${nonce}`)
    const batchId = newId('work_batch')
    batchIds.push(batchId)
    await ctx.work.insertBatch({
      ...{ _id: batchId, order_id: orderId, agent_id: agent.id, at_ms: ctx.now(), state: 'waiting' },
      ...{ slot: orderId, nonces, count: nonces.length },
    })
    await ctx.queues.enqueue('verify-shares', { batch_id: batchId }, { debounceId: batchId })
  }
  const env = {
    MONGODB_URL: servers.mongod.url,
    REDIS_URL: servers.redis.url,
    QUEUE_PREFIX: ctx.config.queuePrefix,
  }
  worker = await startWorkersProcess(env, ['--queues', 'verify-shares'])
  const endThrottle = throttle(worker)
  try {
    await expect
      .poll(() => ctx.work.models.batches.countDocuments({ _id: { $in: batchIds }, state: 'verified' }), {
        timeout: 4 * PATIENCE_MS,
        interval: 500,
      })
      .toBe(BATCHES)
  } finally {
    endThrottle()
  }
  const queue = ctx.queues.get('verify-shares')
  const redis = new Redis(servers.redis.url)
  const events = JSON.stringify(await redis.xrange(queue.toKey('events'), '-', '+'))
  redis.disconnect()
  expect(events).toContain('"completed"')
  expect(events).not.toContain('"stalled"')
  const trouble = worker
    .logged()
    .split('\n')
    .filter((line) => line.includes('has trouble with Redis'))
  expect(trouble.length, trouble.join('\n')).toBeLessThanOrEqual(2)
}, 600_000)
