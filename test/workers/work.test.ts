import { hash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { closeContext, openContext } from '../../shared/context.ts'
import { setBanned } from '../../shared/agents/agent-service.ts'
import { verifyBatch } from '../../shared/passes/work-service.ts'
import { startPool } from '../../workers/pool.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { countStored, listPending } from '../support/stored.ts'
import { PATIENT } from '../support/servers.ts'
import {
  findNonces,
  startService,
  WITHOUT_LEDGER,
  type Answer,
  type TestAgent,
  type TestService,
} from '../support/service.ts'
import { FULL } from '../support/full.ts'
import { withSigning } from '../support/signing.ts'

const DAY = 86_400_000
const BITS = 8
const PER_DAY = 5
const LIMIT = { limitMs: PATIENCE_MS }
vi.setConfig({ testTimeout: 180_000 })

interface Order {
  order_id: string
  prefix: string
  shares_required: number
}
interface Submission {
  status: string
  accepted: number
  rejected: { nonce: string | number; reason: string }[]
  shares_accepted: number
  credited_days: number
  pass_until: string | null
}

let service: TestService

beforeAll(async () => {
  service = await startService({ queues: WITHOUT_LEDGER })
})
afterAll(() => service.stop())

const order = async ({ token }: TestAgent, days = 1, on = service) =>
  (await on.call('POST', '/invoice', { token, body: { currency: 'pow', days } })).json as unknown as Order
const submit = (on: TestService, { token }: TestAgent, order_id: string, nonces: unknown) =>
  on.call('POST', '/work/submit', { token, body: { order_id, nonces } })
const hand = async (
  agent: TestAgent,
  order_id: string,
  nonces: readonly (string | number)[],
  on = service,
) => {
  const { status, json } = await submit(on, agent, order_id, nonces)
  expect(status, JSON.stringify(json)).toBe(200)
  return json as unknown as Submission
}
const outcome = ({ status, json }: Answer) =>
  [status, json.error, json.field].filter((part) => part !== undefined)
const isShare = (prefix: string, nonce: string | number) =>
  hash('sha256', `${prefix}:${nonce}`, 'hex').startsWith('00')
const weakNonce = (prefix: string) => {
  let nonce = 0
  while (isShare(prefix, nonce)) nonce++
  return String(nonce)
}
const credits = async (orderId: string) =>
  (await listPending(service.ctx.database.connection, 'work_orders', orderId)).map(
    ({ kind, source, data }) => [kind, source, data['days']],
  )

describe('shares', () => {
  // holds: limits.proof_of_work_payment, rules.pass.statements.a_work_order_expires_30_days
  // holds: rules.proof_of_work.share_bits, rules.proof_of_work.shares_per_day
  // holds: rules.proof_of_work.statements.a_registration_takes_one_share_a
  it('credit each day as it completes, and the order when the last is there', async () => {
    const agent = await service.register()
    const { order_id: id, prefix } = await order(agent, 2)
    const shares = findNonces(prefix, BITS, 2 * PER_DAY)
    expect(await hand(agent, id, shares.slice(0, 4))).toMatchObject({
      status: 'open',
      accepted: 4,
      rejected: [],
      shares_accepted: 4,
      shares_required: 10,
      credited_days: 0,
      pass_until: null,
    })
    const afterOne = await hand(agent, id, shares.slice(4, 6))
    expect(afterOne).toMatchObject({ status: 'open', accepted: 2, shares_accepted: 6, credited_days: 1 })
    expect(Math.abs(Date.parse(afterOne.pass_until ?? '') - Date.now() - DAY)).toBeLessThan(60_000)
    expect(
      (await service.call('POST', '/post', { token: agent.token, body: { body: 'paid by work' } })).status,
    ).toBe(201)
    const afterTwo = await hand(agent, id, shares.slice(6))
    expect(afterTwo).toMatchObject({ status: 'credited', shares_accepted: 10, credited_days: 2 })
    expect(Date.parse(afterTwo.pass_until ?? '') - Date.parse(afterOne.pass_until ?? '')).toBe(DAY)
    expect(await credits(id)).toEqual([
      ['pass_credit', `${id}/credit/1`, 1],
      ['pass_credit', `${id}/credit/2`, 1],
    ])
  })

  // holds: rules.pass.statements.a_nonce_counts_once_per_order
  it('that are good survive what is bad beside them, and each bad one is told with its reason', async () => {
    const agent = await service.register()
    const { order_id: id, prefix } = await order(agent)
    const good = findNonces(prefix, BITS, 3)
    const weak = weakNonce(prefix)
    const bad = [
      '',
      'A',
      'a b',
      'é',
      'x'.repeat(21),
      'x'.repeat(64),
      '-1',
      '1.5',
      ':',
      -1,
      1.5,
      2 ** 53,
      1e21,
    ]
    const { accepted, rejected, shares_accepted } = await hand(agent, id, [
      bad[0] ?? '',
      ...good,
      ...bad.slice(1),
      weak,
      good[0] ?? '',
      Number(good[1]),
    ])
    expect([accepted, shares_accepted]).toEqual([3, 3])
    expect(rejected).toEqual([
      ...bad.map((nonce) => ({ nonce, reason: 'invalid_nonce' })),
      { nonce: good[0], reason: 'duplicate' },
      { nonce: Number(good[1]), reason: 'duplicate' },
      { nonce: weak, reason: 'insufficient_work' },
    ])
  })

  // holds: rules.pass.statements.a_nonce_counts_once_per_order
  // holds: rules.proof_of_work.statements.a_registration_takes_one_share_a
  it('count once for their order, over batches and in batches at once', async () => {
    const agent = await service.register()
    const { order_id: id, prefix } = await order(agent, 4)
    const shares = findNonces(prefix, BITS, 15)
    await hand(agent, id, shares.slice(0, 5))
    expect(await hand(agent, id, shares.slice(3, 8))).toMatchObject({
      accepted: 3,
      shares_accepted: 8,
      rejected: shares.slice(3, 5).map((nonce) => ({ nonce, reason: 'duplicate' })),
    })
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, i) => hand(agent, id, shares.slice(i, i + 4))),
    )
    expect(answers.reduce((sum, { accepted }) => sum + accepted, 0)).toBe(7)
    expect(await hand(agent, id, shares)).toMatchObject({
      accepted: 0,
      shares_accepted: 15,
      credited_days: 3,
      status: 'open',
    })
    expect(
      (await credits(id)).map(([, , days]) => days).reduce((sum: number, days) => sum + Number(days), 0),
    ).toBe(3)
  })

  it('beyond what the order needs are told so, and a full order takes no more', async () => {
    const agent = await service.register()
    const { order_id: id, prefix } = await order(agent)
    const shares = findNonces(prefix, BITS, 8)
    const last = await hand(agent, id, shares)
    expect(last).toMatchObject({
      status: 'credited',
      accepted: PER_DAY,
      shares_accepted: PER_DAY,
      credited_days: 1,
    })
    expect(last.rejected).toEqual(shares.slice(PER_DAY).map((nonce) => ({ nonce, reason: 'order_full' })))
    for (const nonces of [shares.slice(PER_DAY), shares, [...shares.slice(0, PER_DAY), 'not a nonce']]) {
      const full = await submit(service, agent, id, nonces)
      expect(outcome(full)).toEqual([409, 'wrong_state', 'order_id'])
      expect(full.json.message).toContain('credited')
    }
  })

  it('that all count already are answered with where the order stands, also once it is full or over', async () => {
    const timed = await startService()
    const agent = await timed.register()
    const { order_id: id, prefix } = await order(agent, 1, timed)
    const shares = findNonces(prefix, BITS, PER_DAY)
    const last = await hand(agent, id, shares, timed)
    const part = await order(agent, 2, timed)
    const some = findNonces(part.prefix, BITS, 2)
    await hand(agent, part.order_id, some, timed)
    const repeat = async (orderId: string, nonces: readonly string[]) => {
      const { status, json } = await submit(timed, agent, orderId, nonces)
      const { rejected, shares_accepted: counted, credited_days: days, pass_until: until } = json
      return [status, json['status'], json['accepted'], (rejected as object[]).length, counted, days, until]
    }
    const stands = [PER_DAY, 1, last.pass_until]
    expect(await repeat(id, shares)).toEqual([200, 'credited', 0, PER_DAY, ...stands])
    expect(await repeat(id, shares.slice(1))).toEqual([200, 'credited', 0, PER_DAY - 1, ...stands])
    expect(await repeat(id, [...shares, ...shares])).toEqual([200, 'credited', 0, 2 * PER_DAY, ...stands])
    expect(outcome(await submit(timed, agent, id, []))).toEqual([400, 'invalid_field', 'nonces'])
    timed.advance(32 * DAY)
    expect((await repeat(part.order_id, some)).slice(0, 4)).toEqual([200, 'expired', 0, 2])
    const other = await timed.register()
    expect(outcome(await submit(timed, other, id, shares))).toEqual([404, 'no_such_work_order', 'order_id'])
    await timed.stop()
  })

  // holds: rules.proof_of_work.statements.the_prefix_is_the_service_s
  it('of one order are nothing for another, and a share handed in by its number is the same share', async () => {
    const agent = await service.register()
    const [one, two] = [await order(agent), await order(agent)]
    const share = findNonces(one.prefix, BITS, 5).find((nonce) => !isShare(two.prefix, nonce)) ?? ''
    expect((await hand(agent, one.order_id, [Number(share)])).accepted).toBe(1)
    expect((await hand(agent, one.order_id, [share])).rejected).toEqual([
      { nonce: share, reason: 'duplicate' },
    ])
    expect((await hand(agent, two.order_id, [share])).rejected).toEqual([
      { nonce: share, reason: 'insufficient_work' },
    ])
  })

  // holds: limits.work_order, rules.pass.statements.a_work_order_expires_30_days
  it.runIf(FULL)('may come ten thousand at once', async () => {
    const agent = await service.register()
    const { order_id: id, prefix } = await order(agent, 100)
    const nonces = Array.from({ length: 10_000 }, (_, i) => i)
    const { accepted, rejected } = await hand(agent, id, nonces)
    expect(accepted).toBe(nonces.filter((nonce) => isShare(prefix, nonce)).length)
    expect(accepted + rejected.length).toBe(10_000)
  })
})

