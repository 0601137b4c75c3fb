import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runOperator } from '../../scripts/operator/run.ts'
import { newTx } from '../support/coins.ts'
import { ADDRESSES, checkMarket, expectStatus, startMarket, type PlacedOrder, type TestMarket } from '../support/market.ts'

let market: TestMarket

beforeAll(async () => {
  market = await startMarket({ queues: [] })
})
afterAll(async () => {
  await checkMarket(market.ctx)
  await market.stop()
})

async function operator(...argv: string[]): Promise<{ exitCode: number; out: string; err: string }> {
  const { mongodbUrl, redisUrl, queuePrefix } = market.ctx.config
  let [out, err] = ['', '']
  const exitCode = await runOperator({
    argv,
    env: { MONGODB_URL: mongodbUrl, REDIS_URL: redisUrl, QUEUE_PREFIX: queuePrefix, DATA_DIR: path.join(os.tmpdir(), 'none') },
    stdout: { write: (text) => (out += text) },
    stderr: { write: (text) => (err += text) },
  })
  return { exitCode, out, err }
}

async function done(...argv: string[]): Promise<Record<string, unknown>> {
  const { exitCode, out, err } = await operator(...argv, '--json')
  expect([exitCode, err], out).toEqual([0, ''])
  return JSON.parse(out) as Record<string, unknown>
}

interface Payee {
  currency: string
  address: string | null
  payable: string
  due: boolean
  payouts: { payout_id: string; state: string; amount: string; frozen: boolean }[]
}
const payees = async (...flags: string[]) => (await done('payouts', ...flags))['payees'] as Payee[]
const released = async () => {
  const order = await market.delivered()
  expectStatus(await market.step('accept', order), 200)
  return order
}
const firstTx = async (order: PlacedOrder) => (await market.ctx.invoices.listPayments(order.invoiceId))[0]?.tx ?? ''

describe('npm run operator', () => {
  it('says so where nothing is owed and nothing disputed', async () => {
    expect((await operator('payouts')).out).toBe('Nothing is owed.\n')
    expect((await operator('disputes')).out).toBe('No disputes.\n')
  })

  it('lists what is owed by payee, and what is due: enough together, with an address, and not frozen', async () => {
    const [first] = [await released(), await released()]
    const small = await market.order({ refund_address: undefined }, { price_usd: 1 })
    await market.payPercent(small, 101)
    expect(await payees()).toMatchObject([
      { currency: 'xno', address: ADDRESSES.xno, payable: '8', due: true, payouts: [{ amount: '4' }, { amount: '4' }] },
      { currency: 'xno', address: null, payable: '0.005', due: false, payouts: [{ state: 'owed', amount: '0.005' }] },
    ])
    const [homeless] = await market.ctx.payouts.listByOrder(small.id)
    expect((await operator('payout-paid', homeless?._id ?? '', newTx())).err).toContain('has not named a refund address')
    expectStatus(
      await market.step('refund-address', small, { address: 'nano_3pbuf8omyqie3gakcwzp5t5quzktma8m4bzncxhrmpk17gqos4hq7qwweiz3' }),
      200,
    )
    expect((await payees()).map(({ due }) => due).sort()).toEqual([false, true])
    await market.lose(await firstTx(first))
    expect((await payees()).find(({ address }) => address === ADDRESSES.xno)).toMatchObject({ payable: '4', due: true })
    const { out } = await operator('payouts')
    expect(out).toContain(`${ADDRESSES.xno}  4 xno to pay\n`)
    expect(out).toContain('owed, frozen')
    await done('dispute', first.id, 'release')
  })

  it('records what was paid by hand, once, and only what is owed', async () => {
    const order = await released()
    const [payout] = await market.ctx.payouts.listByOrder(order.id)
    const id = payout?._id ?? ''
    const tx = newTx()
    expect(await done('payout-paid', id, tx.toUpperCase(), '--dry-run')).toMatchObject({ dry_run: true, state: 'manual' })
    expect((await market.ctx.payouts.find(id))?.state).toBe('owed')
    expect(await done('payout-paid', id, tx.toUpperCase())).toEqual({
      ok: true,
      payout_id: id,
      order_id: order.id,
      agent_id: market.seller.id,
      currency: 'xno',
      amount: '4',
      address: ADDRESSES.xno,
      state: 'manual',
      tx_hash: tx,
      ledger_entry: 'payout',
    })
    expect((await market.read(order)).status).toBe('paid_out')
    const again = await operator('payout-paid', id, tx)
    expect([again.exitCode, again.err]).toEqual([1, 'The payout is manual; only one that is owed or held can be paid by hand.\n'])
    expect((await operator('payout-paid', 'out_none', tx)).err).toContain('no payout with this id')
    expect(JSON.stringify(await payees())).not.toContain(id)
    expect(JSON.stringify(await payees('--all'))).toContain(id)
  })

  it('shows disputes with what the buyers say, and decides them', async () => {
    const [kept, returned] = [await market.delivered(), await market.delivered()]
    for (const order of [kept, returned])
      expectStatus(await market.step('dispute', order, { reason: 'The text ends\nin the middle.' }), 200)
    const { orders } = (await done('disputes')) as { orders: Record<string, unknown>[] }
    expect(orders).toMatchObject([
      { order_id: kept.id, amount: '5', currency: 'xno', disputed_by: 'buyer', reason: 'The text ends\nin the middle.' },
      { order_id: returned.id },
    ])
    expect((await operator('disputes')).out).toContain('The text ends\n  in the middle.')
    expect(await done('dispute', kept.id, 'release', '--dry-run')).toMatchObject({ dry_run: true, status: 'released' })
    expect((await market.read(kept)).status).toBe('disputed')
    expect(await done('dispute', kept.id, 'release')).toEqual({
      ok: true,
      order_id: kept.id,
      status: 'released',
      currency: 'xno',
      seller: '4',
      buyer: '0',
      fee: '1',
      ledger_entry: 'dispute_outcome',
    })
    expect(await done('dispute', returned.id, 'refund')).toMatchObject({ status: 'refunded', seller: '0', buyer: '5', fee: '0' })
    const again = await operator('dispute', returned.id, 'release')
    expect([again.exitCode, again.err]).toEqual([1, 'The order is refunded, not disputed.\n'])
    expect((await operator('dispute', 'mkt_none', 'release')).err).toContain('no market order')
  })
})
