import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { setBanned } from '../../shared/agents/agent-service.ts'
import { commit } from '../../shared/crypto/commitment.ts'
import { newId } from '../../shared/platform/ids.ts'
import { markPaidByHand } from '../../shared/money/payout-service.ts'
import { unixSeconds } from '../../shared/platform/time.ts'
import { checkBooksAfterEach } from '../support/money.ts'
import { makeCoinReady, setRate } from '../support/coins.ts'
import {
  ADDRESSES,
  checkMarket,
  confirm,
  expectStatus,
  OFFER,
  OTHER_NANO_ADDRESS,
  startMarket,
  type PlacedOrder,
  type TestMarket,
} from '../support/market.ts'
import { listPending } from '../support/stored.ts'
import type { Answer } from '../support/service.ts'

let market: TestMarket
const HOUR_MS = 3_600_000
const outcome = ({ status, json }: Answer) =>
  [status, json.error, json.field].filter((part) => part !== undefined)

beforeAll(async () => {
  market = await startMarket()
})
checkBooksAfterEach(() => market.ctx)
afterAll(async () => {
  await checkMarket(market.ctx)
  await market.stop()
})

const makeOffer = (body: object, token = market.seller.token) =>
  market.call('POST', '/market/offer', { token, body })
const orderFrom = (offerId: string, fields: object = {}, token = market.buyer.token) =>
  market.call('POST', '/market/order', { token, body: { offer_id: offerId, ...fields } })

