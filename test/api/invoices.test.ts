import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { openGate } from '../harness/testbed/gate.ts'
import { ADDRESS_WAIT_MS } from '../../shared/platform/limits.ts'
import { parseAmount } from '../../shared/money/coin.ts'
import { refreshRate } from '../../shared/money/rate.ts'
import { expireInvoices } from '../../shared/money/invoice-expiry.ts'
import { unixSeconds } from '../../shared/platform/time.ts'
import { addAddresses, ageRate, makeCoinReady, pay, setRate } from '../support/coins.ts'
import { vouch } from '../support/market.ts'
import { checkBooksAfterEach, checkMoney } from '../support/money.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import {
  WITHOUT_LEDGER,
  startService,
  whenServed,
  type Answer,
  type TestAgent,
  type TestApi,
  type TestService,
} from '../support/service.ts'
import { countStored } from '../support/stored.ts'

const MINUTE = 60_000
const DAY = 86_400_000
const LIMIT = { limitMs: PATIENCE_MS }

let service: TestService
let other: TestApi
beforeAll(async () => {
  service = await startService({ queues: WITHOUT_LEDGER })
  other = await service.addApi()
  await makeCoinReady(service.ctx, 'xno')
  await makeCoinReady(service.ctx, 'xmr', { rate: '163.27' })
})
// Of a coin whose worker has been silent for a minute nobody buys.
beforeEach(() => later(0))
checkBooksAfterEach(() => service.ctx)
afterAll(async () => {
  const { ctx } = service
  await checkMoney(ctx)
  await service.stop()
})

const buy = (agent: TestAgent, currency = 'xno', days?: number, on: TestApi = service) =>
  on.call('POST', '/invoice', {
    token: agent.token,
    body: { currency, ...(days === undefined ? {} : { days }) },
  })
const check = (agent: TestAgent, invoiceId: unknown, on: TestApi = service) =>
  on.call('POST', '/invoice/check', { token: agent.token, body: { invoice_id: invoiceId } })
const idOf = ({ json }: Answer) => String(json['invoice_id'])
const lapseNow = (coin: 'xno' | 'xmr' = 'xno') =>
  expireInvoices(service.ctx, coin, unixSeconds(service.ctx.now()))
/**
 * A living worker tells again and again that its coin is ready, and an API that serves, that it does: no
 * outage is written down behind a test.
 */
const later = async (ms: number, rate = '1') => {
  await vouch(service.ctx, service.ctx.now() + ms)
  service.advance(ms)
  await makeCoinReady(service.ctx, 'xno', { rate, addresses: 0 })
  await makeCoinReady(service.ctx, 'xmr', { rate: '163.27', addresses: 0 })
}

