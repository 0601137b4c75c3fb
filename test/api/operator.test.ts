import { execFile } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Worker } from 'bullmq'
import { parse } from 'yaml'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { openGate } from '../harness/testbed/gate.ts'
import { ERRORS, statusOf, type ErrorCode } from '../../shared/platform/errors.ts'
import { readBuild } from '../../shared/platform/build.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { closeContext, openContext, type Context } from '../../shared/context.ts'
import { startMetricsServer, watchHealth, type MetricsServer } from '../../shared/platform/health.ts'
import { MAX_WATCHERS } from '../../shared/platform/limit-connections.ts'
import { createLog } from '../../shared/platform/log.ts'
import { readFindings } from '../../shared/operation/findings.ts'
import type { ActRecord } from '../../shared/operation/act-store.ts'
import type { PendingEntry } from '../../shared/ledger/pending.ts'
import { QUEUE_NAMES, queueRow, type QueueName } from '../../shared/platform/queue-table.ts'
import { connectWaiting } from '../../shared/platform/redis-connection.ts'
import { REQUEST_ID_FORM, runInScope } from '../../shared/platform/scope.ts'
import { createAlarm, watchFindings } from '../../workers/operator/alarm.ts'
import { startOperatorServer, type OperatorServer } from '../../workers/operator/server.ts'
import { startPool } from '../../workers/pool.ts'
import { makeCoinReady } from '../support/coins.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { PATIENT } from '../support/servers.ts'
import { connectMany } from '../support/torture-sockets.ts'
import { CHALLENGE_SECRET, findNonces, startService, type TestService } from '../support/service.ts'
import { withSigning } from '../support/signing.ts'
import { sampled } from '../support/full.ts'

const TOKEN = 'operator-token-of-this-test'
/** Long enough on a busy machine. */
const LOOK_LIMIT_MS = 20_000
const SILENCE_MS = 500
const METRICS_TOKEN = 'metrics-token-of-this-test'
const LIMIT = { limitMs: PATIENCE_MS }
/**
 * A process asks MongoDB for a second whether it is ready: after a pause of this machine it is, the next
 * time.
 */
const SOON = { timeout: 60_000 }
const basic = (password: string, user = 'anyone') =>
  `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`

let service: TestService
let ctx: Context
let operator: OperatorServer
const logged: string[] = []

beforeAll(async () => {
  // Nobody serves make-seal and what follows it, so that there is a queue without a worker.
  service = await startService({ queues: ['verify-shares', 'sweep'] })
  const { mongodbUrl, redisUrl, queuePrefix } = service.ctx.config
  const config = readConfig(
    {
      ...PATIENT,
      MONGODB_URL: mongodbUrl,
      REDIS_URL: redisUrl,
      QUEUE_PREFIX: queuePrefix,
      OPERATOR_PORT: '0',
      OPERATOR_TOKEN: TOKEN,
      METRICS_TOKEN,
      ALLOWED_HOSTS: 'board.example',
      BOARD_WRITES: '1',
    },
    'workers',
  )
  ctx = openContext(
    config,
    createLog('operator', 'info', { write: (line: string) => void logged.push(line) }),
  )
  await Promise.all([ctx.database.whenReady(), ctx.queues.whenReady()])
  operator = await startOperatorServer(ctx, watchHealth(ctx, new Promise(() => {}), true))
})

afterAll(async () => {
  await operator.close()
  await closeContext(ctx)
  await service.stop()
})

function ask(
  path: string,
  options: { method?: string; authorization?: string; headers?: Record<string, string> } = {},
): Promise<Response> {
  const { method = 'GET', authorization = `Bearer ${TOKEN}`, headers = {} } = options
  return fetch(`http://127.0.0.1:${operator.port}${path}`, {
    method,
    redirect: 'manual',
    headers: { ...(authorization === '' ? {} : { Authorization: authorization }), ...headers },
  })
}

/** A series with its value, for each line of a scrape that is not a comment. */
function readSeries(text: string): Map<string, number> {
  return new Map(
    text
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'))
      .map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]),
  )
}

const ALERTS = (
  parse(fs.readFileSync('workers/operator/alerts.yml', 'utf8')) as {
    groups: { rules: { alert: string; expr: string }[] }[]
  }
).groups.flatMap(({ rules }) => rules)
const exprOf = (name: string): string => ALERTS.find(({ alert }) => alert === name)?.expr ?? ''

const scrape = async () => readSeries(await (await ask('/metrics')).text())

