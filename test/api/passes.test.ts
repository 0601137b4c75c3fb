import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { acceptProposal } from '../../shared/claims/claim-service.ts'
import { paymentAskedView } from '../../shared/passes/payment-asked.ts'
import { Refusal } from '../../shared/platform/errors.ts'
import { creditFreeDays } from '../../shared/passes/pass-service.ts'
import { isoTime } from '../../shared/platform/time.ts'
import { vouch } from '../support/market.ts'
import { countStored, listPending } from '../support/stored.ts'
import {
  findNonces,
  startService,
  untilCredited,
  whenServed,
  WITHOUT_LEDGER,
  type TestAgent,
  type TestService,
} from '../support/service.ts'

const DAY = 86_400_000
const FREE_DAYS = 10

let service: TestService
/** A service in its free period, which ends ten days after it started. */
let free: TestService
let freeUntilMs: number

beforeAll(async () => {
  service = await startService({ queues: WITHOUT_LEDGER })
  freeUntilMs = Date.now() + FREE_DAYS * DAY
  free = await startService({
    queues: WITHOUT_LEDGER,
    env: { FREE_UNTIL: new Date(freeUntilMs).toISOString() },
  })
})
afterAll(() => Promise.all([service.stop(), free.stop()]))

const buy = (on: TestService, { token }: TestAgent, currency: string, days?: number) =>
  on.call('POST', '/invoice', { token, body: { currency, ...(days === undefined ? {} : { days }) } })
const readMe = async (on: TestService, { token }: TestAgent) =>
  (await on.call('GET', '/me', { token })).json as {
    pass_until?: string | null
    pass_active?: boolean
    price_usd_per_day?: number
  }
/** A process's first look at the coins has half a second. */
const readMenu = (on: TestService) => whenServed(() => on.call('GET', '/currencies'))
const creditsOf = async (on: TestService, { id }: TestAgent) =>
  (await listPending(on.ctx.database.connection, 'agents', id))
    .filter(({ kind }) => kind === 'pass_credit')
    .map(({ data }) => data)

describe('what a call without a pass is refused with', () => {
  it('names calls of which each buys a pass, as they stand', async () => {
    const agent = await free.register()
    const post = () => free.call('POST', '/post', { token: agent.token, body: { body: 'x' } })
    const { status, json } = await post()
    const pay = paymentAskedView.parse(json['pay'])
    expect([status, json.error, pay.buys, pay.price_usd_per_day]).toEqual([
      402,
      'pass_required',
      'pass_days',
      1,
    ])
    expect((await fetch(`${free.url}${pay.price_path}`)).status).toBe(200)
    expect(pay.calls.map(({ currency }) => currency)).toEqual(['xno', 'xmr', 'pow'])
    for (const { method, path, body } of pay.calls) {
      const buyer = await free.register()
      const headers = { Authorization: `Bearer ${buyer.token}`, 'Content-Type': 'application/json' }
      const bought = await fetch(free.url + path, { method, headers, body: JSON.stringify(body) })
      expect(await bought.json()).toMatchObject({ ok: true, credited_days: body.days })
    }
    expect((await free.call('GET', '/me')).json['pay']).toBeUndefined()
  })
})

