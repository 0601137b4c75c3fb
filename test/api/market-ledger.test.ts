import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { commit } from '../../shared/crypto/commitment.ts'
import { decideDispute } from '../../shared/market/dispute-service.ts'
import { MAX_ACCOUNTS_SHOWN } from '../../shared/market/market-terms.ts'
import { findContentFaults } from '../../shared/operation/content-check.ts'
import { compareOwed } from '../../shared/operation/owed-check.ts'
import { makeSeal } from '../../shared/ledger/sealer.ts'
import { sequencePending } from '../../shared/ledger/sequencer.ts'
import { NOTHING_OWED, addToOwed } from '../../shared/ledger/solvency.ts'
import { giveUnassigned, keepUnassigned } from '../../shared/money/unassigned-money.ts'
import { recordUnassigned } from '../../shared/money/record-arrival.ts'
import { sumByCoin } from '../../shared/money/sum-raw.ts'
import { markPaidByHand } from '../../shared/money/payout-service.ts'
import { unixSeconds } from '../../shared/platform/time.ts'
import { STATUS_SECTIONS } from '../../scripts/operator/status-sections.ts'
import { newTx } from '../support/coins.ts'
import {
  ADDRESSES,
  OTHER_NANO_ADDRESS,
  checkMarket,
  expectStatus,
  startMarket,
  type PlacedOrder,
  type TestMarket,
} from '../support/market.ts'
import { checkBooksAfterEach } from '../support/money.ts'

let market: TestMarket
let paidOut: PlacedOrder

const number = () => sequencePending(market.ctx, { useLease: false })
const solvency = async () =>
  expectStatus(await market.call('GET', '//market/solvency'), 200).json as unknown as {
    owed: { currency: string; at_last_seal_raw: string | null; now_raw: string; now: string }[]
    held: {
      currency: string
      received_raw: string
      paid_out_raw: string
      fees_raw: string
      held_raw: string
    }[]
    last_seal: { seq: number; entry_id: number } | null
    nano_accounts: { address: string; kind: string; expected_raw: string | null }[]
    nano_accounts_truncated: boolean
  }

beforeAll(async () => {
  market = await startMarket({ queues: [] })
})
checkBooksAfterEach(() => market.ctx)
afterAll(async () => {
  await checkMarket(market.ctx)
  await market.stop()
})

describe('the ledger of the market', () => {
  // holds: limits.privacy_of_payments, rules.ledger.entry_kinds.dispute
  // holds: rules.ledger.entry_kinds.dispute_outcome, rules.ledger.entry_kinds.fee
  // holds: rules.ledger.entry_kinds.offer, rules.ledger.entry_kinds.order, rules.ledger.entry_kinds.payout
  // holds: rules.ledger.statements.no_free_text_handle_address_or
  it('has every step of an order, and nothing in the clear that may not stand there', async () => {
    paidOut = await market.order()
    await market.payPercent(paidOut, 130)
    const delivery = 'a text that nobody else may read'
    expectStatus(await market.step('deliver', paidOut, { delivery }), 200)
    expectStatus(await market.step('accept', paidOut), 200)
    const [payout] = (await market.read(paidOut, market.seller)).payouts
    const tx = newTx()
    await markPaidByHand(market.ctx, String(payout?.payout_id), tx)
    const disputed = await market.delivered()
    expectStatus(await market.step('dispute', disputed, { reason: 'a reason of its own' }), 200)
    await decideDispute(market.ctx, disputed.id, 'refund')
    await number()

    const receiptOf = async (id: string) =>
      expectStatus(await market.call('GET', `/receipt/${id}`), 200).json as unknown as {
        entries: { entry: { kind: string; data: Record<string, unknown> } }[]
        openings?: unknown[]
      }
    const steps = (await receiptOf(paidOut.id)).entries.map(({ entry }) => [entry.kind, entry.data['step']])
    expect(steps).toEqual([
      ['order', 'ordered'],
      ['order', 'paid'],
      ['order', 'delivered'],
      ['order', 'accepted'],
      ['fee', 'taken'],
      ['order', 'paid_out'],
    ])
    expect(
      (await receiptOf(disputed.id)).entries.map(({ entry }) => [entry.kind, entry.data['step']]).slice(-2),
    ).toEqual([
      ['dispute', 'disputed'],
      ['dispute_outcome', 'dispute_refunded'],
    ])
    const receipt = await receiptOf(String(payout?.payout_id))
    expect(receipt.entries.map(({ entry }) => entry.data['step'])).toEqual(['owed', 'manual'])
    const [shown] = (await market.read(paidOut, market.seller)).payouts as unknown as {
      salt: string
      tx_hash: string
    }[]
    expect(receipt.entries.at(-1)?.entry.data['tx_hash']).toBe(
      commit(Buffer.from(String(shown?.salt), 'hex'), {
        id: String(payout?.payout_id),
        tx: String(shown?.tx_hash),
      }),
    )
    const view = await market.read(paidOut)
    const delivered = (await receiptOf(paidOut.id)).entries.find(
      ({ entry }) => entry.data['step'] === 'delivered',
    )?.entry.data
    expect(delivered?.['delivery_hash']).toBe(
      commit(Buffer.from((view['salts'] as { delivery: string }).delivery, 'hex'), {
        delivery,
        id: paidOut.id,
      }),
    )

    const whole = JSON.stringify(await market.ctx.entries.list(1, 10_000))
    for (const secret of [delivery, 'a reason of its own', ADDRESSES.xno, tx, 'Esperanto', 'A translation'])
      expect(whole).not.toContain(secret)
    const offer = await receiptOf(String(view['offer_id']))
    expect(offer.openings).toEqual([
      expect.objectContaining({
        field: 'content_hash',
        content: expect.objectContaining({ title: view['title'] }),
      }),
    ])
  })
})