describe('an offer', () => {
  // holds: rules.ledger.entry_kinds.offer_closed
  it('is made, listed and closed, at the root and below the base path', async () => {
    const seller = await market.register()
    const made = await makeOffer(OFFER, seller.token)
    expect(made.status).toBe(201)
    const offer = made.json['offer'] as Record<string, unknown>
    expect(offer).toMatchObject({
      offer_id: made.json['offer_id'],
      agent_id: seller.id,
      title: OFFER.title,
      price_usd: 10,
      delivery_hours: 24,
      currencies: ['xno', 'xmr'],
      payout_addresses: OFFER.payout_addresses,
      closed_at: null,
      verified: false,
    })
    for (const path of ['/market', '/market/offers', '//market', '//market/offers']) {
      const { json } = await market.call('GET', `${path}?agent=${seller.id}`)
      expect(json).toMatchObject({
        fee_percent: 20,
        count: 1,
        escrow_address_set: true,
        who_pays_the_fee: expect.stringContaining('80 percent'),
      })
      const [listed] = json['offers'] as Record<string, unknown>[]
      expect(listed).toMatchObject({ offer_id: offer['offer_id'], title: OFFER.title })
      expect(JSON.stringify(json)).not.toContain(ADDRESSES.xno)
    }
    const close = () =>
      market.call('POST', '/market/offer/close', {
        token: seller.token,
        body: { offer_id: offer['offer_id'] },
      })
    const closed = await close()
    expect([closed.status, (closed.json['offer'] as { closed_at: number }).closed_at]).toEqual([
      200,
      expect.any(Number),
    ])
    expect(outcome(await close())).toEqual([409, 'wrong_state', 'offer_id'])
    expect((await market.call('GET', `/market/offers?agent=${seller.id}`)).json['count']).toBe(0)
    expect(outcome(await orderFrom(String(offer['offer_id'])))).toEqual([409, 'wrong_state', 'offer_id'])
  })

  // holds: rules.ledger.entry_kinds.offer
  it('stands in the ledger as commitments that its salts open', async () => {
    const { json } = await makeOffer(OFFER)
    const offer = json['offer'] as { offer_id: string; salt: string; addresses_salt: string }
    const [entry] = await listPending(market.ctx.database.connection, 'offers', offer.offer_id)
    expect(entry).toMatchObject({
      kind: 'offer',
      data: { price_usd_cents: 1_000, delivery_seconds: 86_400, currencies: ['xno', 'xmr'] },
    })
    expect(entry?.data['content_hash']).toBe(
      commit(Buffer.from(offer.salt, 'hex'), {
        description: OFFER.description,
        id: offer.offer_id,
        title: OFFER.title,
      }),
    )
    expect(entry?.data['addresses_hash']).toBe(
      commit(Buffer.from(offer.addresses_salt, 'hex'), {
        id: offer.offer_id,
        payout_addresses: OFFER.payout_addresses,
      }),
    )
    expect(JSON.stringify(entry)).not.toContain('Esperanto')
  })

  // holds: limits.market_order, rules.market.max_order_usd, rules.market.min_order_usd
  // holds: rules.market.statements.an_order_is_worth_at_least
  it('takes a price from 1 to 5000 USD in whole cents, and no other', async () => {
    for (const price_usd of [1, 1.01, 19.99, 4999.99, 5000, 1.1])
      expect([price_usd, (await makeOffer({ ...OFFER, price_usd })).status]).toEqual([price_usd, 201])
    for (const price_usd of [0.99, 5000.01, 1.001, 2.005, 0, -1, 1e6, 'NaN', '10', null])
      expect([price_usd, ...outcome(await makeOffer({ ...OFFER, price_usd }))]).toEqual([
        price_usd,
        400,
        'invalid_field',
        'price_usd',
      ])
    for (const rawBody of ['NaN', '1e999', '-0'].map((price) =>
      JSON.stringify(OFFER).replace('"price_usd":10', `"price_usd":${price}`),
    ))
      expect(
        (await market.call('POST', '/market/offer', { token: market.seller.token, rawBody })).status,
      ).toBe(400)
  })

  // holds: limits.offer
  it('takes 0.001 to 720 hours', async () => {
    for (const delivery_hours of [0.001, 720, 1.5])
      expect((await makeOffer({ ...OFFER, delivery_hours })).status).toBe(201)
    for (const delivery_hours of [0.0009, 720.1, 0, '24'])
      expect(outcome(await makeOffer({ ...OFFER, delivery_hours }))).toEqual([
        400,
        'invalid_field',
        'delivery_hours',
      ])
  })

  it('takes addresses of the right coin and network, and keeps the usual spelling', async () => {
    const monero = ADDRESSES.xmr
    const wrong: object[] = [
      {},
      { btc: 'bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq' },
      { xno: monero },
      { xmr: ADDRESSES.xno },
      { xno: ADDRESSES.xno.replace(/o$/, 'p') },
      { xmr: `${monero.slice(0, -1)}R` },
      { xno: 'nano_1111111111111111111111111111111111111111111111111111hifc8npp' },
      {
        xmr: '53teqCAESLxeJ1REzGMAat1ZeHvuajvDiXqboEocPaDRRmqWoVPzy46GLo866qRFjbNhfkNckyhST3WEvBviDwpUDd7DSzB',
      },
      { xno: ADDRESSES.xno, xmr: 'none' },
      { xno: '' },
      { xno: 5 },
      { xno: 'a'.repeat(200) },
    ]
    for (const payout_addresses of wrong)
      expect([payout_addresses, ...outcome(await makeOffer({ ...OFFER, payout_addresses }))]).toEqual([
        payout_addresses,
        400,
        'invalid_field',
        'payout_addresses',
      ])
    const old = await makeOffer({
      ...OFFER,
      payout_addresses: { xno: OTHER_NANO_ADDRESS.replace('nano_', 'xrb_') },
    })
    expect((old.json['offer'] as { payout_addresses: object }).payout_addresses).toEqual({
      xno: OTHER_NANO_ADDRESS,
    })
  })

  // holds: rules.errors.not_yours
  it('is closed by its seller alone', async () => {
    const offer_id = await market.offer()
    const close = (token: string, id = offer_id) =>
      market.call('POST', '/market/offer/close', { token, body: { offer_id: id } })
    expect(outcome(await close(market.buyer.token))).toEqual([403, 'not_yours', 'offer_id'])
    expect(outcome(await close(market.seller.token, 'ofr_none'))).toEqual([404, 'no_such_offer', 'offer_id'])
  })

  it('of a banned agent is listed no more and cannot be ordered', async () => {
    const seller = await market.register()
    const offer_id = await market.offer({}, seller)
    await setBanned(market.ctx, seller.id, true)
    expect((await market.call('GET', `/market/offers?agent=${seller.id}`)).json['count']).toBe(0)
    expect(outcome(await orderFrom(offer_id))).toEqual([409, 'wrong_state', 'offer_id'])
  })

  it("is listed past a banned agent's flood", async () => {
    const [honest, flooder] = [await market.register(), await market.register()]
    const kept = await market.offer({}, honest)
    for (let i = 0; i < 5; i++) await market.offer({}, flooder)
    const newest = await market.offer({}, honest)
    await setBanned(market.ctx, flooder.id, true)
    const list = async (limit: number) =>
      (
        (await market.call('GET', `/market/offers?limit=${limit}`)).json['offers'] as { offer_id: string }[]
      ).map(({ offer_id: id }) => id)
    expect(await list(2)).toEqual([newest, kept])
    expect((await list(200)).slice(0, 2)).toEqual([newest, kept])
  })

  it("is listed past a banned agent's flood without a look at what is in it, and once for many who ask", async () => {
    const [honest, flooder] = [await market.register(), await market.register()]
    const kept = await market.offer({}, honest)
    const { collection } = market.ctx.offers.models.offers
    const one = await collection.findOne({ _id: (await market.offer({}, flooder)) as never })
    // More than one agent may have today.
    delete one?.['open_slot']
    const flood = Array.from({ length: 500 }, () => ({ ...one, _id: newId('offer') as never, pending: [] }))
    await collection.insertMany(flood)
    await setBanned(market.ctx, flooder.id, true)
    const { db } = market.ctx.database.connection
    await db?.command({ profile: 2 })
    const listings = await Promise.all(
      Array.from({ length: 20 }, () => market.call('GET', '/market/offers?limit=1')),
    )
    await db?.command({ profile: 0 })
    for (const { json } of listings) expect(json).toMatchObject({ offers: [{ offer_id: kept }], count: 1 })
    const looks = await db?.collection('system.profile').find({ 'command.find': 'offers' }).toArray()
    // checkMarket() reads every collection at one moment, which this one does not take.
    await db?.dropCollection('system.profile')
    await collection.deleteMany({ agent_id: flooder.id })
    expect(looks?.map(({ docsExamined }) => docsExamined as number).filter((count) => count > 1)).toEqual([])
    // Each by itself would take two.
    expect(looks?.length).toBeLessThan(2 * listings.length)
    expect(looks?.length).toBeGreaterThan(0)
  })
})

