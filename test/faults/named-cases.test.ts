import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { randomBytes } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { Redis } from 'ioredis'
import { afterEach, describe, expect, it } from 'vitest'
import { startMongoSet } from '../harness/testbed/mongo-set.ts'
import { trackChildren } from '../../scripts/embedded/children.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { findMongod } from '../../scripts/prepare.mjs'
import { readConfig } from '../../shared/platform/config.ts'
import { closeContext, openContext, type Context } from '../../shared/context.ts'
import { sealPayloadHash } from '../../shared/crypto/seal-payload.ts'
import { createLog } from '../../shared/platform/log.ts'
import { writeAdoption } from '../../shared/ledger/adoption-file.ts'
import { ensureSealKey } from '../../shared/ledger/seal-key.ts'
import { signSeals } from '../../shared/ledger/signing.ts'
import { sealFields } from '../../shared/ledger/seal.ts'
import { makeSeal } from '../../shared/ledger/sealer.ts'
import { sequencePending } from '../../shared/ledger/sequencer.ts'
import { newId } from '../../shared/platform/ids.ts'
import { MAX_OPEN_WORK_ORDERS } from '../../shared/platform/limits.ts'
import { orderWork } from '../../shared/passes/work-order.ts'
import { decodeOutcomes, type WorkOrderRecord } from '../../shared/passes/work.ts'
import { submitShares } from '../../shared/passes/work-service.ts'
import { makeCoinReady } from '../support/coins.ts'
import { openWorkerContext, verifyWholeLedger, writePosts } from '../support/ledger.ts'
import { checkMarket, openMarket } from '../support/market.ts'
import { checkMoney } from '../support/money.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { startApiProcess, startWorkersProcess } from '../support/processes.ts'
import {
  canRunPythonVerifier,
  NODE_VERIFIER,
  PYTHON_VERIFIER,
  reportToKnower,
} from '../support/run-verifier.ts'
import { isolate, startServers, type TemporaryServers } from '../support/servers.ts'
import {
  callService,
  CHALLENGE_SECRET,
  findNonces,
  solveChallenge,
  startService,
  type TestAgent,
  type TestService,
} from '../support/service.ts'
import { sendAndCut } from '../support/torture-cut.ts'

const LONG_MS = 3_600_000
const LIMIT = { limitMs: PATIENCE_MS, everyMs: 100 }
const DAY_MS = 86_400_000

const cleanUp: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const one of cleanUp.splice(0).reverse()) await one()
})

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

