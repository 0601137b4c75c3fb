import { Writable } from 'node:stream'
import { Queue } from 'bullmq'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import * as purchase from '../../shared/passes/pass-purchase.ts'
import { closeContext, openContext, type Context } from '../../shared/context.ts'
import { createLog } from '../../shared/platform/log.ts'
import { MAX_CREDITED_DAYS } from '../../shared/platform/limits.ts'
import { watchCoin } from '../../shared/money/watch-round.ts'
import { parseAmount } from '../../shared/money/coin.ts'
import type { CoinDriver, Scan } from '../../shared/money/driver.ts'
import { recordPayments } from '../../shared/money/record-scan.ts'
import type { InvoiceRecord } from '../../shared/money/invoice.ts'
import type { PaymentRecord } from '../../shared/money/arrival.ts'
import { FIXED_RATE_SOURCE } from '../../shared/money/rate.ts'
import { queuePrefix } from '../../shared/platform/queue-table.ts'
import { expireInvoices } from '../../shared/money/invoice-expiry.ts'
import * as arrivals from '../../shared/money/record-arrival.ts'
import { settleWaiting } from '../../shared/money/settlement.ts'
import { unixSeconds } from '../../shared/platform/time.ts'
import { anotherCopy } from '../support/another-copy.ts'
import { addAddresses, ageRate, foundAt, makeCoinReady, newTx, pay, setRate } from '../support/coins.ts'
import { openMarket } from '../support/market.ts'
import { checkBooksAfterEach, checkMoney } from '../support/money.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { WITHOUT_LEDGER, startService, type TestAgent, type TestService } from '../support/service.ts'
import { listPending } from '../support/stored.ts'
import { recordLoss, recordPayment, telling } from '../support/told-chain.ts'
import { FULL } from '../support/full.ts'

const MINUTE = 60_000
const DAY = 86_400_000
let service: TestService
/** As the workers have it: more patient than the API. */
let ctx: Context
beforeAll(async () => {
  service = await startService({ queues: WITHOUT_LEDGER })
  ctx = openContext(service.ctx.config, service.ctx.log, { now: service.ctx.now, databaseTimeoutMs: 30_000 })
  await ctx.database.whenReady()
  await makeCoinReady(ctx, 'xno', { addresses: 1_000 })
  await makeCoinReady(ctx, 'xmr', { addresses: 100 })
})
// A coin whose worker is silent for a minute is not ready, and a busy machine takes longer than that for all
// of it.
beforeEach(async () => {
  await makeCoinReady(ctx, 'xno', { addresses: 0 })
  await makeCoinReady(ctx, 'xmr', { addresses: 0 })
})
checkBooksAfterEach(() => ctx)
afterAll(async () => {
  expect((await checkMoney(ctx)).settled).toBeGreaterThan(30)
  await closeContext(ctx)
  await service.stop()
})

const now = () => unixSeconds(ctx.now())
const raw = (text: string): string => String(parseAmount(text, 'xno'))

async function invoiceFor(agent: TestAgent, days = 1, currency: 'xno' | 'xmr' = 'xno'): Promise<string> {
  const { status, json } = await service.call('POST', '/invoice', {
    token: agent.token,
    body: { currency, days },
  })
  if (status !== 201) throw new Error(`POST /invoice answered ${status}: ${JSON.stringify(json)}`)
  return String(json['invoice_id'])
}

async function newInvoice(days = 1): Promise<{ agent: TestAgent; id: string }> {
  const agent = await service.register()
  return { agent, id: await invoiceFor(agent, days) }
}

async function read(id: string): Promise<InvoiceRecord> {
  const invoice = await ctx.invoices.find(id)
  if (invoice === undefined) throw new Error(`there is no ${id}`)
  return invoice
}
const paymentsOf = (id: string) => ctx.invoices.arrivals.listPayments(id)
const only = async (id: string): Promise<PaymentRecord> => {
  const [payment, ...rest] = await paymentsOf(id)
  if (payment === undefined || rest.length > 0)
    throw new Error(`${id} has ${rest.length + (payment === undefined ? 0 : 1)} payments`)
  return payment
}
const check = async (agent: TestAgent, id: string) =>
  (await service.call('POST', '/invoice/check', { token: agent.token, body: { invoice_id: id } })).json
const daysLeft = async ({ id }: TestAgent) =>
  (((await ctx.agents.find(id))?.pass_until_ms ?? ctx.now()) - ctx.now()) / DAY
