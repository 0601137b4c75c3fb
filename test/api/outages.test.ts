import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { runOperator } from '../../scripts/operator/run.ts'
import { openGate, type Gate } from '../harness/testbed/gate.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { closeContext, openContext } from '../../shared/context.ts'
import { REQUEST_TIMEOUT_MS } from '../../shared/platform/limits.ts'
import { createLog } from '../../shared/platform/log.ts'
import type { QueueName } from '../../shared/platform/queue-table.ts'
import { startPool } from '../../workers/pool.ts'
import { FULL } from '../support/full.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { startApiProcess, type RunningProcess } from '../support/processes.ts'
import { startServers, type TemporaryServers, PATIENT } from '../support/servers.ts'
import {
  callService,
  CHALLENGE_SECRET,
  findNonces,
  registerOver,
  whenServed,
  type CallOptions,
} from '../support/service.ts'
import { withSigning } from '../support/signing.ts'

type Api = RunningProcess & { url: string }
interface Order {
  order_id: string
  prefix: string
}

/**
 * The service says 2 s; a busy machine may be slower, one that was told to be patient waits for 10, and what
 * has no limit of its own for 30.
 */
const KNOWN_WITHIN_MS = 9_000
const LIMIT = { limitMs: PATIENCE_MS, everyMs: 100 }
/** For what waits several times. */
const LONG = { timeout: 4 * LIMIT.limitMs }

let servers: TemporaryServers
let mongo: Gate
let redis: Gate
/**
 * Two real API processes on one database: one in its free period, where a pass costs nothing, and one where
 * it costs work.
 */
let free: Api
let paid: Api
let settings: Record<string, string>

const call = (api: Api, method: string, path: string, options: CallOptions = {}) =>
  callService(api.url, method, path, options)
/** Where no outage is meant to be: a busy machine may still say 503, and is asked again. */
const ask = (api: Api, method: string, path: string, options: CallOptions = {}) =>
  whenServed(() => call(api, method, path, options))
const registerAt = (api: Api) => registerOver((method, path, options) => call(api, method, path, options))
/** An agent that may post. */
const registerWithPassAt = async (api: Api) => {
  const agent = await registerAt(api)
  await ask(api, 'POST', '/invoice', { token: agent.token, body: { currency: 'pow' } })
  return agent
}
const isServing = (api: Api) =>
  waitFor(
    'an answer from the database',
    async () => ((await call(api, 'GET', '/feed')).status === 200 ? true : undefined),
    LIMIT,
  )

const lastDefect = (api: Api) =>
  api
    .logged()
    .split('\n')
    .findLast((line) => line.includes('defect')) ?? 'no defect is logged'

/** What an outage of the database looks like to a caller, and that it is known soon. */
async function expectUnavailable(
  api: Api,
  method: string,
  path: string,
  options: CallOptions = {},
): Promise<void> {
  const startedMs = performance.now()
  const { status, json, headers } = await call(api, method, path, options)
  if (status === 500) await api.waitForLine('defect')
  expect([status, json.error], lastDefect(api)).toEqual([503, 'unavailable'])
  expect(Number(headers.get('retry-after'))).toBeGreaterThan(0)
  expect(json.message).toContain('may have been stored')
  expect(performance.now() - startedMs).toBeLessThan(KNOWN_WITHIN_MS)
}

async function expectStaticRoutes(api: Api): Promise<void> {
  for (const path of ['', '/rules', '/limits', '/contract', '/openapi.json'])
    expect((await call(api, 'GET', path)).status, path).toBe(200)
}

/** Workers in this process, straight on the servers. */
async function serve(queues: readonly QueueName[]): Promise<() => Promise<void>> {
  const ctx = openContext(
    readConfig(
      { ...settings, ...PATIENT, MONGODB_URL: servers.mongod.url, REDIS_URL: servers.redis.url },
      'workers',
    ),
    createLog('workers', 'silent'),
  )
  await Promise.all([ctx.database.whenReady(), ctx.queues.whenReady()])
  const pool = startPool(withSigning(ctx), queues)
  return async () => {
    await pool.close()
    await closeContext(ctx)
  }
}

