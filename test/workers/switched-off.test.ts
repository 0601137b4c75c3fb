import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { STATUS_SECTIONS } from '../../scripts/operator/status-sections.ts'
import { listCoinsInUse } from '../../shared/money/rate.ts'
import { foundAt, makeCoinReady, newTx, pay } from '../support/coins.ts'
import { ADDRESSES, expectStatus, MARKET_QUEUES, OFFER, vouch } from '../support/market.ts'
import { recordPayment } from '../support/told-chain.ts'
import { checkBooksAfterEach } from '../support/money.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { startService, type TestAgent, type TestService } from '../support/service.ts'

const HOUR_MS = 3_600_000
const LIMIT = { limitMs: PATIENCE_MS, everyMs: 100 }
let service: TestService
let buyer: TestAgent
let offerId: string

/**
 * Its workers are to watch both coins, and have a node for neither: what a worker wrote of xno is from before
 * a restart.
 */
beforeAll(async () => {
  service = await startService({
    queues: [...MARKET_QUEUES, 'watch-nano', 'watch-monero'],
    env: { PAYMENT_POLL_SECONDS: '1' },
  })
  const seller = await service.register()
  buyer = await service.register()
  await makeCoinReady(service.ctx, 'xno', { rate: '2' })
  offerId = String(
    expectStatus(await service.call('POST', '/market/offer', { token: seller.token, body: OFFER }), 201).json[
      'offer_id'
    ],
  )
})
checkBooksAfterEach(() => service.ctx)
afterAll(() => service.stop())

const order = async (): Promise<{ id: string; invoiceId: string }> => {
  const body = { offer_id: offerId, currency: 'xno', refund_address: ADDRESSES.xno }
  const { json } = expectStatus(
    await service.call('POST', '/market/order', { token: buyer.token, body }),
    201,
  )
  return { id: String(json['order_id']), invoiceId: (json['invoice'] as { invoice_id: string }).invoice_id }
}
const read = async ({ id }: { id: string }) =>
  expectStatus(await service.call('GET', `/market/order/${id}`, { token: buyer.token }), 200).json[
    'order'
  ] as Record<string, unknown>
const invoice = async (id: string) => (await service.ctx.invoices.find(id)) ?? expect.fail('it is gone')
const letPass = async (ms: number) => {
  await vouch(service.ctx, service.ctx.now() + ms)
  service.advance(ms)
}

describe('a coin that is switched off', () => {
  // holds: rules.market.steps.expired
  it('lapses what is not paid, keeps what is owed, and takes late what came meanwhile', async () => {
    const { ctx } = service
    const [unpaid, part, seen, paid] = [await order(), await order(), await order(), await order()]
    await pay(ctx, part.invoiceId, { amount: '1' })
    const tx = newTx()
    await pay(ctx, seen.invoiceId, { amount: '5', confirmed: false, tx })
    await pay(ctx, paid.invoiceId, { amount: '5' })
    const { json } = expectStatus(
      await service.call('POST', '/invoice', { token: buyer.token, body: { currency: 'xno', days: 1 } }),
      201,
    )
    await letPass(2 * HOUR_MS)
    await waitFor(
      'the end of what is not paid',
      async () => ((await read(part))['status'] === 'expired' ? true : undefined),
      LIMIT,
    )
    expect(await read(unpaid)).toMatchObject({ status: 'expired', next_transition: null })
    expect(await read(seen)).toMatchObject({ status: 'awaiting_payment' })
    expect(await read(paid)).toMatchObject({ status: 'paid' })
    expect(await invoice(String(json['invoice_id']))).toMatchObject({
      lapsed: true,
      look_after: expect.any(Number) as number,
    })
    expect((await invoice(String(json['invoice_id']))).open).toBeUndefined()
    expect(await ctx.coins.findCoin('xno')).toMatchObject({ configured: false, reachable: false })
    const section = STATUS_SECTIONS.find(({ name }) => name === 'coins')
    expect((await section?.read(ctx))?.lines).toContain(
      'xno is switched off: what is owed in it stays owed, see "payouts"',
    )
    // The buyer is owed what it paid in part, and sees it.
    const { json: me } = await service.call('GET', '/me', { token: buyer.token })
    expect(JSON.stringify(me)).toContain('"xno"')
    expect(
      (await ctx.payouts.listByOrder(part.id)).map(({ state, amount_raw: raw }) => [state, raw]),
    ).toEqual([['owed', `1${'0'.repeat(30)}`]])
    expect(await listCoinsInUse(ctx)).toEqual(['xno'])
    // What was on its way holds its order no longer than a day, and the seller of the other misses its
    // deadline as ever.
    await letPass(26 * HOUR_MS)
    await waitFor(
      'the end of what was on its way',
      async () => ((await read(seen))['status'] === 'expired' ? true : undefined),
      LIMIT,
    )
    await waitFor(
      'the end of the paid one',
      async () => ((await read(paid))['status'] === 'refunded' ? true : undefined),
      LIMIT,
    )

    // The coin is back, and its worker finds both what was on its way and what came meanwhile.
    await makeCoinReady(ctx, 'xno', { rate: '2', addresses: 0 })
    for (const [one, hash] of [
      [seen, tx],
      [unpaid, newTx()],
    ] as const)
      await recordPayment(ctx, foundAt(await invoice(one.invoiceId), { amount: '5', tx: hash }))
    for (const one of [seen, unpaid]) {
      expect(await read(one)).toMatchObject({ status: 'expired' })
      expect((await ctx.payouts.listByOrder(one.id)).map(({ amount_raw: raw }) => raw)).toEqual([
        `5${'0'.repeat(30)}`,
      ])
    }
    await pay(ctx, String(json['invoice_id']), { amount: '1' })
    const [late] = await ctx.invoices.arrivals.listPayments(String(json['invoice_id']))
    expect(late).toMatchObject({ state: 'settled', late: true })
  })

  it('is in use no more once nothing is owed in it', async () => {
    const { ctx } = service
    await letPass(HOUR_MS)
    const isOff = async () => ((await ctx.coins.findCoin('xno'))?.configured === false ? true : undefined)
    await waitFor('the coin to be off', isOff, LIMIT)
    expect(await listCoinsInUse(ctx)).toEqual(['xno'])
    await ctx.payouts.models.payouts.updateMany({}, { $set: { state: 'withdrawn' } })
    expect(await listCoinsInUse(ctx)).toEqual([])
    await ctx.payouts.models.payouts.updateMany({}, { $set: { state: 'owed' } })
  })

  it('is watched on as long as a worker somewhere has it', async () => {
    const { ctx } = service
    await makeCoinReady(ctx, 'xno', { rate: '2' })
    const open = await order()
    await ctx.invoices.models.invoices.updateOne({ _id: open.invoiceId }, { $set: { expires_at: 1 } })
    const { logged } = service
    const before = logged().length
    const startedAt = performance.now()
    await waitFor('two rounds', async () => (performance.now() > startedAt + 2_500 ? true : undefined), LIMIT)
    expect(logged().slice(before)).not.toContain('is switched off')
    expect(await invoice(open.invoiceId)).toMatchObject({ lapsed: false })
  })
})
