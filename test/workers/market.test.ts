import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { decideDispute, undoDecision } from '../../shared/market/dispute-service.ts'
import { actOnDeadline } from '../../shared/market/order-deadlines.ts'
import { DEADLINE_SLACK_MS, OUTAGE_GAP_MS } from '../../shared/market/market-terms.ts'
import { Overtaken } from '../../shared/platform/database.ts'
import { newId } from '../../shared/platform/ids.ts'
import type { PayoutRecord } from '../../shared/money/payout.ts'
import type { TransferRecord } from '../../shared/money/transfer.ts'
import { holdPayouts, markPaidByHand, oweAgain } from '../../shared/money/payout-service.ts'
import { storeOrDrop, storeTransfers } from '../../shared/money/transfer-service.ts'
import { readSendable } from '../../shared/money/due-payouts.ts'
import { moveTransfer, recordPayment } from '../support/told-chain.ts'
import { sweep } from '../../workers/jobs/sweep.ts'
import { checkBooksAfterEach } from '../support/money.ts'
import { foundAt, newTx, pay } from '../support/coins.ts'
import {
  ADDRESSES,
  checkMarket,
  confirm,
  expectStatus,
  startMarket,
  vouch,
  type PlacedOrder,
  type TestMarket,
} from '../support/market.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { FULL } from '../support/full.ts'
import { atOneMoment, listAllEntries } from '../support/stored.ts'

const HOUR_MS = 3_600_000
let market: TestMarket

/** No worker serves the deadlines: the tests call what its job calls. */
beforeAll(async () => {
  market = await startMarket({ queues: [] })
})
checkBooksAfterEach(() => market.ctx)
afterAll(async () => {
  await checkMarket(market.ctx)
  await market.stop()
})

const stored = async (order: PlacedOrder) => {
  const found = await market.ctx.orders.find(order.id)
  if (found === undefined) throw new Error(`there is no order ${order.id}`)
  return found
}
const statusOf = async (order: PlacedOrder) => (await stored(order)).status
const payoutsOf = (order: PlacedOrder) => market.ctx.payouts.listByOrder(order.id)
const dueAt = async (order: PlacedOrder) => (await stored(order)).due_at ?? 0
const pass = async (order: PlacedOrder) => actOnDeadline(market.ctx, await dueAt(order))
/** Sums by side and state, without those of 0. */
const sumsOf = async (order: PlacedOrder) => {
  const { seller_id: sellerId } = await stored(order)
  const sums: Record<string, bigint> = {}
  for (const { agent_id: id, state, frozen, amount_raw: amount } of await payoutsOf(order)) {
    const key = `${id === sellerId ? 'seller' : 'buyer'} ${frozen ? 'frozen ' : ''}${state}`
    sums[key] = (sums[key] ?? 0n) + BigInt(amount)
  }
  return sums
}
/** Does something while this machine's clock is off by that much, and the database's is not. */
const withClockOff = async (ms: number, work: () => Promise<unknown>) => {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + ms })
  try {
    await work()
  } finally {
    vi.useRealTimers()
  }
}
const percent = (order: PlacedOrder, part: number) => (order.amountRaw * BigInt(part)) / 100n

describe('an order', () => {
  it('is changed by nobody who has read an older version of it', async () => {
    const order = await market.paidOrder()
    const before = await stored(order)
    const { orders, database } = market.ctx
    const change = { step: 'payment', at: before.at } as const
    await orders.change(before, change)
    await expect(orders.change(before, change)).rejects.toBeInstanceOf(Overtaken)
    const all = database.transaction((session) => orders.changeAll([{ before, change }], session))
    await expect(all).rejects.toBeInstanceOf(Overtaken)
    expect((await stored(order)).version).toBe(before.version + 1)
  })
})