describe('the commitments of the market', () => {
  const collection = (name: string) => market.ctx.database.connection.collection<{ _id: string }>(name)

  /** What the walk finds while one document is another one. */
  async function faultsWhile(
    name: string,
    change: object,
    filter: object = { _id: paidOut.id },
  ): Promise<string[]> {
    const before = await collection(name).findOne(filter)
    if (before === null) throw new Error(`there is none in ${name}`)
    await collection(name).updateOne({ _id: before._id }, { $set: change })
    const { sentences } = await findContentFaults(market.ctx)
    await collection(name).replaceOne({ _id: before._id }, before)
    return sentences
  }

  it('bind the ids of their records, and the walk opens them', async () => {
    await number()
    expect((await findContentFaults(market.ctx)).sentences).toEqual([])
    const order = expect.stringContaining(`${paidOut.id} is not what its entry commits to`)
    expect(await faultsWhile('orders', { payout_address: ADDRESSES.xmr })).toEqual([order])
    expect(await faultsWhile('orders', { delivery: 'another text' })).toEqual([order])
    expect(
      await faultsWhile('orders', { dispute_reason: 'another reason' }, { dispute_salt: { $exists: true } }),
    ).toHaveLength(1)
    expect(await faultsWhile('payments', { tx: newTx() }, {})).toHaveLength(1)
    expect(await faultsWhile('offers', { 'payout_addresses.xno': OTHER_NANO_ADDRESS }, {})).toHaveLength(1)
  })
})