describe("the operator's port", () => {
  it('opens its metrics, and nothing else, to whoever has the token of the metrics', async () => {
    const authorization = `Bearer ${METRICS_TOKEN}`
    const metrics = await ask('/metrics', { authorization })
    expect([metrics.status, await metrics.text()]).toEqual([200, expect.stringContaining('agent_network_')])
    for (const [method, path] of [
      ['POST', '/metrics'],
      ['GET', '/metrics/x'],
      ['GET', '/queues'],
      ['GET', '/failed'],
      ['GET', '/show/1'],
      ['GET', '/readyz'],
    ] as const)
      expect((await ask(path, { method, authorization })).status, `${method} ${path}`).toBe(401)
  })

  it.each([
    '/',
    '/queues',
    '/queues/api/queues',
    '/queues/static/js/main.js',
    '/metrics',
    '/readyz',
    '/nowhere',
    '/HEALTHZ/x',
  ])('answers nothing at %s without the token', async (path) => {
    for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
      for (const authorization of [
        '',
        'Bearer',
        'Bearer wrong',
        basic('wrong'),
        basic(''),
        `Bearer ${TOKEN.slice(0, -1)}`,
        `Digest ${TOKEN}`,
      ]) {
        const answer = await ask(path, { method, authorization })
        expect([answer.status, answer.headers.get('www-authenticate')], `${method} ${authorization}`).toEqual(
          [401, 'Basic realm="operator", charset="UTF-8"'],
        )
        await answer.body?.cancel()
      }
    }
  })

  it('says to anyone that it is alive, and to the operator whether it is ready', async () => {
    expect(await (await ask('/healthz', { authorization: '' })).json()).toEqual({ ok: true, ...readBuild() })
    await expect
      .poll(async () => (await ask('/readyz')).json(), SOON)
      .toEqual({ ok: true, mongodb: true, redis: true, stopping: false })
  })

  it('takes the token as Bearer, and as the password of Basic with any user name', async () => {
    for (const authorization of [`Bearer ${TOKEN}`, `bearer ${TOKEN}`, basic(TOKEN), basic(TOKEN, '')])
      expect((await ask('/queues', { authorization })).status).toBe(200)
  })

  it('asks for a password, and takes one, under its own names alone, so that no other page is of its origin', async () => {
    const statusOf = (host: string, authorization?: string) =>
      new Promise<number>((resolve, reject) => {
        const headers = { host, ...(authorization === undefined ? {} : { authorization }) }
        const options = { host: '127.0.0.1', port: operator.port, path: '/readyz', headers }
        http.get(options, (res) => resolve(res.resume().statusCode ?? 0)).on('error', reject)
      })
    for (const own of [
      'board.example',
      'Board.Example:3001',
      '127.0.0.1',
      `127.0.0.1:${operator.port}`,
      '[::1]:3001',
      'localhost',
    ])
      expect([await statusOf(own), await statusOf(own, basic(TOKEN))], own).toEqual([401, 200])
    for (const other of [
      'evil.example',
      `evil.example:${operator.port}`,
      'board.example.evil.example',
      'localhost.evil.example',
    ])
      expect([await statusOf(other), await statusOf(other, basic(TOKEN))], other).toEqual([403, 403])
    // No browser sends Bearer by itself: a scraper may call by any name.
    expect(await statusOf('metrics.internal', `Bearer ${TOKEN}`)).toBe(200)
  })

  it('has nothing on the port of the API', async () => {
    for (const path of [
      '//queues',
      '//metrics',
      '//healthz',
      '//readyz',
      '/queues',
      '/metrics',
      '/healthz',
    ]) {
      const { status, json } = await service.call('GET', path, {
        headers: { Authorization: `Bearer ${TOKEN}` },
      })
      expect([status, json.error], path).toEqual([404, 'no_such_route'])
    }
  })

  it('shows every queue, with the names and payloads of its jobs', async () => {
    await ctx.queues.enqueue('make-seal', {})
    const { queues } = (await (
      await ask('/queues/api/queues?activeQueue=make-seal&status=waiting&page=1&jobsPerPage=10')
    ).json()) as {
      queues: { name: string; jobs: { name: string; data: unknown }[] }[]
    }
    expect(queues.map(({ name }) => name).sort()).toEqual([...QUEUE_NAMES].sort())
    expect(queues.find(({ name }) => name === 'make-seal')?.jobs[0]).toMatchObject({
      name: 'make-seal',
      data: {},
    })
  })

  it('says of each queue on the board what its jobs do and what its workers need', async () => {
    const { queues } = (await (await ask('/queues/api/queues')).json()) as {
      queues: { name: QueueName; description: string }[]
    }
    const said = new Map(queues.map(({ name, description }) => [name, description]))
    expect(said.size).toBe(QUEUE_NAMES.length)
    for (const name of QUEUE_NAMES) {
      const { needs } = queueRow(name)
      expect(said.get(name), name).toMatch(
        needs === undefined ? /^[A-Z]\w+ / : new RegExp(`with a ${needs}$`),
      )
    }
  })

  it('warns on the board of a queue in use that nobody serves, and of none of a coin that is not in use', async () => {
    await ctx.queues.enqueue('make-seal', {})
    const { queues } = (await (await ask('/queues/api/queues')).json()) as {
      queues: { name: QueueName; hasWorkers: boolean | null }[]
    }
    const served = new Map(queues.map(({ name, hasWorkers }) => [name, hasWorkers]))
    expect([served.get('sweep'), served.get('make-seal'), served.get('sequence')]).toEqual([
      true,
      false,
      false,
    ])
    for (const name of QUEUE_NAMES.filter((queue) => queue.endsWith('-monero')))
      expect(served.get(name), name).toBeNull()
  })

  it("takes a change from a page of its own and from a program, and from no other site's page, which cannot read anything either", async () => {
    const change = (authorization: string, headers: Record<string, string>) =>
      ask('/queues/api/queues/check-chain/clean/completed', { method: 'PUT', authorization, headers }).then(
        async (answer) => {
          await answer.body?.cancel()
          expect([...answer.headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual([])
          return answer.status
        },
      )
    const own = `http://127.0.0.1:${operator.port}`
    expect(await change(basic(TOKEN), { Origin: own })).toBe(200)
    expect(await change(basic(TOKEN), { Origin: own, 'Sec-Fetch-Site': 'same-origin' })).toBe(200)
    expect(await change(`Bearer ${TOKEN}`, {})).toBe(200)
    expect(await change(basic(TOKEN), {})).toBe(403)
    expect(await change(basic(TOKEN), { Origin: 'https://elsewhere.example' })).toBe(403)
    expect(await change(basic(TOKEN), { Origin: 'null' })).toBe(403)
    expect(await change(basic(TOKEN), { Origin: own, 'Sec-Fetch-Site': 'cross-site' })).toBe(403)
    expect(
      await change(basic(TOKEN), {
        Origin: `http://127.0.0.1:${operator.port + 1}`,
        'Sec-Fetch-Site': 'same-site',
      }),
    ).toBe(403)
    expect(await change(`Bearer ${TOKEN}`, { Origin: 'https://elsewhere.example' })).toBe(403)
    const page = await ask('/queues', { headers: { Origin: 'https://elsewhere.example' } })
    expect(page.headers.get('access-control-allow-origin')).toBeNull()
    expect(page.headers.get('content-security-policy')).toContain("frame-ancestors 'none'")
  })
})

describe("the board's buttons", () => {
  const own = () => ({ Origin: `http://127.0.0.1:${operator.port}` })
  const actsOf = (by: string) =>
    ctx.operation.acts.models.acts.find({ by }).lean<(ActRecord & { pending: PendingEntry[] })[]>()

  // holds: rules.ledger.entry_kinds.operator_act
  it('are entries of the ledger before they do anything: who, what, which queue', async () => {
    const authorization = basic(TOKEN, 'olga')
    const press = (path: string) =>
      ask(`/queues/api/queues/${path}`, { method: 'PUT', authorization, headers: own() })
    const [id = ''] = await addFailed('sign-announcement')
    expect((await press('check-chain/pause')).status).toBe(200)
    expect((await press(`sign-announcement/${id}/clean`)).status).toBe(204)
    expect((await press('check-chain/resume')).status).toBe(200)
    const acts = await actsOf('olga')
    expect(acts.map(({ act, queue }) => `${act} ${queue}`)).toEqual([
      'pause check-chain',
      'clean sign-announcement',
      'resume check-chain',
    ])
    expect(acts[1]?.path).toContain(id)
    const [entry] = acts[0]?.pending ?? []
    expect(entry).toMatchObject({ kind: 'operator_act', data: { act: 'pause', queue: 'check-chain' } })
    expect(JSON.stringify(entry)).not.toContain('olga')
  })

  it('are off, and so is whoever calls what is behind them, unless BOARD_WRITES is 1', async () => {
    const config = { ...ctx.config, boardWrites: false, operatorPort: 0 }
    const plain = await startOperatorServer({ ...ctx, config }, watchHealth(ctx, new Promise(() => {}), true))
    const base = `http://127.0.0.1:${plain.port}/queues/api/queues`
    const headers = { Authorization: `Bearer ${TOKEN}` }
    try {
      for (const path of ['pause', 'check-chain/pause', 'check-chain/empty', 'check-chain/obliterate'])
        await fetch(`${base}/${path}`, { method: 'PUT', headers })
      expect((await fetch(`${base}/check-chain/pause`, { method: 'PUT', headers })).status).toBe(405)
      expect(await ctx.queues.get('check-chain').isPaused()).toBe(false)
      const { queues } = (await (await fetch(base, { headers })).json()) as {
        queues: { readOnlyMode: boolean }[]
      }
      expect(queues.every(({ readOnlyMode }) => readOnlyMode)).toBe(true)
    } finally {
      await plain.close()
    }
  })

  it('leave the way from a job to its trail, and to failed jobs by kind', async () => {
    const agent = await service.register()
    const ids = await addFailed('sign-announcement', { announcement_id: agent.id })
    const listed = '/queues/api/queues?activeQueue=sign-announcement&status=failed&page=1&jobsPerPage=10'
    const { queues } = (await (await ask(listed)).json()) as {
      queues: { jobs: { id: string; externalUrl?: { href: string } }[] }[]
    }
    const job = queues.flatMap(({ jobs }) => jobs).find(({ id }) => ids.includes(id))
    expect(job?.externalUrl?.href).toBe(`/show/${agent.id}`)
    const trail = (await (await ask(`/show/${agent.id}`)).json()) as { records: { record: object }[] }
    expect(trail.records[0]?.record).toMatchObject({ _id: agent.id })
    expect((await ask('/show/agt_00000000000000000000000000')).status).toBe(404)
    const { failed } = (await (await ask('/failed')).json()) as { failed: { jobs: number }[] }
    expect(failed).toContainEqual({
      queue: 'sign-announcement',
      kind: 'the node at … is away',
      jobs: 1,
      last_at: expect.any(Number) as number,
      show: [`/show/${agent.id}`],
    })
    await ctx.queues.get('sign-announcement').obliterate({ force: true })
  })

  /** A job that a worker took and gave up. */
  async function addFailed(name: QueueName, data = {}): Promise<string[]> {
    const queue = ctx.queues.get(name)
    const { id = '' } = await queue.add(name, data, { attempts: 1 })
    const connection = connectWaiting(ctx.config.redisUrl ?? '', ctx.log)
    const worker = new Worker(name, null, { connection, prefix: queue.opts.prefix ?? '' })
    const job = await worker.getNextJob('lock')
    await job?.moveToFailed(new Error('the node at 10.0.0.7 is away'), 'lock', false)
    await worker.close()
    connection.disconnect()
    return [id]
  }
})

describe('the metrics', () => {
  it('tell of every queue, and raise an alarm for one that has work and no worker', async () => {
    await ctx.queues.enqueue('make-seal', {})
    const series = await scrape()
    for (const queue of QUEUE_NAMES) {
      for (const state of ['waiting', 'active', 'delayed', 'failed'])
        expect(series.has(`agent_network_queue_jobs{queue="${queue}",state="${state}"}`)).toBe(true)
      for (const name of ['oldest_seconds', 'workers', 'without_worker'])
        expect(series.has(`agent_network_queue_${name}{queue="${queue}"}`)).toBe(true)
    }
    expect(series.get('agent_network_queue_without_worker{queue="make-seal"}')).toBe(1)
    expect(series.get('agent_network_queue_oldest_seconds{queue="make-seal"}')).toBeGreaterThan(0)
    expect(series.get('agent_network_queue_workers{queue="verify-shares"}')).toBe(1)
    expect(series.get('agent_network_queue_without_worker{queue="verify-shares"}')).toBe(0)
    const alarm = watchFindings(ctx, 50)
    const lineOf = (about: string) => logged.findLast((text) => text.includes(`"about":"${about}"`))
    const line = await waitFor('the alarm in the log', () => lineOf('make-seal'), LIMIT)
    expect(JSON.parse(line)).toMatchObject({
      level: 50,
      finding: 'queue_without_worker',
      msg: 'The queue make-seal has work and no worker',
      command: 'npm run workers -- --queues sequence,make-seal,check-chain',
    })
    // It is known since when, by whoever looks, and the log says when it is over.
    const since = await waitFor(
      'a note',
      async () => (await ctx.operation.watch.readSince()).get('queue_without_worker/make-seal'),
      LIMIT,
    )
    expect(since).toBeGreaterThan(Date.now() / 1000 - 3_600)
    expect((await ctx.operation.watch.readDiskSamples())[0]?.free).toBeGreaterThan(0)
    const pool = startPool(withSigning(ctx), ['make-seal'])
    await waitFor(
      'the end of it',
      () => logged.find((text) => text.includes('over: The queue make-seal')),
      LIMIT,
    )
    await pool.close()
    alarm.close()
  })

  it('tell of a queue that was paused or limited on the board, of the last backup, and of every finding', async () => {
    const queue = ctx.queues.get('order-deadlines')
    await queue.pause()
    await queue.setGlobalRateLimit(1, 3_600_000)
    await ctx.operation.watch.noteBackup({ at: Math.floor(Date.now() / 1000) - 50, by: 'a test' })
    const series = await scrape()
    await queue.resume()
    await queue.removeGlobalRateLimit()
    expect(series.get('agent_network_queue_paused{queue="order-deadlines"}')).toBe(1)
    expect(series.get('agent_network_queue_limited{queue="order-deadlines"}')).toBe(1)
    expect(series.get('agent_network_queue_paused{queue="sweep"}')).toBe(0)
    expect(series.get('agent_network_backup_age_seconds')).toBeGreaterThanOrEqual(50)
    expect(
      series.get('agent_network_finding{finding="queue_paused",severity="act",about="order-deadlines"}'),
    ).toBe(1)
    const { version, commit } = readBuild()
    expect(series.get(`agent_network_build_info{version="${version}",commit="${commit}"}`)).toBe(1)
  })

  it('raise it too for a queue that only its own workers fill: the ledger, and a coin once somebody has served it', async () => {
    const isStarved = async (queue: string) =>
      (await scrape()).get(`agent_network_queue_without_worker{queue="${queue}"}`)
    expect(
      await Promise.all(['sequence', 'sweep', 'refresh-rates', 'reconcile-nano'].map(isStarved)),
    ).toEqual([1, 0, 0, 0])
    const rates = ctx.queues.get('refresh-rates')
    const pool = startPool(withSigning(ctx), ['refresh-rates'])
    await waitFor('a job', async () => ((await rates.getCompletedCount()) > 0 ? true : undefined), LIMIT)
    expect(await isStarved('refresh-rates')).toBe(0)
    await pool.close()
    await waitFor(
      'the alarm',
      async () => ((await isStarved('refresh-rates')) === 1 ? true : undefined),
      LIMIT,
    )
    expect(await rates.getWaitingCount()).toBe(0)
    // What an operator does who has given every coin up.
    await rates.clean(0, 0, 'completed')
    expect(await isStarved('refresh-rates')).toBe(0)
  })

  it('are those that the dashboard and the alerts ask for', async () => {
    const text = await (await ask('/metrics')).text()
    const known = new Set(
      [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].flatMap(([, name = '', type]) =>
        type === 'histogram' ? [`${name}_count`, `${name}_bucket`, `${name}_sum`] : [name],
      ),
    )
    const dashboard = JSON.parse(fs.readFileSync('deploy/grafana/dashboard.json', 'utf8')) as {
      panels: { id: number; targets: { expr: string }[] }[]
    }
    const alerts = parse(fs.readFileSync('workers/operator/alerts.yml', 'utf8')) as {
      groups: { rules: { alert: string; expr: string; annotations: { summary: string } }[] }[]
    }
    const rules = alerts.groups.flatMap((group) => group.rules)
    const asked = [...dashboard.panels.flatMap(({ targets }) => targets), ...rules].flatMap(
      ({ expr }) => expr.match(/\b(?:agent_network|nodejs|process)_\w+/g) ?? [],
    )
    expect(asked.length).toBeGreaterThan(30)
    expect(asked.filter((name) => !known.has(name))).toEqual([])
    expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length)
    const shown = dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)).join(' ')
    for (const part of [
      'finding',
      'treasury_coins',
      'rate_age',
      'backup_age',
      'disk_free',
      'redis_used',
      'stalled',
    ])
      expect(shown).toContain(part)
    expect(rules.map(({ alert }) => alert)).toEqual(
      expect.arrayContaining(['QueueWithoutWorker', 'TreasuryShort', 'OrdersOverdue', 'OrdersDisputed']),
    )
    for (const { annotations } of rules) expect(annotations.summary).toMatch(/\w/)
  })

  it('begin at 0 for whatever an alert waits to increase, since the first increase would be lost', async () => {
    const pool = startPool(withSigning(ctx), ['check-chain'])
    const series = await scrape()
    await pool.close()
    expect(series.get('agent_network_jobs_stalled_total{queue="check-chain"}')).toBe(0)
    expect(series.get('agent_network_job_seconds_count{queue="check-chain",outcome="failed"}')).toBe(0)
    for (const kind of ['mark', 'entry', 'content', 'announcement', 'clock', 'peer', 'witness'])
      expect(series.get(`agent_network_ledger_anomalies_total{kind="${kind}"}`), kind).toBe(0)
  })

  it('tell how old each rate is and what each treasury holds, and an alert comes before what is due cannot be paid', async () => {
    const now = Math.floor(Date.now() / 1000)
    await makeCoinReady(ctx, 'xno', { addresses: 0 })
    await ctx.coins.saveRate({ _id: 'xno', usd: '1', source: 'a test', at: now - 1_000 })
    await ctx.coins.noteTreasury('xno', { treasury_address: 'nano_1', treasury_raw: `35${'0'.repeat(29)}` })
    const series = await scrape()
    expect(series.get('agent_network_rate_age_seconds{coin="xno"}')).toBeGreaterThan(999)
    expect(series.get('agent_network_rate_age_seconds{coin="xno"}')).toBeLessThan(2_000)
    expect(series.get('agent_network_treasury_coins{coin="xno"}')).toBe(3.5)
    expect(exprOf('RateStale')).toContain('agent_network_rate_age_seconds) > 900')
    expect(exprOf('TreasuryLow')).toBe('agent_network_treasury_coins < agent_network_unpaid_coins')
  })

  it('have an alert for a process that is away or dies again and again, for Redis, the disk and the backup', async () => {
    const { scrape_configs: jobs } = parse(fs.readFileSync('deploy/prometheus/prometheus.yml', 'utf8')) as {
      scrape_configs: { job_name: string }[]
    }
    const asked = ALERTS.flatMap(({ expr }) =>
      [...expr.matchAll(/up\{job="([\w-]+)"\}/g)].map(([, job]) => job),
    )
    // Of a pool that is scaled, processes that don't run are no trouble.
    const present = jobs.map(({ job_name: job }) => job).filter((job) => job !== 'agent-network-pool')
    expect(new Set(asked)).toEqual(new Set(present))
    expect(exprOf('ProcessDown')).toBe('up{job="agent-network"} == 0')
    expect(exprOf('ProcessRestarts')).toContain('changes(process_start_time_seconds[30m])')
    const series = await scrape()
    for (const [alert, metric] of [
      ['ProcessRestarts', 'process_start_time_seconds'],
      ['RedisNearlyFull', 'agent_network_redis_used_bytes'],
      ['DiskNearlyFull', 'agent_network_disk_free_bytes'],
    ] as const) {
      expect(exprOf(alert)).toContain(metric)
      expect(series.get(metric), metric).toBeGreaterThan(0)
    }
    expect(series.has('agent_network_redis_max_bytes')).toBe(true)
    expect(exprOf('BackupOld')).toContain('agent_network_backup_age_seconds')
  })

  it('are named as Prometheus has it, but for three of prom-client', async () => {
    const text = await (await ask('/metrics')).text()
    const types = [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name = '', type]) => ({ name, type }))
    const helps = new Set([...text.matchAll(/^# HELP (\w+) \S/gm)].map(([, name]) => name))
    expect(types.length).toBeGreaterThan(50)
    expect(types.filter(({ name }) => !helps.has(name))).toEqual([])
    expect(types.filter(({ name }) => !/^[a-z][a-z0-9_]*$/.test(name))).toEqual([])
    // A counter ends in _total and nothing else does; base units alone.
    const wrong = types.filter(
      ({ name, type }) =>
        (type === 'counter') !== name.endsWith('_total') ||
        /_(ms|milliseconds|minutes|hours|kb|mb)(_|$)/.test(name),
    )
    expect(wrong.map(({ name }) => name)).toEqual([
      'nodejs_active_resources_total',
      'nodejs_active_handles_total',
      'nodejs_active_requests_total',
    ])
  })

  it('raise no alarm about an answer to what a client chose, such as a coin that is not ready', () => {
    const [, counted = ''] = /request_failures_total\{error=~"([^"]+)"\}/.exec(exprOf('RequestsFail')) ?? []
    const failures = (Object.keys(ERRORS) as ErrorCode[]).filter((code) => statusOf(code) >= 500)
    const isCounted = (code: string) => new RegExp(`^(?:${counted})$`).test(code)
    expect(failures.filter(isCounted).toSorted()).toEqual(['internal', 'unavailable'])
    expect(failures.filter((code) => !isCounted(code)).toSorted()).toEqual([
      'currency_not_configured',
      'rate_unavailable',
    ])
    // Nothing else counts answers by their status.
    for (const { alert, expr } of ALERTS) expect(expr, alert).not.toMatch(/status=~?"5/)
  })

  it('and the log raise no alarm about a restart: a finding is said once it was met at two looks in a row', async () => {
    const lines: string[] = []
    const log = createLog('alarm', 'info', { write: (line: string) => void lines.push(line) })
    const look = createAlarm({ ...ctx, log })
    const isSaid = () => lines.some((line) => line.includes('"about":"sequence"'))
    const sequence = ctx.queues.get('sequence')
    const untilWorkers = (count: number) =>
      waitFor(
        'its workers',
        async () => ((await sequence.getWorkersCount()) === count ? true : undefined),
        LIMIT,
      )
    await untilWorkers(0)
    await look()
    const pool = startPool(withSigning(ctx), ['sequence'])
    await untilWorkers(1)
    await look()
    await pool.close()
    await untilWorkers(0)
    await look()
    expect(isSaid()).toBe(false)
    await look()
    expect(isSaid()).toBe(true)
  })

  it('tell of the ledger, of coins and payouts, of this process, and of what could not be read', async () => {
    await ctx.coins.report(
      'xno',
      { configured: true, reachable: true, checked_at: Math.floor(Date.now() / 1000) - 100, height: 7 },
      1,
    )
    await ctx.coins.noteTreasury('xno', {
      treasury_address: 'nano_1',
      treasury_raw: '0',
      treasury_short_raw: `25${'0'.repeat(29)}`,
    })
    await ctx.payouts.models.payouts.insertMany(
      ['owed', 'owed', 'confirmed'].map((state, index) => ({
        _id: `out_${index}`,
        source: `mkt_${index}/release`,
        coin: 'xno',
        agent_id: 'agt_payee',
        amount_raw: `1${'0'.repeat(30)}`,
        state,
        at: 1,
        changed_at: 1,
        salt: '00',
      })),
    )
    const series = await scrape()
    expect(series.get('agent_network_coin_reachable{coin="xno"}')).toBe(1)
    expect(series.get('agent_network_chain_lag_seconds{coin="xno"}')).toBeGreaterThan(99)
    expect(series.has('agent_network_coin_reachable{coin="xmr"}')).toBe(false)
    expect(series.get('agent_network_treasury_short_coins{coin="xno"}')).toBe(2.5)
    expect(series.get('agent_network_payouts{coin="xno",state="owed"}')).toBe(2)
    expect(series.get('agent_network_unpaid_coins{coin="xno"}')).toBe(2)
    expect(series.get('agent_network_chain_intact')).toBe(1)
    const unsigned = await service.ctx.seals.listUnsigned(9)
    expect(series.get('agent_network_unsigned_seals')).toBe(unsigned.length)
    expect(series.get('agent_network_collector_up{collector="ledger"}')).toBe(1)
    expect(series.get('process_resident_memory_bytes')).toBeGreaterThan(10_000_000)
    expect(series.has('nodejs_eventloop_lag_p99_seconds')).toBe(true)
  })
})

