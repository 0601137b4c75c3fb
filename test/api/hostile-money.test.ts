import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { FULL, sampled } from '../support/full.ts'
import { runVerb } from '../support/run-verb.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { parseAmount } from '../../shared/money/coin.ts'
import type { InvoiceRecord } from '../../shared/money/invoice.ts'
import { encodeNanoAddress, parseNanoAddress } from '../../shared/crypto/nano-address.ts'
import type { PayoutRecord } from '../../shared/money/payout.ts'
import { refreshRate } from '../../shared/money/rate.ts'
import { recordLoss, recordPayment } from '../../shared/money/record-arrival.ts'
import { startPool } from '../../workers/pool.ts'
import { anotherCopy } from '../support/another-copy.ts'
import { startBrokenPeer } from '../support/broken-peer.ts'
import { ageRate, foundAt, makeCoinReady, newTx, setRate } from '../support/coins.ts'
import { ADDRESSES, INTEGRATED_ADDRESS, OFFER, checkMarket, expectStatus } from '../support/market.ts'
import { checkBooksAfterEach, checkMoney } from '../support/money.ts'
import { hashStateBlock, signHash } from '../../devnet/nano-node/block.ts'
import {
  DAY_RAW,
  XNO,
  nanoChain,
  openNanoVenue,
  signAndPublish,
  strangerAddress,
  type NanoVenue,
} from '../support/nano-venue.ts'
import {
  WITHOUT_LEDGER,
  findNonce,
  findNonces,
  solveChallenge,
  startService,
  untilCredited,
  type Answer,
  type TestAgent,
  type TestApi,
  type TestService,
} from '../support/service.ts'
import { countStored, listPending } from '../support/stored.ts'
import {
  checkNanoInvoice,
  fillNanoPool,
  reconcileNano,
  sendNano,
  sweepNano,
  watchNano,
} from '../support/nano-jobs.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { withSigning } from '../support/signing.ts'
import { closeContext } from '../../shared/context.ts'

const MINUTE = 60_000
const HOUR = 3_600_000
const DAY = 86_400_000
const SHARE_BITS = 8
const PER_DAY = 5
/**
 * A node that is well answers; what was not heard of it would pass for a node that is away, and be no error.
 */
const NODE_TIMEOUT_MS = 20_000

/**
 * A node and its wallet, and on the same database an API of two processes with the workers that judge shares.
 */
let venue: NanoVenue
let service: TestService
let other: TestApi

beforeAll(async () => {
  venue = await openNanoVenue({ timeoutMs: NODE_TIMEOUT_MS })
  const { MONGODB_URL = '', REDIS_URL = '', QUEUE_PREFIX = '' } = venue.env
  service = await startService({ queues: WITHOUT_LEDGER, env: { MONGODB_URL, REDIS_URL, QUEUE_PREFIX } })
  other = await service.addApi()
})
// Of a coin whose workers have been silent for a minute nobody buys.
beforeEach(() => later(0))
checkBooksAfterEach(
  () => venue.ctx,
  () => nanoChain(venue),
)
afterAll(async () => {
  await checkAll()
  await service.stop()
  await venue.stop()
})

/** Both are checks past the code under test, of every invoice, payment, order and payout that there is. */
const checkAll = async () => {
  await checkMoney(venue.ctx)
  await checkMarket(venue.ctx)
}
const outcome = ({ status, json }: Answer) => [status, json.error].filter((part) => part !== undefined)
const post = (path: string, { token }: TestAgent, body: object, on: TestApi = service) =>
  on.call('POST', path, { token, body })
const buy = (agent: TestAgent, days = 1, currency = 'xno', on: TestApi = service) =>
  post('/invoice', agent, { currency, days }, on)
const check = (agent: TestAgent, invoiceId: string, on: TestApi = service) =>
  post('/invoice/check', agent, { invoice_id: invoiceId }, on)
const readMe = async ({ token }: TestAgent, on: TestApi = service) =>
  (await on.call('GET', '/me', { token })).json
const stored = async (id: string): Promise<InvoiceRecord> =>
  (await venue.ctx.invoices.find(id)) ?? expect.fail(`there is no invoice ${id}`)
const daysLeft = async ({ id }: TestAgent) => {
  const { pass_until_ms: untilMs } = (await venue.ctx.agents.find(id)) ?? {}
  return untilMs === undefined ? 0 : (untilMs - venue.ctx.now()) / DAY
}

interface Made {
  id: string
  address: string
}
const madeIn = ({ json }: Answer): Made => ({
  id: String(json['invoice_id']),
  address: String(json['address']),
})
const invoiceFor = async (agent: TestAgent, days = 1): Promise<Made> =>
  madeIn(expectStatus(await buy(agent, days), 201))

/** Time passes for the API and for the workers, which are alive all along, at this rate. */
async function later(ms: number, rate = '1'): Promise<void> {
  service.advance(ms)
  venue.advance(ms)
  await setRate(venue.ctx, 'xno', rate)
  await watchNano(venue.ctx)
  await fillNanoPool(venue.ctx)
}

async function operator(...argv: string[]) {
  const { exitCode, json } = await runVerb(venue.env, argv, venue.ctx.now)
  return { exitCode, error: json['error'], json }
}

/** The same code with turns of its own, on connections of its own, as another process has them. */
async function openAnotherWorker() {
  const again = anotherCopy()
  const [{ openWorkerContext }, { openNanoGateway }, watch] = await Promise.all([
    again<typeof import('../../workers/worker-context.ts')>('workers/worker-context.ts'),
    again<typeof import('../../shared/money/coins/nano/nano-gateway.ts')>(
      'shared/money/coins/nano/nano-gateway.ts',
    ),
    again<typeof import('../support/nano-jobs.ts')>('test/support/nano-jobs.ts'),
  ])
  expect(watch.checkNanoInvoice).not.toBe(checkNanoInvoice)
  const config = readConfig(venue.env, 'workers')
  const base = openWorkerContext(config, venue.ctx.log, { now: venue.ctx.now, databaseTimeoutMs: 30_000 })
  await base.database.whenReady()
  const nano =
    openNanoGateway(config.nano, venue.ctx.log, NODE_TIMEOUT_MS) ?? expect.fail('the venue names no node')
  return { ctx: { ...base, nano }, ...watch, close: () => closeContext(base) }
}

type Blocks = Record<string, Record<string, unknown>>
/** A JSON answer of the node with something changed in its blocks; a node writes an empty list as "". */
function changeBlocks(text: string, edit: (blocks: Blocks) => void): string {
  const answer = JSON.parse(text) as Record<string, unknown>
  const blocks = (typeof answer['blocks'] === 'object' ? answer['blocks'] : {}) as Blocks
  edit(blocks)
  const missing = Array.isArray(answer['blocks_not_found']) ? (answer['blocks_not_found'] as string[]) : []
  return JSON.stringify({
    ...answer,
    blocks,
    blocks_not_found: missing.filter((hash) => blocks[hash] === undefined),
  })
}

/** From now on the node lists this block as receivable there. */
function listAt(address: string, hash: string, amountRaw: bigint): void {
  venue.node.lie(({ action, requestText, answerText }) =>
    action === 'accounts_receivable' && requestText.includes(address)
      ? changeBlocks(
          answerText,
          (blocks) => (blocks[address] = { ...blocks[address], [hash.toUpperCase()]: String(amountRaw) }),
        )
      : undefined,
  )
}