describe('a work order', () => {
  // holds: rules.errors.no_such_work_order
  it('is nothing to a stranger, as one that does not exist', async () => {
    const [owner, stranger] = [await service.register(), await service.register()]
    const { order_id: id, prefix } = await order(owner)
    const before = await countStored(service.ctx.database.connection)
    for (const orderId of [id, 'wrk_00000000000000000000000000', 'x'])
      expect(outcome(await submit(service, stranger, orderId, findNonces(prefix, BITS, 1)))).toEqual([
        404,
        'no_such_work_order',
        'order_id',
      ])
    expect(await countStored(service.ctx.database.connection)).toEqual(before)
  })

  // holds: limits.work_order
  it('refuses what is no list of nonces: too many, none, other types, a number of half a million digits', async () => {
    const agent = await service.register()
    const { order_id: id } = await order(agent)
    const before = await countStored(service.ctx.database.connection)
    for (const nonces of [
      [],
      null,
      '1',
      { 0: '1' },
      [null],
      [[1]],
      [{}],
      [true],
      ['a\0'],
      ['\ud800'],
      Array.from({ length: 10_001 }, (_, i) => i),
    ])
      expect(outcome(await submit(service, agent, id, nonces))).toEqual([400, 'invalid_field', 'nonces'])
    const sendRaw = (nonces: string) =>
      service.call('POST', '/work/submit', {
        token: agent.token,
        rawBody: `{"order_id":"${id}","nonces":${nonces}}`,
      })
    expect(outcome(await sendRaw(`[${'1'.repeat(500_000)}]`))).toEqual([400, 'invalid_field', 'nonces'])
    expect(outcome(await sendRaw(`[${'1'.repeat(1_000_000)}]`))).toEqual([413, 'body_too_large'])
    expect(await countStored(service.ctx.database.connection)).toEqual(before)
  })

  // holds: limits.work_order, rules.pass.statements.a_work_order_expires_30_days
  it('expires 30 and its own days after it was made, and what it credited stays', async () => {
    const timed = await startService()
    const agent = await timed.register()
    const { order_id: id, prefix } = await order(agent, 2, timed)
    const shares = findNonces(prefix, BITS, 2 * PER_DAY)
    expect((await hand(agent, id, shares.slice(0, 6), timed)).credited_days).toBe(1)
    timed.advance(32 * DAY - 60_000)
    expect((await hand(agent, id, shares.slice(6, 7), timed)).status).toBe('open')
    timed.advance(60_000)
    const late = await submit(timed, agent, id, shares.slice(7))
    expect([outcome(late), late.json.message?.includes('expired')]).toEqual([
      [409, 'wrong_state', 'order_id'],
      true,
    ])
    expect((await timed.ctx.work.findOrder(id))?.credited_days).toBe(1)
    await timed.stop()
  })

  // holds: rules.pass.statements.a_work_order_expires_30_days
  // holds: rules.pass.statements.the_price_falls_to_0_15
  it('keeps the difficulty and the count it was made with', async () => {
    const agent = await service.register()
    const { order_id: id, prefix } = await order(agent)
    const stored = await service.ctx.work.findOrder(id)
    expect(stored).toMatchObject({
      prefix,
      difficulty_bits: BITS,
      shares_per_day: PER_DAY,
      shares_required: PER_DAY,
    })
    // A worker of other settings verifiers by the order.
    const config = readConfig(
      {
        ...PATIENT,
        MONGODB_URL: service.ctx.config.mongodbUrl,
        REDIS_URL: service.ctx.config.redisUrl,
        QUEUE_PREFIX: 'elsewhere',
        SHARE_BITS: '64',
        SHARES_PER_DAY: '99999',
      },
      'workers',
    )
    const strict = openContext(config, service.ctx.log, { now: service.ctx.now })
    await strict.database.whenReady()
    await strict.work.insertBatch({
      _id: 'bat_test',
      order_id: id,
      agent_id: agent.id,
      at_ms: Date.now(),
      state: 'waiting',
      nonces: findNonces(prefix, BITS, PER_DAY),
      count: PER_DAY,
    })
    await verifyBatch(strict, 'bat_test')
    await closeContext(strict)
    expect((await service.ctx.work.findOrder(id))?.credited_days).toBe(1)
  })
})