describe('a write whose connection is cut and that is sent again', () => {
  /** One write with one effect, however often it is sent. */
  interface Once {
    name: string
    path: string
    token: string | undefined
    body: object
    /** The answer to a repetition: the write's own, or a refusal that says that it is done. */
    statuses: readonly number[]
    /** @throws where it is not there exactly once */
    expectOnce(): Promise<void>
  }

  it(
    `has one effect, for each kind of write that moves days, coins or an identity`,
    async () => {
      const service = await startService({ env: { SHARES_PER_DAY: '2', SHARE_BITS: '4' } })
      cleanUp.push(() => service.stop())
      let market = await openMarket(service)
      const { ctx } = service
      const rounds = Math.ceil(10_000 / KINDS)
      const count = (name: string, filter: object) =>
        ctx.database.connection.collection(name).countDocuments(filter)

      async function prepare(round: number): Promise<Once[]> {
        // A living worker does so, and five orders and an invoice need an address each.
        await makeCoinReady(ctx, 'xno', { rate: '2', addresses: 10 })
        const agent = await service.register()
        const order = await orderWork(ctx, agent.id, 3)
        const nonces = findNonces(order.prefix, order.difficulty_bits, 6)
        const challenge = { ...(await solveChallenge(service.call)), handle: `once ${round}` }
        const rotating = await service.register()
        const newToken = `sk_${randomBytes(24).toString('hex')}`
        const [ordered, paid, delivered, disputed] = [
          await market.paidOrder({ refund_address: undefined }),
          await market.paidOrder(),
          await market.delivered(),
          await market.delivered(),
        ]
        const offerId = await market.offer()
        const stateOf = async (id: string) => (await ctx.orders.find(id))?.status
        const entriesOf = async (id: string, kind: string) =>
          (await count('entries', { record: id, kind })) + (await pendingOf(ctx, id, kind))
        const once = (step: string, id: string, status: string) => async () => {
          expect(await stateOf(id)).toBe(status)
          expect(await stepsOf(ctx, id, step)).toBe(1)
        }
        return [
          {
            ...{
              name: 'registration',
              path: '/register',
              token: undefined,
              body: challenge,
              statuses: [201, 409],
            },
            expectOnce: async () => expect(await count('agents', { handle: challenge.handle })).toBe(1),
          },
          {
            ...{
              name: 'shares',
              path: '/work/submit',
              token: agent.token,
              body: { order_id: order._id, nonces },
              statuses: [200, 409],
            },
            async expectOnce() {
              expect(await ctx.work.findOrder(order._id)).toMatchObject({
                shares_accepted: 6,
                credited_days: 3,
              })
              const passUntil = (await ctx.agents.find(agent.id))?.pass_until_ms ?? 0
              expect(Math.abs(passUntil - ctx.now() - 3 * DAY_MS)).toBeLessThan(DAY_MS / 2)
            },
          },
          {
            ...{
              name: 'rotation',
              path: '/token/rotate',
              token: rotating.token,
              body: { new_token: newToken },
              statuses: [200, 401],
            },
            async expectOnce() {
              expect((await service.call('GET', '/me', { token: newToken })).status).toBe(200)
              expect(await entriesOf(rotating.id, 'token_rotation')).toBe(1)
            },
          },
          {
            ...{
              name: 'coin invoice',
              path: '/invoice',
              token: agent.token,
              body: { currency: 'xno', days: 2 },
              statuses: [200],
            },
            expectOnce: async () => expect(await count('invoices', { agent_id: agent.id })).toBe(1),
          },
          {
            ...{
              name: 'refund address',
              path: '/market/refund-address',
              token: market.buyer.token,
              statuses: [409],
            },
            body: {
              order_id: ordered.id,
              address: 'nano_3pbuf8omyqie3gakcwzp5t5quzktma8m4bzncxhrmpk17gqos4hq7qwweiz3',
            },
            expectOnce: async () =>
              expect((await ctx.orders.find(ordered.id))?.refund_address).toMatch(/^nano_3pbuf8/),
          },
          {
            ...{ name: 'delivery', path: '/market/deliver', token: market.seller.token, statuses: [409] },
            body: { order_id: paid.id, delivery: 'the words' },
            expectOnce: once('delivered', paid.id, 'delivered'),
          },
          {
            ...{ name: 'acceptance', path: '/market/accept', token: market.buyer.token, statuses: [409] },
            body: { order_id: delivered.id },
            async expectOnce() {
              await once('accepted', delivered.id, 'released')()
              expect(await count('payouts', { order_id: delivered.id })).toBe(1)
            },
          },
          {
            ...{ name: 'dispute', path: '/market/dispute', token: market.buyer.token, statuses: [409] },
            body: { order_id: disputed.id, reason: 'not what was offered' },
            expectOnce: once('disputed', disputed.id, 'disputed'),
          },
          {
            ...{
              name: 'closing an offer',
              path: '/market/offer/close',
              token: market.seller.token,
              statuses: [200, 409],
            },
            body: { offer_id: offerId },
            expectOnce: async () => expect(await entriesOf(offerId, 'offer_closed')).toBe(1),
          },
        ]
      }

      for (let round = 0; round < rounds; round++) {
        // What one agent may add in a day is bounded.
        if (round % 100 === 99) market = await openMarket(service)
        const writes = await prepare(round)
        expect(writes.length).toBe(KINDS)
        for (const [index, { name, path: where, token, body, statuses, expectOnce }] of writes.entries()) {
          await sendAndCut(
            service.url,
            where,
            token,
            body,
            (round + index) % 2 === 0 ? 'after the request' : 'at the answer',
          )
          // What is cut may be under way still; the repetition meets it in the middle.
          const again = await service.call('POST', where, { ...(token === undefined ? {} : { token }), body })
          const told = `${name}: ${again.status} ${again.json.error} ${again.json.message}`
          expect(again.status, told).toBeLessThan(500)
          const last = await service.call('POST', where, { ...(token === undefined ? {} : { token }), body })
          expect(
            statuses,
            `${name}, once more: ${last.status} ${last.json.error} ${last.json.message}`,
          ).toContain(last.status)
          await waitFor(
            `${name} once`,
            () =>
              expectOnce().then(
                () => true as const,
                (error: unknown) => (isLate(error) ? undefined : Promise.reject(error as Error)),
              ),
            { limitMs: PATIENCE_MS },
          )
        }
      }
      expect(service.logged()).not.toContain('a request ended in a defect')
      await checkMarket(ctx)
      await checkMoney(ctx)
    },
    LONG_MS,
  )
})