describe('POST /invoice in a coin', () => {
  // holds: rules.pass.statements.post_invoice_with_a_coin_gives
  it('answers 201 with the invoice flat and under its name, its price rounded up at the shown decimals', async () => {
    const agent = await service.register()
    const answer = await buy(agent, 'xmr', 2)
    expect(answer.status).toBe(201)
    const { ok: _ok, invoice, ...flat } = answer.json
    expect(invoice).toEqual(flat)
    expect(flat).toMatchObject({
      currency: 'xmr',
      days: 2,
      amount: '0.01224965',
      amount_raw: '12249650000',
      price_usd: 2,
      rate: '163.27',
      rate_source: 'two exchanges of this test',
      status: 'awaiting_payment',
    })
    expect(flat['uri']).toBe(`monero:${String(flat['address'])}?tx_amount=0.01224965`)
    expect(idOf(answer)).toMatch(/^inv_/)
    expect(Math.abs(Number(flat['expires_at']) * 1_000 - service.ctx.now() - 60 * MINUTE)).toBeLessThan(
      10_000,
    )
    expect(Math.abs(Number(flat['rate_at']) * 1_000 - service.ctx.now())).toBeLessThan(60_000)
  })

  it('is for one day where days is absent, and Nano is asked for in raw', async () => {
    const { json } = await buy(await service.register())
    expect(json).toMatchObject({
      currency: 'xno',
      days: 1,
      amount: '1.000000',
      amount_raw: String(10n ** 30n),
    })
    expect(json['uri']).toBe(`nano:${String(json['address'])}?amount=${10n ** 30n}`)
  })

  // holds: limits.open_invoices, limits.open_invoices.detail
  it('gives the open one again for the same days, refuses other days, and lets each coin have its own', async () => {
    const agent = await service.register()
    const first = await buy(agent, 'xno', 2)
    const again = await buy(agent, 'xno', 2)
    expect([first.status, again.status]).toEqual([201, 200])
    expect(again.json).toEqual(first.json)
    const different = await buy(agent, 'xno', 3)
    expect([different.status, different.json.error, different.json.field]).toEqual([
      409,
      'wrong_state',
      'days',
    ])
    expect(different.json.message).toContain(idOf(first))
    expect((await buy(agent, 'xmr', 3)).status).toBe(201)
    expect((await buy(await service.register(), 'xno', 3)).status).toBe(201)
  })

  it('shows in the open one what has been seen of it since', async () => {
    const agent = await service.register()
    const first = await buy(agent, 'xno', 2)
    await pay(service.ctx, idOf(first), { amount: '0.5' })
    expect((await buy(agent, 'xno', 2)).json).toMatchObject({
      status: 'underpaid',
      uri: expect.stringMatching(/amount=15(0){29}$/),
    })
    await pay(service.ctx, idOf(first), { amount: '0.5', confirmed: false })
    expect((await buy(agent, 'xno', 2)).json).toMatchObject({ invoice_id: idOf(first), status: 'confirming' })
  })

  // holds: limits.open_invoices
  it('makes one invoice of twenty requests at once to two processes', async () => {
    const agent = await service.register()
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, place) => buy(agent, 'xno', 1, place % 2 === 0 ? service : other)),
    )
    expect(new Set(answers.map(idOf)).size).toBe(1)
    expect(answers.map(({ status }) => status).sort()).toEqual([
      ...Array.from({ length: 19 }, () => 200),
      201,
    ])
    expect(await service.ctx.invoices.models.invoices.countDocuments({ agent_id: agent.id })).toBe(1)
  })

  // holds: rules.pass.statements.post_invoice_with_a_coin_gives
  it('gives no address twice, also to fifty agents at once', async () => {
    const agents = await Promise.all(Array.from({ length: 25 }, () => service.register()))
    await addAddresses(service.ctx, 'xmr', 100)
    const answers = await Promise.all(
      agents.flatMap((agent) => [buy(agent, 'xno', 1), buy(agent, 'xmr', 1, other)]),
    )
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 201))
    expect(new Set(answers.map(({ json }) => json['address'])).size).toBe(50)
  })

  // holds: limits.open_invoices.detail, limits.time_to_pay_an_invoice
  it('makes another once the time is over or the price is paid', async () => {
    const agent = await service.register()
    const first = await buy(agent)
    await pay(service.ctx, idOf(first), { amount: '1' })
    const second = await buy(agent, 'xno', 4)
    expect([second.status, idOf(second) !== idOf(first)]).toEqual([201, true])
    await later(61 * MINUTE)
    const third = await buy(agent, 'xno', 5)
    expect([third.status, third.json['address'] !== second.json['address']]).toEqual([201, true])
  })

  // holds: limits.referral_price
  it('asks 0.15 USD a day from an agent with fifty paying referrals', async () => {
    const agent = await service.register()
    await service.ctx.agents.models.agents.updateOne({ _id: agent.id }, { $set: { 'referrals.paying': 50 } })
    expect((await buy(agent, 'xno', 10)).json).toMatchObject({ price_usd: 1.5, amount: '1.500000' })
  })

  // holds: limits.rates, rules.errors.rate_unavailable
  it('is refused without a rate, with a stale one, and goes on with a fresh one', async () => {
    const agent = await service.register()
    await ageRate(service.ctx, 'xno', 16 * MINUTE)
    const before = await countStored(service.ctx.database.connection)
    const stale = await buy(agent)
    expect([stale.status, stale.json.error]).toEqual([503, 'rate_unavailable'])
    expect(await countStored(service.ctx.database.connection)).toEqual(before)
    await setRate(service.ctx, 'xno', '2')
    expect((await buy(agent)).json).toMatchObject({ amount: '0.500000' })
    await setRate(service.ctx, 'xno', '1')
  })

  // holds: rules.errors.currency_not_configured
  it('is refused while the node is away, the wallet is halted or the worker is silent, and the open one is still shown', async () => {
    const agent = await service.register()
    const open = await buy(agent)
    const stranger = await service.register()
    const refused = async () => {
      const answer = await buy(stranger)
      expect([answer.status, answer.json.error, answer.json.field]).toEqual([
        503,
        'currency_not_configured',
        'currency',
      ])
      expect(idOf(await buy(agent))).toBe(idOf(open))
    }
    const now = () => unixSeconds(service.ctx.now())
    await service.ctx.coins.report('xno', { reachable: false }, now())
    await refused()
    expect((await check(agent, idOf(open))).json).toMatchObject({
      chain: 'unreachable',
      status: 'awaiting_payment',
    })
    await makeCoinReady(service.ctx, 'xno', { addresses: 0 })
    await service.ctx.coins.halt('xno', now(), 'a test')
    await refused()
    await service.ctx.coins.resume('xno')
    service.advance(3 * MINUTE)
    await refused()
    expect((await check(agent, idOf(open))).json).toMatchObject({ chain: 'unreachable' })
    await later(0)
    expect((await buy(stranger)).status).toBe(201)
    expect((await check(agent, idOf(open))).json).toMatchObject({ chain: 'reachable' })
  })
})

