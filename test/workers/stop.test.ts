import { spawn } from 'node:child_process'
import fs from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { Queue } from 'bullmq'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { reservePorts } from '../../scripts/embedded/ports.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { closeContext, openContext, type Context } from '../../shared/context.ts'
import { IDLE_DRAIN_MS } from '../../shared/platform/limits.ts'
import { createLog } from '../../shared/platform/log.ts'
import { SAME_SIGNAL_MS } from '../../shared/platform/process.ts'
import { queuePrefix as prefixOf } from '../../shared/platform/queue-table.ts'
import { HOUR_MS } from '../../shared/platform/time.ts'
import {
  callService,
  CHALLENGE_SECRET,
  findNonces,
  registerOver,
  whenServed,
  type TestService,
} from '../support/service.ts'
import {
  startApiProcess,
  startProcess,
  startWorkersProcess,
  type RunningProcess,
} from '../support/processes.ts'
import { isolate, leaveDatabase, PATIENT } from '../support/servers.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { FULL } from '../support/full.ts'

const LIMIT = { limitMs: PATIENCE_MS }
// Starting, a share's wait for its verdict and stopping, on a machine that is busy with other tests.
vi.setConfig({ testTimeout: 300_000 })

let settings: Record<string, string>
let ctx: Context
/** Over a connection that is patient, unlike the API's. */
let redis: Redis
let queue: Queue
const running: RunningProcess[] = []

beforeAll(async () => {
  const { mongodbUrl, redisUrl, queuePrefix } = isolate()
  settings = {
    MONGODB_URL: mongodbUrl,
    REDIS_URL: redisUrl,
    QUEUE_PREFIX: queuePrefix,
    ...PATIENT,
    CHALLENGE_SECRET,
    REGISTER_BITS: '4',
    SHARE_BITS: '8',
    FREE_UNTIL: 'none',
  }
  ctx = openContext(readConfig(settings, 'api'), createLog('test', 'silent'))
  await Promise.all([ctx.database.whenReady(), ctx.queues.whenReady()])
  redis = new Redis(redisUrl)
  queue = new Queue('make-seal', { connection: redis, prefix: prefixOf(queuePrefix, 'make-seal') })
})

afterAll(async () => {
  for (const one of running) one.kill('SIGKILL')
  await leaveDatabase(ctx.database.connection)
  await closeContext(ctx)
  await queue.close()
  redis.disconnect()
})

const track = <P extends RunningProcess>(one: P): P => {
  running.push(one)
  return one
}

/** A lease that the job make-seal waits for, so that the job is under way for as long as the test likes. */
async function holdLease(): Promise<{ release(): Promise<void> }> {
  const lease = await waitFor('the lease', () => ctx.leases.take('sequencer'), LIMIT)
  // Renewed each second it would be lost where this process stands still for some.
  await ctx.leases.models.leases.updateOne(
    { _id: 'sequencer' },
    { $set: { until: new Date(Date.now() + HOUR_MS) } },
  )
  return lease
}

const jobs = {
  active: () => queue.getActiveCount(),
  done: () => queue.getCompletedCount(),
}

/** Workers with a job under way for as long as the lease is held; `before` were done before it. */
async function startJob() {
  const lease = await holdLease()
  const workers = track(await startWorkersProcess(settings, ['--queues', 'make-seal']))
  const before = await jobs.done()
  await ctx.queues.enqueue('make-seal', {})
  await waitFor(
    'the job to be under way',
    async () => ((await jobs.active()) === 1 ? true : undefined),
    LIMIT,
  )
  return { lease, workers, before }
}

describe('workers that are told to stop', () => {
  it('take no new job, finish the one that is under way, and exit with 0', async () => {
    const { lease, workers } = await startJob()
    workers.kill('SIGTERM')
    await workers.waitForLine('the workers stop')
    await ctx.queues.enqueue('make-seal', {})
    expect([await jobs.active(), await jobs.done()]).toEqual([1, 0])
    await lease.release()
    expect(await workers.ended).toBe(0)
    expect([
      await jobs.active(),
      await jobs.done(),
      await queue.getWaitingCount(),
      await queue.getFailedCount(),
    ]).toEqual([0, 1, 1, 0])
    await queue.drain()
  })

  it.runIf(FULL)('take a signal that comes twice, as npm and a terminal send it, for one', async () => {
    const { lease, workers, before } = await startJob()
    // Two of a kind might be merged on their way.
    workers.kill('SIGINT')
    workers.kill('SIGTERM')
    await workers.waitForLine('the workers stop')
    await lease.release()
    expect(await workers.ended).toBe(0)
    expect([await jobs.active(), await jobs.done()]).toEqual([0, before + 1])
  })

  it.runIf(FULL)('end at once at a second signal, and their job is done by others', async () => {
    const { lease, workers, before } = await startJob()
    workers.kill('SIGTERM')
    await workers.waitForLine('the workers stop')
    await sleep(SAME_SIGNAL_MS)
    workers.kill('SIGTERM')
    expect(await workers.ended).toBe(1)
    expect([await jobs.active(), await jobs.done()]).toEqual([1, before])
    const others = track(await startWorkersProcess(settings, ['--queues', 'make-seal']))
    await lease.release()
    await waitFor(
      'the job to be done',
      async () => ((await jobs.done()) === before + 1 ? true : undefined),
      LIMIT,
    )
    await others.stop()
  })
})