describe('without a worker', () => {
  // holds: limits.overload.detail, limits.work_order.detail
  it('a submission answers 202, is kept, and counts once when a worker comes', async () => {
    const lonely = await startService({ queues: ['sweep'] })
    const agent = await lonely.register()
    const { order_id: id, prefix } = await order(agent, 1, lonely)
    const shares = findNonces(prefix, BITS, PER_DAY)
    const answers = await Promise.all([
      submit(lonely, agent, id, [...shares, '!']),
      submit(lonely, agent, id, shares),
    ])
    for (const { status, json } of answers)
      expect([status, json['status'], json['accepted'], json['shares_accepted']]).toEqual([
        202,
        'verifying',
        0,
        0,
      ])
    expect(answers[0]?.json['rejected']).toEqual([{ nonce: '!', reason: 'invalid_nonce' }])
    const workers = openContext(lonely.ctx.config, lonely.ctx.log, { now: lonely.ctx.now })
    await Promise.all([workers.database.whenReady(), workers.queues.whenReady()])
    const pool = startPool(withSigning(workers), ['verify-shares'])
    await waitFor(
      'the verdict',
      async () => ((await lonely.ctx.work.findOrder(id))?.credited_days === 1 ? true : undefined),
      LIMIT,
    )
    await waitFor(
      'the end of both batches',
      async () => ((await lonely.ctx.work.listWaiting(Date.now(), 10)).length === 0 ? true : undefined),
      LIMIT,
    )
    expect((await lonely.ctx.work.findOrder(id))?.shares_accepted).toBe(PER_DAY)
    await pool.close()
    await closeContext(workers)
    await lonely.stop()
  })
})