const lapse = (coin: 'xno' | 'xmr' = 'xno', roundAt = now()) => expireInvoices(ctx, coin, roundAt)
/** The time of every invoice so far is over, and a round has looked at them all. */
const expireAll = async () => {
  service.advance(61 * MINUTE)
  await lapse()
  await makeCoinReady(ctx, 'xno', { addresses: 0 })
  await makeCoinReady(ctx, 'xmr', { addresses: 0 })
}

describe('a payment that a worker finds while it loses its database', () => {
  it('is no defect, and is recorded by the next look', async () => {
    const { id } = await newInvoice()
    const found = foundAt(await read(id), { amount: '1', tx: newTx() })
    const lines: string[] = []
    const log = createLog(
      'test',
      'warn',
      new Writable({ write: (chunk, _encoding, done) => (lines.push(String(chunk)), done()) }),
    )
    const closing = openContext(service.ctx.config, log, { now: service.ctx.now })
    await closing.database.whenReady()
    await closeContext(closing)
    expect(await recordPayments(closing, [found])).toEqual([expect.stringContaining(found.tx)])
    expect(lines.map((line) => (JSON.parse(line) as { level: number }).level)).toEqual([40])
    await recordPayment(ctx, found)
    expect((await only(id)).tx).toBe(found.tx)
  })
})