/** Kinds of writes in the test above. */
const KINDS = 9

/** An expectation that may come true yet. */
const isLate = (error: unknown): boolean => error instanceof Error && error.name === 'AssertionError'

async function pendingOf(ctx: Context, record: string, kind: string): Promise<number> {
  const collections = Object.values(ctx.database.connection.models).filter(
    ({ schema }) => schema.path('pending') !== undefined,
  )
  const found = await Promise.all(
    collections.map(({ collection }) =>
      ctx.database.connection
        .collection<{ pending: { source: string; kind: string }[] }>(collection.collectionName)
        .find({ 'pending.source': { $regex: `^${record}/` } })
        .toArray(),
    ),
  )
  const numbered = new Set(
    (await ctx.database.connection.collection('entries').find({ record }).toArray()).map(({ source }) =>
      String(source),
    ),
  )
  return found
    .flat()
    .flatMap(({ pending }) => pending)
    .filter(
      (entry) => entry.kind === kind && entry.source.startsWith(`${record}/`) && !numbered.has(entry.source),
    ).length
}

async function stepsOf(ctx: Context, orderId: string, step: string): Promise<number> {
  const numbered = await ctx.database.connection
    .collection('entries')
    .find({ record: orderId, 'data.step': step })
    .toArray()
  const order = await ctx.database.connection
    .collection<{ _id: string; pending?: { source: string; data: { step?: string } }[] }>('orders')
    .findOne({ _id: orderId })
  const sources = new Set([
    ...numbered.map(({ source }) => String(source)),
    ...(order?.pending ?? []).filter(({ data }) => data.step === step).map(({ source }) => source),
  ])
  return sources.size
}