describe('an order', () => {
  // holds: rules.market.statements.the_buyer_pays_the_listed_price
  it('has an invoice for the full price, and the seller is paid at the address that the offer has', async () => {
    const offerId = await market.offer()
    const { status, json } = await orderFrom(offerId, { currency: 'xmr', refund_address: ADDRESSES.xmr })
    expect(status).toBe(201)
    const order = json['order'] as Record<string, unknown>
    // 10 USD at 2 USD a coin.
    expect(json['invoice']).toMatchObject({
      currency: 'xmr',
      amount: '5.00000000',
      order_id: json['order_id'],
      status: 'awaiting_payment',
      price_usd: 10,
    })
    expect(order).toMatchObject({
      status: 'awaiting_payment',
      role: 'buyer',
      seller_id: market.seller.id,
      amount_raw: '5000000000000',
      fee_raw: '1000000000000',
      next_transition: { to: 'expired', at: order['pay_by'], actor: 'service' },
      refund_address: ADDRESSES.xmr,
      payout_address: null,
      payouts: [],
    })
    // The hour is counted from the request on; an address may have to be waited for.
    expect(Math.abs(Number(order['pay_by']) - Number(order['at']) - 3_600)).toBeLessThan(10)
    const bySeller = (
      await market.call('GET', `/market/order/${String(json['order_id'])}`, { token: market.seller.token })
    ).json['order']
    expect(bySeller).toMatchObject({
      role: 'seller',
      payout_address: ADDRESSES.xmr,
      refund_address: null,
      invoice: null,
    })
    const [entry] = await listPending(market.ctx.database.connection, 'orders', String(json['order_id']))
    expect(entry?.data).toMatchObject({
      step: 'ordered',
      coin: 'xmr',
      amount_raw: '5000000000000',
      buyer_id: market.buyer.id,
    })
    const { salts } = bySeller as { salts: { payout_address: string } }
    expect(entry?.data['payout_address_hash']).toBe(
      commit(Buffer.from(salts.payout_address, 'hex'), {
        address: ADDRESSES.xmr,
        id: String(json['order_id']),
      }),
    )
    const checked = await market.call('POST', '/invoice/check', {
      token: market.buyer.token,
      body: { invoice_id: (json['invoice'] as { invoice_id: string }).invoice_id },
    })
    expect([checked.status, checked.json['order_id'], checked.json['required_confirmations']]).toEqual([
      expect.any(Number),
      json['order_id'],
      20,
    ])
  })

  // holds: rules.errors.no_such_offer, rules.errors.own_offer
  it('is refused from oneself, from nothing, in a coin that the seller does not take, and to a wrong refund address', async () => {
    const offer_id = await market.offer({ payout_addresses: { xno: ADDRESSES.xno } })
    expect(outcome(await orderFrom(offer_id, {}, market.seller.token))).toEqual([
      409,
      'own_offer',
      'offer_id',
    ])
    expect(outcome(await orderFrom('ofr_none'))).toEqual([404, 'no_such_offer', 'offer_id'])
    expect(outcome(await orderFrom(offer_id, { currency: 'xmr' }))).toEqual([
      400,
      'invalid_field',
      'currency',
    ])
    expect(outcome(await orderFrom(offer_id, { currency: 'pow' }))).toEqual([
      400,
      'invalid_field',
      'currency',
    ])
    expect(outcome(await orderFrom(offer_id, { refund_address: ADDRESSES.xmr }))).toEqual([
      400,
      'invalid_field',
      'refund_address',
    ])
  })

  it('takes the first ready coin of the seller where none is named, and none that is not ready or has no rate', async () => {
    const [both, nano] = [
      await market.offer(),
      await market.offer({ payout_addresses: { xno: ADDRESSES.xno } }),
    ]
    await market.ctx.coins.models.coins.updateOne({ _id: 'xno' }, { $set: { reachable: false } })
    expect((await orderFrom(both)).json['order']).toMatchObject({ currency: 'xmr' })
    expect(outcome(await orderFrom(nano))).toEqual([503, 'currency_not_configured', 'currency'])
    expect(outcome(await orderFrom(both, { currency: 'xno' }))).toEqual([
      503,
      'currency_not_configured',
      'currency',
    ])
    await makeCoinReady(market.ctx, 'xno', { rate: '2', addresses: 0 })
    await market.ctx.coins.models.rates.updateOne({ _id: 'xno' }, { $inc: { at: -3_600 } })
    expect(outcome(await orderFrom(nano))).toEqual([503, 'rate_unavailable'])
    await setRate(market.ctx, 'xno', '2')
  })

  // holds: limits.open_orders
  it('is one of at most 20 that are unpaid, however many are made at once', async () => {
    const buyer = await market.register()
    const other = await market.addApi()
    const offer_id = await market.offer()
    const answers = await Promise.all(
      Array.from({ length: 24 }, (_, i) =>
        (i % 2 === 0 ? market : other).call('POST', '/market/order', {
          token: buyer.token,
          body: { offer_id, currency: 'xno' },
        }),
      ),
    )
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(20)
    expect(answers.filter(({ json }) => json.error === 'wrong_state')).toHaveLength(4)
    const { json } = await market.call('GET', '/market/orders?limit=200', { token: buyer.token })
    expect(json['count']).toBe(20)
    await market.letPass(HOUR_MS + 2_000)
    await market.lapse()
    expect((await orderFrom(offer_id, {}, buyer.token)).status).toBe(201)
  })

  // holds: rules.errors.no_such_order, rules.errors.not_yours
  it('is for its two sides alone, and each step for its own side', async () => {
    const order = await market.delivered()
    const stranger = await market.register()
    const read = (token: string, id = order.id) => market.call('GET', `/market/order/${id}`, { token })
    expect(outcome(await read(stranger.token))).toEqual([403, 'not_yours', 'order_id'])
    expect(outcome(await read(stranger.token, 'mkt_none'))).toEqual([404, 'no_such_order', 'order_id'])
    for (const name of ['deliver', 'accept', 'dispute', 'refund-address'] as const) {
      expect(outcome(await market.step(name, order, {}, stranger)), name).toEqual([
        403,
        'not_yours',
        'order_id',
      ])
      expect(
        outcome(await market.step(name, order, {}, name === 'deliver' ? market.buyer : market.seller)),
        name,
      ).toEqual([403, 'not_yours', 'order_id'])
      expect(outcome(await market.step(name, { ...order, id: 'mkt_none' })), name).toEqual([
        404,
        'no_such_order',
        'order_id',
      ])
    }
    expect((await read(market.seller.token)).status).toBe(200)
  })

  it('is listed newest first, for either side', async () => {
    const [buyer, seller] = [await market.register(), await market.register()]
    const sold = await market.offer({}, buyer)
    const bought = await market.offer({}, seller)
    const first = (await orderFrom(bought, {}, buyer.token)).json['order_id']
    const second = (await orderFrom(sold, {}, seller.token)).json['order_id']
    const third = (await orderFrom(bought, {}, buyer.token)).json['order_id']
    const list = async (limit: number) =>
      (
        (await market.call('GET', `/market/orders?limit=${limit}`, { token: buyer.token })).json[
          'orders'
        ] as {
          order_id: string
          role: string
        }[]
      ).map(({ order_id, role }) => [order_id, role])
    expect(await list(10)).toEqual([
      [third, 'buyer'],
      [second, 'seller'],
      [first, 'buyer'],
    ])
    expect(await list(2)).toHaveLength(2)
  })
})