describe('a deadline', () => {
  // holds: limits.deadlines_of_an_order
  it('is not acted on before its second, and in it is', async () => {
    const order = await market.delivered()
    const due = await dueAt(order)
    const { ctx } = market
    const at = (nowMs: number) => ({ ...ctx, database: { ...ctx.database, now: () => nowMs } })
    await vouch(ctx, due * 1_000)
    await actOnDeadline(at(due * 1_000 - 1), due)
    expect(await statusOf(order)).toBe('delivered')
    await actOnDeadline(at(due * 1_000), due)
    expect(await stored(order)).toMatchObject({
      status: 'released',
      late_ms: 0,
      closed_at: due,
      fee_taken: true,
    })
  })

  it('has a job of its own from the step on that sets it, in the second that it names', async () => {
    const queue = market.ctx.queues.get('order-deadlines')
    const delayOf = async (order: PlacedOrder) => {
      const due = await dueAt(order)
      const find = async () =>
        (await queue.getDelayed()).find(({ data }) => (data as { due_at: number }).due_at === due)
      const { delay } = await waitFor('the job', find, { limitMs: PATIENCE_MS })
      return delay - (due * 1_000 - market.ctx.now())
    }
    const order = await market.paidOrder()
    const delays = [await delayOf(order)]
    expectStatus(await market.step('deliver', order), 200)
    delays.push(await delayOf(order))
    for (const late of delays) expect(Math.abs(late - DEADLINE_SLACK_MS)).toBeLessThan(60_000)
  })

  // holds: rules.market.steps.unanswered, rules.market.steps.undelivered
  it('is acted on once, by ten workers at once, with one payout and one fee each', async () => {
    const orders = await Promise.all(Array.from({ length: FULL ? 12 : 4 }, () => market.delivered()))
    await market.letPass(73 * HOUR_MS)
    const times = [...new Set(await Promise.all(orders.map(dueAt)))]
    await Promise.all(
      Array.from({ length: 10 }, () => Promise.all(times.map((due) => actOnDeadline(market.ctx, due)))),
    )
    for (const order of orders) expect(await sumsOf(order)).toEqual({ 'seller owed': percent(order, 80) })
    await checkMarket(market.ctx)
  })

  it.runIf(FULL)('meets acceptance, dispute and itself in the same moment: one wins', async () => {
    const orders = await Promise.all(Array.from({ length: 8 }, () => market.delivered()))
    const times = new Set(await Promise.all(orders.map(dueAt)))
    await market.letPass(72 * HOUR_MS - 1_500)
    const until = Math.max(...times) * 1_000
    await Promise.all(
      orders.map(async (order, place) => {
        // The clock is about to strike: who comes before and who after it is left to chance.
        await new Promise((resolve) =>
          setTimeout(resolve, Math.max(0, until - market.ctx.now() - 20 + 5 * place)),
        )
        const [accepted, disputed] = await Promise.all([
          market.step('accept', order),
          market.step('dispute', order),
          vouch(market.ctx, market.ctx.now()).then(() => pass(order)),
        ])
        const status = await statusOf(order)
        for (const answer of [accepted, disputed])
          if (answer !== undefined)
            expect([answer.status, answer.json.error]).toEqual(
              answer.status === 200 ? [200, undefined] : [409, 'wrong_state'],
            )
        expect(['released', 'disputed', 'delivered']).toContain(status)
      }),
    )
    await checkMarket(market.ctx)
  })

  it('of one order that fails keeps no other from its own', async () => {
    const [first, broken, last] = [
      await market.delivered(),
      await market.delivered(),
      await market.delivered(),
    ]
    await market.letPass(73 * HOUR_MS)
    const due = await dueAt(first)
    const { orders } = market.ctx.orders.models
    for (const order of [broken, last])
      await orders.updateOne({ _id: order.id }, { $set: { due_at: due, accept_by: due } })
    // Its payout's place is taken, as after a defect.
    const { version } = await stored(broken)
    const source = `${broken.id}/unanswered/${version + 1}`
    await market.ctx.payouts.models.payouts.collection.insertOne({
      _id: newId('payout'),
      source,
      coin: 'xno',
      agent_id: 'agt_x',
      amount_raw: '1',
      state: 'confirmed',
    } as never)
    await expect(actOnDeadline(market.ctx, due)).rejects.toThrow('duplicate key')
    expect([await statusOf(first), await statusOf(broken), await statusOf(last)]).toEqual([
      'released',
      'delivered',
      'released',
    ])
    await market.ctx.payouts.models.payouts.deleteOne({ source })
    await actOnDeadline(market.ctx, due)
    expect(await statusOf(broken)).toBe('released')
  })

  it('whose job was lost is found by the sweep, and its lateness stands on the order', async () => {
    const order = await market.paidOrder()
    await market.letPass(24 * HOUR_MS + 90_000)
    const enqueued: number[] = []
    const queues = {
      ...market.ctx.queues,
      enqueue: ((name: string, payload: { due_at: number }) =>
        Promise.resolve(name === 'order-deadlines' && enqueued.push(payload.due_at) > 0)) as never,
    }
    await sweep({ ...market.ctx, queues })
    expect(enqueued).toContain(await dueAt(order))
    for (const due of enqueued) await actOnDeadline(market.ctx, due)
    const { late_ms: lateMs = 0, status } = await stored(order)
    expect([status, lateMs >= 89_000, lateMs < 150_000]).toEqual(['refunded', true, true])
  })
})