describe('a look at what is not fine', () => {
  it('asks the API whether it serves only once MongoDB was silent', async () => {
    let asked = 0
    const api = http.createServer((_req, res) => {
      asked++
      res.end('{}')
    })
    await once(api.listen(0, '127.0.0.1'), 'listening')
    const { mongodbUrl, redisUrl, queuePrefix } = service.ctx.config
    const url = new URL(mongodbUrl ?? '')
    const mongo = await openGate(Number(url.port))
    url.port = String(mongo.port)
    url.search = '?directConnection=true'
    const env = {
      ...PATIENT,
      MONGODB_URL: url.href,
      REDIS_URL: redisUrl,
      QUEUE_PREFIX: queuePrefix,
      BASE_URL: `http://127.0.0.1:${(api.address() as AddressInfo).port}`,
    }
    const own = openContext(readConfig(env, 'operator'), createLog('operator', 'silent'))
    try {
      await Promise.all([own.database.whenReady(), own.queues.whenReady()])
      await readFindings(own, LOOK_LIMIT_MS)
      expect(asked).toBe(0)
      mongo.hang()
      await readFindings(own, SILENCE_MS)
      expect(asked).toBe(1)
    } finally {
      mongo.cut()
      await closeContext(own)
      await mongo.close()
      api.close()
    }
  })
})