describe('a payment', () => {
  // holds: rules.ledger.entry_kinds.pass_credit, rules.ledger.entry_kinds.payment
  it('that is confirmed settles pass, invoice and ledger together', async () => {
    const { agent, id } = await newInvoice(2)
    const tx = await pay(ctx, id, { amount: '2' })
    expect(await read(id)).toMatchObject({ received_raw: raw('2'), credited_days: 2, unspent: '0' })
    expect(await read(id)).not.toHaveProperty('open')
    const payment = await only(id)
    expect(payment).toMatchObject({ tx, state: 'settled', by: 'chain', late: false, credited_days: 2 })
    expect(await daysLeft(agent)).toBeCloseTo(2, 2)
    const entries = await listPending(ctx.database.connection, 'payments', payment._id)
    expect(entries.map(({ kind, source }) => [kind, source])).toEqual([
      ['payment', `${payment._id}/payment`],
      ['pass_credit', `${payment._id}/credit`],
    ])
    expect(entries[0]?.data).toMatchObject({
      payment_id: payment._id,
      invoice_id: id,
      coin: 'xno',
      amount_raw: raw('2'),
      settlement: 'automatic',
    })
    expect(entries[1]?.data).toMatchObject({
      agent_id: agent.id,
      means: 'coin',
      days: 2,
      payment_id: payment._id,
      invoice_id: id,
    })
    expect(JSON.stringify(entries)).not.toContain(tx)
  })

  // holds: rules.pass.statements.entitled_days_floor_received_days_amount
  it('that is confirmed when it is seen first is stored and settled by one commit', async () => {
    const { agent, id } = await newInvoice()
    const changes = ctx.database.connection
      .getClient()
      .db(ctx.database.connection.name)
      .watch([{ $match: { 'ns.coll': { $in: ['payments', 'invoices', 'agents', 'journal'] } } }], {
        fullDocument: 'updateLookup',
      })
    try {
      await changes.tryNext() // opens it
      await pay(ctx, id, { amount: '1' })
      const { _id: paymentId } = await only(id)
      const commits = new Map<string, string>()
      while (!['payments', 'invoices', 'agents', 'journal'].every((name) => commits.has(name))) {
        const change = await changes.next()
        if (!('ns' in change) || !('coll' in change.ns) || !('clusterTime' in change)) continue
        const { fullDocument } = change as { fullDocument?: { _id: unknown; invoice_id?: string } }
        const isOfIt = [paymentId, id, agent.id].includes(String(fullDocument?._id))
        if (isOfIt || fullDocument?.invoice_id === id) commits.set(change.ns.coll, String(change.clusterTime))
      }
      expect(new Set(commits.values()).size).toBe(1)
    } finally {
      await changes.close()
    }
  })

  it('in parts buys nothing until the price is there, and then all of it', async () => {
    const { agent, id } = await newInvoice(3)
    for (const amount of ['1', '1', '0.999999']) await pay(ctx, id, { amount })
    expect([(await read(id)).credited_days, await daysLeft(agent)]).toEqual([0, 0])
    await pay(ctx, id, { amount: '0.000001' })
    expect((await read(id)).credited_days).toBe(3)
    expect(await daysLeft(agent)).toBeCloseTo(3, 2)
  })

  // holds: limits.remainders, rules.pass.statements.what_is_left_below_a_day
  it('of more than the price buys every whole day, and a second one goes on from what was left', async () => {
    const { agent, id } = await newInvoice(1)
    await pay(ctx, id, { amount: '2.7' })
    expect(await read(id)).toMatchObject({ credited_days: 2, unspent: raw('0.7'), has_remainder: true })
    await pay(ctx, id, { amount: '0.3' })
    expect(await read(id)).toMatchObject({ credited_days: 3, unspent: '0' })
    expect(await read(id)).not.toHaveProperty('has_remainder')
    expect(await daysLeft(agent)).toBeCloseTo(3, 2)
  })

  // holds: limits.dust, limits.dust.detail
  it('below the shown decimals is not money; at them it is', async () => {
    const { id } = await newInvoice()
    const invoice = await read(id)
    const dust = {
      ...foundAt(invoice, { amount: '0.000001' }),
      amountRaw: parseAmount('0.000001', 'xno') - 1n,
    }
    expect(await recordPayment(ctx, dust)).toBeUndefined()
    expect(await paymentsOf(id)).toEqual([])
    expect(await recordPayment(ctx, foundAt(invoice, { amount: '0.000001' }))).toBe(id)
    expect((await read(id)).received_raw).toBe(raw('0.000001'))
  })

  it('at an address that no invoice has is nobody’s', async () => {
    expect(
      await recordPayment(ctx, { ...foundAt({ coin: 'xno', address_index: 9_999_999 }, { amount: '5' }) }),
    ).toBeUndefined()
  })

  // holds: limits.remainders.detail
  it.runIf(FULL)('of everything there is stops at a century and loses nothing', async () => {
    const { agent, id } = await newInvoice(1)
    const invoice = await read(id)
    await recordPayment(ctx, { ...foundAt(invoice, { amount: '1' }), amountRaw: 2n ** 128n })
    expect(await read(id)).toMatchObject({
      received_raw: String(2n ** 128n),
      credited_days: MAX_CREDITED_DAYS,
      has_remainder: true,
    })
    const { json } = await service.call('GET', '/me', { token: agent.token })
    expect(json['pass_until']).toMatch(/^21\d\d-/)
    expect(await check(agent, id)).toMatchObject({
      remainder_raw: String(2n ** 128n - BigInt(MAX_CREDITED_DAYS) * 10n ** 30n),
    })
  })

  // holds: contract.retention.invoices, rules.pass.payment_states.settled
  it.runIf(FULL)('found fifty times at once, by this process and by another, counts once', async () => {
    const elsewhere = await importAgain()
    const { agent, id } = await newInvoice(5)
    const found = foundAt(await read(id), { amount: '5' })
    await Promise.all(
      Array.from({ length: 50 }, (_, place) =>
        (place % 2 === 0 ? recordPayment : elsewhere.recordPayment)(ctx, found),
      ),
    )
    expect(await only(id)).toMatchObject({ state: 'settled' })
    expect(await read(id)).toMatchObject({ received_raw: raw('5'), credited_days: 5 })
    expect(await daysLeft(agent)).toBeCloseTo(5, 2)
  })

  it.runIf(FULL)(
    'beside nineteen others of one agent, found in two processes, is counted with all of them',
    async () => {
      const elsewhere = await importAgain()
      const { agent, id } = await newInvoice(4)
      const invoice = await read(id)
      const found = Array.from({ length: 20 }, () => foundAt(invoice, { amount: '0.31' }))
      await Promise.all(
        [...found, ...found].map((one, place) =>
          (place % 2 === 0 ? recordPayment : elsewhere.recordPayment)(ctx, one),
        ),
      )
      expect(await read(id)).toMatchObject({ received_raw: raw('6.2'), credited_days: 6 })
      expect(await daysLeft(agent)).toBeCloseTo(6, 2)
    },
  )

  // holds: limits.dust.detail
  it('of one transaction to two addresses is two payments', async () => {
    const [one, two] = [await newInvoice(), await newInvoice()]
    const tx = newTx()
    for (const { id } of [one, two]) await pay(ctx, id, { amount: '1', tx })
    expect([(await read(one.id)).credited_days, (await read(two.id)).credited_days]).toEqual([1, 1])
  })

  // holds: rules.pass.payment_states.seen
  it('that is seen first counts when it is confirmed, and tells how far it is', async () => {
    const { agent, id } = await newInvoice()
    const tx = await pay(ctx, id, { amount: '1', confirmed: false, confirmations: 2 })
    await pay(ctx, id, { amount: '1', tx, confirmed: false, confirmations: 7 })
    expect(await check(agent, id)).toMatchObject({ status: 'confirming', confirmations: 7, credited_days: 0 })
    await pay(ctx, id, { amount: '1', tx, confirmations: 10 })
    expect(await only(id)).toMatchObject({ state: 'settled', confirmations: 10 })
    await pay(ctx, id, { amount: '1', tx, confirmations: 11 })
    expect(await only(id)).toMatchObject({ state: 'settled', confirmations: 11 })
    expect((await read(id)).credited_days).toBe(1)
  })

  // holds: rules.pass.payment_states.settled
  it('whose amount is another one than on record is corrected while it is not counted, and never after', async () => {
    const { agent, id } = await newInvoice(2)
    const tx = await pay(ctx, id, { amount: '500', confirmed: false })
    await pay(ctx, id, { amount: '2', tx })
    expect(await only(id)).toMatchObject({ amount_raw: raw('2'), state: 'settled' })
    const before = service.logged().length
    await pay(ctx, id, { amount: '900', tx })
    expect(await read(id)).toMatchObject({ received_raw: raw('2'), credited_days: 2 })
    expect(await only(id)).toMatchObject({ amount_raw: raw('2') })
    expect(service.logged().slice(before)).toContain('a settled payment was found with another amount')
    expect(await daysLeft(agent)).toBeCloseTo(2, 2)
  })

  it('whose record an election rolls back waits for the next look, as for a database out of reach', async () => {
    const { id } = await newInvoice()
    const tx = await pay(ctx, id, { amount: '1', confirmed: false })
    const { arrivals: store } = ctx.invoices
    const find: typeof store.find = async (...asked) => {
      const found = await store.find(...asked)
      const payments = ctx.database.connection.collection<{ _id: string }>('payments')
      if (found !== undefined) await payments.deleteOne({ _id: found._id })
      return found
    }
    const found = foundAt(await read(id), { amount: '1', tx })
    const looking = recordPayment(
      { ...ctx, invoices: { ...ctx.invoices, arrivals: { ...store, find } } },
      found,
    )
    await expect(looking).rejects.toMatchObject({ code: 'unavailable' })
    await recordPayment(ctx, found)
    expect([(await only(id)).state, (await read(id)).credited_days]).toEqual(['settled', 1])
  })
})