describe('workers whose servers cannot be reached', () => {
  it.runIf(FULL)('stop all the same, without waiting for a connection', async () => {
    const workers = track(
      startProcess('workers/main.ts', {
        ...settings,
        MONGODB_URL: 'mongodb://127.0.0.1:1/x',
        REDIS_URL: 'redis://127.0.0.1:1',
        OPERATOR_PORT: '0',
      }),
    )
    await workers.waitForLine('Redis is out of reach')
    workers.kill('SIGTERM')
    expect(await workers.ended).toBe(0)
  })
})

describe('an API that is told to stop', () => {
  /** A request that waits for a verdict, which no worker gives. */
  async function startSlowRequest(api: { url: string }): Promise<{ settled: Promise<number | string> }> {
    const call: TestService['call'] = (method, path, options) => callService(api.url, method, path, options)
    const { token } = await registerOver(call)
    const invoice = await whenServed(() => call('POST', '/invoice', { token, body: { currency: 'pow' } }))
    const order = invoice.json as unknown as { order_id: string; prefix: string }
    const body = { order_id: order.order_id, nonces: findNonces(order.prefix, 8, 1) }
    const { batches } = ctx.work.models
    const countStored = () => batches.countDocuments({ order_id: order.order_id })
    return waitFor(
      'a submission that waits',
      async () => {
        // One that was told to come again may be stored all the same.
        const before = await countStored()
        const isStored = async () => ((await countStored()) === before + 1 ? true : undefined)
        const settled = call('POST', '/work/submit', { token, body }).then(
          ({ status }) => status,
          (error: Error) => error.message,
        )
        const end = await Promise.race([settled, waitFor('the batch', isStored, LIMIT)])
        if (end === true) return { settled }
        if (end !== 503) throw new Error(`the submission ended with ${end} before anything was stopped`)
        return undefined
      },
      LIMIT,
    )
  }

  async function startReadyApi(env: Record<string, string> = {}) {
    const api = track(await startApiProcess({ ...settings, ...env }))
    await waitFor(
      'an API that serves',
      async () => ((await fetch(`${api.url}/api/v1/feed`)).ok ? true : undefined),
      LIMIT,
    )
    return api
  }

  /**
   * Stops an API with a request under way, and asks once more on a connection from before. @returns undefined
   * where this machine was too slow for that
   */
  async function askWhileItStops() {
    const api = await startReadyApi()
    const { settled } = await startSlowRequest(api)
    const kept = await fetch(`${api.url}/api/v1/feed`)
    expect(kept.headers.get('connection')).toBe('keep-alive')
    await kept.arrayBuffer()
    const stoppedAt = performance.now()
    api.kill('SIGTERM')
    await api.waitForLine('the API stops')
    try {
      return { api, settled, onKept: await fetch(`${api.url}/api/v1/feed`) }
    } catch (error) {
      // By then a connection that has asked nothing is closed.
      if (performance.now() - stoppedAt < IDLE_DRAIN_MS) throw error
      return undefined
    }
  }

  it('refuses new connections, tells those that it has to close, answers what is under way, and exits with 0', async () => {
    const { api, settled, onKept } = await waitFor('a stop that is looked at in time', askWhileItStops, {
      limitMs: 180_000,
    })
    expect([onKept.status, onKept.headers.get('connection')]).toEqual([200, 'close'])
    await onKept.arrayBuffer()
    await expect(fetch(`${api.url}/api/v1/feed`)).rejects.toThrow('fetch failed')
    expect(await settled).toBe(202)
    expect(await api.ended).toBe(0)
    expect(api.logged()).not.toContain('cut')
  })

  it('goes on serving while it is taken out, where it was told to', async () => {
    const api = await startReadyApi({ DRAIN_SECONDS: '5' })
    api.kill('SIGTERM')
    await api.waitForLine('the API is taken out')
    const answer = await fetch(`${api.url}/api/v1/feed`, { headers: { Connection: 'close' } })
    expect(answer.status).toBe(200)
    expect(await api.ended).toBe(0)
  })

  it.runIf(FULL)('ends at once at a second signal', async () => {
    const api = await startReadyApi()
    const { settled } = await startSlowRequest(api)
    api.kill('SIGTERM')
    await api.waitForLine('the API stops')
    await sleep(SAME_SIGNAL_MS)
    api.kill('SIGTERM')
    expect(await api.ended).toBe(1)
    expect(await settled).toBe('fetch failed')
  })

  it.runIf(FULL && process.platform === 'linux')(
    'serves and stops in time though its log is on a disk that is full',
    async () => {
      // skipped elsewhere: /dev/full is Linux's own
      const [port] = await reservePorts(1)
      const full = fs.openSync('/dev/full', 'w')
      const api = spawn(process.execPath, ['api/main.ts'], {
        env: { PATH: process.env['PATH'], ...settings, PORT: String(port) },
        stdio: ['ignore', full, 'inherit', 'ipc'],
      })
      fs.closeSync(full)
      const ended = new Promise((resolve) => api.once('exit', (code, signal) => resolve(code ?? signal)))
      try {
        const ask = (path: string) =>
          fetch(`http://127.0.0.1:${port}/api/v1${path}`, { signal: AbortSignal.timeout(5_000) })
        const isServed = (path: string) =>
          ask(path).then(
            ({ status }) => (status < 500 ? true : undefined),
            () => undefined,
          )
        await waitFor('an answer', () => isServed('/challenge'), LIMIT)
        // Each answer is a line of the log.
        for (let turn = 0; turn < 20; turn += 1) expect((await ask('/challenge')).status).toBe(200)
        api.kill('SIGTERM')
        expect(await Promise.race([ended, sleep(IDLE_DRAIN_MS + 10_000, 'still there')])).toBe(0)
      } finally {
        api.kill('SIGKILL')
      }
    },
  )
})