describe('a payment', () => {
  it.runIf(FULL)('raced by 50 checks and 8 finds from two processes is one credit', async () => {
    const agent = await service.register()
    const invoice = await invoiceFor(agent, 3)
    const tx = venue.pay(invoice, 3n * DAY_RAW)
    const another = await openAnotherWorker()
    const find = (place: number) =>
      place % 2 === 0
        ? checkNanoInvoice(venue.ctx, invoice.id)
        : another.checkNanoInvoice(another.ctx, invoice.id)
    const [answers] = await Promise.all([
      Promise.all(
        Array.from({ length: 50 }, (_, place) => check(agent, invoice.id, place % 2 === 0 ? service : other)),
      ),
      Promise.all(Array.from({ length: 8 }, (_, place) => find(place))),
    ])
    await another.close()
    // A machine with too much to do may answer 503; whatever is answered holds the whole credit or nothing of
    // it.
    const answered = answers.filter(({ status }) => status !== 503)
    expect(answered.length).toBeGreaterThan(0)
    for (const { json } of answered)
      expect([
        ['0', 0],
        ['3', 3],
      ]).toContainEqual([json['paid'], json['credited_days']])
    expect((await check(agent, invoice.id)).json).toMatchObject({
      status: 'settled',
      paid: '3',
      credited_days: 3,
      remainder_raw: '0',
      payments: [{ tx_hash: tx, credited_days: 3 }],
    })
    expect(await daysLeft(agent)).toBeCloseTo(3, 2)
    await checkAll()
  })

  it("replayed after it settled, for another agent's invoice and to the operator, is no second credit", async () => {
    const [payer, thief] = [await service.register(), await service.register()]
    const [paid, unpaid] = [await invoiceFor(payer, 2), await invoiceFor(thief, 2)]
    const tx = venue.pay(paid, 2n * DAY_RAW)
    const findAgain = async () => {
      await watchNano(venue.ctx)
      await Promise.all([paid, unpaid].map(({ id }) => checkNanoInvoice(venue.ctx, id)))
    }
    const isCountedOnce = async () => {
      expect(await stored(paid.id)).toMatchObject({
        received_raw: String(2n * DAY_RAW),
        credited_days: 2,
        unspent: '0',
      })
      expect(await stored(unpaid.id)).toMatchObject({ received_raw: '0', credited_days: 0 })
      expect(
        (await venue.ctx.invoices.arrivals.listByTx('xno', [tx])).map(({ invoice_id }) => invoice_id),
      ).toEqual([paid.id])
      expect([Math.round(await daysLeft(payer)), await daysLeft(thief)]).toEqual([2, 0])
    }
    // The node lists it for the thief too, who asks first.
    listAt(unpaid.address, tx, 2n * DAY_RAW)
    await checkNanoInvoice(venue.ctx, unpaid.id)
    await findAgain()
    venue.node.lie(null)
    await findAgain()
    await isCountedOnce()
    // The money has left the address, and the node lists the payment again: there, and for the thief.
    await sweepNano(venue.ctx)
    for (const { address } of [paid, unpaid]) {
      listAt(address, tx, 2n * DAY_RAW)
      await findAgain()
      await isCountedOnce()
    }
    venue.node.lie(null)
    expect(outcome(await check(thief, paid.id))).toEqual([404, 'no_such_invoice'])
    // "I have paid, here is my transaction", in the other spelling of its hash.
    expect(await operator('settle-invoice', unpaid.id, '2', tx.toUpperCase())).toMatchObject({
      exitCode: 1,
      error: 'wrong_state',
    })
    await later(61 * MINUTE)
    await findAgain()
    expect([Math.round(await daysLeft(payer)), await daysLeft(thief)]).toEqual([2, 0])
    expect((await check(thief, unpaid.id)).json).toMatchObject({ status: 'expired', paid: '0', payments: [] })
    await checkAll()
  })
})

describe('a farm of referrals', () => {
  // holds: limits.cost_of_a_referral_farm, limits.cost_of_a_referral_farm.detail
  it.runIf(FULL)('gains the count and its price alone, and costs what GET /limits says', async () => {
    const { limits } = (await service.call('GET', '/limits')).json as unknown as {
      limits: { limit: string; value: string }[]
    }
    const said = limits.find(({ limit }) => limit === 'Cost of a referral farm')?.value ?? ''
    const [, agents = '', usd = '', hashes = '', backAfter = ''] =
      /^(\d+) agents that pay for one day each cost ([\d.]+) USD in coin, or about ([\d.e+]+) hashes .* earned back after (\d+) days/.exec(
        said,
      ) ?? []
    const size = Number(agents)
    expect(size, said).toBeGreaterThan(1)

    const root = await service.register()
    const before = await readMe(root)
    let tried = 0
    const join = async (): Promise<TestAgent> => {
      const solved = await solveChallenge(service.call)
      tried += Number(solved.pow) + 1
      const { json } = expectStatus(
        await service.call('POST', '/register', { body: { ...solved, ref: root.id } }),
        201,
      )
      return { id: String(json['agent_id']), token: String(json['token']) }
    }
    const work = async (agent: TestAgent) => {
      const { json } = expectStatus(await buy(agent, 1, 'pow'), 201)
      const nonces = findNonces(String(json['prefix']), SHARE_BITS, PER_DAY)
      tried += Number(nonces.at(-1)) + 1
      const { status, json: verdict } = await post('/work/submit', agent, {
        order_id: json['order_id'],
        nonces,
      })
      // 202 says that the verdict takes longer than a request waits for it.
      if (status !== 202) expect(verdict).toMatchObject({ credited_days: 1 })
      await untilCredited(venue.ctx, String(json['order_id']), 1)
    }
    const farm: TestAgent[] = []
    while (farm.length < size)
      farm.push(...(await Promise.all(Array.from({ length: Math.min(10, size - farm.length) }, join))))
    // Each other: a referrer is named when an agent registers and must exist by then, so no circle closes.
    const [first, last] = [farm[0] ?? root, farm.at(-1) ?? root]
    for (const [path, body] of [
      ['/profile', { name: 'root' }],
      ['/claim', { statement: 'I was referred.' }],
    ] as const)
      expect((await post(path, root, { ...body, ref: first.id })).json.ok).toBe(true)
    for (let from = 0; from < size - 1; from += 7)
      await Promise.all(farm.slice(from, Math.min(from + 7, size - 1)).map(work))
    expect(await readMe(root)).toMatchObject({
      price_usd_per_day: 1,
      referrals: { registered: size, paying: size - 1 },
    })
    await work(last)
    // Work stays as dear at the referral price as it was.
    await work(root)

    const after = await readMe(root)
    expect(after).toEqual({
      ...before,
      price_usd_per_day: 0.15,
      referrals: { registered: size, paying: size, threshold: size },
      pass_active: true,
      pass_until: expect.any(String),
    })
    expect(await daysLeft(root)).toBeCloseTo(1, 2)
    for (const agent of [first, last]) {
      expect(await readMe(agent)).toMatchObject({
        price_usd_per_day: 1,
        referrals: { registered: 0, paying: 0 },
        owed: before['owed'],
      })
      expect(await daysLeft(agent)).toBeCloseTo(1, 2)
    }

    const priceOf = async (agent: TestAgent, days: number) =>
      Number(expectStatus(await buy(agent, days), 201).json['price_usd'])
    const [alone, reduced] = [await priceOf(first, 1), (await priceOf(root, 100)) / 100]
    expect(size * alone).toBe(Number(usd))
    const isEarnedBack = (days: number) => days * (alone - reduced) >= Number(usd)
    expect([isEarnedBack(Number(backAfter) - 1), isEarnedBack(Number(backAfter))]).toEqual([false, true])
    // Without the root's own order. The work of finding 250 shares varies by 6 percent; beyond 30 the
    // sentence is wrong.
    expect((tried * size) / (size + 1) / Number(hashes)).toBeGreaterThan(0.7)
    expect((tried * size) / (size + 1) / Number(hashes)).toBeLessThan(1.3)
    await checkAll()
  })
})

describe('an order from oneself', () => {
  it('is refused, also after the token was rotated, and makes nothing', async () => {
    const seller = await service.register()
    const made = expectStatus(
      await post('/market/offer', seller, { ...OFFER, payout_addresses: { xno: strangerAddress() } }),
      201,
    )
    const order = (by: TestAgent, on: TestApi = service) =>
      post('/market/order', by, { offer_id: made.json['offer_id'], refund_address: strangerAddress() }, on)
    const before = await countStored(venue.ctx.database.connection)
    expect(outcome(await order(seller))).toEqual([409, 'own_offer'])
    const rotated = String(expectStatus(await post('/token/rotate', seller, {}), 200).json['token'])
    const chosen = `sk_${newTx().slice(0, 48)}`
    expect(outcome(await order({ ...seller, token: rotated }, other))).toEqual([409, 'own_offer'])
    expectStatus(await post('/token/rotate', { ...seller, token: rotated }, { new_token: chosen }), 200)
    for (const on of [service, other]) {
      expect(outcome(await order({ ...seller, token: chosen }, on))).toEqual([409, 'own_offer'])
      // The market never takes a token from the cache.
      for (const token of [seller.token, rotated])
        expect(outcome(await order({ ...seller, token }, on))).toEqual([401, 'invalid_token'])
    }
    expect(await countStored(venue.ctx.database.connection)).toEqual(before)
    expect((await order(await service.register())).status).toBe(201)
    await checkAll()
  })
})