describe('GET /market/solvency', () => {
  it('says what is owed by the ledger at the last seal and now, and what is held by the records', async () => {
    expect((await solvency()).last_seal).toBeNull()
    await number()
    const sealed = await makeSeal(market.ctx, { useLease: false })
    const before = await solvency()
    const sums = await checkMarket(market.ctx)
    expect(before.last_seal).toMatchObject({ seq: 1, entry_id: sealed?.to_id })
    expect(before.owed[0]).toMatchObject({
      currency: 'xno',
      at_last_seal_raw: String(sums.xno.owed),
      now_raw: String(sums.xno.owed),
    })
    expect(before.held[0]).toMatchObject({
      currency: 'xno',
      received_raw: String(sums.xno.received),
      paid_out_raw: String(sums.xno.paidOut),
      fees_raw: String(sums.xno.fees),
      held_raw: String(sums.xno.owed),
    })
    expect(sums.xno.fees).toBeGreaterThan(0n)

    await market.paidOrder({ currency: 'xmr', refund_address: ADDRESSES.xmr })
    await market.paidOrder()
    await number()
    await market.letPass(11_000)
    const after = await solvency()
    const now = await checkMarket(market.ctx)
    expect(after.owed.map(({ at_last_seal_raw: sealedRaw, now_raw: raw }) => [sealedRaw, raw])).toEqual([
      [String(sums.xno.owed), String(now.xno.owed)],
      ['0', String(now.xmr.owed)],
    ])
    expect(after.held.map(({ held_raw: raw }) => raw)).toEqual([String(now.xno.owed), String(now.xmr.owed)])
    expect([now.xno.owed - sums.xno.owed, now.xmr.owed]).toEqual([5n * 10n ** 30n, 5n * 10n ** 12n])
  })

  it.each(['unassigned', 'operator'] as const)(
    'counts what the operator gave an order out of %s money as received',
    async (account) => {
      const { ctx } = market
      const order = await market.order({ currency: 'xno' })
      const arrival = { coin: 'xno', tx: newTx(), addressIndex: 0, amountRaw: order.amountRaw } as const
      await recordUnassigned(ctx, arrival)
      if (account === 'operator') await keepUnassigned(ctx, arrival.tx)
      await giveUnassigned(ctx, arrival.tx, order.invoiceId)
      expect((await ctx.orders.find(order.id))?.status).toBe('paid')
      expect(await ctx.invoices.arrivals.find('xno', arrival.tx, 0)).toMatchObject({
        came_to: account,
        invoice_id: order.invoiceId,
      })
      await number()
      await market.letPass(11_000)
      const { owed, held } = await solvency()
      expect(held[0]?.held_raw).toBe(owed[0]?.now_raw)
    },
  )

  it('names the accounts that hold it: the treasury, and invoices until they are swept', async () => {
    const order = await market.paidOrder()
    const { address } = (await market.ctx.invoices.find(order.invoiceId)) ?? {}
    await market.ctx.coins.models.coins.updateOne(
      { _id: 'xno' },
      { $set: { treasury_address: OTHER_NANO_ADDRESS, treasury_raw: '7' } },
    )
    const { nano_accounts: accounts } = await solvency()
    expect(accounts[0]).toEqual({ address: OTHER_NANO_ADDRESS, kind: 'treasury', expected_raw: '7' })
    expect(accounts).toContainEqual({ address, kind: 'invoice', expected_raw: String(order.amountRaw) })
    const payments = await market.ctx.invoices.arrivals.listPayments(order.invoiceId)
    await market.ctx.invoices.arrivals.setSwept(
      payments.map(({ _id }) => _id),
      unixSeconds(market.ctx.now()),
    )
    expect((await solvency()).nano_accounts.map((account) => account.address)).not.toContain(address)
  })

  it('says that accounts are left out where there are more payments than it reads', async () => {
    const { payments } = market.ctx.invoices.arrivals.models
    const unswept = await payments.countDocuments({ coin: 'xno', state: 'settled', swept_at: null })
    const fill = async (from: number, to: number) => {
      const records = Array.from({ length: to - from }, (_, i) => ({
        _id: `pay_0_${from + i}`,
        tx: `test_${from + i}`,
        coin: 'xno',
        address_index: -1,
        invoice_id: 'inv_test',
        amount_raw: '1',
        state: 'settled',
      }))
      await payments.collection.insertMany(records as never[])
    }
    try {
      await fill(unswept, MAX_ACCOUNTS_SHOWN)
      expect((await solvency()).nano_accounts_truncated).toBe(false)
      await fill(MAX_ACCOUNTS_SHOWN, MAX_ACCOUNTS_SHOWN + 1)
      expect((await solvency()).nano_accounts_truncated).toBe(true)
    } finally {
      await payments.deleteMany({ invoice_id: 'inv_test' })
    }
  })

  it('sums amounts that no number of the database holds, to the last unit', async () => {
    const { payouts } = market.ctx.payouts.models
    const amounts = [
      133_248_297n * 10n ** 30n + 920_938_463_463_374_607_431_768_211_455n,
      1n,
      10n ** 38n - 1n,
      999_999_999_999_999n,
      10n ** 15n,
    ]
    await payouts.collection.insertMany(
      amounts.map((amount, i) => ({
        _id: `test_${i}`,
        source: `test_${i}`,
        coin: 'xno',
        amount_raw: String(amount),
        state: 'test',
      })) as never[],
    )
    try {
      expect(await sumByCoin(payouts, { state: 'test' }, 'amount_raw')).toEqual({
        xno: amounts.reduce((sum, amount) => sum + amount, 0n),
        xmr: 0n,
      })
    } finally {
      await payouts.deleteMany({ state: 'test' as never })
    }
  })
})