describe('jobs under workers that are killed', () => {
  const JOBS = 100_000
  const KILLS = 100
  /**
   * Handed on by then, as the service states it, and done; one whose next worker is killed as well is handed
   * on once more.
   */
  const HANDED_ON_MS = 16_000

  it(
    `are each done once and in time: ${JOBS} jobs, ${KILLS} kills`,
    async () => {
      const servers = await startServers(() => undefined)
      cleanUp.push(() => servers.stop())
      const env = {
        MONGODB_URL: servers.mongod.url,
        REDIS_URL: servers.redis.url,
        SWEEP_SECONDS: '1',
        SHARE_BITS: '2',
        SHARES_PER_DAY: '100',
      }
      const ctx = await openPlain(env)
      const start = () => startWorkersProcess(env, ['--queues', 'verify-shares,sweep'])
      const workers = await Promise.all(Array.from({ length: 4 }, start))
      cleanUp.push(() => Promise.all(workers.map((worker) => worker.stop())))
      // One share a job: none may be lost, and none may count twice.
      const perOrder = 100
      const orders = await orderMuchWork(ctx, JOBS / perOrder)
      const shares = orders.map((order) => ({ order, nonces: findNonces(order.prefix, 2, perOrder) }))
      let submitted = 0
      const late: { batch: string; ageMs: number; handedOn: number }[] = []
      const isDone = () => submitted >= JOBS
      const waiting = async () => ctx.work.listWaiting(Date.now(), 2_000)
      const submitting = (async () => {
        for (let place = 0; place < perOrder; place++) {
          for (let from = 0; from < shares.length; from += 50) {
            // As many as the workers keep up with, so that what waits waits for a killed one's sake alone.
            await waitFor('room', async () => ((await waiting()).length < 100 ? true : undefined), {
              limitMs: 120_000,
              everyMs: 20,
            })
            const group = shares.slice(from, from + 50)
            await Promise.all(
              group.map(({ order, nonces }) =>
                submitShares(ctx, order.agent_id, order._id, [nonces[place] ?? '']),
              ),
            )
            submitted += group.length
          }
        }
      })()
      const killing = (async () => {
        for (let kill = 0; kill < KILLS; kill++) {
          await waitFor(
            'more jobs',
            () => (submitted >= ((kill + 1) * JOBS) / (KILLS + 1) ? true : undefined),
            {
              limitMs: LONG_MS,
              everyMs: 5,
            },
          )
          const index = kill % workers.length
          workers[index]?.kill('SIGKILL')
          workers[index] = await start()
        }
      })()
      /**
       * How often the stalled check has handed a batch's job on; undefined where the job is done meanwhile.
       */
      const handedOn = async (batchId: string) =>
        (await ctx.queues.get('verify-shares').getJobs(['active', 'waiting', 'delayed'])).find(
          ({ data }) => (data as { batch_id: string }).batch_id === batchId,
        )?.stalledCounter
      const watching = (async () => {
        while (!isDone() || (await waiting()).length > 0) {
          const [oldest] = await ctx.database.connection
            .collection<{ _id: string; at_ms: number }>('work_batches')
            .find({ state: 'waiting' })
            .sort({ at_ms: 1 })
            .limit(1)
            .toArray()
          const ageMs = oldest === undefined ? 0 : Date.now() - oldest.at_ms
          if (oldest !== undefined && ageMs > HANDED_ON_MS) {
            const times = await handedOn(oldest._id)
            if (times !== undefined && ageMs > HANDED_ON_MS * (times + 1))
              late.push({ batch: oldest._id, ageMs, handedOn: times })
          }
          await pause(50)
        }
      })()
      await Promise.all([submitting, killing, watching])
      const stored = await ctx.work.models.orders.find().lean()
      expect(stored.reduce((sum, { shares_accepted: shares }) => sum + shares, 0)).toBe(JOBS)
      const pages = await ctx.work.models.pages.find().lean()
      const counted = pages.flatMap(({ order_id: order, nonces }) =>
        nonces.split(' ').map((nonce) => `${order} ${nonce}`),
      )
      expect([counted.length, new Set(counted).size]).toEqual([JOBS, JOBS])
      // Shares that come while a batch waits join it.
      const batches = await ctx.work.models.batches.find({ state: 'verified' }).lean()
      const outcomes = batches.flatMap(({ outcomes = '' }) => decodeOutcomes(outcomes))
      expect(outcomes.filter((outcome) => outcome === undefined)).toHaveLength(JOBS)
      expect(
        (await ctx.queues.get('verify-shares').getFailed()).map(({ failedReason }) => failedReason),
      ).toEqual([])
      await waitFor(
        'empty queues',
        async () =>
          Object.values(
            await ctx.queues.get('verify-shares').getJobCounts('waiting', 'active', 'delayed'),
          ).every((many) => many === 0)
            ? true
            : undefined,
        LIMIT,
      )
      // On a machine that does something else as well, what a job waits for is its turn.
      expect(late).toEqual([])
    },
    LONG_MS,
  )

  it(
    'come back within 60 s when Redis is erased with many of them waiting',
    async () => {
      const jobs = 1_000
      const servers = await startServers(() => undefined)
      cleanUp.push(() => servers.stop())
      const env = {
        MONGODB_URL: servers.mongod.url,
        REDIS_URL: servers.redis.url,
        SHARE_BITS: '2',
        SHARES_PER_DAY: '1',
      }
      const ctx = await openPlain(env)
      const orders = await orderMuchWork(ctx, jobs)
      await Promise.all(
        orders.map((order) => submitShares(ctx, order.agent_id, order._id, findNonces(order.prefix, 2, 1))),
      )
      expect(await ctx.queues.get('verify-shares').getJobCountByTypes('waiting', 'prioritized')).toBe(jobs)
      const redis = new Redis(servers.redis.url)
      await redis.flushall()
      redis.disconnect()
      expect(await ctx.queues.get('verify-shares').getWaitingCount()).toBe(0)
      const worker = await startWorkersProcess(env, ['--queues', 'verify-shares,sweep'])
      cleanUp.push(() => worker.stop())
      await waitFor(
        'every order',
        async () =>
          (await ctx.work.models.orders.countDocuments({ credited_days: 1 })) === jobs ? true : undefined,
        { limitMs: PATIENCE_MS, everyMs: 200 },
      )
      for (const [agentId, own] of Map.groupBy(orders, ({ agent_id: id }) => id)) {
        const agent = await ctx.agents.find(agentId)
        expect(Math.round(((agent?.pass_until_ms ?? 0) - Date.now()) / DAY_MS)).toBe(own.length)
      }
    },
    LONG_MS,
  )
})