describe('the referral price', () => {
  let cheap: TestService
  beforeAll(async () => {
    cheap = await startService({ env: { SHARES_PER_DAY: '1', SHARE_BITS: '4' } })
  })
  afterAll(() => cheap.stop())

  const pay = async (agent: TestAgent, days = 1) => {
    const { order_id: id, prefix } = await order(agent, days, cheap)
    expect(await hand(agent, id, findNonces(prefix, 4, days), cheap)).toMatchObject({
      status: 'credited',
      credited_days: days,
    })
  }
  const standing = async ({ token }: TestAgent) =>
    (await cheap.call('GET', '/me', { token })).json as { price_usd_per_day?: number; referrals?: object }

  // holds: limits.referral_price, rules.pass.statements.the_price_falls_to_0_15
  it.runIf(FULL)(
    'is reached when the fiftieth referred agent has paid, not before, and stays when one of them is banned',
    async () => {
      const referrer = await cheap.register()
      const referred: TestAgent[] = []
      for (let i = 0; i < 50; i += 10)
        referred.push(
          ...(await Promise.all(Array.from({ length: 10 }, () => cheap.register({ ref: referrer.id })))),
        )
      expect(await standing(referrer)).toMatchObject({
        price_usd_per_day: 1,
        referrals: { registered: 50, paying: 0, threshold: 50 },
      })
      for (let i = 0; i < 49; i += 7) await Promise.all(referred.slice(i, i + 7).map((agent) => pay(agent)))
      expect(await standing(referrer)).toMatchObject({ price_usd_per_day: 1, referrals: { paying: 49 } })
      await pay(referred[49] as TestAgent, 3)
      expect(await standing(referrer)).toMatchObject({
        price_usd_per_day: 0.15,
        referrals: { registered: 50, paying: 50 },
      })
      const menu = (await cheap.call('GET', '/currencies', { token: referrer.token })).json as {
        pricing?: { your_price: string }
      }
      expect(menu.pricing?.your_price).toMatch(/^0\.15 USD per day/)
      // Work stays as many shares at any price.
      expect((await order(referrer, 1, cheap)).shares_required).toBe(1)
      await setBanned(cheap.ctx, referred[0]?.id ?? '', true)
      expect(await standing(referrer)).toMatchObject({ price_usd_per_day: 0.15, referrals: { paying: 50 } })
      expect(await standing(referred[1] as TestAgent)).toMatchObject({
        price_usd_per_day: 1,
        referrals: { registered: 0, paying: 0 },
      })
    },
  )

  // holds: limits.referral_price, rules.pass.statements.the_price_falls_to_0_15
  it('counts an agent once, however often it pays and though its first payments come at once', async () => {
    const referrer = await cheap.register()
    const agent = await cheap.register({ ref: referrer.id })
    await Promise.all(Array.from({ length: 6 }, () => pay(agent)))
    await pay(agent, 2)
    expect(await standing(referrer)).toMatchObject({ referrals: { registered: 1, paying: 1 } })
    expect(
      Math.abs(((await cheap.ctx.agents.find(agent.id))?.pass_until_ms ?? 0) - Date.now() - 8 * DAY),
    ).toBeLessThan(60_000)
  })

  // holds: limits.referral_price, rules.pass.statements.the_price_falls_to_0_15
  it('counts no free day as a payment', async () => {
    const free = await startService({ env: { FREE_UNTIL: new Date(Date.now() + 9 * DAY).toISOString() } })
    const referrer = await free.register()
    const agent = await free.register({ ref: referrer.id })
    expect(
      (await free.call('POST', '/invoice', { token: agent.token, body: { currency: 'xno', days: 5 } })).json[
        'credited_days'
      ],
    ).toBe(5)
    expect((await free.call('GET', '/me', { token: referrer.token })).json['referrals']).toEqual({
      registered: 1,
      paying: 0,
      threshold: 50,
    })
    expect((await free.ctx.agents.find(agent.id))?.first_paid_at).toBeUndefined()
    await free.stop()
  })

  it('cannot be had by referring oneself: the referrer is named before the id is known, and never again', async () => {
    const agent = await cheap.register()
    await cheap.call('POST', '/profile', { token: agent.token, body: { ref: agent.id, name: 'n' } })
    await cheap.call('POST', '/invoice', { token: agent.token, body: { ref: agent.id, currency: 'pow' } })
    await pay(agent)
    expect(await cheap.ctx.agents.find(agent.id)).not.toHaveProperty('ref')
    expect(await standing(agent)).toMatchObject({ referrals: { registered: 0, paying: 0 } })
  })
})