describe('the metrics of an API process', () => {
  let metrics: MetricsServer
  let stop: () => void = () => {}

  beforeAll(async () => {
    const { config } = service.ctx
    const own: Context = {
      ...service.ctx,
      config: { ...config, metricsPort: 0, secrets: { ...config.secrets, metricsToken: METRICS_TOKEN } },
    }
    metrics = await startMetricsServer(
      own,
      watchHealth(own, new Promise((resolve) => (stop = resolve)), false),
    )
  })
  afterAll(() => metrics.close())

  it.each(
    sampled([
      ['the operator', () => operator.port],
      ['the metrics', () => metrics.port],
    ]),
  )('take a new connection however many others are silent: the port of %s', async (_, portOf) => {
    const url = `http://127.0.0.1:${portOf()}`
    const silent = await connectMany(url, 3 * MAX_WATCHERS)
    for (const { socket } of silent) socket.write('GET /healthz HTTP/1.1\r\nX: ')
    expect((await fetch(`${url}/healthz`, { headers: { connection: 'close' } })).status).toBe(200)
    const isOpen = () => silent.filter(({ socket }) => !socket.destroyed).length
    await waitFor('the cuts', () => (isOpen() <= MAX_WATCHERS ? true : undefined), LIMIT)
    // The rest is closed as too slow.
    await waitFor('the end of all', () => (isOpen() === 0 ? true : undefined), LIMIT)
  })

  const look = (path: string, authorization = `Bearer ${METRICS_TOKEN}`) =>
    fetch(`http://127.0.0.1:${metrics.port}${path}`, {
      headers: authorization === '' ? {} : { Authorization: authorization },
    })

  it("are on the port that the Compose file's check of health asks, in the shell alone", async () => {
    const compose = parse(fs.readFileSync('docker-compose.yml', 'utf8'), { merge: true }) as {
      services: { api: { healthcheck: { test: string[] } } }
    }
    const [, program = '', ...args] = compose.services.api.healthcheck.test
    const ask = (port: number) =>
      new Promise<number>((resolve) => {
        const words = args.map((word) => word.replace('9100', String(port)).replaceAll('$$', '$'))
        execFile(program, words, (error) => resolve(error === null ? 0 : Number(error.code)))
      })
    expect(program).toBe('bash')
    await expect.poll(() => ask(metrics.port), SOON).toBe(0)
    // What answers otherwise than 200, and what does not answer.
    expect([await ask(operator.port), await ask(1)]).toEqual([1, 1])
  })

  it("are open to the operator's token too on the port of a process that has it", async () => {
    const { config } = service.ctx
    const secrets = { ...config.secrets, operatorToken: TOKEN, metricsToken: METRICS_TOKEN }
    const own: Context = { ...service.ctx, config: { ...config, metricsPort: 0, secrets } }
    const workers = await startMetricsServer(own, watchHealth(own, new Promise(() => {}), true))
    const statusFor = async (token: string) =>
      (
        await fetch(`http://127.0.0.1:${workers.port}/metrics`, {
          headers: { Authorization: `Bearer ${token}` },
        })
      ).status
    expect([await statusFor(TOKEN), await statusFor(METRICS_TOKEN), await statusFor('wrong')]).toEqual([
      200, 200, 401,
    ])
    await workers.close()
  })

  it('stand behind the token, and health does not', async () => {
    // The operator's token isn't the API's to know.
    for (const authorization of ['', 'Bearer wrong', basic('wrong'), `Bearer ${TOKEN}`]) {
      const answer = await look('/metrics', authorization)
      expect([answer.status, await answer.json()]).toEqual([
        401,
        expect.objectContaining({ error: 'invalid_token' }),
      ])
    }
    expect((await look('/metrics', basic(METRICS_TOKEN))).status).toBe(200)
    expect(await (await look('/healthz', '')).json()).toEqual({ ok: true, ...readBuild() })
    expect([(await look('/nowhere')).status, (await look('/queues')).status]).toEqual([404, 404])
  })

  it('count requests by route template, method and status, and name no agent, token, address or text', async () => {
    const agent = await service.registerWithPass({ handle: 'handle-of-mine' })
    await service.call('GET', `/agent/${agent.id}`)
    await service.call('POST', '/post', { token: agent.token, body: { body: 'words of mine' } })
    await service.call('GET', `/agent/${agent.id}`, { headers: { 'X-Forwarded-For': '192.0.2.7' } })
    await service.call('GET', '/feed?topic=of-mine')
    await service.call('PUT', '/feed')
    await service.call('POST', '/invoice', { token: agent.token, body: { currency: 'xmr' } })
    await service.call('GET', '/made-up-path-of-mine')
    await fetch(`${service.url}/api/v1/feed`, { method: 'PROPFIND' }).then((answer) => answer.body?.cancel())
    const text = await waitFor(
      'all of it to be counted',
      async () => {
        const found = await (await look('/metrics')).text()
        return found.includes('method="other"') ? found : undefined
      },
      LIMIT,
    )
    const series = readSeries(text)
    const count = (method: string, route: string, status: number) =>
      series.get(
        `agent_network_request_seconds_count{method="${method}",route="${route}",status="${status}"}`,
      )
    expect(count('GET', '/api/v1/agent/{agent_id}', 200)).toBe(2)
    expect(count('POST', '/api/v1/post', 201)).toBe(1)
    expect(count('PUT', '/api/v1/feed', 405)).toBe(1)
    expect(count('other', '/api/v1/feed', 405)).toBe(1)
    // A coin that is not ready is what the client chose, and no failure of the service.
    const failures = (error: string) => series.get(`agent_network_request_failures_total{error="${error}"}`)
    expect([failures('internal'), failures('unavailable')]).toEqual([0, 0])
    expect(failures('currency_not_configured')).toBe(1)
    expect(count('GET', 'unknown', 404)).toBeGreaterThanOrEqual(1)
    for (const secret of [
      agent.id,
      agent.token,
      agent.token.slice(3, 19),
      'of-mine',
      'words',
      '127.0.0.1',
      '192.0.2.7',
      TOKEN,
    ])
      expect(text).not.toContain(secret)
  })

  it('are on a port that says "not ready" once the process is told to stop, and is alive all the same', async () => {
    const readiness = async () => {
      const answer = await look('/readyz', '')
      return [answer.status, await answer.json()]
    }
    await expect
      .poll(readiness, SOON)
      .toEqual([200, { ok: true, mongodb: true, redis: true, stopping: false }])
    stop()
    await Promise.resolve()
    expect(await readiness()).toEqual([503, expect.objectContaining({ ok: false, stopping: true })])
    await expect
      .poll(readiness, SOON)
      .toEqual([503, { ok: false, mongodb: true, redis: true, stopping: true }])
    expect((await look('/healthz', '')).status).toBe(200)
  })
})