describe('the first payment in a coin', () => {
  it('counts for the referrer, once, however many follow and however it comes', async () => {
    const referrer = await service.register()
    const paying = async () => (await ctx.agents.find(referrer.id))?.referrals.paying
    const agent = await service.register({ ref: referrer.id })
    const id = await invoiceFor(agent)
    await pay(ctx, id, { amount: '0.5' })
    expect(await paying()).toBe(0)
    await pay(ctx, id, { amount: '0.5' })
    expect(await paying()).toBe(1)
    await pay(ctx, await invoiceFor(agent, 2), { amount: '2' })
    await pay(ctx, await invoiceFor(agent, 2, 'xmr'), { amount: '2' })
    expect(await paying()).toBe(1)
    const partly = await service.register({ ref: referrer.id })
    await pay(ctx, await invoiceFor(partly, 2), { amount: '1' })
    await expireAll()
    expect(await paying()).toBe(2)
  })

  it.runIf(FULL)('of forty agents of one referrer at once is counted forty times', async () => {
    const referrer = await service.register()
    const agents = await Promise.all(Array.from({ length: 40 }, () => service.register({ ref: referrer.id })))
    const ids = await Promise.all(agents.map((agent) => invoiceFor(agent)))
    await Promise.all(ids.map((id) => pay(ctx, id, { amount: '1' })))
    expect((await ctx.agents.find(referrer.id))?.referrals.paying).toBe(40)
  })
})