describe('the pool of addresses', () => {
  it('is asked to be filled and waited for when it is empty', async () => {
    const own = await startService({ queues: [] })
    await makeCoinReady(own.ctx, 'xno', { addresses: 0 })
    const agent = await own.register()
    for (;;) {
      const askedMs = performance.now()
      const asking = own.call('POST', '/invoice', { token: agent.token, body: { currency: 'xno' } })
      await waitFor(
        'the job',
        async () => ((await own.ctx.queues.get('fill-nano').getWaitingCount()) === 1 ? true : undefined),
        LIMIT,
      )
      await addAddresses(own.ctx, 'xno', 1)
      const tookMs = performance.now() - askedMs
      const { status } = await asking
      if (status === 201) break
      // It waits for 2 s: only where this process was held up for half of that it may have waited in vain.
      expect(status).toBe(503)
      expect(tookMs).toBeGreaterThan(ADDRESS_WAIT_MS / 2)
      await own.ctx.coins.addresses.take('xno')
    }
    await own.stop()
  })

  // holds: limits.overload.detail
  it('is waited for no longer than said, and then nothing is stored', async () => {
    const own = await startService({ queues: [] })
    await makeCoinReady(own.ctx, 'xmr', { addresses: 0 })
    const agent = await own.register()
    const answer = await own.call('POST', '/invoice', { token: agent.token, body: { currency: 'xmr' } })
    expect([answer.status, answer.json.error]).toEqual([503, 'unavailable'])
    expect(await own.ctx.invoices.models.invoices.countDocuments()).toBe(0)
    expect(await own.ctx.queues.get('fill-monero').getWaitingCount()).toBe(1)
    await own.stop()
  })
})