describe('what is not ready', () => {
  it('is a process that has not reached MongoDB yet; and, if asked deeply, one without the servers that it needs', async () => {
    const { mongodbUrl, redisUrl } = service.ctx.config
    const log = createLog('test', 'silent')
    const base = { MONGODB_URL: mongodbUrl ?? '', REDIS_URL: redisUrl ?? '', CHALLENGE_SECRET }
    const never = new Promise<void>(() => {})
    const noRedis = openContext(readConfig({ ...base, REDIS_URL: 'redis://127.0.0.1:1' }, 'api'), log)
    const noMongo = openContext(readConfig({ ...base, MONGODB_URL: 'mongodb://127.0.0.1:1/x' }, 'api'), log)
    await Promise.all([noRedis.database.whenReady(), noMongo.queues.whenReady()])
    const readinessOf = (of: Context, needsRedis: boolean, isDeep = false) =>
      expect.poll(() => watchHealth(of, never, needsRedis).readiness(isDeep), SOON)
    await readinessOf(noRedis, true).toMatchObject({ ready: true, mongodb: true, redis: false })
    await readinessOf(noRedis, true, true).toMatchObject({ ready: false, mongodb: true, redis: false })
    await readinessOf(noRedis, false, true).toMatchObject({ ready: true, mongodb: true, redis: false })
    await readinessOf(noMongo, false).toMatchObject({ ready: false, mongodb: false, redis: true })
    const failing = await startOperatorServer(
      {
        ...noRedis,
        config: {
          ...noRedis.config,
          operatorPort: 0,
          secrets: { ...noRedis.config.secrets, operatorToken: TOKEN },
        },
      },
      watchHealth(noRedis, never, true),
    )
    const text = await (
      await fetch(`http://127.0.0.1:${failing.port}/metrics`, {
        headers: { Authorization: `Bearer ${TOKEN}` },
      })
    ).text()
    const series = readSeries(text)
    expect(series.get('agent_network_collector_up{collector="queues"}')).toBe(0)
    expect(series.get('agent_network_collector_up{collector="ledger"}')).toBe(1)
    expect([...series.keys()].filter((name) => name.startsWith('agent_network_queue_'))).toEqual([])
    await failing.close()
    await Promise.all([closeContext(noRedis), closeContext(noMongo)])
  })
})