describe.each(FULL ? [-80, 80] : [80])("a machine's clock that is %i hours off the database's", (hours) => {
  const off = (work: () => Promise<unknown>) => withClockOff(hours * HOUR_MS, work)
  const expectIn = (at: number | undefined, ms: number) =>
    expect(Math.abs((at ?? 0) * 1_000 - market.ctx.now() - ms)).toBeLessThan(60_000)

  it('neither lengthens nor shortens the time that is given to pay, to deliver and to accept', async () => {
    const [toDeliver, toPay] = [await market.paidOrder(), await market.order()]
    let fresh: PlacedOrder | undefined
    await off(async () => {
      fresh = await market.order()
      await market.step('deliver', toDeliver)
      await market.payPercent(toPay, 100)
    })
    const placed = await stored(fresh as PlacedOrder)
    expectIn(placed.at, 0)
    expectIn(placed.pay_by, HOUR_MS)
    expectIn((await market.ctx.invoices.find(placed.invoice_id))?.expires_at, HOUR_MS)
    expectIn((await stored(toPay)).deliver_by, 24 * HOUR_MS)
    expectIn((await stored(toDeliver)).accept_by, 72 * HOUR_MS)
  })

  it('acts on no deadline before its time, and lets each side take its step until then', async () => {
    const [late, delivered, disputed] = [
      await market.paidOrder(),
      await market.delivered(),
      await market.delivered(),
    ]
    await off(async () => {
      for (const order of [late, delivered, disputed]) await pass(order)
      expectStatus(await market.step('dispute', disputed), 200)
    })
    expect([await statusOf(late), await statusOf(delivered), await statusOf(disputed)]).toEqual([
      'paid',
      'delivered',
      'disputed',
    ])
  })

  it.runIf(FULL)('tells of no outage of the API', async () => {
    const before = await market.ctx.orders.outages.models.outages.countDocuments()
    const order = await market.delivered()
    await off(() => market.read(order))
    expect(await market.ctx.orders.outages.models.outages.countDocuments()).toBe(before)
    expect((await market.ctx.orders.outages.readServedUntil()) ?? 0).toBeLessThan(market.ctx.now() + 60_000)
  })

  it('buys the days that were paid for, from now on', async () => {
    const agent = await market.register()
    let expiresAt: number | undefined
    await off(async () => {
      const { json } = expectStatus(
        await market.call('POST', '/invoice', { token: agent.token, body: { currency: 'xno', days: 3 } }),
        201,
      )
      expiresAt = Number(json['expires_at'])
      await pay(market.ctx, String(json['invoice_id']), { amount: String(json['amount']) })
    })
    expectIn(expiresAt, HOUR_MS)
    const { pass_until_ms: until = 0 } = (await market.ctx.agents.find(agent.id)) ?? {}
    expectIn(until / 1_000, 3 * 24 * HOUR_MS)
  })

  it('lapses what is over by the database, and nothing else', async () => {
    const [early, over] = [await market.order(), await market.order()]
    const past = Math.floor(market.ctx.now() / 1_000) - 5
    await market.ctx.invoices.models.invoices.updateOne(
      { _id: over.invoiceId },
      { $set: { expires_at: past } },
    )
    await market.ctx.orders.models.orders.updateOne({ _id: over.id }, { $set: { pay_by: past } })
    await off(() => market.lapse())
    expect([await statusOf(early), await statusOf(over)]).toEqual(['awaiting_payment', 'expired'])
  })
})