beforeAll(async () => {
  servers = await startServers(() => undefined)
  ;[mongo, redis] = await Promise.all([openGate(servers.mongod.port), openGate(servers.redis.port)])
  for (const gate of [mongo, redis]) gate.cut()
  const mongodbUrl = new URL(servers.mongod.url)
  mongodbUrl.port = String(mongo.port)
  // The set names its member by the port behind the gate.
  mongodbUrl.search = '?directConnection=true'
  const redisUrl = new URL(servers.redis.url)
  redisUrl.port = String(redis.port)
  settings = {
    MONGODB_URL: mongodbUrl.href,
    REDIS_URL: redisUrl.href,
    CHALLENGE_SECRET,
    REGISTER_BITS: '4',
    SHARE_BITS: '8',
    SHARES_PER_DAY: '5',
    SWEEP_SECONDS: '1',
  }
  ;[free, paid] = await Promise.all([
    startApiProcess({ ...settings, FREE_UNTIL: new Date(Date.now() + 30 * 86_400_000).toISOString() }),
    startApiProcess({ ...settings, FREE_UNTIL: 'none' }),
  ])
})
afterAll(async () => {
  await Promise.all([free.stop(), paid.stop()])
  await Promise.all([mongo.close(), redis.close()])
  await servers.stop()
})

// One story, in this order: each part begins where the one before left the servers.
describe('an API that was started before its servers', LONG, () => {
  let agent: { id: string; token: string }
  let order: Order

  // holds: rules.errors.unavailable
  it('answers what needs no database, and 503 with Retry-After for the rest', async () => {
    await expectStaticRoutes(free)
    for (const [method, path] of [
      ['GET', '/feed'],
      ['GET', '/challenge'],
      ['GET', '/me'],
      ['POST', '/post'],
      ['GET', '/agent/agt_none'],
    ] as const)
      await expectUnavailable(free, method, path)
  })

  it('serves by itself once MongoDB is there, though Redis is not: all that needs no verdict of a worker', async () => {
    // It has looked for MongoDB in vain and looks again.
    await Promise.all([
      free.waitForLine('MongoDB is out of reach'),
      paid.waitForLine('MongoDB is out of reach'),
    ])
    mongo.heal()
    await Promise.all([isServing(free), isServing(paid)])
    agent = await registerAt(free)
    expect(
      (await ask(free, 'POST', '/invoice', { token: agent.token, body: { currency: 'pow', days: 2 } })).json,
    ).toMatchObject({
      free: true,
      credited_days: 2,
    })
    expect(
      (await ask(free, 'POST', '/post', { token: agent.token, body: { body: 'without Redis' } })).status,
    ).toBe(201)
    expect(
      (await ask(free, 'POST', '/dm', { token: agent.token, body: { to: agent.id, box: 'b' } })).status,
    ).toBe(201)
    expect((await ask(free, 'POST', '/claim', { token: agent.token, body: { statement: 's' } })).status).toBe(
      201,
    )
    for (const path of ['/feed', '/me', '/claims', '/currencies', '/dm'])
      expect((await ask(free, 'GET', path, { token: agent.token })).status, path).toBe(200)
  })

  it('takes work without Redis and answers 202', async () => {
    order = (await ask(paid, 'POST', '/invoice', { token: agent.token, body: { currency: 'pow' } }))
      .json as unknown as Order
    const answer = await ask(paid, 'POST', '/work/submit', {
      token: agent.token,
      body: { order_id: order.order_id, nonces: findNonces(order.prefix, 8, 2) },
    })
    expect([answer.status, answer.json['status']]).toEqual([202, 'verifying'])
  })

  it('enqueues by itself once Redis is there, and the sweep finds what came before', async () => {
    redis.heal()
    const stopWorkers = await serve(['verify-shares'])
    const later = (await ask(paid, 'POST', '/invoice', { token: agent.token, body: { currency: 'pow' } }))
      .json as unknown as Order
    const nonces = findNonces(later.prefix, 8, 5)
    // No sweep runs yet, so a verdict means that the API itself has put the job on the queue.
    await waitFor(
      'a verdict',
      async () => {
        const { status } = await ask(paid, 'POST', '/work/submit', {
          token: agent.token,
          body: { order_id: later.order_id, nonces },
        })
        // The order is full where the verdict came after its own submission was answered.
        return status === 200 || status === 409 ? true : undefined
      },
      LIMIT,
    )
    const stopSweep = await serve(['sweep'])
    const answer = await waitFor(
      'the shares of the first submission',
      async () => {
        const { status, json } = await ask(paid, 'POST', '/work/submit', {
          token: agent.token,
          body: { order_id: order.order_id, nonces: ['weak'] },
        })
        // A 202 is about the weak one, which has no verdict yet.
        return status === 200 && json['shares_accepted'] === 2 ? json : undefined
      },
      LIMIT,
    )
    expect(answer).toMatchObject({ status: 'open', credited_days: 0 })
    await stopSweep()
    await stopWorkers()
  })
})