describe('an invoice whose time is over', () => {
  // holds: limits.time_to_pay_an_invoice, rules.pass.invoice_statuses.expired
  it('lapses after a round that looked, not by the clock alone', async () => {
    const { agent, id } = await newInvoice()
    const before = now()
    service.advance(61 * MINUTE)
    await makeCoinReady(ctx, 'xno', { addresses: 0 })
    await lapse('xno', before)
    await lapse('xmr')
    expect(await check(agent, id)).toMatchObject({ status: 'awaiting_payment' })
    await lapse()
    expect(await check(agent, id)).toMatchObject({ status: 'expired' })
    expect(await read(id)).toMatchObject({ lapsed: true, look_after: expect.any(Number) as number })
    expect(await read(id)).not.toHaveProperty('open')
  })

  it('in the middle of a round waits for the next one, which scans after that', async () => {
    const { id } = await newInvoice()
    const round = (lastsMs: number) => {
      const scan = async function* (): Scan {
        service.advance(lastsMs)
        yield { kind: 'payments', found: [], troubles: [] }
        return { seen: {} }
      }
      return watchCoin(ctx, { coin: 'xno', confirmations: 1, scan } as unknown as CoinDriver)
    }
    await round(61 * MINUTE)
    expect((await read(id)).lapsed).toBe(false)
    await round(0)
    expect((await read(id)).lapsed).toBe(true)
    await makeCoinReady(ctx, 'xno', { addresses: 0 })
  })

  // holds: rules.pass.invoice_statuses.expired
  it('buys whole days for what was paid in part, once, and keeps the rest', async () => {
    const { agent, id } = await newInvoice(3)
    await pay(ctx, id, { amount: '1.5' })
    await expireAll()
    await Promise.all([lapse(), lapse()])
    expect(await check(agent, id)).toMatchObject({
      status: 'expired',
      credited_days: 1,
      paid: '1.5',
      remainder_raw: raw('0.5'),
      pass_until: expect.any(String),
    })
    expect(await daysLeft(agent)).toBeCloseTo(1, 2)
    expect((await listPending(ctx.database.connection, 'invoices', id)).map(({ source }) => source)).toEqual([
      `${id}/lapse`,
    ])
    const next = await invoiceFor(agent, 2)
    expect(await read(next)).toMatchObject({ carried_raw: raw('0.5') })
  })

  it('waits for a payment that is under way, and lapses once that is gone', async () => {
    const { agent, id } = await newInvoice(2)
    const tx = await pay(ctx, id, { amount: '2', confirmed: false })
    await expireAll()
    expect(await check(agent, id)).toMatchObject({ status: 'confirming' })
    expect((await read(id)).lapsed).toBe(false)
    await recordLoss(ctx, await only(id))
    expect(await only(id)).toMatchObject({ state: 'gone' })
    await lapse()
    expect(await check(agent, id)).toMatchObject({ status: 'expired', credited_days: 0, paid: '0' })
    // It was first seen in time, so it still buys at the invoice's own rate.
    await setRate(ctx, 'xno', '0.1')
    await pay(ctx, id, { amount: '2', tx })
    expect(await only(id)).toMatchObject({ state: 'settled', late: false })
    expect((await read(id)).credited_days).toBe(2)
    await setRate(ctx, 'xno', '1')
  })

  it('never lapses past a payment that is noted at the same time', async () => {
    const elsewhere = await importAgain()
    const invoices = await Promise.all(Array.from({ length: 30 }, () => newInvoice(2)))
    await Promise.all(invoices.map(({ id }) => pay(ctx, id, { amount: '0.5' })))
    service.advance(61 * MINUTE)
    await Promise.all([
      lapse(),
      ...invoices.map(async ({ id }) =>
        elsewhere.recordPayment(ctx, foundAt(await read(id), { amount: '1.5', confirmed: false })),
      ),
    ])
    for (const { id } of invoices) {
      const second = (await paymentsOf(id)).at(-1)
      // Either it came first, and the invoice waits for it, or it came after, and is late.
      expect([(await read(id)).lapsed, second?.late]).toEqual([second?.late, second?.late])
    }
    await makeCoinReady(ctx, 'xno', { addresses: 0 })
  })

  it('never lapses past its first payment, noted after the round had listed it', async () => {
    const { id } = await newInvoice()
    service.advance(61 * MINUTE)
    const { invoices } = ctx
    const listOverdue: typeof invoices.listOverdue = async (...asked) => {
      const listed = await invoices.listOverdue(...asked)
      if ((await read(id)).has_payments !== true) await pay(ctx, id, { amount: '1', confirmed: false })
      return listed
    }
    await expireInvoices({ ...ctx, invoices: { ...invoices, listOverdue } }, 'xno', now())
    expect([(await read(id)).lapsed, (await only(id)).late]).toEqual([false, false])
    await recordLoss(ctx, await only(id))
    await lapse()
    expect((await read(id)).lapsed).toBe(true)
    await makeCoinReady(ctx, 'xno', { addresses: 0 })
  })

  it('does not keep the others from lapsing where it cannot', async () => {
    const broken = await newInvoice()
    await pay(ctx, broken.id, { amount: '0.5' })
    await ctx.invoices.models.invoices.updateOne({ _id: broken.id }, { $set: { unspent: 'rubbish' } })
    const partly = await newInvoice(2)
    await pay(ctx, partly.id, { amount: '1' })
    const bare = await newInvoice()
    service.advance(61 * MINUTE)
    await expect(lapse()).rejects.toThrow('1 invoices in xno could not be expired')
    expect([
      (await read(broken.id)).lapsed,
      (await read(partly.id)).credited_days,
      (await read(bare.id)).lapsed,
    ]).toEqual([false, 1, true])
    await ctx.invoices.models.invoices.updateOne({ _id: broken.id }, { $set: { unspent: raw('0.5') } })
    await expireAll()
    expect((await read(broken.id)).lapsed).toBe(true)
  })

  it.runIf(FULL)('is one of two thousand that lapse in one call', async () => {
    const agent = await service.register()
    const first = await read(await invoiceFor(agent))
    await ctx.invoices.models.invoices.insertMany(
      Array.from({ length: 2_000 }, (_, place) => {
        const { open: _open, ...fields } = first
        return {
          ...fields,
          _id: `inv_many${place}`,
          address: `many ${place}`,
          address_index: 1_000_000 + place,
        }
      }),
      { lean: true },
    )
    await expireAll()
    expect(
      await ctx.invoices.models.invoices.countDocuments({
        lapsed: false,
        expires_at: { $lt: now() },
        has_payments: { $exists: false },
      }),
    ).toBe(0)
  })
})