describe('the id of a request', () => {
  it('goes with the jobs that the request enqueues, and stands in the lines that a job logs', async () => {
    const agent = await service.register()
    const order = (await service.call('POST', '/invoice', { token: agent.token, body: { currency: 'pow' } }))
      .json as unknown as {
      order_id: string
      prefix: string
    }
    const answer = await service.call('POST', '/work/submit', {
      token: agent.token,
      body: { order_id: order.order_id, nonces: findNonces(order.prefix, 8, 2) },
    })
    const requestId = answer.headers.get('x-request-id') ?? ''
    expect(requestId).toMatch(REQUEST_ID_FORM)
    const jobs = await service.ctx.queues.get('verify-shares').getJobs()
    expect(jobs.map((job) => (job.data as { request_id?: string }).request_id)).toContain(requestId)

    const given = '01234567-89ab-cdef-0123-456789abcdef'
    // A payload that the handler refuses at once, so that there is a line to read.
    await runInScope({ request_id: given }, () =>
      service.ctx.queues.get('verify-shares').add('verify-shares', { request_id: given }),
    )
    const line = await waitFor(
      'the line of the failed job',
      () =>
        service
          .logged()
          .split('\n')
          .find((text) => text.includes('a job failed') && text.includes(given)),
      LIMIT,
    )
    expect(JSON.parse(line)).toMatchObject({
      queue: 'verify-shares',
      request_id: given,
      job_id: expect.any(String) as string,
    })
    const stored = await service.ctx.queues.get('verify-shares').getFailed()
    expect(stored[0]?.failedReason).toContain('the payload of job')
  })

  it('is taken from a job only where it has the form of one', async () => {
    await service.ctx.queues.get('verify-shares').add('verify-shares', { request_id: 'sk_of-somebody' })
    await waitFor(
      'two failed jobs',
      async () => ((await service.ctx.queues.get('verify-shares').getFailedCount()) === 2 ? true : undefined),
      LIMIT,
    )
    const lines = await waitFor(
      'the line',
      () => {
        const found = service
          .logged()
          .split('\n')
          .filter((text) => text.includes('a job failed'))
        return found.length >= 2 ? found : undefined
      },
      LIMIT,
    )
    expect(lines.join('\n')).not.toContain('sk_of-somebody')
  })

  it('stands with every line, each one JSON object, in which there is no token and no address', async () => {
    const lines = service.logged().trim().split('\n')
    expect(lines.length).toBeGreaterThan(10)
    for (const line of lines)
      expect(JSON.parse(line)).toMatchObject({
        level: expect.any(Number) as number,
        msg: expect.any(String) as string,
      })
    // What the log says of trouble with the service's own servers names them, and they stand on the address
    // of every caller here.
    const servers = [service.ctx.config.mongodbUrl, service.ctx.config.redisUrl].map(
      (url) => new URL(url ?? '').host,
    )
    const told = servers.reduce((text, server) => text.replaceAll(server, 'a server'), lines.join('\n'))
    expect(told).not.toMatch(/sk_[0-9a-f]{48}|127\.0\.0\.1|::1|Bearer/)
    const answered = lines
      .map((line) => JSON.parse(line) as Record<string, unknown>)
      .filter(({ msg }) => msg === 'a request was answered')
    expect(answered.length).toBeGreaterThan(5)
    for (const { request_id: id } of answered) expect(id).toMatch(REQUEST_ID_FORM)
  })
})