describe('the way of an order', () => {
  // holds: limits.deadlines_of_an_order, limits.market_fee, rules.market.fee_percent
  // holds: rules.market.statements.the_buyer_pays_the_listed_price
  // holds: rules.market.statements.the_seller_delivers_and_the_buyer, rules.market.statuses.paid
  // holds: rules.market.statuses.paid_out, rules.market.statuses.released, rules.market.steps.accepted
  // holds: rules.market.steps.paid
  it('leads from payment over delivery and acceptance to what the seller is paid', async () => {
    const order = await market.order()
    expect(outcome(await market.step('deliver', order))).toEqual([409, 'wrong_state', 'order_id'])
    const tx = await market.payPercent(order, 100, { confirmed: false })
    expect(await market.read(order)).toMatchObject({
      status: 'awaiting_payment',
      payment_seen_at: expect.any(Number),
      next_transition: { at: null, actor: 'chain' },
    })
    await confirm(market.ctx, order, tx)
    const paid = await market.read(order, market.seller)
    expect(paid).toMatchObject({
      status: 'paid',
      payment_seen_at: null,
      next_transition: { to: 'refunded', at: paid['deliver_by'], actor: 'service' },
    })
    const me = (token: string) => market.call('GET', '/me', { token }).then(({ json }) => json)
    expect((await me(market.seller.token))['orders_to_deliver']).toContainEqual({
      order_id: order.id,
      deliver_by: paid['deliver_by'],
    })

    const delivery = 'Saluton, mondo!\u0000\r\n\u{1f511}'
    expect(expectStatus(await market.step('deliver', order, { delivery }), 200).json).toMatchObject({
      status: 'delivered',
    })
    expect(outcome(await market.step('deliver', order))).toEqual([409, 'wrong_state', 'order_id'])
    const delivered = await market.read(order)
    expect(delivered).toMatchObject({
      delivery,
      next_transition: { to: 'released', at: delivered['accept_by'], actor: 'service' },
    })
    expect(Number(delivered['accept_by'])).toBe(Number(delivered['delivered_at']) + 72 * 3_600)
    expect((await me(market.buyer.token))['deliveries_to_accept']).toContainEqual({
      order_id: order.id,
      accept_by: delivered['accept_by'],
    })
    expect(
      JSON.stringify((await market.call('GET', '/market/orders', { token: market.buyer.token })).json),
    ).not.toContain('Saluton, mondo')

    expect(expectStatus(await market.step('accept', order), 200).json).toMatchObject({ status: 'released' })
    expect(outcome(await market.step('accept', order))).toEqual([409, 'wrong_state', 'order_id'])
    expect(outcome(await market.step('dispute', order))).toEqual([409, 'wrong_state', 'order_id'])
    const released = await market.read(order, market.seller)
    const share = (order.amountRaw * 80n) / 100n
    expect(released.payouts).toMatchObject([
      { amount_raw: String(share), state: 'owed', frozen: false, address: ADDRESSES.xno, tx_hash: null },
    ])
    expect((await market.read(order)).payouts).toEqual([])
    expect(released.next_transition).toEqual({ to: 'paid_out', at: null, actor: 'operator' })
    const owed = (await me(market.seller.token))['owed'] as {
      currency: string
      amount_raw: string
      without_address_raw: string
    }[]
    expect(BigInt(owed.find(({ currency }) => currency === 'xno')?.amount_raw ?? 0)).toBeGreaterThanOrEqual(
      share,
    )

    const tx2 = 'ab'.repeat(32)
    expect(await markPaidByHand(market.ctx, String(released.payouts[0]?.payout_id), tx2)).toBe(true)
    expect(await market.read(order, market.seller)).toMatchObject({
      status: 'paid_out',
      next_transition: null,
      payouts: [{ state: 'manual', tx_hash: tx2 }],
    })
    await checkMarket(market.ctx)
  })

  // holds: rules.market.statements.the_seller_delivers_and_the_buyer, rules.market.statuses.refunded
  // holds: rules.market.steps.unanswered, rules.market.steps.undelivered
  it('releases when the accept deadline passes, and refunds when the delivery deadline does', async () => {
    const [silent, late] = [await market.delivered(), await market.paidOrder()]
    await market.letPass(24 * HOUR_MS)
    await expect.poll(async () => (await market.read(late)).status, { timeout: 60_000 }).toBe('refunded')
    expect(outcome(await market.step('deliver', late))).toEqual([409, 'wrong_state', 'order_id'])
    expect(await market.read(late)).toMatchObject({
      undelivered: true,
      next_transition: null,
      payouts: [{ amount_raw: String(late.amountRaw), state: 'owed', address: ADDRESSES.xno }],
    })
    expect((await market.read(silent)).status).toBe('delivered')
    await market.letPass(48 * HOUR_MS)
    await expect.poll(async () => (await market.read(silent)).status, { timeout: 60_000 }).toBe('released')
    const stored = await market.ctx.orders.find(silent.id)
    expect(stored?.late_ms).toBeGreaterThan(0)
    expect(stored?.late_ms).toBeLessThan(60_000)
    await checkMarket(market.ctx)
  })

  // holds: rules.errors.wrong_state, rules.market.statements.deadlines_are_absolute_times_on_the
  // holds: rules.market.statuses.delivered, rules.market.steps.delivered, rules.market.steps.disputed
  it('refuses each side from the second of its deadline on, also where the service has not acted yet', async () => {
    const [order, undelivered] = [await market.delivered(), await market.paidOrder()]
    const frozen = await startMarket({ queues: [] })
    try {
      const [accepting, delivering] = [await frozen.delivered(), await frozen.paidOrder()]
      await frozen.letPass(72 * HOUR_MS)
      for (const name of ['accept', 'dispute'] as const) {
        const answer = await frozen.step(name, accepting)
        expect([...outcome(answer), answer.json.message]).toEqual([
          409,
          'wrong_state',
          'order_id',
          "The order's accept_by has passed.",
        ])
      }
      expect(outcome(await frozen.step('deliver', delivering))).toEqual([409, 'wrong_state', 'order_id'])
      expect([(await frozen.read(accepting)).status, (await frozen.read(delivering)).status]).toEqual([
        'delivered',
        'paid',
      ])
    } finally {
      await frozen.stop()
    }
    expect([(await market.read(order)).status, (await market.read(undelivered)).status]).toEqual([
      'delivered',
      'paid',
    ])
  })

  // holds: limits.disputes, rules.market.statuses.disputed, rules.market.steps.disputed
  it('stops at a dispute, which has no deadline', async () => {
    const order = await market.delivered()
    const disputed = expectStatus(await market.step('dispute', order, { reason: 'It is empty.' }), 200).json[
      'order'
    ]
    expect(disputed).toMatchObject({
      status: 'disputed',
      disputed_by: 'buyer',
      dispute_reason: 'It is empty.',
      next_transition: { to: null, at: null, actor: 'operator' },
    })
    for (const name of ['accept', 'dispute', 'deliver'] as const)
      expect(outcome(await market.step(name, order))).toEqual([409, 'wrong_state', 'order_id'])
    await market.letPass(30 * 24 * HOUR_MS)
    expect((await market.read(order, market.seller)).status).toBe('disputed')
  })
})