describe('late money', () => {
  // holds: limits.late_money, rules.pass.statements.money_first_seen_after_the_invoice
  it('buys at the invoice’s rate where the coin has risen since', async () => {
    const { agent, id } = await newInvoice(2)
    await expireAll()
    await setRate(ctx, 'xno', '4')
    await pay(ctx, id, { amount: '2' })
    expect((await read(id)).credited_days).toBe(2)
    expect(await check(agent, id)).toMatchObject({
      status: 'settled',
      payments: [{ late: true, credited_days: 2, price_raw: raw('2') }],
    })
    await setRate(ctx, 'xno', '1')
  })

  // holds: limits.late_money, rules.pass.statements.money_first_seen_after_the_invoice
  it('buys at the rate of its arrival where the coin has fallen, also if it is confirmed at another', async () => {
    const { agent, id } = await newInvoice(2)
    await expireAll()
    await setRate(ctx, 'xno', '0.5')
    const tx = await pay(ctx, id, { amount: '3', confirmed: false })
    await setRate(ctx, 'xno', '0.01')
    await pay(ctx, id, { amount: '3', tx })
    expect(await check(agent, id)).toMatchObject({
      status: 'settled',
      credited_days: 1,
      paid: '3',
      remainder_raw: raw('1'),
      payments: [{ late: true, credited_days: 1, price_raw: raw('4') }],
    })
    expect(await daysLeft(agent)).toBeCloseTo(1, 2)
    await setRate(ctx, 'xno', '1')
  })

  // holds: rules.pass.payment_states.seen
  it('waits for a rate where there is none, keeps nobody waiting meanwhile, and is counted once there is one', async () => {
    const [first, second] = [await newInvoice(), await newInvoice()]
    await expireAll()
    await ageRate(ctx, 'xno', 20 * MINUTE)
    expect(await recordPayment(ctx, foundAt(await read(first.id), { amount: '1' }))).toBe(first.id)
    await pay(ctx, second.id, { amount: '1', confirmed: false })
    expect(await only(first.id)).toMatchObject({ state: 'seen', late: true, waits_for_rate: true })
    await settleWaiting(ctx, 'xno')
    expect((await read(first.id)).credited_days).toBe(0)
    await setRate(ctx, 'xno', '1')
    await Promise.all([settleWaiting(ctx, 'xno'), settleWaiting(ctx, 'xno')])
    expect([(await read(first.id)).credited_days, (await read(second.id)).credited_days]).toEqual([1, 0])
    expect(await only(first.id)).toMatchObject({ state: 'settled', arrival_rate: '1' })
    expect(await only(first.id)).not.toHaveProperty('waits_for_rate')
  })

  it('for an order needs no rate: it is owed to the buyer without one, however much waits for a rate', async () => {
    const market = await openMarket(service)
    const [order, pass] = [await market.order(), await newInvoice()]
    service.advance(61 * MINUTE)
    await makeCoinReady(ctx, 'xno', { addresses: 0 })
    await ageRate(ctx, 'xno', 20 * MINUTE)
    await pay(ctx, pass.id, { amount: '1' })
    await market.payPercent(order, 100)
    for (const id of [pass.id, order.invoiceId])
      expect(await only(id)).toMatchObject({ state: 'seen', late: true, waits_for_rate: true })
    const waiting = await only(pass.id)
    const older = Array.from({ length: 500 }, (_, place) => ({
      ...waiting,
      _id: `pay_-${place}`,
      tx: newTx(),
    }))
    await ctx.invoices.arrivals.models.payments.insertMany(older)
    await lapse()
    await settleWaiting(ctx, 'xno')
    await ctx.invoices.arrivals.models.payments.deleteMany({ _id: { $in: older.map(({ _id }) => _id) } })
    expect([(await only(pass.id)).state, (await only(order.invoiceId)).state]).toEqual(['seen', 'settled'])
    expect(await ctx.payouts.listByOrder(order.id)).toMatchObject([
      { agent_id: market.buyer.id, amount_raw: String(order.amountRaw) },
    ])
    await setRate(ctx, 'xno', '1')
    await settleWaiting(ctx, 'xno')
    expect((await only(pass.id)).state).toBe('settled')
  })

  it('after a settled invoice lapsed is late too', async () => {
    const { id } = await newInvoice(1)
    await pay(ctx, id, { amount: '1.6' })
    await expireAll()
    await setRate(ctx, 'xno', '0.5')
    await pay(ctx, id, { amount: '1.6' })
    // 0.6 left and 1.6 late make 2.2, at 2 for a day.
    expect(await read(id)).toMatchObject({ credited_days: 2, unspent: raw('0.2') })
    await setRate(ctx, 'xno', '1')
  })
})