describe('POST /invoice/check', () => {
  // holds: rules.pass.invoice_statuses.awaiting_payment, rules.pass.invoice_statuses.confirming
  // holds: rules.pass.invoice_statuses.settled, rules.pass.invoice_statuses.underpaid
  it('shows an invoice through its life: awaiting, confirming, underpaid, settled', async () => {
    const agent = await service.register()
    const id = idOf(await buy(agent, 'xmr', 2))
    const fresh = (await check(agent, id)).json
    expect(fresh).toMatchObject({
      status: 'awaiting_payment',
      paid: '0',
      paid_raw: '0',
      remaining: '0.01224965',
      remainder_raw: '0',
      confirmations: 0,
      required_confirmations: 10,
      chain: 'reachable',
      checked_at: expect.any(Number),
      payments: [],
      credited_days: 0,
    })
    expect(fresh).not.toHaveProperty('pass_until')
    const tx = await pay(service.ctx, id, { amount: '0.01', confirmed: false, confirmations: 3 })
    expect((await check(agent, id)).json).toMatchObject({
      status: 'confirming',
      paid: '0',
      confirmations: 3,
      payments: [
        {
          tx_hash: tx,
          state: 'seen',
          amount: '0.01',
          late: false,
          settlement: 'automatic',
          credited_days: 0,
        },
      ],
    })
    await pay(service.ctx, id, { amount: '0.01', tx })
    expect((await check(agent, id)).json).toMatchObject({
      status: 'underpaid',
      paid: '0.01',
      remaining: '0.00224965',
      credited_days: 0,
    })
    await pay(service.ctx, id, { amount: '0.00224965' })
    const settled = (await check(agent, id)).json
    expect(settled).toMatchObject({
      status: 'settled',
      paid: '0.01224965',
      remaining: '0',
      remainder_raw: '0',
      credited_days: 2,
    })
    expect(Math.abs(Date.parse(String(settled['pass_until'])) - service.ctx.now() - 2 * DAY)).toBeLessThan(
      60_000,
    )
    expect(settled['pass_until']).toBe(
      (await service.call('GET', '/me', { token: agent.token })).json['pass_until'],
    )
  })

  // holds: rules.errors.no_such_invoice
  it("tells nobody of a stranger's invoice, nor of one that there is not", async () => {
    const id = idOf(await buy(await service.register()))
    const stranger = await service.register()
    for (const asked of [id, 'inv_01hzzzzzzzzzzzzzzzzzzzzzzz', 'wrk_1', 'x', id.toUpperCase(), ` ${id}`]) {
      const answer = await check(stranger, asked)
      expect([answer.status, answer.json.error, answer.json.field]).toEqual([
        404,
        'no_such_invoice',
        'invoice_id',
      ])
    }
  })

  // holds: limits.invoice_check
  it('asks a worker for a look at most once in two seconds, however many ask', async () => {
    const own = await startService({ queues: [] })
    await makeCoinReady(own.ctx, 'xno')
    const agent = await own.register()
    const { json } = await own.call('POST', '/invoice', { token: agent.token, body: { currency: 'xno' } })
    const ask = () =>
      own.call('POST', '/invoice/check', { token: agent.token, body: { invoice_id: json['invoice_id'] } })
    const answers = await Promise.all(Array.from({ length: 30 }, ask))
    // 202 says that Redis took longer than a request waits for it.
    for (const { status } of answers) expect([200, 202]).toContain(status)
    const queue = own.ctx.queues.get('check-nano')
    expect((await queue.getWaiting()).map(({ data }) => (data as { invoice_id: string }).invoice_id)).toEqual(
      [json['invoice_id']],
    )
    // A job that was taken makes room for another only after the two seconds, however long the asking took.
    await queue.obliterate({ force: true })
    own.advance(-1_900)
    await ask()
    expect(await queue.getWaitingCount()).toBe(0)
    own.advance(1_900 + 2_000)
    await ask()
    expect(await queue.getWaitingCount()).toBe(1)
    // While nobody takes the job, no heap of them grows.
    own.advance(3_000)
    await ask()
    expect(await queue.getWaitingCount()).toBe(1)
    // The last of them was asked for by a clock that was ten minutes ahead.
    for (const ms of [3_000, -600_000]) {
      await queue.obliterate({ force: true })
      own.advance(ms)
      await ask()
      expect(await queue.getWaitingCount()).toBe(1)
    }
    await own.stop()
  })

  it('settles once for 200 callers at once beside ten workers that find the same payment', async () => {
    const agent = await service.register()
    const id = idOf(await buy(agent, 'xno', 3))
    const tx = 'ab'.repeat(32)
    const [answers] = await Promise.all([
      Promise.all(
        Array.from({ length: 200 }, (_, place) => check(agent, id, place % 2 === 0 ? service : other)),
      ),
      Promise.all(
        Array.from({ length: 10 }, (_, place) =>
          pay((place % 2 === 0 ? service : other).ctx, id, { amount: '3', tx }),
        ),
      ),
    ])
    // An overloaded machine may answer some of them 503; what is answered, be it 202 for want of a fresh
    // look, holds together.
    const answered = answers.filter(({ status }) => status !== 503)
    expect(answered.length).toBeGreaterThan(0)
    for (const { json } of answered) {
      const payments = json['payments'] as { state: string; amount_raw: string }[]
      const settled = payments
        .filter(({ state }) => state === 'settled')
        .reduce((sum, { amount_raw }) => sum + BigInt(amount_raw), 0n)
      expect(String(settled)).toBe(json['paid_raw'])
    }
    const { json } = await check(agent, id)
    expect(json).toMatchObject({
      status: 'settled',
      credited_days: 3,
      paid: '3',
      payments: [{ tx_hash: tx }],
    })
    const until = (await service.ctx.agents.find(agent.id))?.pass_until_ms ?? 0
    expect(Math.abs(until - service.ctx.now() - 3 * DAY)).toBeLessThan(60_000)
  })
})