/** A context past any API, with its queues in reach. */
async function openPlain(env: Record<string, string>): Promise<Context> {
  const ctx = openContext(readConfig(env, 'workers'), createLog('test', 'silent'), {
    databaseTimeoutMs: 30_000,
  })
  cleanUp.push(() => closeContext(ctx))
  await Promise.all([ctx.database.whenReady(), ctx.queues.whenReady()])
  return ctx
}

/** Orders of a day each, of as many agents as it takes: each has a limit of open ones. */
async function orderMuchWork(ctx: Context, count: number): Promise<WorkOrderRecord[]> {
  const orders: WorkOrderRecord[] = []
  while (orders.length < count) {
    const agentId = newId('agent')
    await insertAgent(ctx, agentId)
    const own = Math.min(MAX_OPEN_WORK_ORDERS, count - orders.length)
    orders.push(...(await Promise.all(Array.from({ length: own }, () => orderWork(ctx, agentId, 1)))))
  }
  return orders
}

async function insertAgent(ctx: Context, id: string): Promise<void> {
  const token = randomBytes(8).toString('hex')
  await ctx.database.connection.collection<{ _id: string }>('agents').insertOne({
    _id: id,
    ...{
      at: 1,
      salt: '00'.repeat(32),
      challenge: id,
      token_key: token,
      token_salt: '',
      token_hash: '',
      referrals: { paying: 0 },
    },
    record: {
      claims: { open: 0, judged: 0, contested: 0, overdue: 0, accepted: 0 },
      verdicts: { true: 0, false: 0, void: 0 },
    },
  } as never)
}

describe('a worker whose clock was hours ahead', () => {
  it(
    'does its regular work on time again once its clock is right, and so does what it has put off meanwhile',
    async () => {
      const servers = await startServers(() => undefined)
      cleanUp.push(() => servers.stop())
      const clockFile = path.join(servers.folder, 'clock')
      const env = { MONGODB_URL: servers.mongod.url, REDIS_URL: servers.redis.url, SWEEP_SECONDS: '1' }
      const worker = await startWorkersProcess({
        ...env,
        CLOCK_FILE: clockFile,
        NODE_OPTIONS: `--import ${fileURLToPath(new URL('../harness/testbed/shifted-clock.ts', import.meta.url))}`,
      })
      cleanUp.push(() => worker.stop())
      const ctx = await openPlain(env)
      let posts = 0
      const setClock = (shiftMs: number) => {
        fs.writeFileSync(clockFile, String(shiftMs))
        worker.kill('SIGUSR2')
      }
      /** What the regular jobs do: a number for each entry. */
      const expectNumbered = async (): Promise<void> => {
        posts += (await writePosts(ctx, 3)).length
        const numbered = () => ctx.database.connection.collection('entries').countDocuments({ kind: 'post' })
        await waitFor(
          `${posts} numbered entries`,
          async () => ((await numbered()) === posts ? true : undefined),
          LIMIT,
        )
      }
      await expectNumbered()
      setClock(2 * 3_600_000)
      await expectNumbered()
      // What a job that failed then would look like: its next try in two hours, and no other let in beside
      // it.
      const sealing = ctx.queues.get('make-seal')
      await sealing.add('make-seal', {}, { delay: 2 * 3_600_000, deduplication: { id: 'make-seal' } })
      setClock(0)
      await expectNumbered()
      await expectNumbered()
      await waitFor(
        'the job that strayed',
        async () => ((await sealing.getDelayedCount()) === 0 ? true : undefined),
        LIMIT,
      )
    },
    LONG_MS,
  )
})

