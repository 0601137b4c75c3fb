import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { newDmKeyPair, openBox, sealBox } from '../../client/sealed-box.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { decideDispute } from '../../shared/market/dispute-service.ts'
import { checkMarket, expectStatus, vouch, type OrderJson } from '../support/market.ts'
import { checkBooksAfterEach } from '../support/money.ts'
import {
  MONERO_QUEUES,
  moneroChain,
  openMoneroVenue,
  XMR,
  type MoneroPayee,
  type MoneroVenue,
} from '../support/monero-venue.ts'
import { whenServed, type TestAgent } from '../support/service.ts'

// Blocks are mined by the dozen.
vi.setConfig({ testTimeout: 480_000 })

const HOUR_MS = 3_600_000
/** 2.46 USD at 2 USD a coin: a fee that has to be rounded down. */
const PRICE_USD = 2.46
const PRICE_PICO = (123n * XMR) / 100n
const FEE_PICO = (PRICE_PICO * 20n) / 100n
const WAIT = { limitMs: 120_000, everyMs: 200 }

let venue: MoneroVenue
let payee: MoneroPayee
let seller: TestAgent & { address: string; key: ReturnType<typeof newDmKeyPair> }
let buyer: TestAgent & { address: string; key: ReturnType<typeof newDmKeyPair> }

beforeAll(async () => {
  venue = await openMoneroVenue({ queues: [...MONERO_QUEUES, 'sequence'] })
  payee = await venue.openPayee()
  const enter = async () => ({
    ...(await venue.service.register()),
    address: await payee.address(),
    key: newDmKeyPair(),
  })
  ;[seller, buyer] = [await enter(), await enter()]
  for (const { token, key } of [seller, buyer]) await post('/profile', token, { dm_key: key.publicKey })
}, 300_000)
checkBooksAfterEach(
  () => venue?.ctx,
  () => moneroChain(venue),
)
afterAll(() => venue?.stop())

const post = async (path: string, token: string, body: object, status = 200) =>
  expectStatus(await whenServed(() => venue.service.call('POST', path, { token, body })), status).json
const read = async (id: string) =>
  expectStatus(await venue.service.call('GET', `/market/order/${id}`, { token: buyer.token }), 200).json[
    'order'
  ] as OrderJson

/** Waits until each of these orders stands so. */
async function until(status: string, ...ids: string[]): Promise<void> {
  for (const id of ids)
    await waitFor(
      `${status} of ${id}`,
      async () => ((await read(id)).status === status ? true : undefined),
      WAIT,
    )
}

async function letPass(ms: number): Promise<void> {
  await vouch(venue.ctx, venue.ctx.now() + ms)
  await venue.advance(ms)
}

async function deliver(id: string): Promise<void> {
  const delivery = sealBox({
    plaintext: `What ${id} is about.`,
    senderSecretKey: seller.key.secretKey,
    senderId: seller.id,
    recipientPublicKey: buyer.key.publicKey,
    recipientId: buyer.id,
    purpose: { kind: 'delivery', orderId: id },
  })
  await post('/market/deliver', seller.token, { order_id: id, delivery })
}