describe('GET /currencies', () => {
  interface Entry {
    currency: string
    amount_per_day: string
    settlement: string
    status: string
  }
  const readMenu = async (on: TestApi, token?: string) => {
    // The first look at the coins has half a second.
    const { json } = await whenServed(() =>
      on.call('GET', '/currencies', token === undefined ? {} : { token }),
    )
    const [xno, xmr] = json['accepted'] as Entry[]
    return { xno, xmr, rateSource: String(json['rate_source']), price: json['price_usd_per_day'] }
  }
  /** What an API process reads of the coins it remembers for a second. */
  const menuWhere = (
    on: TestApi,
    holds: (menu: Awaited<ReturnType<typeof readMenu>>) => boolean,
    token?: string,
  ) =>
    waitFor(
      'the menu',
      async () => ((menu) => (holds(menu) ? menu : undefined))(await readMenu(on, token)),
      LIMIT,
    )

  // holds: limits.currency_xmr.detail
  it('names what is ready, at the price that an invoice for a day would ask, and where its rate is from', async () => {
    const own = await startService({ queues: [] })
    expect(await readMenu(own)).toMatchObject({
      xno: {
        status: 'not_configured',
        amount_per_day: '999999999.000000',
        amount_is_placeholder: true,
        settlement: 'automatic',
      },
      xmr: { status: 'not_configured', amount_per_day: '999999999.00000000', settlement: 'manual' },
      rateSource: 'none: no coin is configured',
    })
    await makeCoinReady(own.ctx, 'xno', { rate: '0.951' })
    await makeCoinReady(own.ctx, 'xmr', { rate: '163.27' })
    const menu = await menuWhere(own, ({ xno, xmr }) => xno?.status === 'ready' && xmr?.status === 'ready')
    expect(menu).toMatchObject({
      xno: { amount_per_day: '1.051525', settlement: 'automatic' },
      xmr: { amount_per_day: '0.00612483', settlement: 'automatic' },
      rateSource: 'xno: two exchanges of this test; xmr: two exchanges of this test',
    })
    const agent = await own.register()
    for (const { currency, amount_per_day } of [menu.xno, menu.xmr] as Entry[])
      expect(
        (await own.call('POST', '/invoice', { token: agent.token, body: { currency } })).json['amount'],
      ).toBe(amount_per_day)
    await own.ctx.agents.models.agents.updateOne({ _id: agent.id }, { $set: { 'referrals.paying': 50 } })
    expect(await readMenu(own, agent.token)).toMatchObject({ xno: { amount_per_day: '0.157729' } })
    expect(await readMenu(own)).toMatchObject({ xno: { amount_per_day: '1.051525' } })
    await ageRate(own.ctx, 'xno', 16 * MINUTE)
    const stale = await menuWhere(own, ({ xno }) => xno?.status === 'not_configured')
    expect(stale).toMatchObject({
      xno: { amount_per_day: '999999999.000000' },
      xmr: { status: 'ready' },
      rateSource: 'xmr: two exchanges of this test',
    })
    own.advance(5 * MINUTE)
    expect((await readMenu(own)).xmr?.status).toBe('not_configured')
    await own.stop()
  })

  it('shows no coin that cannot be paid with at a price that whoever takes the cheapest would take', async () => {
    const own = await startService({ queues: [] })
    await makeCoinReady(own.ctx, 'xno', { rate: '0.000001' })
    const menu = await menuWhere(own, ({ xno }) => xno?.status === 'ready')
    const [cheapest] = [menu.xno, menu.xmr].toSorted(
      (a, b) => Number(a?.amount_per_day) - Number(b?.amount_per_day),
    )
    expect(cheapest).toMatchObject({ currency: 'xno', status: 'ready', amount_per_day: '1000000.000000' })
    await own.stop()
  })

  it('speaks of a free period as coming to an end only while there is one, and of a fixed rate as a rate', async () => {
    const dayAway = (days: number) => new Date(Date.now() + days * DAY).toISOString()
    const told = []
    for (const until of ['none', dayAway(5), dayAway(-5)]) {
      const own = await startService({ queues: ['refresh-rates'], env: { FREE_UNTIL: until, XNO_USD: '2' } })
      await makeCoinReady(own.ctx, 'xno')
      await refreshRate(own.ctx, 'xno')
      const { rateSource } = await menuWhere(
        own,
        ({ xno, rateSource: source }) => xno?.status === 'ready' && source.includes('fixed'),
      )
      const { free_period: period } = (await own.call('GET', '/currencies')).json as {
        free_period?: { what_happens_after: string }
      }
      told.push([rateSource, period?.what_happens_after])
      await own.stop()
    }
    expect(told).toEqual([
      ['xno: fixed by the operator', 'The price is 1.00 USD per day already.'],
      [
        'xno: fixed by the operator',
        'The price returns to 1.00 USD per day by itself. Days credited before are honoured to their end.',
      ],
      [
        'xno: fixed by the operator',
        'The price is 1.00 USD per day already, since the free period ended. Days credited in it are honoured to their end.',
      ],
    ])
  })

  it('says in the free period what a day will cost after it', async () => {
    const own = await startService({
      queues: [],
      env: { FREE_UNTIL: new Date(Date.now() + 5 * DAY).toISOString() },
    })
    await makeCoinReady(own.ctx, 'xno', { rate: '2' })
    expect(await menuWhere(own, ({ xno }) => xno?.status === 'ready')).toMatchObject({
      price: 0,
      xno: { amount_per_day: '0.500000' },
    })
    await own.stop()
  })
})