describe('the operator', LONG, () => {
  it.runIf(FULL).each(['mongod', 'redis'] as const)(
    'hears within two seconds that %s is frozen',
    async (name) => {
      const pid = servers[name].child.pid()
      if (pid === undefined) throw new Error(`${name} does not run`)
      let stdout = ''
      const took: number[] = []
      process.kill(pid, 'SIGSTOP')
      try {
        // A machine that is busy all three times is not what is looked at.
        for (let tries = 0; tries < 3 && !took.some((ms) => ms < 2_000); tries++) {
          stdout = ''
          const startedMs = performance.now()
          const exitCode = await runOperator({
            argv: ['status'],
            env: { MONGODB_URL: servers.mongod.url, REDIS_URL: servers.redis.url, DATA_DIR: servers.folder },
            stdout: { write: (text) => (stdout += text) },
            stderr: { write: () => true },
          })
          took.push(performance.now() - startedMs)
          expect([1, 2]).toContain(exitCode)
        }
      } finally {
        process.kill(pid, 'SIGCONT')
      }
      expect(Math.min(...took)).toBeLessThan(2_000)
      // A time-out on a busy host proves nothing, and is told as what it is.
      if (stdout.includes('This host is busy')) return
      expect(stdout).toMatch(/^ACT: /)
      expect(stdout).toContain(name === 'mongod' ? 'MongoDB is away' : 'Redis is away')
    },
  )
})

describe('while MongoDB is away', LONG, () => {
  const post = (token: string) => ({ token, body: { body: 'in an outage' } })

  // holds: limits.overload
  it('because it is frozen, every route of the database answers 503 soon and the others go on; then all is as before', async () => {
    const { token } = await registerWithPassAt(free)
    const pid = servers.mongod.child.pid()
    if (pid === undefined) throw new Error('MongoDB does not run')
    process.kill(pid, 'SIGSTOP')
    try {
      // A signal takes a moment to reach every thread; what is asked in that moment is not kept waiting
      // either.
      await waitFor(
        'the outage',
        async () => {
          const startedMs = performance.now()
          const { status } = await call(free, 'GET', '/feed')
          expect(performance.now() - startedMs).toBeLessThan(KNOWN_WITHIN_MS)
          return status === 503 ? true : undefined
        },
        LIMIT,
      )
      await Promise.all([
        expectUnavailable(free, 'GET', '/feed'),
        expectUnavailable(free, 'POST', '/post', post(token)),
        expectUnavailable(free, 'GET', '/me', { token }),
        expectStaticRoutes(free),
      ])
      // The menu goes by what it read last.
      expect((await call(free, 'GET', '/currencies')).status).toBe(200)
      // More at once than there are connections.
      await Promise.all(Array.from({ length: 150 }, () => expectUnavailable(free, 'GET', '/claims')))
      await expectUnavailable(paid, 'GET', '/me', { token })
      await expectStaticRoutes(free)
    } finally {
      process.kill(pid, 'SIGCONT')
    }
    await isServing(free)
    expect((await ask(free, 'POST', '/post', post(token))).status).toBe(201)
  })

  // holds: limits.overload
  it.runIf(FULL)(
    'because it is frozen for a moment, an API that may wait longer for it does, and says in /limits how long',
    async () => {
      const patient = await startApiProcess({ ...settings, ...PATIENT })
      await isServing(patient)
      const { token } = await registerAt(patient)
      const pid = servers.mongod.child.pid()
      if (pid === undefined) throw new Error('MongoDB does not run')
      process.kill(pid, 'SIGSTOP')
      const renamed = call(patient, 'POST', '/profile', { token, body: { name: 'patient' } })
      // Longer than a request waits for MongoDB by default.
      await sleep(REQUEST_TIMEOUT_MS + 1_000)
      process.kill(pid, 'SIGCONT')
      expect((await renamed).status).toBe(200)
      const { limits } = (await call(patient, 'GET', '/limits')).json as unknown as {
        limits: { limit: string; value: string }[]
      }
      expect(limits.find(({ limit }) => limit === 'Overload')?.value).toContain(
        ` ${PATIENT.REQUEST_SECONDS} s `,
      )
      patient.kill('SIGTERM')
      expect(await patient.ended).toBe(0)
    },
  )

  it('because it was killed, it is 503 until it is up again, and nothing acknowledged is lost', async () => {
    const { token } = await registerWithPassAt(free)
    const kept: string[] = []
    const statuses = new Set<number>()
    const pid = servers.mongod.child.pid()
    if (pid === undefined) throw new Error('MongoDB does not run')
    // Writers go on through the kill until the service has answered them again. A busy machine may say 503
    // before it, too.
    let isKilled = false
    let wasAway = false
    let isBack = false
    const writers = Array.from({ length: 4 }, async () => {
      while (!isBack) {
        const { status, json } = await call(free, 'POST', '/post', post(token))
        statuses.add(status)
        if (status === 201) kept.push(String(json['id']))
        if (isKilled && status === 503) wasAway = true
        if (wasAway && status === 201) isBack = true
      }
    })
    await waitFor('the first posts', () => (kept.length > 20 ? true : undefined), LIMIT)
    isKilled = true
    process.kill(pid, 'SIGKILL')
    await Promise.all(writers)
    expect([...statuses].sort(), lastDefect(free)).toEqual([201, 503])
    const feed = (await ask(free, 'GET', '/feed?limit=200')).json as unknown as { posts: { id: string }[] }
    const shown = new Set(feed.posts.map(({ id }) => id))
    expect(
      kept
        .sort()
        .slice(-150)
        .filter((id) => !shown.has(id)),
    ).toEqual([])
  })

  it.runIf(FULL)(
    'because the way to it is cut, it is 503, and served again when the way is open',
    async () => {
      const { token } = await registerWithPassAt(free)
      mongo.cut()
      try {
        for (let i = 0; i < 3; i++)
          await Promise.all([
            expectUnavailable(free, 'GET', '/feed'),
            expectUnavailable(free, 'GET', '/claims'),
            expectUnavailable(free, 'POST', '/post', { token, body: { body: 'x' } }),
          ])
        await expectStaticRoutes(free)
      } finally {
        mongo.heal()
      }
      await isServing(free)
    },
  )
})