describe("an option on a coin's price", () => {
  // holds: limits.refunds_and_support
  it('is not to be had for nothing: the open invoice stays, and late money buys at the rate that gives fewer days', async () => {
    const agents = await Promise.all(Array.from({ length: 3 }, () => service.register()))
    const [holder, waiter, switcher] = agents as [TestAgent, TestAgent, TestAgent]
    const [fell, rose, left] = [
      await invoiceFor(holder, 2),
      await invoiceFor(waiter, 2),
      await invoiceFor(switcher, 2),
    ]
    for (const rate of ['4', '0.25']) {
      await setRate(venue.ctx, 'xno', rate)
      for (const on of [service, other]) {
        const again = await buy(holder, 2, 'xno', on)
        expect([again.status, again.json['invoice_id'], again.json['amount'], again.json['rate']]).toEqual([
          200,
          fell.id,
          '2.000000',
          '1',
        ])
        expect(outcome(await buy(holder, 3, 'xno', on))).toEqual([409, 'wrong_state'])
      }
    }
    expect(await venue.ctx.invoices.models.invoices.countDocuments({ agent_id: holder.id })).toBe(1)
    await later(61 * MINUTE)

    // A coin is worth half: 2 of them are one day now, and not the two that were asked for.
    await setRate(venue.ctx, 'xno', '0.5')
    venue.pay(fell, 2n * DAY_RAW)
    await checkNanoInvoice(venue.ctx, fell.id)
    // What happens to the rate between arrival and credit changes nothing.
    await setRate(venue.ctx, 'xno', '4')
    await watchNano(venue.ctx)
    expect((await check(holder, fell.id)).json).toMatchObject({
      credited_days: 1,
      payments: [{ late: true, credited_days: 1 }],
    })

    // A coin is worth four times as much: 2 of them are two days, and not eight.
    venue.pay(rose, 2n * DAY_RAW)
    await checkNanoInvoice(venue.ctx, rose.id)
    expect((await check(waiter, rose.id)).json).toMatchObject({
      credited_days: 2,
      remainder_raw: '0',
      payments: [{ late: true }],
    })

    // The price of the new invoice, paid at the old address, is a quarter of a day's at the old rate.
    const fresh = expectStatus(await buy(switcher, 2), 201)
    expect([fresh.json['amount'], fresh.json['rate']]).toEqual(['0.500000', '4'])
    venue.pay(left, DAY_RAW / 2n)
    await checkNanoInvoice(venue.ctx, left.id)
    expect((await check(switcher, left.id)).json).toMatchObject({
      credited_days: 0,
      remainder_raw: String(DAY_RAW / 2n),
    })
    expect((await check(switcher, madeIn(fresh).id)).json).toMatchObject({
      status: 'awaiting_payment',
      credited_days: 0,
    })
    expect(
      [await daysLeft(holder), await daysLeft(waiter), await daysLeft(switcher)].map(Math.round),
    ).toEqual([1, 2, 0])
    await setRate(venue.ctx, 'xno', '1')
    await checkAll()
  })
})

describe('an address that a restored database has forgotten', () => {
  it.runIf(FULL)('is given to nobody else, and what is paid there is credited to nobody else', async () => {
    const backup = await copyOf('agents', 'invoices', 'payments', 'addresses', 'coins')
    const forgotten: Made[] = []
    for (let round = 0; round < 2; round++) {
      const agents = await Promise.all(Array.from({ length: 5 }, () => service.register()))
      forgotten.push(...(await Promise.all(agents.map((agent) => invoiceFor(agent)))))
      // The pool is filled behind them, so the index file is ahead of the backup.
      await later(90_000)
    }
    await backup.restore()
    for (const { id } of forgotten) expect(await venue.ctx.invoices.find(id)).toBeUndefined()

    const thief = await service.register()
    // The chain is looked at again, but no worker has seen to the addresses: none is given out.
    await setRate(venue.ctx, 'xno', '1')
    await watchNano(venue.ctx)
    expect(outcome(await buy(thief))).toEqual([503, 'currency_not_configured'])
    await later(0)
    const thieves = [thief, ...(await Promise.all(Array.from({ length: 14 }, () => service.register())))]
    const taken = await Promise.all(
      thieves.map(async (agent, place) =>
        madeIn(await buy(agent, 1, 'xno', place % 2 === 0 ? service : other)),
      ),
    )
    const all = [...forgotten, ...taken].map(({ address }) => address)
    expect(new Set(all).size).toBe(all.length)

    for (const invoice of forgotten) venue.pay(invoice, DAY_RAW)
    await later(10_000)
    for (const { id } of taken)
      expect(await stored(id)).toMatchObject({ received_raw: '0', credited_days: 0 })
    // The next pool is made beyond them too.
    const next = await invoiceFor(await service.register())
    expect(all).not.toContain(next.address)
    await checkAll()
  })

  /**
   * Some collections as they are now, to put back: with the API and the node going on, as when only a part
   * was lost.
   */
  async function copyOf(...names: string[]) {
    const { connection } = venue.ctx.database
    const saved = await Promise.all(
      names.map(async (name) => ({ name, documents: await connection.collection(name).find().toArray() })),
    )
    return {
      async restore() {
        for (const { name, documents } of saved) {
          await connection.collection(name).deleteMany({})
          if (documents.length > 0) await connection.collection(name).insertMany(documents)
        }
      },
    }
  }
})

interface Order extends Made {
  orderId: string
  seller: TestAgent
  buyer: TestAgent
  offerId: string
}

/** 10 USD at 1 USD a coin; the seller's part is 8. */
const PRICE_RAW = 10n * XNO
const PART_RAW = 8n * XNO

const makeOffer = async (seller: TestAgent, payoutAddress: string): Promise<string> =>
  String(
    expectStatus(
      await post('/market/offer', seller, { ...OFFER, payout_addresses: { xno: payoutAddress } }),
      201,
    ).json['offer_id'],
  )

async function placeOrder(payoutAddress: string, refundAddress?: string): Promise<Order> {
  const [seller, buyer] = [await service.register(), await service.register()]
  const offerId = await makeOffer(seller, payoutAddress)
  const body = {
    offer_id: offerId,
    ...(refundAddress === undefined ? {} : { refund_address: refundAddress }),
  }
  const { json } = expectStatus(await post('/market/order', buyer, body), 201)
  const { invoice_id: id, address } = json['invoice'] as { invoice_id: string; address: string }
  return { id, address, orderId: String(json['order_id']), seller, buyer, offerId }
}

type Step = 'deliver' | 'accept' | 'dispute' | 'refund-address'
const take = (
  step: Step,
  order: Order,
  fields: object = {},
  by = step === 'deliver' ? order.seller : order.buyer,
) => {
  const own = {
    deliver: { delivery: 'Saluton' },
    accept: {},
    dispute: { reason: 'It is empty.' },
    'refund-address': {},
  }
  return post(`/market/${step}`, by, { order_id: order.orderId, ...own[step], ...fields })
}
const payAndDeliver = async (order: Order) => {
  venue.pay(order, PRICE_RAW)
  await watchNano(venue.ctx)
  expectStatus(await take('deliver', order), 200)
  // So that the treasury can pay it out.
  await sweepNano(venue.ctx)
}
const refreshOrder = async ({ orderId, buyer }: Order) =>
  expectStatus(await service.call('GET', `/market/order/${orderId}`, { token: buyer.token }), 200).json[
    'order'
  ] as { status: string }
const payoutsOf = (order: Order): Promise<PayoutRecord[]> => venue.ctx.payouts.listByOrder(order.orderId)
const arrived = (address: string) => venue.holds(address).receivableRaw