describe('an outage of the API', () => {
  /** Of another service, whose mark no test before it has moved. */
  let quiet: TestMarket
  beforeAll(async () => {
    quiet = await startMarket({ queues: [] })
  })
  afterAll(async () => {
    await checkMarket(quiet.ctx)
    await quiet.stop()
  })
  /** Each begins with an API that has just served, and no outage before. */
  beforeEach(async () => {
    const { marks, outages } = quiet.ctx.orders.outages.models
    await outages.deleteMany({})
    await marks.updateOne({ _id: 'api' }, { $set: { until_ms: quiet.ctx.now() } })
  })
  const orderOf = async (order: PlacedOrder) =>
    (await quiet.ctx.orders.find(order.id)) ?? expect.fail('the order is gone')
  const passQuietly = async (order: PlacedOrder) =>
    actOnDeadline(quiet.ctx, (await orderOf(order)).due_at ?? 0)
  const seconds = () => Math.floor(quiet.ctx.now() / 1_000)

  // holds: limits.deadlines_in_an_outage, rules.market.statements.a_deliver_by_or_accept_by
  it('holds a deadline that fell into it while it lasts, however long', async () => {
    const order = await quiet.delivered()
    await quiet.letPassInOutage(73 * HOUR_MS)
    await passQuietly(order)
    await quiet.letPassInOutage(500 * HOUR_MS)
    await passQuietly(order)
    expect((await orderOf(order)).status).toBe('delivered')
  })

  // holds: limits.deadlines_in_an_outage, rules.market.statements.a_deliver_by_or_accept_by
  it('gives the buyer an hour from the first request that is served, and the order says so', async () => {
    const [order, undelivered] = [await quiet.delivered(), await quiet.paidOrder()]
    const { accept_by: was = 0 } = await orderOf(order)
    await quiet.letPassInOutage(80 * HOUR_MS)
    const first = seconds()
    const view = await quiet.read(order)
    const until = Number(view['accept_by'])
    expect([until - first >= 3_600, until - first < 3_660]).toEqual([true, true])
    expect(view).toMatchObject({
      status: 'delivered',
      next_transition: { to: 'released', at: until, actor: 'service' },
      extensions: [
        { deadline: 'accept_by', was, until, outage_to: expect.any(Number), outage_from: expect.any(Number) },
      ],
    })
    expect(view.extensions[0]?.outage_from).toBeLessThan(was)
    expect(
      (await quiet.call('GET', '/market/orders', { token: quiet.seller.token })).json['orders'],
    ).toContainEqual(
      expect.objectContaining({
        order_id: undelivered.id,
        status: 'paid',
        extensions: [expect.objectContaining({ deadline: 'deliver_by' })],
      }),
    )
    expectStatus(await quiet.step('deliver', undelivered), 200)
    await quiet.letPass(HOUR_MS - 60_000)
    expectStatus(await quiet.step('dispute', order), 200)
  })

  // holds: limits.deadlines_in_an_outage, rules.market.statements.a_deliver_by_or_accept_by
  it.runIf(FULL)('counts no deadline before it or after it', async () => {
    const order = await quiet.delivered()
    const { accept_by: acceptBy = 0 } = await orderOf(order)
    await vouch(quiet.ctx, acceptBy * 1_000)
    await quiet.letPassInOutage(100 * HOUR_MS)
    await quiet.read(order)
    expect((await orderOf(order)).extensions).toBeUndefined()
    await passQuietly(order)
    expect((await orderOf(order)).status).toBe('released')
  })

  // holds: limits.deadlines_in_an_outage.detail, rules.market.statements.a_deliver_by_or_accept_by
  it.runIf(FULL)('leaves the time to pay as it is, which is met on the chain', async () => {
    const order = await quiet.order()
    const { pay_by: payBy } = await orderOf(order)
    await quiet.letPassInOutage(HOUR_MS + 2_000)
    const view = await quiet.read(order)
    expect([view['pay_by'], view.extensions]).toEqual([payBy, []])
    await quiet.lapse()
    expect((await orderOf(order)).status).toBe('expired')
  })

  it('is put off by the worker too, and again where a second one follows, and then ends', async () => {
    const order = await quiet.delivered()
    for (const times of [1, 2]) {
      await quiet.letPassInOutage(80 * HOUR_MS)
      await quiet.ctx.orders.outages.recordRequest(quiet.ctx.now())
      await passQuietly(order)
      expect((await orderOf(order)).extensions).toHaveLength(times)
    }
    await quiet.letPass(HOUR_MS + 2_000)
    await passQuietly(order)
    expect((await orderOf(order)).status).toBe('released')
    const { pending = [] } = await orderOf(order)
    expect(pending.map(({ data }) => data['step'])).toEqual([
      'ordered',
      'paid',
      'delivered',
      'extended',
      'extended',
      'unanswered',
      'taken',
    ])
  })

  it('followed by another one, in which the hour fell, gives an hour after that one, though nobody looked in between', async () => {
    const order = await quiet.delivered()
    await quiet.letPassInOutage(80 * HOUR_MS)
    await quiet.ctx.orders.outages.recordRequest(quiet.ctx.now())
    await quiet.letPassInOutage(80 * HOUR_MS)
    expectStatus(await quiet.step('accept', order), 200)
    expect((await orderOf(order)).extensions).toHaveLength(2)
  })

  // holds: limits.deadlines_in_an_outage.detail
  it.runIf(FULL)('is none where another process serves, or where the pause was short', async () => {
    const { outages } = quiet.ctx.orders
    const start = quiet.ctx.now()
    await vouch(quiet.ctx, start)
    expect(await outages.moveMark(start + OUTAGE_GAP_MS)).toBe(true)
    expect(await outages.moveMark(start + 2 * OUTAGE_GAP_MS + 1)).toBe(false)
    await outages.recordRequest(start + 2 * OUTAGE_GAP_MS)
    expect(await outages.find(start + 1.5 * OUTAGE_GAP_MS)).toBeUndefined()
    await Promise.all([1, 2, 3].map((ms) => outages.recordRequest(start + 4 * OUTAGE_GAP_MS + ms)))
    const outage = await outages.find(start + 3 * OUTAGE_GAP_MS)
    expect([
      outage?._id,
      [1, 2, 3].map((ms) => start + 4 * OUTAGE_GAP_MS + ms).includes(outage?.to_ms ?? 0),
    ]).toEqual([start + 2 * OUTAGE_GAP_MS, true])
    expect(await outages.models.outages.countDocuments()).toBe(1)
    expect(await outages.find(start + 5 * OUTAGE_GAP_MS)).toBeUndefined()
  })

  it.runIf(FULL)(
    'goes on until the next request where the process that wrote it down died before it moved the mark',
    async () => {
      const { outages } = quiet.ctx.orders
      const start = quiet.ctx.now()
      await vouch(quiet.ctx, start)
      await outages.models.outages.insertMany([{ _id: start, to_ms: start + 60_000 }])
      // It was down until now.
      const end = start + 5 * HOUR_MS
      await outages.recordRequest(end)
      expect([await outages.readServedUntil(), (await outages.find(end - 1))?.to_ms]).toEqual([end, end])
    },
  )

  it.runIf(FULL)("is none that this machine's clock tells of", async () => {
    const order = await quiet.paidOrder()
    const { outages } = quiet.ctx.orders
    await withClockOff(30 * 24 * HOUR_MS, async () => {
      await quiet.read(order)
      await outages.models.marks.deleteMany({})
      await quiet.read(order)
    })
    expect(await outages.models.outages.countDocuments()).toBe(0)
    await quiet.letPass(25 * HOUR_MS)
    await passQuietly(order)
    expect((await orderOf(order)).status).toBe('refunded')
  })
})

/**
 * A context in which something else happens just before an order's first change is written, in a transaction
 * that has read the order.
 */
const beforeFirstChange = (happen: () => Promise<unknown>) => {
  const { orders } = market.ctx
  let tries = 0
  const change: typeof orders.change = async (...step) => {
    if (tries++ === 0) await happen()
    return orders.change(...step)
  }
  return { ctx: { ...market.ctx, orders: { ...orders, change } }, tries: () => tries }
}

