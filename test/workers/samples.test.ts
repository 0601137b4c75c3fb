import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { closeContext, openContext, type Context } from '../../shared/context.ts'
import { RINGS } from '../../shared/operation/sample-store.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { watchHealth } from '../../shared/platform/health.ts'
import { createLog } from '../../shared/platform/log.ts'
import { openNetworkMetrics, SAMPLED_COLLECTORS } from '../../workers/operator/network-metrics.ts'
import { takeSample } from '../../workers/operator/sampler.ts'
import { startOperatorServer, type OperatorServer } from '../../workers/operator/server.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { PATIENT } from '../support/servers.ts'
import { startService, type TestService } from '../support/service.ts'

const TOKEN = 'operator-token-of-this-test'
let service: TestService
let ctx: Context
/** By the clocks of this machine and of the database. It goes on only by later(). */
let nowMs = Date.now()

beforeAll(async () => {
  service = await startService({ queues: ['sweep'] })
  const { mongodbUrl, redisUrl, queuePrefix } = service.ctx.config
  const config = readConfig(
    {
      ...PATIENT,
      MONGODB_URL: mongodbUrl,
      REDIS_URL: redisUrl,
      QUEUE_PREFIX: queuePrefix,
      OPERATOR_PORT: '0',
      OPERATOR_TOKEN: TOKEN,
    },
    'workers',
  )
  ctx = openContext(config, createLog('operator', 'silent'), { now: () => nowMs })
  await Promise.all([ctx.database.whenReady(), ctx.queues.whenReady()])
})

afterAll(async () => {
  await closeContext(ctx)
  await service?.stop()
})

const later = (seconds: number) => (nowMs += 1_000 * seconds)
const list = (ring: keyof typeof RINGS) =>
  ctx.operation.samples.list(ring, Math.floor(ctx.database.now() / 1_000))

interface Overview {
  verdict: string
  findings: { severity: string; command: string }[]
  /** Null if MongoDB has not answered in time. */
  series: { at: number[]; columns: Record<string, (number | null)[]> } | null
}

/** What an API process has noted of itself. */
const note = (fast: number) =>
  ctx.operation.processes.note({
    _id: 'process-of-this-test',
    host: 'here',
    pid: 1,
    part: 'api',
    queues: [],
    version: '1',
    commit: '1',
    clock_ahead_ms: 0,
    started_at: 1,
    counts: {
      requests: [fast, ...Array.from({ length: 12 }, () => 0)],
      failures: 0,
      jobs: {},
      cpu_seconds: 1,
      waiting: 3,
    },
  })

describe('what a process says of itself', () => {
  it('takes the place of what it said before: a wait that is over is not said any more', async () => {
    const said = { host: 'here', pid: 1, part: 'workers', queues: [], version: '1', commit: '1' }
    const one = { ...said, _id: 'process-that-waits', clock_ahead_ms: 0, started_at: 1 }
    const waits = async () =>
      (await ctx.operation.processes.list()).find(({ _id }) => _id === one._id)?.signing_waits
    await ctx.operation.processes.note({ ...one, signing_waits: 'for a peer' })
    expect(await waits()).toBe('for a peer')
    await ctx.operation.processes.note(one)
    expect(await waits()).toBeUndefined()
    await ctx.operation.processes.forget(one._id)
  })
})