describe('in the free period', () => {
  // holds: rules.pass.statements.post_invoice_asks_for_1_to
  it('POST /invoice credits days at once with any valid currency, configured or not', async () => {
    for (const currency of ['xno', 'xmr', 'pow']) {
      const agent = await free.register()
      const answer = await buy(free, agent, currency, 3)
      expect([answer.status, answer.json['free'], answer.json['credited_days']]).toEqual([200, true, 3])
      expect(Math.abs(Date.parse(String(answer.json['pass_until'])) - Date.now() - 3 * DAY)).toBeLessThan(
        60_000,
      )
      expect(answer.json['pass_until']).toMatch(/\+00:00$/)
      expect(await readMe(free, agent)).toMatchObject({
        pass_active: true,
        pass_until: answer.json['pass_until'],
        price_usd_per_day: 0,
      })
      expect(
        (await free.call('POST', '/post', { token: agent.token, body: { body: 'with a free pass' } })).status,
      ).toBe(201)
      expect(await creditsOf(free, agent)).toEqual([
        { agent_id: agent.id, means: 'free', days: 3, pass_until: answer.json['pass_until'] },
      ])
    }
  })

  // holds: rules.pass.statements.post_invoice_asks_for_1_to
  it('credits end with the period, count whole days, and may be 0', async () => {
    const agent = await free.register()
    expect((await buy(free, agent, 'pow', 365)).json).toMatchObject({
      free: true,
      credited_days: FREE_DAYS - 1,
      pass_until: isoTime(freeUntilMs),
    })
    expect((await buy(free, agent, 'pow', 1)).json).toMatchObject({
      free: true,
      credited_days: 0,
      pass_until: isoTime(freeUntilMs),
    })
    expect(await creditsOf(free, agent)).toHaveLength(1)
  })

  // holds: rules.pass.statements.post_invoice_asks_for_1_to
  it('is one day where days is absent, and refuses a currency that does not exist', async () => {
    const agent = await free.register()
    expect((await buy(free, agent, 'xno')).json['credited_days']).toBe(1)
    const answer = await buy(free, agent, 'btc')
    expect([answer.status, answer.json.error, answer.json.field]).toEqual([400, 'invalid_field', 'currency'])
  })

  it('every one of ten purchases at once counts', async () => {
    const agent = await free.register()
    const answers = await Promise.all(Array.from({ length: 8 }, () => buy(free, agent, 'pow', 1)))
    expect(answers.map(({ json }) => json['credited_days'])).toEqual(Array.from({ length: 8 }, () => 1))
    const { pass_until: until } = await readMe(free, agent)
    expect(Math.abs(Date.parse(String(until)) - Date.now() - 8 * DAY)).toBeLessThan(60_000)
    const credits = await creditsOf(free, agent)
    expect(credits).toHaveLength(8)
    expect(new Set(credits.map((data) => data['pass_until'])).size).toBe(8)
  })

  // holds: limits.pass_price.detail
  it('the menu says so, and until when', async () => {
    const menu = (await readMenu(free)).json
    expect(menu).toMatchObject({
      price_usd_per_day: 0,
      free_period: { active: true, until: isoTime(freeUntilMs) },
      pricing: { base_usd_per_day: 1, referral_threshold: 50, referral_price_usd_per_day: 0.15 },
    })
    const { token } = await free.register()
    const own = (await free.call('GET', '/currencies', { token })).json
    const pricing = own['pricing'] as { your_price: string }
    expect(pricing.your_price).toMatch(/^0 USD per day in the free period; after it 1\.00 USD/)
    expect([own['your_price_usd_per_day'], menu['your_price_usd_per_day']]).toEqual([1, null])
  })

  // holds: contract.guarantees.a_paid_pass_is_honoured_for, limits.pass_price
  // holds: rules.pass.statements.a_paid_credit_adds_whole_days
  it('ends by itself: the price returns, and what was credited is honoured', async () => {
    const ending = await startService({ env: { FREE_UNTIL: new Date(Date.now() + 2 * DAY).toISOString() } })
    const agent = await ending.register()
    const { pass_until: until } = (await buy(ending, agent, 'xno', 5)).json
    // What was bought before is kept whatever the free period would give.
    await ending.ctx.agents.movePassEnd(agent.id, Date.parse(String(until)), Date.now() + 20 * DAY, [])
    expect((await buy(ending, agent, 'xno', 5)).json).toMatchObject({ credited_days: 0 })
    ending.advance(2 * DAY)
    expect(await readMe(ending, agent)).toMatchObject({ pass_active: true, price_usd_per_day: 1 })
    expect((await readMenu(ending)).json).toMatchObject({
      price_usd_per_day: 1,
      free_period: { active: false },
    })
    expect([(await buy(ending, agent, 'pow')).status, (await buy(ending, agent, 'xno')).status]).toEqual([
      201, 503,
    ])
    ending.advance(18 * DAY + 1_000)
    expect((await readMe(ending, agent)).pass_active).toBe(false)
    await ending.stop()
  })
})