describe('while Redis is away', LONG, () => {
  it.runIf(FULL)('in the middle of service, posts and all that needs no worker go on', async () => {
    redis.cut()
    const { token, id } = await registerAt(free)
    await ask(free, 'POST', '/invoice', { token, body: { currency: 'xno' } })
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => ask(free, 'POST', '/post', { token, body: { body: 'x' } })),
    )
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201]))
    expect((await ask(free, 'GET', `/agent/${id}`)).status).toBe(200)
    redis.heal()
  })
})

describe('an API that is told to stop', LONG, () => {
  it.runIf(FULL)('ends well though neither server can be reached', async () => {
    const api = await startApiProcess({
      ...settings,
      MONGODB_URL: 'mongodb://127.0.0.1:1/none',
      REDIS_URL: 'redis://127.0.0.1:1',
    })
    await expectUnavailable(api, 'GET', '/feed')
    await api.waitForLine('MongoDB is out of reach')
    api.kill('SIGTERM')
    expect(await api.ended).toBe(0)
  })

  it.runIf(FULL)(
    'finishes the requests that are under way, and then does not wait for connections that are kept alive',
    async () => {
      const api = await startApiProcess({ ...settings, FREE_UNTIL: 'none' })
      await isServing(api)
      const { token } = await registerAt(api)
      const order = (await ask(api, 'POST', '/invoice', { token, body: { currency: 'pow' } }))
        .json as unknown as Order
      // No worker runs, so this one waits for its verdict.
      const slow = call(api, 'POST', '/work/submit', {
        token,
        body: { order_id: order.order_id, nonces: findNonces(order.prefix, 8, 1) },
      })
      const context = openContext(
        readConfig(
          { ...settings, ...PATIENT, MONGODB_URL: servers.mongod.url, REDIS_URL: servers.redis.url },
          'workers',
        ),
        createLog('test', 'silent'),
      )
      await context.database.whenReady()
      await waitFor(
        'the batch',
        async () =>
          (await context.work.models.batches.countDocuments({ order_id: order.order_id })) === 1
            ? true
            : undefined,
        LIMIT,
      )
      api.kill('SIGTERM')
      expect((await slow).status).toBe(202)
      expect(await api.ended).toBe(0)
      // Those that linger to the end are cut, and it says so.
      expect(api.logged()).not.toContain('connections were cut')
      await closeContext(context)
    },
  )
})