describe('while Redis is away', () => {
  it('invoices are made, and a check answers 202 with what is stored until a worker can be asked again', async () => {
    const redisUrl = new URL(inject('redisUrl'))
    const gate = await openGate(Number(redisUrl.port))
    redisUrl.port = String(gate.port)
    const own = await startService({ queues: [], env: { REDIS_URL: redisUrl.href } })
    await makeCoinReady(own.ctx, 'xno')
    const agent = await own.register()
    gate.cut()
    const made = await own.call('POST', '/invoice', { token: agent.token, body: { currency: 'xno' } })
    expect(made.status).toBe(201)
    const ask = () =>
      own.call('POST', '/invoice/check', {
        token: agent.token,
        body: { invoice_id: made.json['invoice_id'] },
      })
    await waitFor(
      'that Redis is known to be away',
      async () => ((await ask()).status === 202 ? true : undefined),
      LIMIT,
    )
    expect([(await ask()).status, (await ask()).status]).toEqual([202, 202])
    await pay(own.ctx, idOf(made), { amount: '1' })
    expect((await ask()).json).toMatchObject({ status: 'settled', credited_days: 1 })
    gate.heal()
    await waitFor(
      'that Redis is there again',
      async () => ((await ask()).status === 200 ? true : undefined),
      LIMIT,
    )
    expect(await own.ctx.queues.get('check-nano').getWaitingCount()).toBe(1)
    await own.stop()
    await gate.close()
  })
})