describe('money beside the price', () => {
  const buyerPayouts = async (order: PlacedOrder) =>
    (await market.read(order)).payouts.map(({ amount_raw, state }) => [BigInt(amount_raw), state])

  // holds: rules.market.statements.the_fee_is_floor_amount_20, rules.market.steps.paid
  it('over it is owed to the buyer at once, whether in one payment, in two, or after the end', async () => {
    const order = await market.order()
    await market.payPercent(order, 40)
    expect((await market.read(order)).status).toBe('awaiting_payment')
    await market.payPercent(order, 70)
    expect((await market.read(order)).status).toBe('paid')
    expect(await buyerPayouts(order)).toEqual([[order.amountRaw / 10n, 'owed']])
    await market.payPercent(order, 100)
    expectStatus(await market.step('deliver', order), 200)
    expectStatus(await market.step('accept', order), 200)
    await market.payPercent(order, 30)
    expect((await buyerPayouts(order)).map(([amount]) => amount)).toEqual([
      order.amountRaw / 10n,
      order.amountRaw,
      (order.amountRaw * 3n) / 10n,
    ])
    await checkMarket(market.ctx)
  })

  // holds: rules.market.statements.the_fee_is_floor_amount_20, rules.market.statuses.expired
  // holds: rules.market.steps.expired
  it('that was paid in part, or came late, is owed to the buyer of an expired order', async () => {
    const order = await market.order()
    await market.payPercent(order, 60)
    await market.letPass(HOUR_MS + 2_000)
    await market.lapse()
    expect(await market.read(order)).toMatchObject({ status: 'expired', next_transition: null })
    await market.payPercent(order, 100)
    expect((await market.read(order)).status).toBe('expired')
    expect((await buyerPayouts(order)).map(([amount]) => amount)).toEqual([
      (order.amountRaw * 6n) / 10n,
      order.amountRaw,
    ])
    await checkMarket(market.ctx)
  })

  it('does not expire by a round that began while the clock was ahead', async () => {
    const order = await market.order()
    await market.payPercent(order, 60)
    await market.lapse('xno', unixSeconds(market.ctx.now() + 2 * HOUR_MS))
    expect((await market.read(order)).status).toBe('awaiting_payment')
    await market.letPass(2 * HOUR_MS)
    await market.lapse()
    expect((await market.read(order)).status).toBe('expired')
  })

  // holds: rules.market.statuses.awaiting_payment, rules.market.steps.expired
  it('seen before the time to pay is over holds the order until it is confirmed, or gone', async () => {
    const [held, lost] = [await market.order(), await market.order()]
    const tx = await market.payPercent(held, 100, { confirmed: false })
    const gone = await market.payPercent(lost, 100, { confirmed: false })
    await market.letPass(2 * HOUR_MS)
    await market.lapse()
    expect([(await market.read(held)).status, (await market.read(lost)).status]).toEqual([
      'awaiting_payment',
      'awaiting_payment',
    ])
    await confirm(market.ctx, held, tx)
    expect((await market.read(held)).status).toBe('paid')
    await market.lose(gone)
    expect(await market.read(lost)).toMatchObject({ status: 'awaiting_payment', payment_seen_at: null })
    await market.lapse()
    expect((await market.read(lost)).status).toBe('expired')
    await market.lapse()
    expect((await market.read(held)).status).toBe('paid')
  })

  // holds: limits.refund_address, rules.market.statements.who_is_owed_something_is_paid
  it('waits for an address where the buyer named none, which it can do once', async () => {
    const order = await market.order({ refund_address: undefined })
    await market.payPercent(order, 130)
    const [payout] = (await market.read(order)).payouts
    expect(payout).toMatchObject({ state: 'owed', address: null })
    const owed = (await market.call('GET', '/me', { token: market.buyer.token })).json['owed'] as Record<
      string,
      string
    >[]
    expect(BigInt(owed[0]?.['without_address_raw'] ?? 0)).toBeGreaterThan(0n)
    expect(outcome(await market.step('refund-address', order, { address: ADDRESSES.xmr }))).toEqual([
      400,
      'invalid_field',
      'address',
    ])
    const set = expectStatus(
      await market.step('refund-address', order, { address: OTHER_NANO_ADDRESS.replace('nano_', 'xrb_') }),
      200,
    )
    expect((set.json['order'] as { payouts: unknown[] }).payouts).toMatchObject([
      { address: OTHER_NANO_ADDRESS },
    ])
    expect(outcome(await market.step('refund-address', order))).toEqual([409, 'wrong_state', 'order_id'])
    await market.payPercent(order, 10)
    expect((await market.read(order)).payouts.map(({ address }) => address)).toEqual([
      OTHER_NANO_ADDRESS,
      OTHER_NANO_ADDRESS,
    ])
    await checkMarket(market.ctx)
  })

  // holds: rules.market.statements.a_ban_stops_no_order_what
  it('of a banned side is paid all the same', async () => {
    const seller = await market.register()
    const offer_id = await market.offer({}, seller)
    const { json } = expectStatus(await orderFrom(offer_id, { currency: 'xno' }), 201)
    const order = {
      id: String(json['order_id']),
      invoiceId: (json['invoice'] as { invoice_id: string }).invoice_id,
      coin: 'xno' as const,
      amountRaw: 5n * 10n ** 30n,
    }
    await market.payPercent(order, 100)
    expectStatus(await market.step('deliver', order, {}, seller), 200)
    await setBanned(market.ctx, seller.id, true)
    expectStatus(await market.step('accept', order), 200)
    expect(await market.ctx.payouts.listByOrder(order.id)).toMatchObject([
      { agent_id: seller.id, state: 'owed', address: ADDRESSES.xno },
    ])
  })
})

