import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findContentFaults } from '../../shared/operation/content-check.ts'
import { setBanned } from '../../shared/agents/agent-service.ts'
import { sequencePending } from '../../shared/ledger/sequencer.ts'
import type { PayoutRecord } from '../../shared/money/payout.ts'
import { checkBooksAfterEach } from '../support/money.ts'
import { newTx } from '../support/coins.ts'
import { operatorEnv, runCommand, type Ran } from '../support/run-verb.ts'
import {
  ADDRESSES,
  checkMarket,
  expectStatus,
  OTHER_NANO_ADDRESS,
  startMarket,
  type PlacedOrder,
  type TestMarket,
} from '../support/market.ts'

let market: TestMarket

beforeAll(async () => {
  market = await startMarket({ queues: [] })
})
checkBooksAfterEach(() => market.ctx)
afterAll(async () => {
  await checkMarket(market.ctx)
  await market.stop()
})

const operator = (...argv: string[]): Promise<Ran> => runCommand(operatorEnv(market.ctx.config), argv)

async function done(...argv: string[]): Promise<Record<string, unknown>> {
  const { exitCode, stdout, stderr } = await operator(...argv, '--json')
  expect([exitCode, stderr], stdout).toEqual([0, ''])
  return JSON.parse(stdout) as Record<string, unknown>
}

interface Payee {
  currency: string
  address: string | null
  payable: string
  due: boolean
  payouts: { payout_id: string; order_id: string | null; state: string; amount: string; frozen: boolean }[]
}
const payees = async (...flags: string[]) => (await done('payouts', ...flags))['payees'] as Payee[]
const released = async () => {
  const order = await market.delivered()
  expectStatus(await market.step('accept', order), 200)
  return order
}
const firstTx = async (order: PlacedOrder) =>
  (await market.ctx.invoices.arrivals.listPayments(order.invoiceId))[0]?.tx ?? ''

