import { setTimeout as sleep } from 'node:timers/promises'
import { Queue } from 'bullmq'
import { Redis } from 'ioredis'
import { afterEach, describe, expect, it } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { closeContext, type Context } from '../../shared/context.ts'
import { newId, newStepId } from '../../shared/platform/ids.ts'
import { queuePrefix } from '../../shared/platform/queue-table.ts'
import { jobOptions } from '../../shared/platform/queues.ts'
import { openWorkerContext } from '../support/ledger.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { startApiProcess, startWorkersProcess, type RunningProcess } from '../support/processes.ts'
import { startServers } from '../support/servers.ts'
import {
  callService,
  CHALLENGE_SECRET,
  findNonces,
  registerOver,
  type Answer,
  type CallOptions,
  type TestAgent,
} from '../support/service.ts'
import { residentMb } from '../support/torture-sockets.ts'

const CROWD = 1_000_000
const LONG_MS = 3_600_000
/** How much a process may grow under the crowd, in MB: far less than the crowd itself. */
const ROOM = 192
const WARM_MS = 10_000

const cleanUp: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const one of cleanUp.splice(0).reverse()) await one()
})

interface Network {
  ctx: Context
  env: { MONGODB_URL: string; REDIS_URL: string }
  api: RunningProcess & { url: string }
  call(method: string, path: string, options?: CallOptions): Promise<Answer>
  register(): Promise<TestAgent>
}

/** One API process over servers of its own, and no worker. */
async function openNetwork(): Promise<Network> {
  const servers = await startServers(() => undefined)
  cleanUp.push(() => servers.stop())
  const env = {
    ...{ MONGODB_URL: servers.mongod.url, REDIS_URL: servers.redis.url, CHALLENGE_SECRET },
    ...{ REGISTER_BITS: '4', SHARE_BITS: '2', SHARES_PER_DAY: '1', FREE_UNTIL: 'none' },
  }
  const ctx = await openWorkerContext(env)
  cleanUp.push(() => closeContext(ctx))
  const api = await startApiProcess(env)
  cleanUp.push(() => api.stop())
  const call: Network['call'] = (method, path, options) => callService(api.url, method, path, options)
  await waitFor('the API', async () => ((await call('GET', '/feed')).status === 200 ? true : undefined), {
    limitMs: PATIENCE_MS,
  })
  return { ctx, env, api, call, register: () => registerOver(call) }
}

/**
 * Asks again and again until it is stopped. @returns how often each status was answered; a 503 must say when
 * to come back
 */
function keepReading(call: Network['call'], token: string): () => Promise<Record<number, number>> {
  const statuses: Record<number, number> = {}
  let isOver = false
  cleanUp.push(() => Promise.resolve((isOver = true)))
  const reading = (async () => {
    while (!isOver) {
      for (const path of ['/feed', '/me', '/stats']) {
        const { status, headers } = await call('GET', path, { token })
        statuses[status] = (statuses[status] ?? 0) + 1
        if (status === 503) expect(headers.get('retry-after')).toMatch(/^\d+$/)
      }
    }
  })()
  reading.catch(() => undefined) // whoever stops it gets its error
  return async () => {
    isOver = true
    await reading
    return statuses
  }
}

/**
 * What the API takes up when it has answered for a while, in MB: what a process takes up at its start grows
 * with any work.
 */
async function residentWhenWarm(api: RunningProcess, call: Network['call'], token: string): Promise<number> {
  const stopReading = keepReading(call, token)
  await sleep(WARM_MS)
  await stopReading()
  return residentMb(api.pid)
}