describe('the samples of the network', () => {
  it('are stored once, however many processes take them at the same time', async () => {
    later(100)
    const before = (await list('hour')).length
    const readers = [1, 2, 3].map(() => openNetworkMetrics(ctx, SAMPLED_COLLECTORS))
    const taken = await Promise.all(readers.map((read) => takeSample(ctx, read)))
    expect(taken.filter(Boolean)).toEqual([true])
    expect((await list('hour')).length).toBe(before + 1)
    expect(await takeSample(ctx, openNetworkMetrics(ctx, SAMPLED_COLLECTORS))).toBe(false)
  })

  it('say what the processes have counted in between, whoever takes them', async () => {
    await note(100)
    later(10)
    await takeSample(ctx, openNetworkMetrics(ctx, SAMPLED_COLLECTORS))
    await note(250)
    later(10)
    await takeSample(ctx, openNetworkMetrics(ctx, SAMPLED_COLLECTORS))
    const [before, after] = (await list('hour')).slice(-2)
    expect((after?.totals.requests[0] ?? 0) - (before?.totals.requests[0] ?? 0)).toBe(150)
    expect(after?.levels).toMatchObject({ waiting_callers: 3, 'processes/api': 1, entries: 0 })
    expect(after?.levels['database_bytes']).toBeGreaterThan(0)
    expect(after?.levels['oldest_seconds/sweep']).toBeGreaterThanOrEqual(0)
  })

  it('take the places of the oldest once a ring is full, so that the collection grows no further', async () => {
    const { places, stepSeconds } = RINGS.hour
    const { samples } = ctx.operation
    const totals = { requests: [], failures: 0, jobs: {}, cpu_seconds: {} }
    // Later than all that the other tests store.
    let at = stepSeconds * Math.floor(ctx.database.now() / 1_000 / stepSeconds) + 86_400
    for (let turn = 0; turn < places + 7; turn++) {
      at += stepSeconds
      expect(await samples.store({ at, totals, processes: {} }, {}, await samples.readCounted())).toBe(true)
    }
    const kept = await samples.list('hour', at)
    expect(kept.map((sample) => sample.at)).toEqual(
      kept.map((_, index) => at - stepSeconds * (places - 1 - index)),
    )
    expect(await samples.models.samples.countDocuments({ _id: /^hour\// })).toBe(places)
    expect((await samples.list('day', at)).length).toBeLessThanOrEqual(Math.ceil(places / 6) + 2)
    later(86_400 + stepSeconds * (places + 10))
  })
})

describe("the operator's page", () => {
  let operator: OperatorServer
  // From here on its own timer takes samples too.
  beforeAll(async () => {
    operator = await startOperatorServer(ctx, watchHealth(ctx, new Promise(() => {}), true))
  })
  afterAll(() => operator?.close())

  const ask = (path: string, authorization = `Bearer ${TOKEN}`) =>
    fetch(`http://127.0.0.1:${operator.port}${path}`, { redirect: 'manual', headers: { authorization } })

  it.each([
    ['/', 'text/html'],
    ['/page/page.mjs', 'text/javascript'],
    ['/page/page.css', 'text/css'],
    ['/page/uplot.js', 'text/javascript'],
    ['/page/uplot.css', 'text/css'],
    ['/overview', 'application/json'],
  ])('needs the token for %s, and lets it load from this port alone', async (path, type) => {
    expect((await ask(path, 'Bearer wrong')).status).toBe(401)
    const answer = await ask(path)
    expect(answer.status).toBe(200)
    expect(answer.headers.get('content-type')).toContain(type)
    expect(answer.headers.get('content-security-policy')).toMatch(
      /default-src 'none'; script-src 'self'; style/,
    )
    expect(answer.headers.get('cache-control')).toBe('no-store')
    if (path === '/') expect(answer.headers.get('content-security-policy')).not.toContain('unsafe')
  })

  it.each(['/page/', '/page/../page/page.html', '/page/page.html', '/page/tsconfig.json', '/constructor'])(
    'serves no file but its own: %s',
    async (path) => {
      expect((await ask(path)).status).toBe(404)
    },
  )

  it('gets the verdict with the findings and their commands, and columns as long as their times', async () => {
    await note(300)
    later(20)
    await takeSample(ctx, openNetworkMetrics(ctx, SAMPLED_COLLECTORS))
    later(10)
    await note(400)
    await takeSample(ctx, openNetworkMetrics(ctx, SAMPLED_COLLECTORS))
    for (const span of ['hour', 'day']) {
      const overview = await waitFor(
        'the samples',
        async () => {
          const answer = (await (await ask(`/overview?span=${span}`)).json()) as Overview
          return answer.series === null ? undefined : { ...answer, series: answer.series }
        },
        { limitMs: PATIENCE_MS },
      )
      expect(overview).toMatchObject({
        ok: true,
        span,
        span_seconds: span === 'hour' ? 3_600 : 86_400,
        sentence: expect.stringMatching(/^(FINE|LOOK|ACT): /) as string,
        version: expect.any(String) as string,
      })
      for (const finding of overview.findings) expect(finding.command).not.toBe('')
      const { at, columns } = overview.series
      expect(at.length).toBeGreaterThan(0)
      expect(at).toEqual(at.toSorted((a, b) => a - b))
      for (const values of Object.values(columns)) expect(values.length).toBe(at.length)
      expect(Object.keys(columns)).toEqual(
        expect.arrayContaining([
          'requests_per_second',
          'disk_free_bytes',
          'unsealed_seconds',
          'waiting/shares',
        ]),
      )
    }
  })
})