describe('an order that was paid out', () => {
  it('is refunded by nothing that buyer, chain and operator can do after the payout was sent', async () => {
    const [payee, refund, swapped] = [strangerAddress(), strangerAddress(), strangerAddress()]
    const [order, nameless] = [await placeOrder(payee, refund), await placeOrder(payee)]
    for (const one of [order, nameless]) await payAndDeliver(one)
    for (const one of [order, nameless]) expectStatus(await take('accept', one), 200)
    const isOwedOnce = async (...states: string[]) => {
      for (const one of [order, nameless]) {
        const payouts = await payoutsOf(one)
        expect(payouts.map(({ agent_id, amount_raw }) => [agent_id, amount_raw])).toEqual([
          [one.seller.id, String(PART_RAW)],
        ])
        expect(states).toContain(payouts[0]?.state)
      }
      await checkAll()
    }
    const attack = async () => {
      for (const step of ['dispute', 'accept', 'deliver'] as const)
        for (const one of [order, nameless])
          expect([step, ...outcome(await take(step, one))]).toEqual([step, 409, 'wrong_state'])
      expect(outcome(await take('refund-address', order, { address: swapped }))).toEqual([409, 'wrong_state'])
      const [payout] = await payoutsOf(order)
      const verbs = [
        ['dispute', order.orderId, 'refund'],
        ['dispute', order.orderId, 'release'],
        ['payout-paid', payout?._id ?? '', newTx()],
        ['reconcile', 'xno', '--owed', payout?._id ?? ''],
      ]
      for (const { exitCode, error } of await Promise.all(verbs.map((words) => operator(...words))))
        expect([exitCode, error]).toEqual([1, 'wrong_state'])
    }
    // Sent, and not confirmed yet: the worker waits for that all through the attack.
    venue.node.setAutoConfirm(null)
    const sending = sendNano(venue.ctx)
    const sent = await waitFor(
      'the send',
      async () => (await payoutsOf(order)).find(({ state }) => state === 'sent'),
      { limitMs: PATIENCE_MS },
    )
    await attack()
    // Whoever named no address may still name one, once; there is nothing that would go there.
    expect((await take('refund-address', nameless, { address: swapped })).status).toBe(200)
    expect(outcome(await take('refund-address', nameless, { address: refund }))).toEqual([409, 'wrong_state'])
    // One block pays both, since it goes to one address.
    await isOwedOnce('sent')

    venue.node.confirm((sent.tx ?? '').toUpperCase())
    venue.node.setAutoConfirm(5)
    await sending
    await sendNano(venue.ctx)
    expect((await refreshOrder(order)).status).toBe('paid_out')
    await attack()
    await isOwedOnce('confirmed')

    // The chain takes the buyer's payment back: the one thing that still disputes it.
    const [payment] = await venue.ctx.invoices.arrivals.listPayments(order.id)
    if (payment === undefined) throw new Error('the order has no payment')
    await recordLoss(venue.ctx, payment)
    const isDisputed = (await refreshOrder(order)).status === 'disputed'
    expect(await operator('dispute', order.orderId, 'refund')).toMatchObject({
      exitCode: 1,
      error: 'wrong_state',
    })
    await recordPayment(venue.ctx, { ...foundAt(await stored(order.id), { amount: '10', tx: payment.tx }) })
    if (isDisputed) expect(await operator('dispute', order.orderId, 'release')).toMatchObject({ exitCode: 0 })
    expect((await refreshOrder(order)).status).toBe('paid_out')
    await sendNano(venue.ctx)
    await isOwedOnce('confirmed')
    expect([payee, refund, swapped].map(arrived)).toEqual([2n * PART_RAW, 0n, 0n])
  })

  // holds: rules.market.statements.who_is_owed_something_is_paid
  it.runIf(FULL)(
    'is paid where it was said when it was ordered, whatever offers and addresses are named later',
    async () => {
      const [payout, refund, swapped] = [strangerAddress(), strangerAddress(), strangerAddress()]
      const [released, returned] = [await placeOrder(payout, refund), await placeOrder(payout)]
      for (const order of [released, returned]) {
        expectStatus(await post('/market/offer/close', order.seller, { offer_id: order.offerId }), 200)
        const again = await makeOffer(order.seller, swapped)
        // As if a field of a later request could name it: by the seller, by the buyer, by the offer.
        const fields = {
          address: swapped,
          payout_address: swapped,
          payout_addresses: { xno: swapped },
          refund_address: swapped,
          offer_id: again,
        }
        venue.pay(order, PRICE_RAW)
        await watchNano(venue.ctx)
        expectStatus(await take('deliver', order, fields), 200)
        expect(outcome(await take('refund-address', order, fields, order.seller))).toEqual([403, 'not_yours'])
      }
      expect(outcome(await take('refund-address', released, { address: swapped }))).toEqual([
        409,
        'wrong_state',
      ])
      // Two at once: one of them is the one that counts, and it is not overwritten.
      const rivals = [refund, swapped]
      const named = await Promise.all(rivals.map((address) => take('refund-address', returned, { address })))
      expect(named.map(({ status }) => status).sort()).toEqual([200, 409])
      const winner = rivals[named.findIndex(({ status }) => status === 200)] ?? ''
      const loser = rivals.find((address) => address !== winner) ?? ''
      expectStatus(await take('accept', released, { payout_address: swapped }), 200)
      expectStatus(await take('dispute', returned, { refund_address: loser }), 200)
      expect(outcome(await take('refund-address', returned, { address: loser }))).toEqual([
        409,
        'wrong_state',
      ])
      expect(await operator('dispute', returned.orderId, 'refund')).toMatchObject({ exitCode: 0 })
      await sweepNano(venue.ctx)
      await sendNano(venue.ctx)
      expect([payout, winner, loser].map(arrived)).toEqual([PART_RAW, PRICE_RAW, 0n])
      expect([(await refreshOrder(released)).status, (await refreshOrder(returned)).status]).toEqual([
        'paid_out',
        'refunded',
      ])
      await checkAll()
    },
  )
})

describe('an amount still to be paid that would not be counted', () => {
  const DUST = 10n ** 24n

  // holds: limits.dust.detail
  it('is asked of nobody: an invoice that lacks less than dust is paid, buys all its days and asks for nothing more', async () => {
    const agent = await service.register()
    const invoice = await invoiceFor(agent, 3)
    venue.pay(invoice, 2n * DAY_RAW)
    venue.pay(invoice, DAY_RAW - DUST)
    await watchNano(venue.ctx)
    expect((await check(agent, invoice.id)).json).toMatchObject({
      status: 'underpaid',
      remaining: '0.000001',
      credited_days: 0,
    })
    venue.pay(invoice, DUST)
    await watchNano(venue.ctx)
    expect((await check(agent, invoice.id)).json).toMatchObject({ status: 'settled', credited_days: 3 })
    for (const missing of [1n, DUST - 1n]) {
      const short = await invoiceFor(agent, 3)
      venue.pay(short, 3n * DAY_RAW - missing)
      await watchNano(venue.ctx)
      const { json } = await check(agent, short.id)
      expect(json).toMatchObject({ status: 'settled', credited_days: 3, remaining: '0', remainder_raw: '0' })
      expect(json['uri']).toBe(`nano:${short.address}?amount=0`)
    }
    expect(await daysLeft(agent)).toBeCloseTo(9, 2)
    await checkAll()
  })

  it.runIf(FULL)('is not asked of the next invoice either, which what was carried over pays', async () => {
    const agent = await service.register()
    const first = await invoiceFor(agent)
    venue.pay(first, 2n * DAY_RAW - DUST / 2n)
    await watchNano(venue.ctx)
    expect((await check(agent, first.id)).json).toMatchObject({
      credited_days: 1,
      remainder_raw: String(DAY_RAW - DUST / 2n),
    })
    expect(expectStatus(await buy(agent), 201).json).toMatchObject({ status: 'settled' })
    expect(await daysLeft(agent)).toBeCloseTo(2, 2)
    await checkAll()
  })

  it.runIf(FULL)('is not asked of a late payer: the days that were left are bought', async () => {
    const agent = await service.register()
    const invoice = await invoiceFor(agent, 3)
    venue.pay(invoice, DAY_RAW)
    await watchNano(venue.ctx)
    await later(61 * MINUTE)
    expect((await check(agent, invoice.id)).json).toMatchObject({ status: 'expired', credited_days: 1 })
    venue.pay(invoice, 2n * DAY_RAW - (DUST - 1n))
    await checkNanoInvoice(venue.ctx, invoice.id)
    expect((await check(agent, invoice.id)).json).toMatchObject({
      status: 'settled',
      credited_days: 3,
      remaining: '0',
    })
    await checkAll()
  })

  // holds: limits.dust.detail
  it("keeps no order from being paid, and comes out of the venue's fee", async () => {
    for (const missing of [1n, DUST - 1n]) {
      const payout = strangerAddress()
      const order = await placeOrder(payout, strangerAddress())
      venue.pay(order, PRICE_RAW - missing)
      await watchNano(venue.ctx)
      expect((await refreshOrder(order)).status).toBe('paid')
      expectStatus(await take('deliver', order), 200)
      expectStatus(await take('accept', order), 200)
      expect(await payoutsOf(order)).toMatchObject([{ amount_raw: String(PART_RAW), address: payout }])
      const { fee_raw: fee } = (await venue.ctx.orders.find(order.orderId)) ?? {}
      expect(fee).toBe(String(PRICE_RAW - PART_RAW - missing))
    }
    const [refund, unpaid] = [strangerAddress(), await placeOrder(strangerAddress(), strangerAddress())]
    const refunded = await placeOrder(strangerAddress(), refund)
    venue.pay(refunded, PRICE_RAW - 1n)
    venue.pay(unpaid, PRICE_RAW - DUST)
    await watchNano(venue.ctx)
    expect((await refreshOrder(unpaid)).status).toBe('awaiting_payment')
    expectStatus(await take('deliver', refunded), 200)
    expectStatus(await take('dispute', refunded), 200)
    expect(await operator('dispute', refunded.orderId, 'refund')).toMatchObject({ exitCode: 0 })
    expect(await payoutsOf(refunded)).toMatchObject([{ amount_raw: String(PRICE_RAW - 1n), address: refund }])
    await checkAll()
  })
})