describe('an entry that says nothing', () => {
  it('is counted and stops neither sealing, nor what the API answers, nor the status', async () => {
    const { ctx } = market
    await number()
    const before = await solvency()
    const entries = ctx.database.connection.collection<{ _id: number }>('entries')
    const first = (await ctx.entries.highestId()) + 1
    const fee = { coin: 'xno', step: 'taken' }
    const malformed = [
      undefined,
      null,
      {},
      fee,
      { ...fee, amount_raw: 5 },
      { ...fee, amount_raw: '1.5' },
      { ...fee, amount_raw: NaN },
    ]
    const kinds = ['fee', 'fee', 'solvency', 'fee', 'fee', 'fee', 'payout']
    await entries.insertMany(
      malformed.map((data, i) => ({
        _id: first + i,
        source: `x_${i}/fee`,
        record: `x_${i}`,
        kind: kinds[i],
        at: 1,
        data,
      })),
    )
    const owedOf = ({ owed }: Awaited<ReturnType<typeof solvency>>) => owed.map(({ now_raw: now }) => now)
    expect(owedOf(await solvency())).toEqual(owedOf(before))
    const seal = await makeSeal(ctx, { useLease: false })
    expect(seal?.to_id).toBe(first + malformed.length)
    expect(await ctx.metrics.registry.metrics()).toMatch(/ledger_anomalies_total\{kind="entry"\} [1-9]/)
    expect(owedOf(await solvency())).toEqual(owedOf(before))
    // The same of a seal's own closing entry.
    const closing = await entries.findOne({ _id: seal?.to_id ?? 0 })
    await entries.updateOne({ _id: seal?.to_id ?? 0 }, { $set: { data: { owed: 7 } } })
    expect((await solvency()).last_seal).toBeNull()
    const section = await STATUS_SECTIONS.find(({ name }) => name === 'ledger')?.read(ctx)
    expect(section?.lines.at(-1)).toContain('THE LAST SEAL DOES NOT SAY WHAT IS OWED')
    for (const path of ['/ledger?limit=10', '/seal', `/receipt/x_3`, '//market/solvency'])
      expect([path, (await market.call('GET', path)).status]).toEqual([path, 200])
    await entries.replaceOne({ _id: seal?.to_id ?? 0 }, closing as never)
    expect(owedOf(await solvency())).toEqual(owedOf(before))
    await entries.deleteMany({ record: { $in: malformed.map((_, i) => `x_${i}`) } })
  })
})

describe('the sums owed', () => {
  const entry = (kind: string, data: Record<string, string>) => ({ _id: 1, kind: kind as 'payment', data })

  it('grow by payments of orders and fees returned, and shrink by fees, payouts that arrived and what was given up', () => {
    const steps: [ReturnType<typeof entry>, bigint][] = [
      [entry('payment', { order_id: 'mkt_1', coin: 'xno', amount_raw: '100' }), 100n],
      [entry('payment', { invoice_id: 'inv_1', coin: 'xno', amount_raw: '50' }), 100n],
      [entry('fee', { step: 'taken', coin: 'xno', amount_raw: '20' }), 80n],
      [entry('payout', { step: 'owed', coin: 'xno', amount_raw: '80' }), 80n],
      [entry('fee', { step: 'returned', coin: 'xno', amount_raw: '20' }), 100n],
      [entry('payout', { step: 'withdrawn', coin: 'xno', amount_raw: '80' }), 100n],
      [entry('dispute_outcome', { outcome: 'refund', coin: 'xno', written_off_raw: '30' }), 70n],
      [entry('payout', { step: 'confirmed', coin: 'xno', amount_raw: '40' }), 30n],
      [entry('payout', { step: 'manual', coin: 'xno', amount_raw: '30' }), 0n],
      [entry('order', { step: 'paid' }), 0n],
    ]
    let owed = NOTHING_OWED
    for (const [one, expected] of steps) {
      owed = addToOwed(owed, one)
      expect([one.kind, one.data['step'], owed.xno, owed.xmr]).toEqual([
        one.kind,
        one.data['step'],
        expected,
        0n,
      ])
    }
  })

  // holds: rules.ledger.statements.the_last_entry_of_a_seal
  it('are not computed from an entry that lacks its amount or its coin', () => {
    expect(() => addToOwed(NOTHING_OWED, entry('fee', { coin: 'xno' }))).toThrow('data.amount_raw')
    expect(() => addToOwed(NOTHING_OWED, entry('fee', { coin: 'btc', amount_raw: '1' }))).toThrow('data.coin')
  })

  it('is compared with the journal: the operator is told what differs, until it does no more', async () => {
    const { ctx } = market
    const { journal } = ctx.journal.models
    const gap = async () => {
      await compareOwed(ctx)
      return (await ctx.coins.findCoin('xno'))?.ledger_gaps ?? {}
    }
    expect(await gap()).toEqual({})
    const order = await market.order()
    await market.payPercent(order, 100)
    expect(await gap()).toEqual({})
    const line = await journal.findOne({ order_id: order.id, to: `order:${order.id}` }).lean()
    await journal.deleteOne({ _id: line?._id ?? '' })
    expect(await gap()).toEqual({ orders: line?.amount_raw })
    await journal.insertMany([line])
    await number()
    await makeSeal(ctx, { useLease: false })
    expect(await gap()).toEqual({})
  })
})