describe('the market on a Monero chain', () => {
  it('takes five orders from payment to payout: accepted, left to the deadline, never delivered, disputed and decided either way', async () => {
    const { offer_id: offerId } = await post(
      '/market/offer',
      seller.token,
      {
        title: 'A poem',
        description: 'Fourteen lines.',
        price_usd: PRICE_USD,
        delivery_hours: 1,
        payout_addresses: { xmr: seller.address },
      },
      201,
    )
    const orders: { id: string; address: string }[] = []
    for (let place = 0; place < 5; place++) {
      const { order_id: id, invoice } = await post(
        '/market/order',
        buyer.token,
        { offer_id: offerId, currency: 'xmr', refund_address: buyer.address },
        201,
      )
      const { address, amount_raw: amount } = invoice as { address: string; amount_raw: string }
      expect(BigInt(amount)).toBe(PRICE_PICO)
      orders.push({ id: String(id), address })
    }
    const ids = orders.map(({ id }) => id) as [string, string, string, string, string]
    const [accepted, left, undelivered, released, refunded] = ids
    await venue.regtest.payer.pay(orders.map(({ address }) => ({ address, amountPico: PRICE_PICO })))
    for (let blocks = 0; (await read(accepted)).status !== 'paid' && blocks < 10; blocks++) {
      const invoice = await venue.ctx.invoices.models.invoices.findOne({ order_id: accepted }).lean()
      // Twice the confirmations of a pass; a worker that looks just now notes them before it settles payment
      // and order.
      const isSeenOrPaid = async () => {
        const [payment] = await venue.ctx.invoices.arrivals.listPayments(invoice?._id ?? '')
        if (payment === undefined || (await read(accepted)).status === 'paid') return
        expect([payment.state, payment.confirmations < 4]).toEqual(['seen', true])
      }
      await vi.waitFor(isSeenOrPaid, { timeout: WAIT.limitMs, interval: WAIT.everyMs })
      await venue.mine(1)
    }
    await until('paid', ...ids)

    for (const id of [accepted, left, released, refunded]) await deliver(id)
    const opened = openBox({
      box: String((await read(accepted))['delivery']),
      recipientSecretKey: buyer.key.secretKey,
      recipientId: buyer.id,
      senderPublicKey: seller.key.publicKey,
      senderId: seller.id,
      purpose: { kind: 'delivery', orderId: accepted },
    })
    expect(Buffer.from(opened).toString()).toBe(`What ${accepted} is about.`)
    await post('/market/accept', buyer.token, { order_id: accepted })
    for (const id of [released, refunded])
      await post('/market/dispute', buyer.token, { order_id: id, reason: 'It does not rhyme.' })
    await decideDispute(venue.ctx, released, 'release')
    await decideDispute(venue.ctx, refunded, 'refund')
    await letPass(2 * HOUR_MS)
    await until('refunded', undelivered, refunded)
    expect(await read(undelivered)).toMatchObject({ undelivered: true })
    await letPass(72 * HOUR_MS)
    const isOver = async (): Promise<true | undefined> =>
      ['released', 'paid_out'].includes((await read(left)).status) ? true : undefined
    await waitFor('the end of the time to accept', isOver, WAIT)

    const states = async () =>
      (await venue.ctx.payouts.countByState()).flatMap(({ state, count }) =>
        Array.from({ length: count }, () => state),
      )
    // A payout goes out in the worker's own time, and is confirmed by blocks that come after it.
    const isAllPaid = async (): Promise<true | undefined> => {
      if ((await states()).every((state) => state === 'confirmed')) return true
      await venue.mine(1)
      return undefined
    }
    await waitFor('the confirmation of every payout', isAllPaid, { limitMs: 180_000, everyMs: 500 })
    await until('paid_out', accepted, left, released)
    expect(await states()).toHaveLength(5)
    const sum = (amounts: readonly bigint[]): bigint => amounts.reduce((total, amount) => total + amount, 0n)
    // The payee has another wallet, whose look may come back without what is there.
    const haveArrived = async () => {
      expect(sum(await payee.arrived(seller.address))).toBe(3n * (PRICE_PICO - FEE_PICO))
      expect(sum(await payee.arrived(buyer.address))).toBe(2n * PRICE_PICO)
    }
    await vi.waitFor(haveArrived, { timeout: WAIT.limitMs, interval: WAIT.everyMs })

    const { xmr } = await checkMarket(venue.ctx)
    expect(xmr).toEqual({
      received: 5n * PRICE_PICO,
      owed: 0n,
      paidOut: 5n * PRICE_PICO - 3n * FEE_PICO,
      fees: 3n * FEE_PICO,
    })
    // The venue has its fees, less what the network took.
    const transfers = await venue.ctx.payouts.transfers.models.transfers.find({}).lean()
    const networkFees = sum(transfers.map(({ fee_raw: fee }) => BigInt(fee ?? '0')))
    expect((await venue.ctx.monero.wallet.balance()).totalPico).toBe(3n * FEE_PICO - networkFees)
  })
})