describe("an address of the venue's own", () => {
  const invalid = (answer: Answer) => expect([...outcome(answer), answer.json.field])

  // holds: limits.refund_address
  it('is refused as payout and refund address, at each door, in any state and spelling, and the treasury of any time too', async () => {
    const order = await placeOrder(strangerAddress())
    const [free] = await venue.ctx.coins.addresses.models.addresses
      .find({ coin: 'xno', state: 'free' })
      .limit(1)
      .lean()
    const retired = await venue.ctx.coins.addresses.models.addresses
      .findOneAndUpdate({ coin: 'xno', state: 'free' }, { state: 'retired' })
      .lean()
    const [treasury, formerTreasury] = [venue.wallet.treasury.address, strangerAddress()]
    await venue.ctx.coins.noteTreasury('xno', { treasury_address: formerTreasury })
    await venue.ctx.coins.noteTreasury('xno', { treasury_address: treasury })
    const own = [order.address, free?.address, retired?.address, treasury, formerTreasury]
    for (const address of own.flatMap((text = '') => [text, text.replace('nano_', 'xrb_')])) {
      const [seller, buyer] = [await service.register(), await service.register()]
      const offer = { ...OFFER, payout_addresses: { xno: address } }
      invalid(await post('/market/offer', seller, offer)).toEqual([400, 'invalid_field', 'payout_addresses'])
      const ordered = { offer_id: order.offerId, refund_address: address }
      invalid(await post('/market/order', buyer, ordered)).toEqual([400, 'invalid_field', 'refund_address'])
      invalid(await take('refund-address', order, { address })).toEqual([400, 'invalid_field', 'address'])
    }
    venue.pay(order, 2n * PRICE_RAW)
    await watchNano(venue.ctx)
    const [owed] = await payoutsOf(order)
    const paid = await operator('payout-paid', owed?._id ?? '', newTx(), '--address', order.address)
    expect(paid).toMatchObject({ exitCode: 1, error: 'invalid_field' })
    expect(await payoutsOf(order)).toMatchObject([{ state: 'owed' }])
    expect((await venue.ctx.orders.find(order.orderId))?.refund_address).toBeUndefined()
    await checkAll()
  })

  it.runIf(FULL)(
    "is refused as the integrated address that has the Monero wallet's own keys in it",
    async () => {
      await makeCoinReady(venue.ctx, 'xmr')
      await venue.ctx.coins.noteTreasury('xmr', { treasury_address: ADDRESSES.xmr })
      for (const address of [ADDRESSES.xmr, INTEGRATED_ADDRESS]) {
        const answer = await post('/market/offer', await service.register(), {
          ...OFFER,
          payout_addresses: { xmr: address },
        })
        invalid(answer).toEqual([400, 'invalid_field', 'payout_addresses'])
      }
      await venue.ctx.coins.models.coins.deleteOne({ _id: 'xmr' })
    },
  )
})

async function withWorker<T>(work: () => Promise<T>): Promise<T> {
  const pool = startPool(withSigning(venue.ctx), ['check-nano'])
  try {
    await expect
      .poll(() => venue.ctx.queues.get('check-nano').getWorkersCount(), { timeout: 60_000 })
      .toBeGreaterThan(0)
    return await work()
  } finally {
    await pool.close()
  }
}

describe('an order that a restored database takes for undecided', () => {
  // holds: rules.market.steps.resumed_delivered, rules.market.steps.resumed_paid, rules.market.steps.suspected
  it('is disputed if a send may have paid a buyer who names no address, and goes on once that is accounted for', async () => {
    const [paid, delivered, named] = [
      await placeOrder(strangerAddress()),
      await placeOrder(strangerAddress()),
      await placeOrder(strangerAddress(), strangerAddress()),
    ]
    venue.pay(paid, PRICE_RAW)
    for (const order of [delivered, named]) await payAndDeliver(order)
    const { deliver_by: deliverBy = 0 } = (await venue.ctx.orders.find(paid.orderId)) ?? {}
    const tx = await signAndPublish(venue, 0, { sendTo: strangerAddress(), amountRaw: XNO / 10n })
    await reconcileNano(venue.ctx)
    const statuses = async () =>
      Promise.all([paid, delivered, named].map(async (order) => (await refreshOrder(order)).status))
    expect(await statuses()).toEqual(['disputed', 'disputed', 'delivered'])
    await later(30_000)
    expect(await operator('reconcile', 'xno', '--explained', tx, '--dry-run')).toMatchObject({ exitCode: 0 })
    expect(await statuses()).toEqual(['disputed', 'disputed', 'delivered'])
    expect(await operator('reconcile', 'xno', '--explained', tx)).toMatchObject({ exitCode: 0 })
    expect(await statuses()).toEqual(['paid', 'delivered', 'delivered'])
    const resumed = await venue.ctx.orders.find(paid.orderId)
    expect(resumed?.deliver_by).toBeGreaterThanOrEqual(deliverBy + 30)
    expect(resumed?.due_at).toBe(resumed?.deliver_by)
    expect(resumed?.disputed_by).toBeUndefined()
    expectStatus(await take('accept', delivered), 200)
    await checkAll()
  })

  // holds: rules.market.steps.suspected
  it.runIf(FULL)(
    'does not pay its buyer when its seller was paid before: it is disputed, and so the other way round',
    async () => {
      const [payout, refund] = [strangerAddress(), strangerAddress()]
      const [paidSeller, paidBuyer, other] = [
        await placeOrder(payout, strangerAddress()),
        await placeOrder(strangerAddress(), refund),
        await placeOrder(strangerAddress(), strangerAddress()),
      ]
      for (const order of [paidSeller, paidBuyer, other]) await payAndDeliver(order)
      // What the database has forgotten: both orders had ended, and one side of each was sent its part.
      const sent = await signAndPublish(venue, 0, { sendTo: payout, amountRaw: PART_RAW })
      await signAndPublish(venue, 0, { sendTo: refund, amountRaw: PRICE_RAW })
      await reconcileNano(venue.ctx)
      for (const order of [paidSeller, paidBuyer]) {
        expect(await refreshOrder(order)).toMatchObject({
          status: 'disputed',
          disputed_by: 'chain',
          next_transition: { actor: 'operator' },
        })
        expect(outcome(await take('accept', order))).toEqual([409, 'wrong_state'])
      }
      expect((await refreshOrder(other)).status).toBe('delivered')
      await later(80 * HOUR)
      await sendNano(venue.ctx)
      expect([payout, refund].map(arrived)).toEqual([PART_RAW, PRICE_RAW])

      // The operator decides as it was, and says what paid it.
      expect(await operator('dispute', paidSeller.orderId, 'release')).toMatchObject({ exitCode: 0 })
      await sendNano(venue.ctx)
      const [owed] = await payoutsOf(paidSeller)
      expect(owed?.state).toBe('held')
      expect(await operator('payout-paid', owed?._id ?? '', sent)).toMatchObject({ exitCode: 0 })
      expect((await refreshOrder(paidSeller)).status).toBe('paid_out')
      expect(await operator('dispute', paidBuyer.orderId, 'refund')).toMatchObject({ exitCode: 0 })
      await sendNano(venue.ctx)
      expect([payout, refund].map(arrived)).toEqual([PART_RAW, PRICE_RAW])
      expect(await payoutsOf(paidBuyer)).toMatchObject([{ state: 'held' }])
      await checkAll()
    },
  )

  it.runIf(FULL)(
    'pays nobody if it ends before that is found out: it is disputed when its payout is due, once',
    async () => {
      const [payout, refund] = [strangerAddress(), strangerAddress()]
      const [released, refunded] = [
        await placeOrder(strangerAddress(), refund),
        await placeOrder(payout, strangerAddress()),
      ]
      for (const order of [released, refunded]) await payAndDeliver(order)
      expect(outcome(await take('accept', released))).toEqual([200])
      expect(outcome(await take('dispute', refunded))).toEqual([200])
      expect(await operator('dispute', refunded.orderId, 'refund')).toMatchObject({ exitCode: 0 })
      // In the database that was lost the one was refunded and the other released.
      await signAndPublish(venue, 0, { sendTo: refund, amountRaw: PRICE_RAW })
      await signAndPublish(venue, 0, { sendTo: payout, amountRaw: PART_RAW })
      await reconcileNano(venue.ctx)
      await later(2_000)
      const newer = await placeOrder(payout, refund)
      await payAndDeliver(newer)
      await sendNano(venue.ctx)
      for (const order of [released, refunded]) {
        expect(await refreshOrder(order)).toMatchObject({ status: 'disputed', disputed_by: 'chain' })
        expect(await payoutsOf(order)).toMatchObject([{ state: 'owed', frozen: true }])
      }
      expect((await refreshOrder(newer)).status).toBe('delivered')
      // What the operator decides is not put in doubt again.
      expect(await operator('dispute', released.orderId, 'release')).toMatchObject({ exitCode: 0 })
      await sendNano(venue.ctx)
      await sendNano(venue.ctx)
      expect((await refreshOrder(released)).status).toBe('paid_out')
      expect([payout, refund].map(arrived)).toEqual([PART_RAW, PRICE_RAW])
      await checkAll()
    },
  )

  it('that owes its buyer more than was sent to it before owes the rest, once', async () => {
    const refund = strangerAddress()
    const order = await placeOrder(strangerAddress(), refund)
    await payAndDeliver(await placeOrder(strangerAddress()))
    venue.pay(order, PART_RAW)
    await watchNano(venue.ctx)
    await sweepNano(venue.ctx)
    const sent = await signAndPublish(venue, 0, { sendTo: refund, amountRaw: 3n * XNO })
    await reconcileNano(venue.ctx)
    await later(HOUR)
    await sendNano(venue.ctx)
    const [whole] = await payoutsOf(order)
    const id = whole?._id ?? ''
    expect(whole).toMatchObject({ state: 'held', amount_raw: String(PART_RAW) })
    const say = (...flags: string[]) => operator('payout-paid', id, sent, ...flags)
    expect(await say('--part')).toMatchObject({ exitCode: 1, error: 'wrong_state' })
    await withWorker(async () => {
      expect((await say()).json['message']).toContain('less than the 8')
      expect(await say('--part', '--dry-run')).toMatchObject({ exitCode: 0, json: { part: '3', rest: '5' } })
      expect(await payoutsOf(order)).toHaveLength(1)
      expect(await say('--part')).toMatchObject({ exitCode: 0, json: { part: '3', rest: '5' } })
      expect(await say('--part')).toMatchObject({ exitCode: 1, error: 'wrong_state' })
    })
    expect(await operator('reconcile', 'xno', '--explained', sent)).toMatchObject({ exitCode: 0 })
    await sendNano(venue.ctx)
    await sendNano(venue.ctx)
    expect(arrived(refund)).toBe(PART_RAW)
    const states = (await payoutsOf(order)).map(({ state, amount_raw: raw }) => [state, raw])
    expect(states).toEqual([
      ['withdrawn', String(PART_RAW)],
      ['manual', String(3n * XNO)],
      ['confirmed', String(5n * XNO)],
    ])
    await checkAll()
  })

  it.runIf(FULL)(
    'does not pay its seller when its buyer was paid at an address that only the lost database knew',
    async () => {
      const [nameless, named] = [
        await placeOrder(strangerAddress()),
        await placeOrder(strangerAddress(), strangerAddress()),
      ]
      for (const order of [nameless, named]) await payAndDeliver(order)
      // Decided for the buyer, who then named an address and was sent all of it.
      await signAndPublish(venue, 0, { sendTo: strangerAddress(), amountRaw: PRICE_RAW })
      await reconcileNano(venue.ctx)
      expect(await refreshOrder(nameless)).toMatchObject({ status: 'disputed', disputed_by: 'chain' })
      expect((await refreshOrder(named)).status).toBe('delivered')
      await checkAll()
    },
  )
})