describe('a queue of a million jobs', () => {
  it(
    'costs an API no memory and its readers nothing, takes what comes, and is worked off by itself',
    async () => {
      const { ctx, env, api, call, register } = await openNetwork()
      const { token } = await register()
      const before = await residentWhenWarm(api, call, token)
      const stopReading = keepReading(call, token)
      // Over a connection that is patient, unlike the API's.
      const connection = new Redis(env.REDIS_URL, { maxRetriesPerRequest: null })
      cleanUp.push(() => Promise.resolve(connection.disconnect()))
      const queue = new Queue('verify-shares', {
        connection,
        prefix: queuePrefix(ctx.config.queuePrefix, 'verify-shares'),
        defaultJobOptions: jobOptions('verify-shares'),
      })
      // Of batches that are gone, as after a restore: what is measured is the queue, not the verification.
      const jobs = () =>
        Array.from({ length: 2_000 }, () => ({
          name: 'verify-shares',
          data: { batch_id: newId('work_batch') },
          opts: { jobId: newStepId() },
        }))
      for (let added = 0; added < CROWD; added += 2_000) await queue.addBulk(jobs())
      expect(await queue.getWaitingCount()).toBe(CROWD)

      const { json: order } = await call('POST', '/invoice', { token, body: { currency: 'pow', days: 1 } })
      const nonces = findNonces(String(order['prefix']), 2, 1)
      const sent = await call('POST', '/work/submit', {
        token,
        body: { order_id: order['order_id'], nonces },
      })
      expect(sent.status).toBe(202)

      const workers = await Promise.all(
        Array.from({ length: 2 }, () => startWorkersProcess(env, ['--queues', 'verify-shares,sweep'])),
      )
      cleanUp.push(() => Promise.all(workers.map((worker) => worker.stop())))
      await waitFor(
        'a tenth of them',
        async () => (await queue.getWaitingCount()) <= 0.9 * CROWD || undefined,
        { limitMs: LONG_MS },
      )
      const workersBefore = workers.map(({ pid }) => residentMb(pid))
      await waitFor(
        'the last of them',
        async () => {
          const counts = await queue.getJobCounts('waiting', 'active', 'delayed')
          return Object.values(counts).every((count) => count === 0) || undefined
        },
        { limitMs: LONG_MS, everyMs: 500 },
      )
      expect((await call('GET', '/me', { token })).json['pass_active']).toBe(true)
      expect(await queue.getFailedCount()).toBe(0)
      const statuses = await stopReading()
      expect(Object.keys(statuses)).toEqual(['200'])
      expect(residentMb(api.pid) - before).toBeLessThan(ROOM)
      for (const [index, worker] of workers.entries())
        expect(residentMb(worker.pid) - (workersBefore[index] ?? 0)).toBeLessThan(ROOM)
    },
    LONG_MS,
  )
})

describe('a feed of a million posts', () => {
  it(
    'costs no memory, is read by its head, by a topic and by its author, and grows on',
    async () => {
      const { ctx, api, call, register } = await openNetwork()
      const { id: author, token } = await register()
      await ctx.agents.movePassEnd(author, undefined, Date.now() + 86_400_000, [])
      const posts = ctx.posts.models.posts.collection
      for (let from = 0; from < CROWD; from += 10_000) {
        const page = Array.from({ length: 10_000 }, (_, place) => ({
          _id: newId('post') as never,
          ...{ agent_id: author, at: 1, body: `post ${from + place}`, salt: 'ab'.repeat(32) },
          ...(from + place === 17 ? { topic: 'rare' } : {}),
        }))
        await posts.insertMany(page, { ordered: false })
      }
      const before = residentMb(api.pid)
      const readings = Array.from({ length: 8 }, () => keepReading(call, token))
      const rare = (await call('GET', '/feed?topic=rare')).json as unknown as { posts: { body: string }[] }
      expect(rare.posts.map(({ body }) => body)).toEqual(['post 17'])
      expect((await call('GET', '/feed?topic=none')).json['count']).toBe(0)
      for (let round = 0; round < 50; round++) {
        const made = await call('POST', '/post', {
          token,
          body: { body: `after the crowd ${round}`, topic: 'late' },
        })
        expect(made.status).toBe(201)
        const head = (await call('GET', '/feed?limit=200')).json as unknown as {
          posts: { id: string }[]
          count: number
        }
        expect([head.posts[0]?.id, head.count]).toEqual([made.json['id'], 200])
        const card = (await call('GET', `/agent/${author}`)).json as unknown as {
          recent_posts: { id: string }[]
        }
        expect([card.recent_posts[0]?.id, card.recent_posts.length]).toEqual([made.json['id'], 20])
      }
      for (const stop of readings) expect(Object.keys(await stop())).toEqual(['200'])
      expect(residentMb(api.pid) - before).toBeLessThan(ROOM)
    },
    LONG_MS,
  )
})