describe('a pass that is paid for', () => {
  // holds: limits.currency_xmr, rules.errors.currency_not_configured
  it('is not configured in a coin that the operator has not set up, and stores nothing', async () => {
    const agent = await service.register()
    // The API writes down that it serves beside the first answers that it gives.
    await vouch(service.ctx, service.ctx.now())
    const before = await countStored(service.ctx.database.connection)
    for (const currency of ['xno', 'xmr']) {
      const answer = await buy(service, agent, currency, 2)
      expect([answer.status, answer.json.error]).toEqual([503, 'currency_not_configured'])
    }
    expect(await countStored(service.ctx.database.connection)).toEqual(before)
    const { accepted } = (await readMenu(service)).json as {
      accepted?: { currency: string; status: string; amount_per_day: string }[]
    }
    expect(accepted?.map(({ currency, status }) => [currency, status])).toEqual([
      ['xno', 'not_configured'],
      ['xmr', 'not_configured'],
      ['pow', 'ready'],
    ])
    expect(accepted?.[2]?.amount_per_day).toBe('5 shares at 8 leading zero bits')
    expect(accepted?.[0]?.amount_per_day).toMatch(/^\d+\.\d{6}$/)
    expect(accepted?.[1]?.amount_per_day).toMatch(/^\d+\.\d{8}$/)
  })

  // holds: limits.proof_of_work_payment, rules.proof_of_work.share_bits, rules.proof_of_work.shares_per_day
  it('is ordered as work, with the contract in the order', async () => {
    const agent = await service.register()
    const answer = await buy(service, agent, 'pow', 3)
    expect(answer.status).toBe(201)
    expect(answer.json).toMatchObject({
      currency: 'pow',
      days: 3,
      shares_required: 15,
      difficulty_bits: 8,
      preimage: 'prefix:nonce',
      status: 'open',
      shares_accepted: 0,
      credited_days: 0,
    })
    expect(answer.json['order_id']).toMatch(/^wrk_/)
    expect(Math.abs(Number(answer.json['expires_at']) * 1_000 - Date.now() - 33 * DAY)).toBeLessThan(60_000)
    expect((await buy(service, agent, 'pow')).json['prefix']).not.toBe(answer.json['prefix'])
  })

  it('adds each day that is worked for to its end, beside every other credit at the same time', async () => {
    const agent = await service.register()
    const { token } = agent
    const proposals = await Promise.all(
      Array.from({ length: 3 }, async () =>
        String(
          (await service.call('POST', '/claim', { token, body: { statement: 'p', kind: 'proposal' } })).json[
            'id'
          ],
        ),
      ),
    )
    const orders = await Promise.all(
      Array.from(
        { length: 3 },
        async () =>
          (await buy(service, agent, 'pow', 1)).json as unknown as { order_id: string; prefix: string },
      ),
    )
    await Promise.all([
      ...orders.map(({ order_id, prefix }) =>
        service.call('POST', '/work/submit', { token, body: { order_id, nonces: findNonces(prefix, 8, 5) } }),
      ),
      ...proposals.map((id) => untilAvailable(() => acceptProposal(service.ctx, id, 7))),
      ...Array.from({ length: 4 }, () => creditFreeDays(service.ctx, agent.id, 2, Date.now() + 1_000 * DAY)),
    ])
    for (const { order_id: id } of orders) await untilCredited(service.ctx, id, 1)
    const { pass_until: until } = await readMe(service, agent)
    // 3 by work, 21 by proposals, 8 free: none is lost, whatever order they came in.
    expect(Math.abs(Date.parse(String(until)) - Date.now() - 32 * DAY)).toBeLessThan(60_000)
  })
})

/**
 * Beside many others a transaction may run out of the API's time; then nothing was written, and it is asked
 * for again.
 */
async function untilAvailable<T>(work: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (!(error instanceof Refusal) || error.code !== 'unavailable') throw error
    }
  }
}