describe('what the operator mistypes', () => {
  const DAYS_3 = 3n * DAY_RAW
  /** A worker that serves what the operator asks about a transaction. */
  const settle = (...argv: string[]) => operator('settle-invoice', ...argv)

  it.runIf(FULL)(
    'as an amount is refused beyond what is still to be paid, and makes no payout before the chain has shown it',
    async () => {
      const refund = strangerAddress()
      const order = await placeOrder(strangerAddress(), refund)
      const [other] = [await placeOrder(strangerAddress(), strangerAddress())]
      await payAndDeliver(other)
      const tx = newTx()
      const refused = await settle(order.id, '55', tx)
      expect([refused.error, refused.json['message']]).toEqual([
        'wrong_state',
        'Only 10 xno is still to be paid; --over counts more.',
      ])
      const counted = await settle(order.id, '55', tx, '--over')
      expect(counted).toMatchObject({ exitCode: 0 })
      expect((await payoutsOf(order)).map(({ amount_raw: raw, state }) => [raw, state])).toEqual([
        [String(45n * XNO), 'owed'],
      ])
      for (let round = 0; round < 2; round++) {
        await watchNano(venue.ctx)
        await sendNano(venue.ctx)
      }
      expect(arrived(refund)).toBe(0n)
      expect(await payoutsOf(order)).toMatchObject([{ state: 'owed' }])
      const listed = (await operator('payouts')).json['payees'] as {
        payouts: { payout_id: string; waits_for_chain: boolean }[]
      }[]
      const [shown] = listed.flatMap(({ payouts }) => payouts).filter(({ waits_for_chain: waits }) => waits)
      expect(shown?.payout_id).toBe((await payoutsOf(order))[0]?._id)
      expect(await refreshOrder(order)).toMatchObject({
        payouts: [{ waits_for_chain: true, to_self: false }],
      })
      expect((await operator('status', '--wait', '20')).json).toMatchObject({
        payouts: { waits_for_chain: { xno: 1, xmr: 0 }, to_self: { xno: 0 } },
      })

      // Taken back, it can be recorded as it is; and then the chain shows it, and all goes on.
      const paymentId = String(counted.json['payment_id'])
      expect(await settle('--undo', paymentId, '--dry-run')).toMatchObject({ exitCode: 0 })
      expect(await settle('--undo', paymentId)).toMatchObject({
        exitCode: 0,
        json: { payment_id: paymentId, ledger_entry: 'payment' },
      })
      expect((await refreshOrder(order)).status).toBe('awaiting_payment')
      expect((await payoutsOf(order)).map(({ state }) => state)).toEqual(['withdrawn'])
      await checkAll()
      venue.pay(order, 10n * XNO + 1n * XNO)
      await watchNano(venue.ctx)
      expect((await refreshOrder(order)).status).toBe('paid')
      await sweepNano(venue.ctx)
      await sendNano(venue.ctx)
      expect(arrived(refund)).toBe(XNO)
      await checkAll()
    },
  )

  it.runIf(FULL)(
    'as recorded by hand goes out once the chain shows the same transaction, however it is seen first',
    async () => {
      for (const seeFirst of [watchNano, sweepNano]) {
        const refund = strangerAddress()
        const order = await placeOrder(strangerAddress(), refund)
        const tx = venue.pay(order, 12n * XNO)
        expect(await settle(order.id, '12', tx, '--over')).toMatchObject({ exitCode: 0 })
        await sendNano(venue.ctx)
        expect(arrived(refund)).toBe(0n)
        await seeFirst(venue.ctx)
        await sweepNano(venue.ctx)
        await sendNano(venue.ctx)
        expect(arrived(refund)).toBe(2n * XNO)
        const [payment] = await venue.ctx.invoices.arrivals.listByTx('xno', [tx])
        expect(await settle('--undo', payment?._id ?? '')).toMatchObject({ error: 'wrong_state' })
      }
      await checkAll()
    },
  )

  it.runIf(FULL)(
    'as a transaction is seen in the chain while the node is there, which says the amount itself',
    async () => {
      const [payer, other] = [await service.register(), await service.register()]
      const [invoice, another] = [await invoiceFor(payer, 3), await invoiceFor(other, 3)]
      const tx = venue.pay(invoice, DAYS_3)
      const mistyped = `${tx.slice(0, -1)}${tx.endsWith('0') ? '1' : '0'}`
      await withWorker(async () => {
        const refused = async (...argv: string[]) => String((await settle(...argv)).json['message'])
        expect(await refused(invoice.id, '3', mistyped)).toContain('The node does not have this transaction')
        expect(await refused(another.id, '3', tx)).toContain(
          `pays ${invoice.address}, and not the invoice's address`,
        )
        expect(await refused(invoice.id, '2', tx)).toContain('pays 3 to the invoice')
        expect(await settle(invoice.id, tx)).toMatchObject({
          exitCode: 0,
          json: { amount: '3', credited_days: 3 },
        })
      })
      await watchNano(venue.ctx)
      expect(await daysLeft(payer)).toBeCloseTo(3, 2)
      expect(await venue.ctx.invoices.arrivals.listPayments(invoice.id)).toMatchObject([
        { tx, state: 'settled', shown_at: expect.any(Number) as number },
      ])
      await checkAll()
    },
  )

  it.runIf(FULL)(
    'is taken back while the days that it bought are there, with what other payments buy by themselves',
    async () => {
      const agent = await service.register()
      const invoice = await invoiceFor(agent, 3)
      venue.pay(invoice, DAY_RAW)
      await watchNano(venue.ctx)
      const first = String((await settle(invoice.id, '2', newTx())).json['payment_id'])
      expect(await daysLeft(agent)).toBeCloseTo(3, 2)
      expect(await settle('--undo', first)).toMatchObject({ exitCode: 0 })
      expect(await daysLeft(agent)).toBeCloseTo(0, 2)
      expect((await check(agent, invoice.id)).json).toMatchObject({
        status: 'underpaid',
        credited_days: 0,
        paid: '1',
        payments: [{}],
      })
      await checkAll()
      const second = String((await settle(invoice.id, '2', newTx())).json['payment_id'])
      // As if two days had passed.
      const { pass_until_ms: until = 0 } = (await venue.ctx.agents.find(agent.id)) ?? {}
      await venue.ctx.agents.movePassEnd(agent.id, until, until - 2 * DAY, [])
      expect(await settle('--undo', second)).toMatchObject({ exitCode: 1, error: 'wrong_state' })
      expect(await settle('--undo', 'pay_none')).toMatchObject({ error: 'no_such_record' })
      await checkAll()
    },
  )

  // holds: rules.market.steps.payment_undone
  it('as the payment of an order is taken back until its delivery, and not after it', async () => {
    const order = await placeOrder(strangerAddress(), strangerAddress())
    const paymentId = String((await settle(order.id, '10', newTx())).json['payment_id'])
    expectStatus(await take('deliver', order), 200)
    const refused = await settle('--undo', paymentId)
    expect([refused.error, refused.json['message']]).toEqual([
      'wrong_state',
      'The order is delivered, and without this payment its price is not there; it cannot be taken back.',
    ])
    // Nobody is paid of what never came.
    expectStatus(await take('accept', order), 200)
    await sendNano(venue.ctx)
    expect(await payoutsOf(order)).toMatchObject([{ state: 'owed' }])
    await checkAll()
  })

  it('as the payment of an order stays while what was owed of it to the buyer may have been paid', async () => {
    const order = await placeOrder(strangerAddress(), strangerAddress())
    await settle(order.id, '10', newTx())
    const paymentId = String((await settle(order.id, '5', newTx(), '--over')).json['payment_id'])
    const { payouts } = venue.ctx.payouts.models
    await payouts.updateOne({ order_id: order.orderId }, { $set: { held_by: 'trf_lost' } })
    expect(await settle('--undo', paymentId)).toMatchObject({ exitCode: 1, error: 'wrong_state' })
    await payouts.updateOne({ order_id: order.orderId }, { $unset: { held_by: 1 } })
    expect(await settle('--undo', paymentId)).toMatchObject({ exitCode: 0 })
    await checkAll()
  })

  it.runIf(FULL)('as the transaction of a payout is refused if it pays somebody else, or less', async () => {
    const payout = strangerAddress()
    const order = await placeOrder(payout, strangerAddress())
    await payAndDeliver(order)
    expectStatus(await take('accept', order), 200)
    const [owed] = await payoutsOf(order)
    const say = (tx: string) => operator('payout-paid', owed?._id ?? '', tx)
    const [elsewhere, less, right] = [
      venue.node.fund(strangerAddress(), PART_RAW, { confirmed: true }).toLowerCase(),
      venue.node.fund(payout, PART_RAW - 1n, { confirmed: true }).toLowerCase(),
      venue.node.fund(payout, PART_RAW, { confirmed: true }).toLowerCase(),
    ]
    await withWorker(async () => {
      expect((await say(elsewhere)).json['message']).toContain('and not')
      expect((await say(less)).json['message']).toContain('less than the 8')
      expect(await say(right)).toMatchObject({ exitCode: 0 })
    })
    await checkAll()
  })
})