describe('npm run operator', () => {
  it('says so where nothing is owed and nothing disputed', async () => {
    expect((await operator('payouts')).stdout).toBe('Nothing is owed.\n')
    expect((await operator('disputes')).stdout).toBe('No disputes.\n')
  })

  it('lists what is owed by payee, and what is due: enough together, with an address, and not frozen', async () => {
    const [first] = [await released(), await released()]
    const small = await market.order({ refund_address: undefined }, { price_usd: 1 })
    await market.payPercent(small, 101)
    expect(await payees()).toMatchObject([
      {
        currency: 'xno',
        address: ADDRESSES.xno,
        payable: '8',
        due: true,
        payouts: [{ amount: '4' }, { amount: '4' }],
      },
      {
        currency: 'xno',
        address: null,
        payable: '0.005',
        due: false,
        payouts: [{ state: 'owed', amount: '0.005' }],
      },
    ])
    const [homeless] = await market.ctx.payouts.listByOrder(small.id)
    expect((await operator('payout-paid', homeless?._id ?? '', newTx())).stderr).toContain(
      'has not named a refund address',
    )
    expectStatus(
      await market.step('refund-address', small, {
        address: 'nano_3pbuf8omyqie3gakcwzp5t5quzktma8m4bzncxhrmpk17gqos4hq7qwweiz3',
      }),
      200,
    )
    expect((await payees()).map(({ due }) => due).sort()).toEqual([false, true])
    await market.lose(await firstTx(first))
    expect((await payees()).find(({ address }) => address === ADDRESSES.xno)).toMatchObject({
      payable: '4',
      due: true,
    })
    const { stdout } = await operator('payouts')
    expect(stdout).toContain(`${ADDRESSES.xno}  4 xno to pay\n`)
    expect(stdout).toContain('owed, frozen')
    await done('dispute', first.id, 'release')
  })

  it('lists first, and whole, what can be paid, and of the rest as much as the limit says', async () => {
    const { payouts } = market.ctx.payouts.models
    const made = (index: number, fields: Partial<PayoutRecord>) => ({
      _id: `out_0000_${index}`,
      source: `flood/${index}`,
      coin: 'xmr' as const,
      agent_id: 'agt_payee',
      amount_raw: '1000000000',
      state: 'owed' as const,
      at: 1,
      changed_at: 1,
      salt: '00',
      ...fields,
    })
    const homeless = Array.from({ length: 210 }, (_, index) => made(1_000 + index, {}))
    const payable = ['a', 'b', 'a'].map((address, index) =>
      made(2_000 + index, { address, agent_id: `agt_${address}`, amount_raw: '600000000' }),
    )
    const rest = [
      made(3_000, { address: 'a', frozen: true }),
      made(3_001, { address: 'c', held_by: 'trf_unexplained' }),
    ]
    await payouts.insertMany([...homeless, ...payable, ...rest])
    try {
      const answer = await done('payouts', '--limit', '2')
      const shown = (answer['payees'] as Payee[]).filter(({ currency }) => currency === 'xmr')
      expect(shown).toMatchObject([
        { address: 'a', payable: '0.0012', due: true, payouts: [{}, {}] },
        { address: 'b', payable: '0.0006', due: false, payouts: [{}] },
        { address: 'c', payable: '0', due: false, payouts: [{ state: 'held' }] },
        { address: null, payable: '0.001', due: false, payouts: [{ state: 'owed' }] },
      ])
      expect(answer['truncated']).toBe(true)
      expect((await operator('payouts')).stdout).toContain(
        'There is more that cannot be paid now (xmr); --limit shows up to 200',
      )
      await payouts.deleteMany({ _id: { $in: homeless.slice(0, 100).map(({ _id }) => _id) } })
      const { stdout } = await operator('payouts', '--limit', '200')
      expect(stdout).toContain('owed, frozen')
      expect(stdout).not.toContain('There is more')
    } finally {
      await payouts.deleteMany({ source: /^flood/ })
    }
    expect((await done('payouts'))['truncated']).toBe(false)
  })

  it('names the address of a buyer that can name none any more, with the payment and not without it', async () => {
    const order = await market.order({ refund_address: undefined })
    await market.payPercent(order, 110)
    await setBanned(market.ctx, market.buyer.id, true)
    try {
      const [payout] = await market.ctx.payouts.listByOrder(order.id)
      const id = payout?._id ?? ''
      const tx = newTx()
      const pay = (address: string, ...flags: string[]) =>
        operator('payout-paid', id, tx, '--address', address, ...flags)
      expect((await pay(`${OTHER_NANO_ADDRESS.slice(0, -1)}4`)).stderr).toContain('expected a Nano address')
      expect((await pay(ADDRESSES.xmr)).stderr).toContain('expected a Nano address')
      expect((await pay(OTHER_NANO_ADDRESS, '--dry-run')).stdout).toContain(OTHER_NANO_ADDRESS)
      await market.ctx.payouts.models.payouts.updateOne({ _id: id }, { $set: { frozen: true } })
      expect((await pay(OTHER_NANO_ADDRESS)).stderr).toContain('The payout is frozen')
      await market.ctx.payouts.models.payouts.updateOne({ _id: id }, { $unset: { frozen: 1 } })
      expect((await market.ctx.orders.find(order.id))?.refund_address).toBeUndefined()
      expect((await market.ctx.payouts.find(id))?.address).toBeUndefined()
      expect(await done('payout-paid', id, tx, '--address', OTHER_NANO_ADDRESS)).toMatchObject({
        address: OTHER_NANO_ADDRESS,
        state: 'manual',
        tx_hash: tx,
        ledger_entry: 'payout',
      })
      const { refund_address: named, pending = [] } = (await market.ctx.orders.find(order.id)) ?? {}
      expect([named, pending.at(-1)?.data['step']]).toEqual([OTHER_NANO_ADDRESS, 'refund_address'])
      const paid = await market.ctx.payouts.find(id)
      expect([paid?.state, paid?.address, paid?.pending?.at(-1)?.data['step']]).toEqual([
        'manual',
        OTHER_NANO_ADDRESS,
        'manual',
      ])
      expect((await pay(OTHER_NANO_ADDRESS)).stderr).toBe(
        'The payout has an address, and it stays as it is; leave --address out.\n',
      )

      // What was named with the payment goes with it, and another one may be named.
      await done('payout-paid', '--undo', id, '--unseen')
      expect((await market.ctx.orders.find(order.id))?.refund_address).toBeUndefined()
      expect(await market.ctx.payouts.find(id)).toMatchObject({ state: 'owed' })
      expect((await market.ctx.payouts.find(id))?.address).toBeUndefined()
      expect(await done('payout-paid', id, newTx(), '--address', OTHER_NANO_ADDRESS)).toMatchObject({
        state: 'manual',
      })
      await sequencePending(market.ctx)
      expect(await findContentFaults(market.ctx)).toEqual({ count: 0, sentences: [] })
    } finally {
      await setBanned(market.ctx, market.buyer.id, false)
    }
  })

  it('records what was paid by hand, once, and only what is owed', async () => {
    const order = await released()
    const [payout] = await market.ctx.payouts.listByOrder(order.id)
    const id = payout?._id ?? ''
    const tx = newTx()
    expect(await done('payout-paid', id, tx.toUpperCase(), '--dry-run')).toMatchObject({
      dry_run: true,
      state: 'manual',
    })
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
    expect([again.exitCode, again.stderr]).toEqual([
      1,
      'The payout is manual; only one that is owed or held can be paid by hand.\n',
    ])
    expect((await operator('payout-paid', 'out_none', tx)).stderr).toContain('no payout with this id')
    expect(JSON.stringify(await payees())).not.toContain(id)
    expect(JSON.stringify(await payees('--all'))).toContain(id)
  })

  it('shows disputes with what the buyers say, and decides them', async () => {
    const [kept, returned] = [await market.delivered(), await market.delivered()]
    for (const order of [kept, returned])
      expectStatus(await market.step('dispute', order, { reason: 'The text ends\nin the middle.' }), 200)
    const { orders } = (await done('disputes')) as { orders: Record<string, unknown>[] }
    expect(orders).toMatchObject([
      {
        order_id: kept.id,
        amount: '5',
        currency: 'xno',
        disputed_by: 'buyer',
        reason: 'The text ends\nin the middle.',
      },
      { order_id: returned.id },
    ])
    expect((await operator('disputes')).stdout).toContain('The text ends\n  in the middle.')
    expect(await done('dispute', kept.id, 'release', '--dry-run')).toMatchObject({
      dry_run: true,
      status: 'released',
    })
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
    expect(await done('dispute', returned.id, 'refund')).toMatchObject({
      status: 'refunded',
      seller: '0',
      buyer: '5',
      fee: '0',
    })
    const again = await operator('dispute', returned.id, 'release')
    expect([again.exitCode, again.stderr]).toEqual([1, 'The order is refunded, not disputed.\n'])
    expect((await operator('dispute', 'mkt_none', 'release')).stderr).toContain('no market order')
  })

  it('splits a dispute, shows until when what was decided is kept back, and takes it back', async () => {
    const order = await market.delivered()
    expectStatus(await market.step('dispute', order), 200)
    const env = { ...operatorEnv(market.ctx.config), DISPUTE_HOLD_MINUTES: '10' }
    const held = (...argv: string[]) => runCommand(env, argv)
    const told = await held('dispute', order.id, 'split', '25')
    expect(told.stdout).toContain(`"dispute ${order.id} --undo" takes it back`)
    expect(told.stdout).toMatch(/split percent: +25\nseller: +1\nbuyer: +3\.75\nfee: +0\.25\n/)
    const waiting = `${order.id}  decided: 4.75 xno is not sent before`
    expect((await held('disputes')).stdout).toContain(waiting)
    expect(await done('disputes')).toMatchObject({
      count: 0,
      decided: expect.arrayContaining([
        expect.objectContaining({ order_id: order.id, currency: 'xno', amount: '4.75' }),
      ]) as object[],
    })
    expect((await held('payouts')).stdout).toContain('because its order was just decided')
    const waits = (await payees())
      .flatMap(({ payouts }) => payouts)
      .filter(({ order_id: id }) => id === order.id)
    const kept = { state: 'owed', frozen: false, decided_until: expect.any(Number) as number }
    expect(waits).toMatchObject([kept, kept])
    const status = await held('status', '--all', '--wait', '60')
    expect(status.stdout).toMatch(/wait for some minutes after your decision \d+, see "disputes"/)
    expect(await done('dispute', order.id, '--undo', '--dry-run')).toMatchObject({
      ...{ dry_run: true, status: 'disputed' },
    })
    expect((await market.read(order)).status).toBe('released')
    expect(await done('dispute', '--undo', order.id)).toEqual({
      ...{ ok: true, order_id: order.id, status: 'disputed', currency: 'xno' },
      ...{ seller_no_longer_owed: '1', buyer_no_longer_owed: '3.75', ledger_entry: 'dispute_outcome' },
    })
    expect((await held('disputes')).stdout).not.toContain(waiting)
    await done('dispute', order.id, 'release')
    const [payout] = (await market.ctx.payouts.listByOrder(order.id)).filter(({ state }) => state === 'owed')
    await done('payout-paid', payout?._id ?? '', newTx())
    const late = await operator('dispute', order.id, '--undo')
    expect([late.exitCode, late.stderr]).toEqual([
      1,
      `The payout ${payout?._id} of this decision is on record as paid by hand; if it was not paid, take that back first: "payout-paid --undo ${payout?._id}".\n`,
    ])
  })

  it("gives MIN_PAYOUT's due to an agent over all of its addresses, and to an address over all of its agents", async () => {
    const { payouts } = market.ctx.payouts.models
    const made = (index: number, agent: string, address: string) => ({
      ...{
        _id: `out_sum_${index}`,
        source: `sum/${index}`,
        coin: 'xmr' as const,
        agent_id: agent,
        address,
        amount_raw: '600000000',
      },
      ...{ state: 'owed' as const, at: 1, changed_at: 1, salt: '00' },
    })
    await payouts.insertMany([
      made(1, 'agt_one', 'a'),
      made(2, 'agt_one', 'b'),
      made(3, 'agt_two', 'c'),
      made(4, 'agt_three', 'c'),
      made(5, 'agt_four', 'd'),
    ])
    try {
      const due = (await payees()).filter(({ currency, due: isDue }) => currency === 'xmr' && isDue)
      expect(due.map(({ address }) => address)).toEqual(['a', 'b', 'c'])
    } finally {
      await payouts.deleteMany({ source: /^sum/ })
    }
  })

  it('refuses for a payout a transaction that is on record as something else', async () => {
    const [order, other] = [await released(), await released()]
    const [[payout], [beside]] = [
      await market.ctx.payouts.listByOrder(order.id),
      await market.ctx.payouts.listByOrder(other.id),
    ]
    const id = payout?._id ?? ''
    const err = async (tx: string, of = id) => (await operator('payout-paid', of, tx)).stderr
    expect(await err(await firstTx(order))).toContain('is on record as the payment')
    const tx = newTx()
    await done('payout-paid', beside?._id ?? '', tx)
    await market.ctx.payouts.models.payouts.updateOne(
      { _id: beside?._id ?? '' },
      { $set: { address: OTHER_NANO_ADDRESS } },
    )
    expect(await err(tx)).toContain(`is on record for the payout ${beside?._id} to another address`)
    await market.ctx.payouts.models.payouts.updateOne(
      { _id: beside?._id ?? '' },
      { $set: { address: ADDRESSES.xno } },
    )
    // One block may pay two sums to one payee.
    await done('payout-paid', id, tx)
    const xmr = await market.delivered({ currency: 'xmr', refund_address: ADDRESSES.xmr })
    expectStatus(await market.step('accept', xmr), 200)
    expect(await err(tx, (await market.ctx.payouts.listByOrder(xmr.id))[0]?._id)).toContain('in xno')
  })

  // holds: rules.market.steps.payout_undone
  it('takes back a payout that was recorded as paid: it is owed again, its order is released, and the ledger says so', async () => {
    const order = await released()
    const [payout] = await market.ctx.payouts.listByOrder(order.id)
    const id = payout?._id ?? ''
    for (let round = 0; round < 2; round++) {
      await done('payout-paid', id, newTx())
      expect((await market.read(order)).status).toBe('paid_out')
      await checkMarket(market.ctx)
      expect(await done('payout-paid', '--undo', id, '--dry-run')).toMatchObject({ dry_run: true })
      expect((await market.read(order)).status).toBe('paid_out')
      expect(await done('payout-paid', '--undo', id, '--unseen')).toMatchObject({
        payout_id: id,
        state: 'owed',
        ledger_entry: 'payout',
      })
      expect((await market.read(order, market.seller)).payouts).toMatchObject([
        { payout_id: id, state: 'owed', tx_hash: null },
      ])
      expect((await market.read(order)).status).toBe('released')
      await checkMarket(market.ctx)
    }
    expect((await operator('payout-paid', '--undo', id)).stderr).toBe(
      'The payout is owed; only one that was recorded as paid by hand can be taken back.\n',
    )
    await done('payout-paid', id, newTx())
  })

  it('takes back no payment of a disputed order without which its buyer has been paid more than there is', async () => {
    const order = await market.delivered()
    const settled = await done('settle-invoice', order.invoiceId, '2', newTx(), '--over', '--unseen')
    const [excess] = await market.ctx.payouts.listByOrder(order.id)
    await done('payout-paid', excess?._id ?? '', newTx())
    expectStatus(await market.step('dispute', order), 200)
    const undone = await operator('settle-invoice', '--undo', String(settled['payment_id']))
    expect(undone.stderr).toContain('The buyer has been paid more than is left')
    await done('dispute', order.id, 'refund')
    await checkMarket(market.ctx)
  })
})