describe('a banned buyer', () => {
  // holds: limits.refund_address
  it('may still name the address that it is paid at, and do nothing else', async () => {
    const buyer = await market.register()
    const { json } = expectStatus(
      await orderFrom(await market.offer(), { currency: 'xno' }, buyer.token),
      201,
    )
    const order = {
      id: String(json['order_id']),
      invoiceId: (json['invoice'] as { invoice_id: string }).invoice_id,
      coin: 'xno' as const,
      amountRaw: 5n * 10n ** 30n,
    }
    await market.payPercent(order, 130)
    await setBanned(market.ctx, buyer.id, true)
    expect(outcome(await market.step('accept', order, {}, buyer))).toEqual([403, 'banned'])
    expectStatus(await market.step('refund-address', order, {}, buyer), 200)
    expect(await market.ctx.payouts.listByOrder(order.id)).toMatchObject([
      { state: 'owed', address: ADDRESSES.xno },
    ])
    expect(outcome(await market.step('dispute', order, {}, buyer))).toEqual([403, 'banned'])
  })
})

describe('at the same moment', () => {
  const race = async (order: PlacedOrder, names: ('accept' | 'dispute' | 'deliver')[]) =>
    (await Promise.all(names.map((name) => market.step(name, order)))).map(
      ({ status, json }) => `${status} ${json.error ?? json['status']}`,
    )

  it('one of acceptance and dispute wins, and the other is told of the wrong state', async () => {
    for (let i = 0; i < 5; i++) {
      const order = await market.delivered()
      const answers = await race(order, ['accept', 'dispute', 'accept', 'dispute'])
      expect(answers.filter((answer) => answer.startsWith('200'))).toHaveLength(1)
      expect(answers.filter((answer) => answer === '409 wrong_state')).toHaveLength(3)
    }
    await checkMarket(market.ctx)
  })

  // holds: rules.market.steps.delivered
  it('of ten deliveries one counts', async () => {
    const order = await market.paidOrder()
    const answers = await race(
      order,
      Array.from({ length: 10 }, () => 'deliver' as const),
    )
    expect(answers.filter((answer) => answer === '200 delivered')).toHaveLength(1)
  })

  it('payments, steps and a refund address lose nothing of each other', async () => {
    const order = await market.delivered({ refund_address: undefined })
    await Promise.all([
      market.step('accept', order),
      market.payPercent(order, 10),
      market.payPercent(order, 20),
      market.step('refund-address', order),
      market.payPercent(order, 30),
    ])
    const { payouts } = await market.read(order)
    expect(payouts.map(({ amount_raw: amount, address }) => [BigInt(amount), address]).sort()).toEqual(
      [10n, 20n, 30n].map((percent) => [(order.amountRaw * percent) / 100n, ADDRESSES.xno]).sort(),
    )
    await checkMarket(market.ctx)
  })
})

describe('GET /rules', () => {
  // holds: rules.market.statements.the_seller_delivers_and_the_buyer
  it('publishes the table of states', async () => {
    const { market: rules } = (await market.call('GET', '/rules')).json as {
      market: { statuses: { status: string }[]; steps: Record<string, unknown>[] }
    }
    expect(rules.statuses.map(({ status }) => status)).toContain('disputed')
    expect(rules.steps).toContainEqual(
      expect.objectContaining({
        step: 'accepted',
        from: ['delivered'],
        to: 'released',
        actor: 'buyer',
        deadline: 'accept_by',
        when: 'before',
      }),
    )
  })
})