describe('a share', () => {
  const orderWork = async (agent: TestAgent, days = 1) => {
    const { json } = expectStatus(await buy(agent, days, 'pow'), 201)
    return { id: String(json['order_id']), prefix: String(json['prefix']) }
  }
  const submit = (
    agent: TestAgent,
    orderId: string,
    nonces: readonly (string | number)[],
    on: TestApi = service,
  ) => post('/work/submit', agent, { order_id: orderId, nonces }, on)
  const countedOf = async (orderId: string) => {
    const order = await venue.ctx.work.findOrder(orderId)
    return [order?.shares_accepted, order?.credited_days]
  }
  const isShareOf = (prefix: string, nonce: string) => findNonce(prefix, SHARE_BITS, Number(nonce)) === nonce

  it("replayed over orders, over agents and over a challenge counts once, for its own order's prefix", async () => {
    const [miner, thief] = [await service.register(), await service.register()]
    const [own, second, long, stolen] = [
      await orderWork(miner),
      await orderWork(miner),
      await orderWork(miner, 2),
      await orderWork(thief),
    ]
    const others = [second, long, stolen]
    expect(new Set([own, ...others].map(({ prefix }) => prefix)).size).toBe(4)
    // One in 256 would be a share of another order by chance.
    const shares = findNonces(own.prefix, SHARE_BITS, 3 * PER_DAY)
      .filter((nonce) => !others.some(({ prefix }) => isShareOf(prefix, nonce)))
      .slice(0, PER_DAY)
    expect(shares).toHaveLength(PER_DAY)
    const rejected = (nonces: readonly (string | number)[], reason: string) =>
      nonces.map((nonce) => ({ nonce, reason }))

    expect(outcome(await submit(thief, own.id, shares))).toEqual([404, 'no_such_work_order'])
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, place) =>
        submit(miner, own.id, shares, place % 2 === 0 ? service : other),
      ),
    )
    const accepted = answers.reduce((sum, { json }) => sum + Number(json['accepted'] ?? 0), 0)
    expect(accepted).toBeLessThanOrEqual(PER_DAY)
    await expect.poll(() => countedOf(own.id), { timeout: 60_000 }).toEqual([PER_DAY, 1])
    expect((await submit(miner, own.id, shares)).json).toMatchObject({ status: 'credited', accepted: 0 })
    expect(await countedOf(own.id)).toEqual([PER_DAY, 1])
    for (const [agent, order] of [
      [miner, second],
      [miner, long],
      [thief, stolen],
    ] as const) {
      const { json } = expectStatus(await submit(agent, order.id, shares), 200)
      expect(json).toMatchObject({
        accepted: 0,
        shares_accepted: 0,
        credited_days: 0,
        rejected: rejected(shares, 'insufficient_work'),
      })
    }
    // Within one order, in a later batch, and as a number where it was text.
    const good = findNonces(long.prefix, SHARE_BITS, PER_DAY)
    expect((await submit(miner, long.id, good)).json).toMatchObject({ accepted: PER_DAY, credited_days: 1 })
    for (const again of [good, good.map(Number)])
      expect((await submit(miner, long.id, again)).json).toMatchObject({
        accepted: 0,
        shares_accepted: PER_DAY,
        credited_days: 1,
        rejected: rejected(good, 'duplicate'),
      })
    const solved = await solveChallenge(service.call)
    expect((await service.call('POST', '/register', { body: solved })).status).toBe(201)
    expect(outcome(await other.call('POST', '/register', { body: solved }))).toEqual([409, 'challenge_used'])

    expect(await Promise.all([own, ...others].map(({ id }) => countedOf(id)))).toEqual([
      [PER_DAY, 1],
      [0, 0],
      [PER_DAY, 1],
      [0, 0],
    ])
    expect([Math.round(await daysLeft(miner)), await daysLeft(thief)]).toEqual([2, 0])
  })
})

describe('the free period', () => {
  it('cannot be hoarded: however often and at once it is asked, nothing reaches past its end, and nothing counts as paid', async () => {
    const DAYS = 10
    const freeUntilMs = Date.now() + DAYS * DAY
    const free = await startService({ queues: [], env: { FREE_UNTIL: new Date(freeUntilMs).toISOString() } })
    try {
      const second = await free.addApi()
      const referrer = await free.register()
      const [greedy, patient] = [
        await free.register({ ref: referrer.id }),
        await free.register({ ref: referrer.id }),
      ]
      const ask = (agent: TestAgent, days: number, place: number) =>
        buy(agent, days, ['xno', 'xmr', 'pow'][place % 3], place % 2 === 0 ? free : second)
      await Promise.all(Array.from({ length: 20 }, (_, place) => ask(greedy, 365, place)))
      await Promise.all(Array.from({ length: 24 }, (_, place) => ask(patient, 1, place)))
      for (const agent of [greedy, patient]) {
        const { pass_until: until } = await readMe(agent, free)
        expect(Date.parse(String(until))).toBe(freeUntilMs)
        const credits = (await listPending(free.ctx.database.connection, 'agents', agent.id)).filter(
          ({ kind }) => kind === 'pass_credit',
        )
        expect(credits.reduce((sum, { data }) => sum + Number(data['days']), 0)).toBeLessThanOrEqual(DAYS)
        for (let place = 0; place < 3; place++) {
          const again = await ask(agent, 365, place)
          expect([again.status, again.json['credited_days'], again.json['pass_until']]).toEqual([
            200,
            0,
            until,
          ])
        }
        expect(
          (await listPending(free.ctx.database.connection, 'agents', agent.id)).filter(
            ({ kind }) => kind === 'pass_credit',
          ),
        ).toEqual(credits)
      }
      // In the last minute of it a day is what is left of it, and after it costs what it costs.
      free.advance(freeUntilMs - Date.now() - MINUTE)
      const late = await free.register()
      expect((await ask(late, 365, 0)).json['credited_days']).toBe(0)
      expect((await free.ctx.agents.find(late.id))?.pass_until_ms).toBeLessThanOrEqual(freeUntilMs)
      free.advance(MINUTE + 1_000)
      for (const agent of [greedy, patient, late])
        expect((await readMe(agent, free))['pass_active']).toBe(false)
      expect(outcome(await ask(greedy, 1, 0))).toEqual([503, 'currency_not_configured'])
      expect((await readMe(referrer, free))['referrals']).toMatchObject({ registered: 2, paying: 0 })
      await checkMoney(free.ctx)
    } finally {
      await free.stop()
    }
  })
})