describe('a payout', () => {
  const transfer = (payouts: readonly PayoutRecord[]): TransferRecord => ({
    _id: newId('transfer'),
    coin: 'xno',
    kind: 'payout',
    account_index: 0,
    previous: newTx(),
    tx: newTx(),
    signed: '{}',
    amount_raw: '1',
    payment_ids: [],
    payout_ids: payouts.map(({ _id }) => _id),
    state: 'signed',
    at: 0,
    changed_at: 0,
  })
  const released = async () => {
    const order = await market.delivered()
    expectStatus(await market.step('accept', order), 200)
    return order
  }

  it('of money that the chain has not shown is not sent, though it became owed while payouts were listed', async () => {
    const { ctx } = market
    const order = await market.paidOrder()
    const invoice = await ctx.invoices.find(order.invoiceId)
    if (invoice === undefined) throw new Error('the order has no invoice')
    const payouts = {
      ...ctx.payouts,
      async *walkSendable(coin: 'xno' | 'xmr', at: number) {
        await recordPayment(ctx, foundAt(invoice, { amount: '1' }), 'operator')
        yield* ctx.payouts.walkSendable(coin, at)
      },
    }
    const { payouts: listed } = await readSendable({ ...ctx, payouts }, order.coin)
    const [excess, ...others] = await payoutsOf(order)
    expect([excess?.state, others]).toEqual(['owed', []])
    expect(listed.map(({ _id }) => _id)).not.toContain(excess?._id)
  })

  // holds: rules.market.statuses.paid_out, rules.market.steps.paid_out
  it('of the seller ends its order when it is confirmed, and one of the buyer does not', async () => {
    const order = await released()
    await market.payPercent(order, 10)
    const payouts = await payoutsOf(order)
    const sellers = payouts.filter(({ agent_id: id }) => id === market.seller.id)
    const buyers = payouts.filter(({ agent_id: id }) => id === market.buyer.id)
    for (const [own, status] of [
      [buyers, 'released'],
      [sellers, 'paid_out'],
    ] as const) {
      const sent = transfer(own)
      await storeTransfers(market.ctx, [sent])
      expect(await statusOf(order)).toBe('released')
      await moveTransfer(market.ctx, sent, 'taken')
      await moveTransfer(market.ctx, sent, 'confirmed')
      expect(await statusOf(order)).toBe(status)
    }
    await checkMarket(market.ctx)
  })

  it('goes into one of two blocks that were signed for one place in a chain; the other is not stored', async () => {
    const { ctx } = market
    const [one, other] = [await released(), await released()]
    const first = transfer(await payoutsOf(one))
    const second = { ...transfer(await payoutsOf(other)), previous: first.previous ?? '' }
    expect([await storeOrDrop(ctx, [first]), await storeOrDrop(ctx, [second])]).toEqual(['stored', 'dropped'])
    expect(await payoutsOf(other)).toMatchObject([{ state: 'owed' }])
    expect(await ctx.payouts.transfers.find(second._id)).toBeUndefined()
    await moveTransfer(ctx, first, 'taken')
    await moveTransfer(ctx, first, 'confirmed')
  })

  it('that an election took back after it was listed goes into no block, and into one once it is there again', async () => {
    const { ctx } = market
    const { collection } = ctx.payouts.models.payouts
    const [listed] = await payoutsOf(await released())
    if (listed === undefined) throw new Error('the order owes nothing')
    const stored = await collection.findOneAndDelete({ _id: listed._id as never })
    const early = transfer([listed])
    expect(await storeOrDrop(ctx, [early], [listed])).toBe('dropped')
    expect(await ctx.payouts.transfers.find(early._id)).toBeUndefined()
    await collection.insertOne(stored as never)
    const later = transfer([listed])
    expect(await storeOrDrop(ctx, [later], [listed])).toBe('stored')
    await moveTransfer(ctx, later, 'taken')
    await moveTransfer(ctx, later, 'confirmed')
    await checkMarket(ctx)
  })

  it('by hand is refused while it is frozen or under way', async () => {
    const order = await released()
    const [payout] = await payoutsOf(order)
    const paymentTx = (await market.ctx.invoices.arrivals.listPayments(order.invoiceId))[0]?.tx ?? ''
    await market.lose(paymentTx)
    expect(await markPaidByHand(market.ctx, payout?._id ?? '', newTx())).toBe(false)
    await expect(storeTransfers(market.ctx, [transfer([...(await payoutsOf(order))])])).rejects.toThrow(
      'disputed',
    )
    await confirm(market.ctx, order, paymentTx)
    await decideDispute(market.ctx, order.id, 'release')
    expect(await markPaidByHand(market.ctx, payout?._id ?? '', newTx())).toBe(true)
    expect(await markPaidByHand(market.ctx, payout?._id ?? '', newTx())).toBe(false)
    expect(await statusOf(order)).toBe('paid_out')
  })

  // holds: limits.disputes.detail, rules.ledger.entry_kinds.dispute, rules.market.steps.payment_lost
  it('that comes back because its transfer was replaced stays frozen while its order is disputed', async () => {
    const order = await released()
    const sent = transfer(await payoutsOf(order))
    await storeTransfers(market.ctx, [sent])
    await market.lose((await market.ctx.invoices.arrivals.listPayments(order.invoiceId))[0]?.tx ?? '')
    expect(await sumsOf(order)).toEqual({ 'seller signed': percent(order, 80) })
    await moveTransfer(market.ctx, sent, 'replaced')
    expect(await sumsOf(order)).toEqual({ 'seller frozen owed': percent(order, 80) })
    await decideDispute(market.ctx, order.id, 'refund')
  })

  it.runIf(FULL)(
    'that comes back in the moment in which a payment of its order is lost is frozen',
    async () => {
      const order = await released()
      const [payout] = await payoutsOf(order)
      const id = payout?._id ?? ''
      const paymentTx = (await market.ctx.invoices.arrivals.listPayments(order.invoiceId))[0]?.tx ?? ''
      expect(await holdPayouts(market.ctx, [id], 'test')).toEqual([id])
      const { payouts } = market.ctx
      let tries = 0
      const move: typeof payouts.move = async (...step) => {
        // The transaction reads as of its first look, so it does not see this.
        if (tries++ === 0) await market.lose(paymentTx)
        return payouts.move(...step)
      }
      expect(await oweAgain({ ...market.ctx, payouts: { ...payouts, move } }, id)).toBe(true)
      expect(tries).toBeGreaterThan(1)
      expect(await sumsOf(order)).toEqual({ 'seller frozen owed': percent(order, 80) })
      await checkMarket(market.ctx)
      await decideDispute(market.ctx, order.id, 'refund')
    },
  )

  it.runIf(FULL)(
    'of the seller that arrives in the moment in which its order is decided ends it',
    async () => {
      const order = await released()
      const sent = transfer(await payoutsOf(order))
      await storeTransfers(market.ctx, [sent])
      await moveTransfer(market.ctx, sent, 'taken')
      await market.lose((await market.ctx.invoices.arrivals.listPayments(order.invoiceId))[0]?.tx ?? '')
      const { ctx, tries } = beforeFirstChange(() => moveTransfer(market.ctx, sent, 'confirmed'))
      await decideDispute(ctx, order.id, 'release')
      expect(tries()).toBeGreaterThan(1)
      expect([await statusOf(order), await sumsOf(order)]).toEqual([
        'paid_out',
        { 'seller confirmed': percent(order, 80) },
      ])
      await checkMarket(market.ctx)
    },
  )

  it('that is frozen is not put aside, and one that is owed again is frozen only while its order is disputed', async () => {
    const order = await released()
    const [payout] = await payoutsOf(order)
    const id = payout?._id ?? ''
    const paymentTx = (await market.ctx.invoices.arrivals.listPayments(order.invoiceId))[0]?.tx ?? ''
    // It was sendable when the walk over them found it.
    await market.lose(paymentTx)
    expect(await holdPayouts(market.ctx, [id], 'test')).toEqual([])
    await confirm(market.ctx, order, paymentTx)
    await decideDispute(market.ctx, order.id, 'release')
    expect(await sumsOf(order)).toEqual({ 'seller owed': percent(order, 80) })
    expect(await holdPayouts(market.ctx, [id], 'test')).toEqual([id])
    // As one that was put aside frozen by an earlier version.
    await market.ctx.payouts.models.payouts.updateOne({ _id: id }, { $set: { frozen: true } })
    expect(await oweAgain(market.ctx, id)).toBe(true)
    expect(await markPaidByHand(market.ctx, id, newTx())).toBe(true)
    expect(await statusOf(order)).toBe('paid_out')
  })
})