describe('Bull Board that was first looked at in the middle of an outage of Redis', () => {
  it('shows the queues once it is over', async () => {
    const { mongodbUrl, redisUrl = '', queuePrefix } = service.ctx.config
    const url = new URL(redisUrl)
    const gate = await openGate(Number(url.port))
    url.port = String(gate.port)
    const env = {
      MONGODB_URL: mongodbUrl,
      REDIS_URL: url.href,
      QUEUE_PREFIX: queuePrefix,
      OPERATOR_PORT: '0',
      OPERATOR_TOKEN: TOKEN,
    }
    const cutOff = openContext(readConfig(env, 'workers'), createLog('operator', 'silent'))
    await Promise.all([cutOff.database.whenReady(), cutOff.queues.whenReady()])
    gate.hang()
    const second = await startOperatorServer(cutOff, watchHealth(cutOff, new Promise(() => {}), true))
    const look = () =>
      fetch(`http://127.0.0.1:${second.port}/queues/api/queues`, {
        headers: { Authorization: `Bearer ${TOKEN}` },
      })
    try {
      const first = look()
      gate.cut()
      expect((await first).status).toBe(500)
      gate.heal()
      await waitFor('the board', async () => ((await look()).status === 200 ? true : undefined), LIMIT)
    } finally {
      await second.close()
      await closeContext(cutOff)
      await gate.close()
    }
  })
})