describe('a MongoDB that is killed again and again', () => {
  const KILLS = 100

  it(
    `loses nothing that was acknowledged and stores nothing twice: 32 clients, ${KILLS} kills`,
    async () => {
      const { redisUrl, queuePrefix } = isolate()
      const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-named-'))
      const children = trackChildren(folder, () => undefined, true)
      const mongo = await startMongoSet({
        binary: findMongod(process.env) ?? 'mongod',
        folder,
        size: 1,
        children,
        report: () => undefined,
      })
      cleanUp.push(async () => {
        await mongo.stop()
        children.close()
        fs.rmSync(folder, { recursive: true, force: true })
      })
      const env = {
        MONGODB_URL: mongo.url,
        REDIS_URL: redisUrl,
        QUEUE_PREFIX: queuePrefix,
        CHALLENGE_SECRET,
        REGISTER_BITS: '4',
      }
      const api = await startApiProcess({
        ...env,
        FREE_UNTIL: new Date(Date.now() + 30 * DAY_MS).toISOString(),
      })
      cleanUp.push(() => api.stop())
      const call: TestService['call'] = (method, where, options) =>
        callService(api.url, method, where, options)
      await waitFor(
        'the API',
        async () => ((await call('GET', '/feed')).status === 200 ? true : undefined),
        LIMIT,
      )
      const { json } = await call('POST', '/register', { body: await solveChallenge(call) })
      const agent: TestAgent = { id: String(json['agent_id']), token: String(json['token']) }
      expect(
        (await call('POST', '/invoice', { token: agent.token, body: { currency: 'pow', days: 5 } })).status,
      ).toBe(200)

      const sent: string[] = []
      const acknowledged = new Map<string, string>()
      let isOver = false
      const clients = Array.from({ length: 32 }, async (_, client) => {
        for (let turn = 0; !isOver; turn++) {
          const body = `${client}/${turn}`
          sent.push(body)
          const answer = await call('POST', '/post', { token: agent.token, body: { body } })
          expect([201, 503], JSON.stringify(answer.json)).toContain(answer.status)
          if (answer.status === 201) acknowledged.set(body, String(answer.json['id']))
          await pause(10)
        }
      })
      const [member] = mongo.members
      for (let kill = 0; kill < KILLS; kill++) {
        const before = acknowledged.size
        await waitFor(
          'writes that are taken',
          () => (acknowledged.size > before + 50 ? true : undefined),
          LIMIT,
        )
        process.kill(member?.child.pid() ?? 0, 'SIGKILL')
        await waitFor('the end of it', () => (member?.child.deaths() === kill + 1 ? true : undefined), LIMIT)
      }
      const before = acknowledged.size
      await waitFor(
        'writes that are taken',
        () => (acknowledged.size > before + 50 ? true : undefined),
        LIMIT,
      )
      isOver = true
      await Promise.all(clients)
      const ctx = await openPlain(env)
      const stored = await ctx.posts.models.posts.find({}, { body: 1, pending: 1 }).lean()
      const ids = Map.groupBy(stored, ({ body }) => body)
      expect([...ids.values()].filter((same) => same.length > 1).map(([one]) => one?.body)).toEqual([])
      expect([...acknowledged].filter(([body, id]) => ids.get(body)?.[0]?._id !== id)).toEqual([])
      const all = new Set(sent)
      expect(stored.filter(({ body, pending }) => !all.has(body) || pending?.length !== 1)).toEqual([])
      expect(api.logged()).not.toContain('a request ended in a defect')
    },
    LONG_MS,
  )
})