describe('the operator decides', () => {
  const disputed = async () => {
    const order = await market.delivered()
    expectStatus(await market.step('dispute', order), 200)
    return order
  }
  const firstTx = async (order: PlacedOrder) =>
    (await market.ctx.invoices.arrivals.listPayments(order.invoiceId))[0]?.tx ?? ''

  // holds: limits.disputes, rules.market.steps.dispute_refunded, rules.market.steps.dispute_released
  it('a dispute for the seller or for the buyer, once, and in no other state', async () => {
    const [forSeller, forBuyer, undisputed] = [await disputed(), await disputed(), await market.delivered()]
    await market.payPercent(forBuyer, 5)
    await decideDispute(market.ctx, forSeller.id, 'release')
    await decideDispute(market.ctx, forBuyer.id, 'refund')
    expect([await statusOf(forSeller), await sumsOf(forSeller)]).toEqual([
      'released',
      { 'seller owed': percent(forSeller, 80) },
    ])
    expect([await statusOf(forBuyer), await sumsOf(forBuyer)]).toEqual([
      'refunded',
      { 'buyer owed': percent(forBuyer, 105) },
    ])
    expect((await stored(forBuyer)).undelivered).toBeUndefined()
    for (const outcome of ['release', 'refund'] as const) {
      await expect(decideDispute(market.ctx, forBuyer.id, outcome)).rejects.toThrow('refunded, not disputed')
      await expect(decideDispute(market.ctx, undisputed.id, outcome)).rejects.toThrow(
        'delivered, not disputed',
      )
      await expect(decideDispute(market.ctx, 'mkt_none', outcome)).rejects.toThrow('no market order')
    }
    await checkMarket(market.ctx)
  })

  // holds: limits.disputes.detail, rules.ledger.entry_kinds.dispute, rules.market.steps.payment_lost
  it('what becomes of an order whose payment the chain took back: it is disputed, and nothing goes out', async () => {
    for (const make of [() => market.paidOrder(), () => market.delivered(), disputed]) {
      const order = await make()
      await market.payPercent(order, 20)
      await market.lose(await firstTx(order))
      expect(await stored(order)).toMatchObject({ status: 'disputed', disputed_by: 'chain' })
      expect((await stored(order)).due_at).toBeUndefined()
      for (const name of ['deliver', 'accept', 'dispute'] as const)
        expect((await market.step(name, order)).json.error).toBe('wrong_state')
      await decideDispute(market.ctx, order.id, 'refund')
      expect([await statusOf(order), await sumsOf(order)]).toEqual([
        'refunded',
        { 'buyer owed': percent(order, 20) },
      ])
      // The lost payment is mined again after all.
      await confirm(market.ctx, order, await firstTx(order))
      expect(await sumsOf(order)).toEqual({ 'buyer owed': percent(order, 120) })
      await checkMarket(market.ctx)
    }
  })

  // holds: rules.ledger.entry_kinds.dispute_outcome
  it('a lost payment for the seller, at the cost of the venue or of what else was received', async () => {
    const [bare, covered] = [await market.delivered(), await market.delivered()]
    await market.payPercent(covered, 100)
    for (const order of [bare, covered]) {
      await market.lose(await firstTx(order))
      await decideDispute(market.ctx, order.id, 'release')
    }
    expect(await sumsOf(bare)).toEqual({ 'seller owed': percent(bare, 80) })
    expect((await stored(bare)).written_off_raw).toBe('0')
    // The second payment stands in for the first, so the buyer is not owed it any more.
    expect(await sumsOf(covered)).toEqual({
      'seller owed': percent(covered, 80),
      'buyer withdrawn': percent(covered, 100),
    })
    expect((await stored(covered)).written_off_raw).toBe(String(covered.amountRaw))
    await checkMarket(market.ctx)
  })

  // holds: rules.market.steps.payment_lost
  it('against a side only while the other side has not been paid', async () => {
    const [released, refunded] = [await market.delivered(), await market.paidOrder()]
    expectStatus(await market.step('accept', released), 200)
    await market.letPass(25 * HOUR_MS)
    await pass(refunded)
    for (const [order, side, possible, impossible] of [
      [released, 'seller', 'release', 'refund'],
      [refunded, 'buyer', 'refund', 'release'],
    ] as const) {
      const [payout] = await payoutsOf(order)
      await markPaidByHand(market.ctx, payout?._id ?? '', newTx())
      await market.lose(await firstTx(order))
      await expect(decideDispute(market.ctx, order.id, impossible)).rejects.toThrow(`The ${side}'s payout`)
      await decideDispute(market.ctx, order.id, possible)
    }
    expect([await statusOf(released), await statusOf(refunded)]).toEqual(['paid_out', 'refunded'])
    await checkMarket(market.ctx)
  })

  // holds: rules.market.steps.payment_lost
  it.runIf(FULL)(
    'a part payment that was lost: the order can only be refunded, with what is left',
    async () => {
      const order = await market.order()
      const [lost] = [await market.payPercent(order, 40), await market.payPercent(order, 30)]
      await market.lose(lost)
      await expect(decideDispute(market.ctx, order.id, 'release')).rejects.toThrow('never paid in full')
      await decideDispute(market.ctx, order.id, 'refund')
      expect(await sumsOf(order)).toEqual({ 'buyer owed': percent(order, 30) })
      await checkMarket(market.ctx)
    },
  )

  it.runIf(FULL)('a lost payment in the moment in which it is there again: nothing is given up', async () => {
    const order = await market.delivered()
    const tx = await firstTx(order)
    await market.lose(tx)
    const { ctx, tries } = beforeFirstChange(() => confirm(market.ctx, order, tx))
    await decideDispute(ctx, order.id, 'refund')
    expect(tries()).toBeGreaterThan(1)
    expect([(await stored(order)).written_off_raw, await sumsOf(order)]).toEqual([
      '0',
      { 'buyer owed': percent(order, 100) },
    ])
    await checkMarket(market.ctx)
  })

  // holds: rules.market.statuses.refunded, rules.market.steps.payment_lost
  it.runIf(FULL)('an order that was not delivered: it is not that any more', async () => {
    for (const outcome of ['release', 'refund'] as const) {
      const order = await market.paidOrder()
      await market.letPass(25 * HOUR_MS)
      await pass(order)
      expect(await market.read(order)).toMatchObject({ status: 'refunded', undelivered: true })
      await market.lose(await firstTx(order))
      await confirm(market.ctx, order, await firstTx(order))
      await decideDispute(market.ctx, order.id, outcome)
      expect(await market.read(order)).toMatchObject({
        status: `${outcome}${outcome === 'refund' ? 'ed' : 'd'}`,
        undelivered: false,
      })
    }
    await checkMarket(market.ctx)
  })

  // holds: limits.disputes.detail, rules.ledger.entry_kinds.dispute, rules.ledger.entry_kinds.fee
  // holds: rules.market.steps.payment_lost
  it('for the buyer after a release: the fee is returned and the payout withdrawn', async () => {
    const order = await market.delivered()
    expectStatus(await market.step('accept', order), 200)
    const tx = await firstTx(order)
    await market.lose(tx)
    expect(await sumsOf(order)).toEqual({ 'seller frozen owed': percent(order, 80) })
    await confirm(market.ctx, order, tx)
    await decideDispute(market.ctx, order.id, 'refund')
    expect(await sumsOf(order)).toEqual({
      'seller withdrawn': percent(order, 80),
      'buyer owed': percent(order, 100),
    })
    expect((await stored(order)).fee_taken).toBeUndefined()
    expect((await payoutsOf(order)).find(({ state }) => state === 'owed')?.address).toBe(ADDRESSES.xno)
    await checkMarket(market.ctx)
  })

  const allEntries = () => {
    const { connection } = market.ctx.database
    return atOneMoment(connection, (session) => listAllEntries(connection, session))
  }

  // holds: rules.ledger.entry_kinds.dispute_outcome, rules.market.steps.dispute_undone
  it('and takes it back: both sides hear of it, and the ledger has each of the two', async () => {
    const order = await disputed()
    const after = async ({ token }: { token: string }) =>
      (await market.call('GET', '/events', { token })).json['next'] as string
    const sides = await Promise.all(
      [market.seller, market.buyer].map(async (side) => ({ ...side, cursor: await after(side) })),
    )
    await decideDispute(market.ctx, order.id, { percent: 25 })
    expect(await sumsOf(order)).toEqual({
      'seller owed': percent(order, 20),
      'buyer owed': order.amountRaw - percent(order, 25),
    })
    for (const side of sides) expect(await market.read(order, side)).toMatchObject({ split_percent: 25 })
    await undoDecision(market.ctx, order.id)
    expect(await sumsOf(order)).toEqual({
      'seller withdrawn': percent(order, 20),
      'buyer withdrawn': order.amountRaw - percent(order, 25),
    })
    for (const { token, cursor } of sides) {
      const { json } = await market.call('GET', `/events?after=${cursor}&wait=10`, { token })
      const events = json['events'] as { kind: string; id: string; step?: string; state?: string }[]
      expect(events.map(({ kind, step, state }) => [kind, step ?? state])).toEqual(
        expect.arrayContaining([
          ['order', 'dispute_split'],
          ['payout', 'owed'],
          ['order', 'dispute_undone'],
          ['payout', 'withdrawn'],
        ]),
      )
    }
    expect(await market.read(order)).not.toHaveProperty('split_percent')
    expect(await market.read(order)).toMatchObject({
      status: 'disputed',
      disputed_by: 'buyer',
      closed_at: null,
    })
    const entries = (await allEntries()).filter(
      ({ kind, data }) => data['order_id'] === order.id && (kind === 'dispute_outcome' || kind === 'fee'),
    )
    expect(entries.map(({ data: { step, split_percent: part, outcome } }) => [step, part, outcome])).toEqual([
      ['dispute_split', 25, 'split'],
      ['taken', undefined, undefined],
      ['dispute_undone', undefined, 'undone'],
      ['returned', undefined, undefined],
    ])
    await decideDispute(market.ctx, order.id, 'refund')
    await checkMarket(market.ctx)
  })

  // holds: rules.market.steps.dispute_undone
  it('what the chain disputed: a payout that the decision freed waits too, and is frozen again if it is taken back', async () => {
    const order = await market.delivered()
    expectStatus(await market.step('accept', order), 200)
    const tx = await firstTx(order)
    await market.lose(tx)
    await confirm(market.ctx, order, tx)
    const ctx = { ...market.ctx, config: { ...market.ctx.config, disputeHoldMs: HOUR_MS } }
    const sendable = async () =>
      (await readSendable(market.ctx, order.coin)).payouts.filter(({ order_id: id }) => id === order.id)
        .length
    await decideDispute(ctx, order.id, 'release')
    expect([await sumsOf(order), await sendable()]).toEqual([{ 'seller owed': percent(order, 80) }, 0])
    await market.payPercent(order, 3)
    expect(await sendable()).toBe(1)
    await undoDecision(ctx, order.id)
    expect([await sumsOf(order), await sendable()]).toEqual([
      { 'seller withdrawn': percent(order, 80), 'buyer frozen owed': percent(order, 3) },
      0,
    ])
    await checkMarket(market.ctx)
    await decideDispute(market.ctx, order.id, 'refund')
    expect((await sumsOf(order))['buyer owed']).toBe(percent(order, 103))
    await checkMarket(market.ctx)
  })

  it('a refund that gave up a lost payment, and takes it back: the order can be released after all', async () => {
    const order = await disputed()
    await market.lose(await firstTx(order))
    await decideDispute(market.ctx, order.id, 'refund')
    expect((await stored(order)).written_off_raw).toBe(String(order.amountRaw))
    await undoDecision(market.ctx, order.id)
    expect((await stored(order)).written_off_raw).toBe('0')
    await checkMarket(market.ctx)
    await decideDispute(market.ctx, order.id, { percent: 50 })
    expect(await sumsOf(order)).toEqual({ 'seller owed': percent(order, 40) })
    await checkMarket(market.ctx)
  })

  it('an order once more, after a split was paid: it is paid out once the seller has the rest', async () => {
    const order = await disputed()
    await decideDispute(market.ctx, order.id, { percent: 50 })
    const toSeller = async () =>
      (await payoutsOf(order)).find(({ agent_id: id, state }) => id === market.seller.id && state === 'owed')
    await markPaidByHand(market.ctx, (await toSeller())?._id ?? '', newTx())
    expect(await statusOf(order)).toBe('paid_out')
    const tx = await firstTx(order)
    await market.lose(tx)
    await confirm(market.ctx, order, tx)
    await decideDispute(market.ctx, order.id, 'release')
    expect([await statusOf(order), await sumsOf(order)]).toEqual([
      'released',
      {
        'seller manual': percent(order, 40),
        'seller owed': percent(order, 40),
        'buyer withdrawn': percent(order, 50),
      },
    ])
    await markPaidByHand(market.ctx, (await toSeller())?._id ?? '', newTx())
    expect(await statusOf(order)).toBe('paid_out')
    await checkMarket(market.ctx)
  })

  it('nothing of an order that was not disputed, or that it cannot take back', async () => {
    const [undecided, accepted] = [await disputed(), await market.delivered()]
    expectStatus(await market.step('accept', accepted), 200)
    await expect(undoDecision(market.ctx, undecided.id)).rejects.toThrow('The order is disputed')
    await expect(undoDecision(market.ctx, accepted.id)).rejects.toThrow('by no decision of a dispute')
    await expect(undoDecision(market.ctx, 'mkt_none')).rejects.toMatchObject({ code: 'no_such_order' })
    await decideDispute(market.ctx, undecided.id, 'release')
    await undoDecision(market.ctx, undecided.id)
    await expect(undoDecision(market.ctx, undecided.id)).rejects.toThrow('The order is disputed')
  })
})