describe('a source of rates that lies', () => {
  it('does not move what two others agree on; two that disagree make no rate and no invoice', async () => {
    const said = ['', '', '']
    const peers = await Promise.all(
      said.map((_, place) => startBrokenPeer((res) => void res.writeHead(200).end(`{"p":${said[place]}}`))),
    )
    const rateSources = peers.map(({ url }) => `xno=${url}/#p`).join(',')
    const ctx = { ...venue.ctx, config: { ...venue.ctx.config, rateSources } }
    const refresh = async (...quotes: [string, string, string]) => {
      said.splice(0, 3, ...quotes)
      return refreshRate(ctx, 'xno')
    }
    const { rates } = venue.ctx.coins.models
    try {
      const LIES = [
        '95',
        '0.0095',
        '"95"',
        'NaN',
        '"NaN"',
        'Infinity',
        '"Infinity"',
        '1e9',
        '-0.95',
        '0',
        'null',
        '""',
        '{"p":95}',
        '"0x5f"',
      ]
      for (const [place, lie] of sampled(LIES, 4).entries()) {
        await rates.deleteMany({})
        const quotes: [string, string, string] = ['0.95', '"0.951"', lie]
        // The liar may be any of the three.
        quotes.unshift(...quotes.splice(place % 3))
        expect([lie, await refresh(...quotes)]).toEqual([lie, true])
        const { json } = expectStatus(await buy(await service.register()), 201)
        expect([lie, json['rate'], json['amount']]).toEqual([lie, '0.95', '1.052632'])
      }
      // One that lies within the 5 percent moves it no further than to the other honest quote.
      for (const lie of ['0.91', '0.9975']) {
        await rates.deleteMany({})
        await refresh('0.95', '0.951', lie)
        expect(['0.95', '0.951']).toContain((await venue.ctx.coins.findRate('xno'))?.usd)
      }

      const buyer = await service.register()
      const offerId = await makeOffer(await service.register(), strangerAddress())
      const ask = async () => [
        outcome(await buy(buyer)),
        outcome(await post('/market/order', buyer, { offer_id: offerId })),
      ]
      const none = [
        [503, 'rate_unavailable'],
        [503, 'rate_unavailable'],
      ]
      for (const quotes of [
        ['0.95', '95', 'NaN'],
        ['0.95', '1', '1.06'],
        ['"NaN"', '"NaN"', '0.95'],
        ['NaN', 'null', '-1'],
      ] as [string, string, string][]) {
        await rates.deleteMany({})
        const before = await countStored(venue.ctx.database.connection)
        const free = await venue.ctx.coins.addresses.countFree('xno')
        expect([quotes, await refresh(...quotes), ...(await ask())]).toEqual([quotes, false, ...none])
        expect(await countStored(venue.ctx.database.connection)).toEqual(before)
        expect(await venue.ctx.coins.addresses.countFree('xno')).toEqual(free)
      }
      // The rate before goes on for its quarter of an hour, and no longer.
      await setRate(venue.ctx, 'xno', '1')
      expect(await refresh('0.95', '95', 'NaN')).toBe(false)
      await ageRate(venue.ctx, 'xno', 14 * MINUTE)
      expect((await buy(await service.register())).json['rate']).toBe('1')
      await ageRate(venue.ctx, 'xno', 2 * MINUTE)
      expect(await ask()).toEqual(none)
    } finally {
      await Promise.all(peers.map((peer) => peer.close()))
      await setRate(venue.ctx, 'xno', '1')
    }
    await checkAll()
  })
})

describe('a node that lies', () => {
  it('of a payment that its account did not sign, of another amount or of one that is not confirmed changes no invoice', async () => {
    const { node } = venue
    const [agent, honest] = [await service.register(), await service.register()]
    const [lied, paid] = [await invoiceFor(agent, 2), await invoiceFor(honest, 1)]
    const before = await stored(lied.id)
    const isUntouched = async (reason: string) => {
      const from = venue.logged().length
      await watchNano(venue.ctx)
      await checkNanoInvoice(venue.ctx, lied.id)
      expect(await stored(lied.id)).toEqual(before)
      expect(await venue.ctx.invoices.arrivals.listPayments(lied.id)).toEqual([])
      expect(await daysLeft(agent)).toBe(0)
      expect(venue.logged().slice(from)).toContain(reason)
    }

    // A send of the genesis account that was never published, with a hash that is right and a signature by
    // another key.
    const template = venue.pay(paid, DAY_RAW).toUpperCase()
    const genesis =
      node.state.ledger.accounts.get(node.genesis.publicKey) ?? expect.fail('there is no genesis account')
    const fields = {
      account: node.genesis.publicKey,
      previous: template,
      representative: genesis.representative,
      balance: genesis.balance - 2n * DAY_RAW,
      link: parseNanoAddress(lied.address)?.publicKey ?? '',
    }
    const forged = hashStateBlock(fields)
    const signature = signHash(forged, newTx().toUpperCase())
    node.lie(({ action, requestText, answerText }) => {
      if (action === 'accounts_receivable' && requestText.includes(lied.address))
        return changeBlocks(
          answerText,
          (blocks) => (blocks[lied.address] = { [forged]: String(2n * DAY_RAW) }),
        )
      if (action !== 'blocks_info' || !requestText.includes(forged)) return undefined
      const { account, representative, ...rest } = fields
      const contents = {
        ...rest,
        type: 'state',
        account: encodeNanoAddress(account),
        representative: encodeNanoAddress(representative),
        balance: String(fields.balance),
        link_as_account: lied.address,
        signature,
        work: '0'.repeat(16),
      }
      const amounts = { amount: String(2n * DAY_RAW), balance: String(fields.balance) }
      const entry = {
        ...amounts,
        block_account: contents.account,
        height: '9',
        local_timestamp: '0',
        successor: '0'.repeat(64),
      }
      const info = { ...entry, confirmed: 'true', contents, subtype: 'send', receive_hash: '0'.repeat(64) }
      return changeBlocks(answerText, (blocks) => (blocks[forged] = info))
    })
    await isUntouched('its sender did not sign it')
    // What is true beside it counts all the same.
    expect(await stored(paid.id)).toMatchObject({ credited_days: 1 })

    // Another amount than the block's two balances give.
    const small = venue.pay(lied, DAY_RAW / 100n).toUpperCase()
    node.lie(({ action, answerText }) =>
      action === 'accounts_receivable'
        ? changeBlocks(answerText, (blocks) => {
            if (blocks[lied.address] !== undefined) blocks[lied.address] = { [small]: String(2n * DAY_RAW) }
          })
        : action === 'blocks_info'
          ? changeBlocks(answerText, (blocks) => {
              if (blocks[small] !== undefined)
                blocks[small] = { ...blocks[small], amount: String(2n * DAY_RAW) }
            })
          : undefined,
    )
    await isUntouched(`was listed with ${2n * DAY_RAW}`)

    // A block that is in its ledger, and that the network has not decided on.
    node.setAutoConfirm(null)
    const unconfirmed = node.fund(lied.address, 2n * DAY_RAW)
    node.lie(({ action, answerText }) =>
      action === 'accounts_receivable'
        ? changeBlocks(answerText, (blocks) => {
            if (blocks[lied.address] !== undefined || answerText.includes(lied.address))
              blocks[lied.address] = { [unconfirmed]: String(2n * DAY_RAW) }
          })
        : undefined,
    )
    await isUntouched('it is not confirmed')
    // Nothing lapses on the word of a node that lies; what is under way is seen, and counts for nothing.
    service.advance(HOUR + MINUTE)
    venue.advance(HOUR + MINUTE)
    await watchNano(venue.ctx)
    await checkNanoInvoice(venue.ctx, lied.id)
    const { has_payments: hasPayments, tells: _tells, ...held } = await stored(lied.id)
    expect([hasPayments, held]).toEqual([true, { ...before, version: before.version + 1 }])
    expect(await venue.ctx.invoices.arrivals.listPayments(lied.id)).toMatchObject([
      { tx: unconfirmed.toLowerCase(), state: 'seen', confirmations: 0 },
    ])
    expect(await daysLeft(agent)).toBe(0)
    node.lie(null)
    node.rollback(unconfirmed)
    node.setAutoConfirm(5)

    // Without the lies, what is there counts, and no more.
    await setRate(venue.ctx, 'xno', '1')
    await watchNano(venue.ctx)
    expect(await stored(lied.id)).toMatchObject({ received_raw: String(DAY_RAW / 100n), credited_days: 0 })
    expect(
      (await venue.ctx.invoices.arrivals.listPayments(lied.id)).map(({ state }) => state).sort(),
    ).toEqual(['gone', 'settled'])
    expect(String(parseAmount('0.01', 'xno'))).toBe(String(DAY_RAW / 100n))
    await checkAll()
  })
})
