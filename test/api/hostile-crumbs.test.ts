import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expireInvoices } from '../../shared/money/invoice-expiry.ts'
import { unixSeconds } from '../../shared/platform/time.ts'
import { makeCoinReady, newTx, pay, setRate } from '../support/coins.ts'
import { ADDRESSES, checkMarket, startMarket, type TestMarket } from '../support/market.ts'
import { checkMoney } from '../support/money.ts'

const MINUTE = 60_000
const CRUMB = '0.00000001'
const ROUNDS = 5
let market: TestMarket
beforeAll(async () => {
  market = await startMarket({ queues: [] })
})
afterAll(() => market.stop())

/**
 * A crumb in time, and after each hour another one, seen before the last is confirmed: at all times one is
 * under way.
 */
async function holdOpen(invoiceId: string): Promise<void> {
  const { ctx } = market
  let tx = newTx()
  await pay(ctx, invoiceId, { amount: CRUMB, tx, confirmed: false })
  for (let round = 0; round < ROUNDS; round++) {
    await nextRound(61 * MINUTE, '100')
    const next = newTx()
    await pay(ctx, invoiceId, { amount: CRUMB, tx: next, confirmed: false })
    await pay(ctx, invoiceId, { amount: CRUMB, tx })
    tx = next
  }
}

/** What a watcher does, after so long and at that rate. */
async function nextRound(afterMs: number, rate: string): Promise<void> {
  const { ctx } = market
  market.advance(afterMs)
  await makeCoinReady(ctx, 'xmr', { rate, addresses: 0 })
  await expireInvoices(ctx, 'xmr', unixSeconds(ctx.now()))
}

describe('a crumb that is not confirmed, renewed again and again after the time was over', () => {
  it('holds no price open: what is paid hours later buys at the rate of then', async () => {
    const { ctx } = market
    await setRate(ctx, 'xmr', '100')
    const agent = await market.register()
    const { json } = await market.call('POST', '/invoice', {
      token: agent.token,
      body: { currency: 'xmr', days: 100 },
    })
    await holdOpen(String(json['invoice_id']))
    await nextRound(MINUTE, '50')
    await pay(ctx, String(json['invoice_id']), { amount: '1' })
    const checked = await market.call('POST', '/invoice/check', {
      token: agent.token,
      body: { invoice_id: json['invoice_id'] },
    })
    expect(checked.json['credited_days']).toBe(50)
    await checkMoney(ctx)
  })

  it('holds no order open: it expires, and everything is owed to the buyer', async () => {
    const { ctx } = market
    await setRate(ctx, 'xmr', '100')
    const order = await market.order({ currency: 'xmr', refund_address: ADDRESSES.xmr })
    await holdOpen(order.invoiceId)
    await nextRound(MINUTE, '50')
    await market.payPercent(order, 100)
    expect((await market.read(order)).status).toBe('expired')
    await checkMarket(ctx)
  })
})