describe('a chain that turns back', () => {
  // holds: rules.pass.statements.money_first_seen_after_the_invoice
  it('takes no settled pass away, and says so of the payment', async () => {
    const { agent, id } = await newInvoice(2)
    const tx = await pay(ctx, id, { amount: '2' })
    const before = service.logged().length
    await Promise.all([recordLoss(ctx, await only(id)), recordLoss(ctx, await only(id))])
    expect(await only(id)).toMatchObject({ state: 'settled', reversed_at: expect.any(Number) })
    expect(service.logged().slice(before).split('took back a settled payment').length).toBe(2)
    expect(await daysLeft(agent)).toBeCloseTo(2, 2)
    // In the pool again it is not back yet; in the chain it is, and nothing is counted again.
    await pay(ctx, id, { amount: '2', tx, confirmed: false, confirmations: 1 })
    expect(await only(id)).toHaveProperty('reversed_at')
    await pay(ctx, id, { amount: '2', tx })
    expect(await only(id)).not.toHaveProperty('reversed_at')
    expect(await read(id)).toMatchObject({ received_raw: raw('2'), credited_days: 2 })
  })

  it.runIf(FULL)('says nothing of a payment that stands on the word of the operator alone', async () => {
    const { id } = await newInvoice()
    await recordPayment(ctx, foundAt(await read(id), { amount: '1' }), 'operator')
    await arrivals.recordLoss(ctx, await only(id))
    expect(await only(id)).toMatchObject({ state: 'settled', by: 'operator', credited_days: 1 })
    expect(await only(id)).not.toHaveProperty('reversed_at')
  })

  // holds: rules.pass.payment_states.gone
  it('may drop what was only seen, and bring it again', async () => {
    const { agent, id } = await newInvoice()
    const tx = await pay(ctx, id, { amount: '1', confirmed: false })
    await recordLoss(ctx, await only(id))
    expect(await check(agent, id)).toMatchObject({
      status: 'awaiting_payment',
      payments: [{ state: 'gone' }],
    })
    await pay(ctx, id, { amount: '1', tx, confirmed: false })
    expect(await check(agent, id)).toMatchObject({ status: 'confirming', payments: [{ state: 'seen' }] })
    await pay(ctx, id, { amount: '1', tx })
    expect(await check(agent, id)).toMatchObject({ status: 'settled', payments: [{ state: 'settled' }] })
    // News from before it was settled.
    await recordLoss(ctx, { ...(await only(id)), state: 'seen' })
    expect(await only(id)).toMatchObject({ state: 'settled' })
  })
})

describe('a clock that was two hours ahead', () => {
  const AHEAD = 120 * MINUTE
  const roundAt = (at: number) => ctx.coins.models.coins.updateOne({ _id: 'xno' }, { $set: { round_at: at } })

  it.runIf(FULL)('where a round was made makes no later payment late', async () => {
    const { id } = await newInvoice(2)
    await roundAt(now() + AHEAD / 1_000)
    await pay(ctx, id, { amount: '2' })
    expect(await only(id)).toMatchObject({ state: 'settled', late: false, credited_days: 2 })
    await roundAt(now())
  })

  it('where a payment was found calls it late, and the next look at the right time settles it as in time', async () => {
    const { id } = await newInvoice(2)
    service.advance(AHEAD)
    await roundAt(now())
    await pay(ctx, id, { amount: '2' })
    expect(await only(id)).toMatchObject({ state: 'seen', late: true })
    service.advance(-AHEAD)
    await roundAt(now())
    await settleWaiting(ctx, 'xno')
    expect(await only(id)).toMatchObject({ state: 'settled', late: false, credited_days: 2 })
  })

  it('lapses what is over by the database, and nothing that is not', async () => {
    const { id: over } = await newInvoice()
    service.advance(61 * MINUTE)
    await makeCoinReady(ctx, 'xno', { addresses: 0 })
    const { id } = await newInvoice()
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + AHEAD })
    try {
      await expireInvoices(ctx, 'xno', unixSeconds(ctx.database.now()))
    } finally {
      vi.useRealTimers()
    }
    expect([await read(over), await read(id)]).toMatchObject([{ lapsed: true }, { lapsed: false }])
  })
})