describe('junk work', () => {
  const junk = (prefix: string, count: number): string[] => {
    const found: string[] = []
    for (let nonce = 0; found.length < count; nonce++) if (!isShare(prefix, nonce)) found.push(String(nonce))
    return found
  }
  const batchesOf = (orderId: string) => service.ctx.work.models.batches.find({ order_id: orderId }).lean()

  // holds: limits.work_order.detail, rules.errors.insufficient_work
  it('is refused by the API and stored nowhere: many nonces without one share, and a few with their reasons', async () => {
    const agent = await service.register()
    const { order_id: id, prefix } = await order(agent)
    expect(outcome(await submit(service, agent, id, junk(prefix, 10_000)))).toEqual([
      422,
      'insufficient_work',
      'nonces',
    ])
    expect(outcome(await submit(service, agent, id, junk(prefix, 17)))).toEqual([
      422,
      'insufficient_work',
      'nonces',
    ])
    const few = await hand(agent, id, junk(prefix, 16))
    expect([few.accepted, few.rejected.length, few.status]).toEqual([0, 16, 'open'])
    expect(await batchesOf(id)).toEqual([])
  })

  // holds: limits.work_order.detail
  it('beside shares is told in the answer and not stored', async () => {
    const agent = await service.register()
    const { order_id: id, prefix } = await order(agent, 2)
    const good = findNonces(prefix, BITS, 7)
    await hand(agent, id, good.slice(0, 2))
    const bad = junk(prefix, 5_000)
    const { accepted, rejected } = await hand(agent, id, [...bad, ...good])
    expect(accepted).toBe(5)
    expect(rejected).toEqual([
      ...bad.map((nonce) => ({ nonce, reason: 'insufficient_work' })),
      ...good.slice(0, 2).map((nonce) => ({ nonce, reason: 'duplicate' })),
    ])
    for (const batch of await batchesOf(id)) {
      expect(JSON.stringify(batch).length).toBeLessThan(400)
      expect(batch).toMatchObject({ state: 'verified' })
      expect(batch).not.toHaveProperty('rejected')
    }
  })

  // holds: limits.work_order.detail
  it('waits in one batch for each order, which tells each submission what became of its own nonces', async () => {
    const slow = await startService({ queues: [] })
    const agent = await slow.register()
    const { order_id: id, prefix } = await order(agent, 9, slow)
    const shares = findNonces(prefix, BITS, 40)
    const parts = Array.from({ length: 10 }, (_, index) => shares.slice(index * 3, index * 3 + 6))
    const waiting = parts.map((nonces) => submit(slow, agent, id, nonces))
    const count = () => slow.ctx.work.models.batches.findOne({ order_id: id, state: 'waiting' }).lean()
    await waitFor('all of them', async () => ((await count())?.count === 60 ? true : undefined), LIMIT)
    expect(await slow.ctx.work.models.batches.countDocuments({ order_id: id })).toBe(1)
    const workers = openContext(slow.ctx.config, slow.ctx.log, { now: slow.ctx.now })
    await Promise.all([workers.database.whenReady(), workers.queues.whenReady()])
    const pool = startPool(withSigning(workers), ['verify-shares'])
    const answers = (await Promise.all(waiting)).map(({ json }) => json as unknown as Submission)
    expect(answers.reduce((sum, { accepted }) => sum + accepted, 0)).toBe(33)
    for (const [index, { accepted, rejected }] of answers.entries()) {
      expect(accepted + rejected.length).toBe(6)
      for (const { nonce, reason } of rejected)
        expect([parts[index]?.includes(String(nonce)), reason]).toEqual([true, 'duplicate'])
    }
    await pool.close()
    await closeContext(workers)
    await slow.stop()
  })

  // holds: limits.work_order.detail
  it('of one agent comes behind the first batch of every other', async () => {
    const slow = await startService({ queues: [] })
    const agents = [await slow.register(), await slow.register()] as const
    const orders = await Promise.all([
      ...Array.from({ length: 5 }, () => order(agents[0], 1, slow)),
      order(agents[1], 1, slow),
    ])
    for (const [index, { order_id: id, prefix }] of orders.entries()) {
      const agent = index < 5 ? agents[0] : agents[1]
      void submit(slow, agent, id, findNonces(prefix, BITS, 1))
      await waitFor(
        'its job',
        async () => {
          const jobs = await slow.ctx.queues.get('verify-shares').getJobs(['waiting', 'prioritized'])
          return jobs.length === index + 1 ? true : undefined
        },
        LIMIT,
      )
    }
    const queue = slow.ctx.queues.get('verify-shares')
    expect(await queue.getJobCounts('waiting', 'prioritized')).toEqual({ waiting: 2, prioritized: 4 })
    await slow.stop()
  })
})