describe('a backup of MongoDB', () => {
  /** A network's ledger on a server of its own: posts, seals, key and memory. */
  interface Home {
    servers: TemporaryServers
    ctx: Context
    folder: string
    /** What is written from now on is numbered, sealed and signed. */
    seal(): Promise<void>
  }

  async function openHome(servers: TemporaryServers, folder: string): Promise<Home> {
    fs.mkdirSync(folder, { recursive: true })
    ensureSealKey(path.join(folder, 'seal-key'))
    const ctx = await openWorkerContext({
      ...{ MONGODB_URL: servers.mongod.url, REDIS_URL: servers.redis.url },
      ...{ SEAL_KEY_FILE: path.join(folder, 'seal-key'), SEAL_MEMORY_FILE: path.join(folder, 'seal-memory') },
    })
    cleanUp.push(() => closeContext(ctx))
    return {
      ...{ servers, ctx, folder },
      async seal() {
        await sequencePending(ctx, { useLease: false })
        await makeSeal(ctx, { useLease: false })
        await signSeals(ctx)
      },
    }
  }

  /** Every collection as it is now, put into an empty database by the returned function. */
  async function takeDump({ ctx }: Home): Promise<(into: Context) => Promise<void>> {
    const names = Object.values(ctx.database.connection.models).map(
      ({ collection }) => collection.collectionName,
    )
    const saved = await Promise.all(
      names.map(async (name) => ({
        name,
        documents: await ctx.database.connection.collection(name).find().toArray(),
      })),
    )
    return async (into) => {
      for (const { name, documents } of saved) {
        await into.database.connection.collection(name).deleteMany({})
        if (documents.length > 0) await into.database.connection.collection(name).insertMany(documents)
      }
    }
  }

  async function expectVerified({ ctx, folder }: Home, written: readonly string[]): Promise<void> {
    const { entries, seals } = await verifyWholeLedger(ctx, written)
    const dump = path.join(folder, 'dump.json')
    fs.writeFileSync(dump, JSON.stringify({ entries, seals }))
    for (const verifier of canRunPythonVerifier() ? [NODE_VERIFIER, PYTHON_VERIFIER] : [NODE_VERIFIER])
      expect(await reportToKnower(verifier, [dump], folder)).toMatchObject({
        ok: true,
        code: 0,
        seals: seals.length,
      })
  }

  const startHome = async (): Promise<Home> => {
    const servers = await startServers(() => undefined)
    cleanUp.push(() => servers.stop())
    return openHome(servers, path.join(servers.folder, 'home'))
  }

  it(
    'restored into an empty deployment passes the audit, and is not gone on from until the operator adopts its last seal',
    async () => {
      const [old, fresh] = [await startHome(), await startHome()]
      const written = await writePosts(old.ctx, 20)
      await old.seal()
      written.push(...(await writePosts(old.ctx, 10)))
      await old.seal()
      await (
        await takeDump(old)
      )(fresh.ctx)
      await expectVerified(fresh, written)
      // Its key is another and its memory empty: to sign would be to fork what others hold.
      written.push(...(await writePosts(fresh.ctx, 5)))
      await expect(fresh.seal()).rejects.toThrow(/Nothing is signed until an operator has looked/)
      const last = await fresh.ctx.seals.lastSigned()
      if (last === undefined) throw new Error('the backup has no seal')
      await writeAdoption(fresh.ctx, last._id, sealPayloadHash(sealFields(last)))
      await fresh.seal()
      await fresh.seal()
      const { entries } = await verifyWholeLedger(fresh.ctx, written)
      expect(entries.filter(({ kind }) => kind === 'seal_adoption')).toHaveLength(1)
    },
    LONG_MS,
  )

  it(
    'restored into the old one, beside its key and its memory, is not signed anew: the sealer refuses to fork',
    async () => {
      const home = await startHome()
      const written = await writePosts(home.ctx, 20)
      await home.seal()
      const restore = await takeDump(home)
      const lost = await writePosts(home.ctx, 10)
      await home.seal()
      const forgotten = await home.ctx.seals.lastSigned()
      await restore(home.ctx)
      await expectVerified(home, written)
      written.push(...(await writePosts(home.ctx, 10)))
      await expect(home.seal()).rejects.toThrow(/looks like an older one that was restored/)
      await expect(home.seal()).rejects.toThrow(/Nothing is signed until an operator has looked/)
      // What was signed for that number stays the only thing that was.
      const remembered = JSON.parse(fs.readFileSync(path.join(home.folder, 'seal-memory'), 'utf8')) as {
        seq: number
        payload_hash: string
      }
      expect(remembered).toMatchObject({
        seq: forgotten?._id,
        payload_hash: forgotten === undefined ? '' : sealPayloadHash(sealFields(forgotten)),
      })
      expect(lost).toHaveLength(10)
      const last = await home.ctx.seals.lastSigned()
      if (last === undefined) throw new Error('the backup has no seal')
      await writeAdoption(home.ctx, last._id, sealPayloadHash(sealFields(last)))
      await home.seal()
      await home.seal()
      await verifyWholeLedger(home.ctx, written)
    },
    LONG_MS,
  )
})