describe('a Redis that lost everything', () => {
  it.runIf(FULL)('costs no rate for long, and no late money that waits for one', async () => {
    const own = await startService({
      queues: ['refresh-rates'],
      env: { XNO_USD: '0.5' },
      intervals: { 'refresh-rates': 500 },
    })
    const redis = new Redis(own.ctx.config.redisUrl ?? '')
    const at = () => unixSeconds(own.ctx.now())
    await makeCoinReady(own.ctx, 'xno', { rate: '1' })
    const { token } = await own.register()
    const { json } = await own.call('POST', '/invoice', { token, body: { currency: 'xno', days: 2 } })
    const id = String(json['invoice_id'])
    own.advance(61 * MINUTE)
    await expireInvoices(own.ctx, 'xno', at())
    // No rate is read before Redis loses all, and with it that the queue is paused.
    const queue = new Queue('refresh-rates', {
      connection: redis,
      prefix: queuePrefix(own.ctx.config.queuePrefix, 'refresh-rates'),
    })
    await queue.pause()
    await waitFor(
      'the end of the last job',
      async () => ((await queue.getActiveCount()) === 0 ? true : undefined),
      { limitMs: PATIENCE_MS },
    )
    await own.ctx.coins.models.rates.deleteMany({})
    await pay(own.ctx, id, { amount: '4' })
    expect(await own.ctx.invoices.arrivals.listPayments(id)).toMatchObject([
      { state: 'seen', waits_for_rate: true },
    ])
    const keys = await redis.keys(`*${own.ctx.config.queuePrefix}*`)
    expect(keys.length).toBeGreaterThan(0)
    await redis.del(keys)
    // Rates are read by a timer that knows nothing of Redis.
    await waitFor(
      'the credit',
      async () => ((await own.ctx.invoices.find(id))?.credited_days === 2 ? true : undefined),
      {
        limitMs: PATIENCE_MS,
      },
    )
    expect(await own.ctx.coins.findRate('xno')).toMatchObject({ usd: '0.5', source: FIXED_RATE_SOURCE })
    await checkMoney(own.ctx)
    await queue.close()
    redis.disconnect()
    await own.stop()
  })
})

describe('two processes', () => {
  it('that ask for one agent’s invoice at once make one, whose remainder is carried once', async () => {
    const [one, two] = await importTwice()
    for (let round = 0; round < 5; round++) {
      const agent = await service.register()
      await pay(ctx, await invoiceFor(agent), { amount: '1.25' })
      await addAddresses(ctx, 'xno', 20)
      const made = await Promise.all(
        Array.from({ length: 12 }, (_, place) =>
          (place % 2 === 0 ? one : two).requestPassInvoice(ctx, agent.id, 'xno', 2),
        ),
      )
      expect(made.filter(({ isNew }) => isNew)).toHaveLength(1)
      expect(new Set(made.map(({ invoice }) => invoice._id)).size).toBe(1)
      expect(await read(String(made[0]?.invoice._id))).toMatchObject({ carried_raw: raw('0.25') })
    }
  })

  it('that carry one remainder into an invoice that it pays wholly credit it once', async () => {
    const [one, two] = await importTwice()
    const agent = await service.register()
    const first = await invoiceFor(agent, 1)
    await expireAll()
    await setRate(ctx, 'xno', '0.1')
    await pay(ctx, first, { amount: '5' })
    await setRate(ctx, 'xno', '1')
    await Promise.all([one, two].map((process) => process.requestPassInvoice(ctx, agent.id, 'xno', 3)))
    expect(await daysLeft(agent)).toBeCloseTo(5, 2)
    await checkMoney(ctx)
  })
})

/**
 * The same code with turns of its own, as another process has them: what holds between the two holds in the
 * database.
 */
async function importAgain(): Promise<typeof arrivals> {
  const again = await anotherCopy()<typeof arrivals>('shared/money/record-arrival.ts')
  expect(again.recordPayment).not.toBe(arrivals.recordPayment)
  return { ...again, recordPayment: telling(again.recordPayment) }
}

type PassPurchase = typeof purchase
async function importTwice(): Promise<[PassPurchase, PassPurchase]> {
  const again = await anotherCopy()<PassPurchase>('shared/passes/pass-purchase.ts')
  expect(again.requestPassInvoice).not.toBe(purchase.requestPassInvoice)
  return [purchase, again]
}