describe('what is left over', () => {
  // holds: limits.remainders, rules.pass.statements.what_is_left_below_a_day
  it('counts towards the next invoice in the same coin, and towards no other', async () => {
    const agent = await service.register()
    const first = idOf(await buy(agent))
    await pay(service.ctx, first, { amount: '1.4' })
    expect((await check(agent, first)).json).toMatchObject({
      status: 'settled',
      credited_days: 1,
      remainder_raw: String(parseAmount('0.4', 'xno')),
    })
    expect((await buy(agent, 'xmr')).json['status']).toBe('awaiting_payment')
    const second = await buy(agent, 'xno', 2)
    expect(second.json).toMatchObject({ amount: '2.000000', uri: expect.stringMatching(/amount=16(0){29}$/) })
    expect((await check(agent, idOf(second))).json).toMatchObject({
      carried_raw: String(parseAmount('0.4', 'xno')),
      remaining: '1.6',
      paid: '0',
    })
    expect((await check(agent, first)).json).toMatchObject({
      remainder_raw: '0',
      moved_raw: String(parseAmount('0.4', 'xno')),
    })
    await pay(service.ctx, idOf(second), { amount: '1.6' })
    expect((await check(agent, idOf(second))).json).toMatchObject({
      status: 'settled',
      credited_days: 2,
      remainder_raw: '0',
    })
  })

  it('pays the next invoice wholly where it is enough', async () => {
    const agent = await service.register()
    const first = idOf(await buy(agent, 'xno', 2))
    await later(61 * MINUTE)
    await lapseNow()
    // Late, and a day costs more than twice as much now: nothing is bought, and the price falls again.
    await setRate(service.ctx, 'xno', '0.01')
    await pay(service.ctx, first, { amount: '3.5' })
    expect((await check(agent, first)).json).toMatchObject({
      credited_days: 0,
      remainder_raw: String(parseAmount('3.5', 'xno')),
    })
    await setRate(service.ctx, 'xno', '1')
    const second = await buy(agent, 'xno', 3)
    expect([second.status, second.json['status']]).toEqual([201, 'settled'])
    expect((await check(agent, idOf(second))).json).toMatchObject({
      credited_days: 3,
      paid: '0',
      remaining: '0',
      remainder_raw: String(parseAmount('0.5', 'xno')),
    })
    const third = await buy(agent, 'xno', 1)
    expect(third.json['uri']).toMatch(/amount=5(0){29}$/)
    expect((await service.ctx.agents.find(agent.id))?.first_paid_at).toEqual(expect.any(Number))
  })
})

describe('a coin that nobody set up', () => {
  it('is refused for what costs, and given away in the free period all the same', async () => {
    const own = await startService({
      queues: [],
      env: { FREE_UNTIL: new Date(Date.now() + 5 * DAY).toISOString() },
    })
    const agent = await own.register()
    const ask = () => own.call('POST', '/invoice', { token: agent.token, body: { currency: 'xno' } })
    expect([(await ask()).status, (await ask()).json['credited_days']]).toEqual([200, 1])
    own.advance(6 * DAY)
    const refused = await ask()
    expect([refused.status, refused.json.error, refused.json.message?.includes('not set')]).toEqual([
      503,
      'currency_not_configured',
      true,
    ])
    await own.stop()
  })
})
