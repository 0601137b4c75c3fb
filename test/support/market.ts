import type { Context } from '../../shared/context.ts'
import { findOwedDifferences } from '../../shared/operation/owed-check.ts'
import { NOTHING_OWED, addToOwed, type Owed } from '../../shared/ledger/solvency.ts'
import type { PendingEntry } from '../../shared/ledger/pending.ts'
import type { OrderRecord } from '../../shared/market/order.ts'
import { MAX_OPEN_OFFERS } from '../../shared/market/market-terms.ts'
import { ORDER_STEPS, type OrderStep } from '../../shared/market/order-states.ts'
import { COINS, dustThreshold, formatAmount, type Coin } from '../../shared/money/coin.ts'
import type { InvoiceRecord } from '../../shared/money/invoice.ts'
import type { PaymentRecord } from '../../shared/money/arrival.ts'
import { showPayout, type PayoutRecord, type StoredPayout } from '../../shared/money/payout.ts'
import type { TransferRecord } from '../../shared/money/transfer.ts'
import { expireInvoices } from '../../shared/money/invoice-expiry.ts'
import { recordLoss, recordPayment } from './told-chain.ts'
import { unixSeconds } from '../../shared/platform/time.ts'
import type { QueueName } from '../../shared/platform/queue-table.ts'
import { foundAt, makeCoinReady, newTx, pay } from './coins.ts'
import { WITHOUT_LEDGER, startService, type Answer, type TestAgent, type TestService } from './service.ts'
import { atOneMoment, listAllEntries } from './stored.ts'

/** Valid addresses of the main networks that belong to nobody here. */
export const ADDRESSES: Readonly<Record<Coin, string>> = {
  xno: 'nano_3e3j5tkog48pnny9dmfzj1r16pg8t1e76dz5tmac6iq689wyjfpiij4txtdo',
  xmr: '44txwFJBCSfLbr1PNc6gKC4N9CixHDok7aZHfUi6AXSsQaGEJg7tkTScg3mHMQ7ArdUiSj3tWirKy6vGNVDGHFA2RgYCBkQ',
}
export const OTHER_NANO_ADDRESS = 'nano_3pbuf8omyqie3gakcwzp5t5quzktma8m4bzncxhrmpk17gqos4hq7qwweiz3'

/** ADDRESSES.xmr with a payment id in it. */
export const INTEGRATED_ADDRESS =
  '4Ebdx47foiBLbr1PNc6gKC4N9CixHDok7aZHfUi6AXSsQaGEJg7tkTScg3mHMQ7ArdUiSj3tWirKy6vGNVDGHFA2dTurWx54axN1uPG4e6'

export const MARKET_QUEUES: readonly QueueName[] = [...WITHOUT_LEDGER, 'order-deadlines']

export interface TestMarket extends TestService {
  seller: TestAgent
  buyer: TestAgent
  /** Lets that time pass, with the API serving all along, and the coins' workers alive. */
  letPass(ms: number): Promise<void>
  /** The same, with no API that serves: nothing is told of what the outage does until a request is served. */
  letPassInOutage(ms: number): Promise<void>
  offer(fields?: object, seller?: TestAgent): Promise<string>
  /** An unpaid order of a new offer. */
  order(fields?: object, offer?: object): Promise<PlacedOrder>
  /** An order of a new offer, paid to the last unit. */
  paidOrder(fields?: object, offer?: object): Promise<PlacedOrder>
  delivered(fields?: object, offer?: object): Promise<PlacedOrder>
  /** One payment of an order's invoice, as a share of its price in percent. */
  payPercent(
    order: PlacedOrder,
    percent: number,
    options?: { confirmed?: boolean; tx?: string },
  ): Promise<string>
  step(
    name: 'deliver' | 'accept' | 'dispute' | 'refund-address',
    order: PlacedOrder,
    fields?: object,
    by?: TestAgent,
  ): Promise<Answer>
  read(order: PlacedOrder, by?: TestAgent): Promise<OrderJson>
  /** The chain does not know this transaction any more. */
  lose(tx: string): Promise<void>
  /**
   * After a successful look at the chain, which began now or at `roundAt` (Unix seconds): what was not paid
   * in time lapses.
   */
  lapse(coin?: Coin, roundAt?: number): Promise<void>
}

export interface PlacedOrder {
  id: string
  invoiceId: string
  coin: Coin
  amountRaw: bigint
}

export interface OrderJson {
  status: string
  next_transition: { to: string | null; at: number | null; actor: string } | null
  payouts: {
    payout_id: string
    amount_raw: string
    state: string
    frozen: boolean
    address: string | null
    tx_hash: string | null
  }[]
  extensions: { deadline: string; was: number; until: number; outage_from: number; outage_to: number }[]
  [field: string]: unknown
}

export const OFFER = {
  title: 'A translation of 1,000 words',
  description: 'From English into Esperanto, as plain text.',
  price_usd: 10,
  delivery_hours: 24,
  payout_addresses: { xno: ADDRESSES.xno, xmr: ADDRESSES.xmr },
}

const ALIVE_EVERY_MS = 5_000

/** A service with both coins ready, a seller and a buyer. */
export async function startMarket(
  options: { env?: Record<string, string>; queues?: readonly QueueName[] } = {},
): Promise<TestMarket> {
  const { env, queues = MARKET_QUEUES } = options
  return openMarket(await startService({ queues, ...(env === undefined ? {} : { env }) }))
}

/** The same on a service that runs. */
export async function openMarket(service: TestService): Promise<TestMarket> {
  const { ctx, call } = service
  for (const coin of COINS) await makeCoinReady(ctx, coin, { rate: '2', addresses: 300 })
  const [seller, buyer] = [await service.register(), await service.register()]
  // A coin whose worker falls silent is not ready; on a busy machine a test takes longer than that.
  const alive = setInterval(() => {
    const now = unixSeconds(ctx.database.now())
    void ctx.coins.models.coins
      .updateMany({}, { $set: { alive_at: now, pool_at: now } })
      .catch(() => clearInterval(alive))
  }, ALIVE_EVERY_MS).unref()
  const ordered: string[] = []
  const market: TestMarket = {
    ...service,
    async stop() {
      clearInterval(alive)
      await service.stop()
    },
    seller,
    buyer,
    async letPass(ms) {
      await vouch(ctx, ctx.now() + ms)
      await market.letPassInOutage(ms)
    },
    async letPassInOutage(ms) {
      service.advance(ms)
      for (const coin of COINS) await makeCoinReady(ctx, coin, { rate: '2', addresses: 0 })
    },
    async offer(fields = {}, by = seller) {
      return String(
        expectStatus(
          await call('POST', '/market/offer', { token: by.token, body: { ...OFFER, ...fields } }),
          201,
        ).json['offer_id'],
      )
    },
    async order(fields = {}, offer = {}) {
      const offerId = await market.offer(offer)
      ordered.push(offerId)
      // An order needs its offer no longer, and a test may make others.
      if (ordered.length > MAX_OPEN_OFFERS / 2)
        await call('POST', '/market/offer/close', {
          token: seller.token,
          body: { offer_id: ordered.shift() },
        })
      const { json } = expectStatus(
        await call('POST', '/market/order', {
          token: buyer.token,
          body: { offer_id: offerId, refund_address: ADDRESSES.xno, ...fields },
        }),
        201,
      )
      const invoice = json['invoice'] as { invoice_id: string; currency: Coin; amount_raw: string }
      return {
        id: String(json['order_id']),
        invoiceId: invoice.invoice_id,
        coin: invoice.currency,
        amountRaw: BigInt(invoice.amount_raw),
      }
    },
    async paidOrder(fields, offer) {
      const order = await market.order(fields, offer)
      await market.payPercent(order, 100)
      return order
    },
    async delivered(fields, offer) {
      const order = await market.paidOrder(fields, offer)
      expectStatus(await market.step('deliver', order), 200)
      return order
    },
    async payPercent(order, percent, { confirmed = true, tx = newTx() } = {}) {
      const amount = formatAmount((order.amountRaw * BigInt(percent)) / 100n, order.coin)
      return pay(ctx, order.invoiceId, { amount, confirmed, tx })
    },
    step(name, order, fields = {}, by) {
      const side = name === 'deliver' ? seller : buyer
      const own = {
        deliver: { delivery: 'Saluton' },
        accept: {},
        dispute: { reason: 'It is empty.' },
        'refund-address': { address: ADDRESSES.xno },
      }
      return call('POST', `/market/${name}`, {
        token: (by ?? side).token,
        body: { order_id: order.id, ...own[name], ...fields },
      })
    },
    async read(order, by = buyer) {
      return expectStatus(await call('GET', `/market/order/${order.id}`, { token: by.token }), 200).json[
        'order'
      ] as OrderJson
    },
    async lose(tx) {
      const payment = await ctx.invoices.arrivals.models.payments.findOne({ tx }).lean<PaymentRecord>()
      if (payment === null) throw new Error(`there is no payment ${tx}`)
      await recordLoss(ctx, payment)
    },
    lapse: (coin = 'xno', roundAt = unixSeconds(ctx.database.now())) => expireInvoices(ctx, coin, roundAt),
  }
  return market
}

export function expectStatus(answer: Answer, status: number): Answer {
  if (answer.status !== status)
    throw new Error(`expected ${status}, got ${answer.status}: ${JSON.stringify(answer.json)}`)
  return answer
}

/** The mark of an API that served up to that time. */
export async function vouch(ctx: Context, untilMs: number): Promise<void> {
  await ctx.orders.outages.models.marks.updateOne(
    { _id: 'api' },
    { $max: { until_ms: untilMs } },
    { upsert: true },
  )
}

/** The payment is found again, confirmed. */
export async function confirm(ctx: Context, order: PlacedOrder, tx: string): Promise<void> {
  const payment = await ctx.invoices.arrivals.models.payments.findOne({ tx }).lean<PaymentRecord>()
  const invoice = await ctx.invoices.find(order.invoiceId)
  if (payment === null || invoice === undefined) throw new Error(`there is no payment ${tx}`)
  await recordPayment(
    ctx,
    foundAt(invoice, { amount: formatAmount(BigInt(payment.amount_raw), order.coin), tx }),
  )
}

/**
 * Checks all of the market's money, past the code under test:
 *
 * 1. Of each order, what was received and not given up is held for it, or is the seller's, the fee, or owed
 *    to the buyer, to the last unit, as its state says.
 * 2. Its ledger entries are steps that the table allows, one after the other, and end in its state.
 * 3. Per coin: received = owed + paid out + fees, and the ledger alone gives the same sum of what is owed.
 *
 * @returns the sums
 * @throws Error listing all that does not hold
 */
export async function checkMarket(ctx: Context): Promise<Record<Coin, Sums>> {
  const { entries, orders, invoices, payments, payouts } = await readMarket(ctx)
  const faults: string[] = []
  const sums: Record<Coin, Sums> = { xno: noSums(), xmr: noSums() }
  for (const order of orders) {
    const own = payouts.get(order._id) ?? []
    const money = readMoney(order, payments.get(order._id) ?? [], own)
    faults.push(
      ...checkOrder(order, money, invoices.get(order.invoice_id), own),
      ...checkSteps(order, entries.get(order._id) ?? []),
    )
    const sum = sums[order.coin]
    sum.received += money.received
    sum.fees += money.fee
    sum.paidOut += money.paidOut
    sum.owed += money.held + money.unpaid
  }
  let owed: Owed = NOTHING_OWED
  for (const entry of [...entries.values()].flat()) owed = addToOwed(owed, { _id: 0, ...entry })
  for (const coin of COINS) {
    const { received, fees, paidOut, owed: due } = sums[coin]
    if (received !== due + paidOut + fees)
      faults.push(`${coin}: received ${received} is not owed ${due} + paid out ${paidOut} + fees ${fees}`)
    if (owed[coin] !== due) faults.push(`${coin}: by the ledger ${owed[coin]} is owed, by the records ${due}`)
  }
  const differences = await findOwedDifferences(ctx)
  for (const coin of COINS)
    for (const [name, gap] of Object.entries(differences[coin]))
      faults.push(`${coin}: ledger and journal differ about ${name} by ${gap}`)
  if (faults.length > 0) throw new Error(`the market does not add up:\n${faults.join('\n')}`)
  return sums
}

export interface Sums {
  received: bigint
  owed: bigint
  paidOut: bigint
  fees: bigint
}

const noSums = (): Sums => ({ received: 0n, owed: 0n, paidOut: 0n, fees: 0n })
const total = (of: readonly { amount_raw: string }[]): bigint =>
  of.reduce((sum, { amount_raw: amount }) => sum + BigInt(amount), 0n)

function readMarket({ database: { connection } }: Context) {
  return atOneMoment(connection, async (session) => {
    const read = <Stored extends object>(name: string) =>
      connection.collection<Stored>(name).find({}, { session }).toArray()
    const ofOrder = ({ order_id: id }: PaymentRecord | PayoutRecord): string => id ?? ''
    return {
      /** By their record. */
      entries: Map.groupBy(await listAllEntries(connection, session), ({ source }) =>
        source.slice(0, source.indexOf('/')),
      ),
      orders: await read<OrderRecord>('orders'),
      invoices: new Map((await read<InvoiceRecord>('invoices')).map((invoice) => [invoice._id, invoice])),
      payments: Map.groupBy(await read<PaymentRecord>('payments'), ofOrder),
      payouts: Map.groupBy(await readPayouts(read), ofOrder),
    }
  })
}

/** As they are shown. */
async function readPayouts(read: (name: string) => Promise<unknown[]>): Promise<PayoutRecord[]> {
  const transfers = new Map(
    ((await read('transfers')) as TransferRecord[]).map((transfer) => [transfer._id, transfer]),
  )
  return ((await read('payouts')) as StoredPayout[]).map((payout) =>
    showPayout(payout, transfers.get(payout.transfer_id ?? '')),
  )
}

interface Money {
  received: bigint
  seller: bigint
  buyer: bigint
  fee: bigint
  held: bigint
  unpaid: bigint
  paidOut: bigint
}

/** What of the seller's share or of the fee remains theirs in a split. */
const splitPart = ({ split_percent: percent = 100 }: OrderRecord, raw: bigint): bigint =>
  (raw * BigInt(percent)) / 100n

function readMoney(
  order: OrderRecord,
  payments: readonly PaymentRecord[],
  payouts: readonly PayoutRecord[],
): Money {
  const standing = payouts.filter(({ state }) => state !== 'withdrawn')
  const isPaid = ({ state }: PayoutRecord): boolean => state === 'confirmed' || state === 'manual'
  const received = total(payments.filter(({ state }) => state === 'settled')) - BigInt(order.written_off_raw)
  const seller = total(standing.filter(({ agent_id: id }) => id === order.seller_id))
  const buyer = total(standing.filter(({ agent_id: id }) => id === order.buyer_id))
  const fee = order.fee_taken === true ? splitPart(order, BigInt(order.fee_raw)) : 0n
  return {
    received,
    seller,
    buyer,
    fee,
    held: received - seller - buyer - fee,
    unpaid: total(standing.filter((payout) => !isPaid(payout))),
    paidOut: total(standing.filter(isPaid)),
  }
}

function checkOrder(
  order: OrderRecord,
  money: Money,
  invoice: InvoiceRecord | undefined,
  payouts: readonly PayoutRecord[],
): string[] {
  const faults: string[] = []
  const expect = (holds: boolean, what: string): void => {
    if (!holds) faults.push(`${order._id}, ${order.status}: ${what}`)
  }
  const { received, seller, buyer, fee, held } = money
  const [amount, share] = [BigInt(order.amount_raw), BigInt(order.amount_raw) - BigInt(order.fee_raw)]
  // What is missing of the price below dust comes out of the fee.
  const asked = BigInt(invoice?.amount_raw ?? 0)
  expect(
    BigInt(order.fee_raw) === (asked * 20n) / 100n - (asked - amount),
    `the fee is ${order.fee_raw} of ${amount}`,
  )
  expect(asked - amount < dustThreshold(order.coin), `the venue bears ${asked - amount}`)
  expect(
    invoice !== undefined && BigInt(invoice.received_raw) - BigInt(order.written_off_raw) === received,
    'the invoice received something else',
  )
  expect(held >= 0n, `more was given out than the ${received} that was received`)
  const isUnpaid = order.status === 'awaiting_payment'
  expect((order.unpaid_slot !== undefined) === isUnpaid, `its unpaid slot is ${order.unpaid_slot}`)
  const due =
    order.status === 'paid' ? order.deliver_by : order.status === 'delivered' ? order.accept_by : undefined
  expect(order.due_at === due, `due at ${order.due_at}, and its deadline is ${due}`)
  const toSeller = payouts.filter(
    ({ agent_id: id, state }) => id === order.seller_id && state !== 'withdrawn',
  )
  const sellerPaid =
    toSeller.length > 0 && toSeller.every(({ state }) => state === 'confirmed' || state === 'manual')
  switch (order.status) {
    case 'awaiting_payment':
      expect(seller === 0n && buyer === 0n && fee === 0n, 'something was given out before it was paid')
      expect(received < amount, 'it was paid in full and is not paid')
      break
    case 'paid':
    case 'delivered':
      expect(seller === 0n && fee === 0n, 'the seller or the venue has something')
      expect(held === amount, `${held} of ${amount} is held`)
      break
    case 'disputed':
      if (order.disputed_by === 'buyer')
        expect(seller === 0n && fee === 0n && held >= amount, 'the price is not held')
      else
        expect(
          payouts.every(({ state, frozen }) => state !== 'owed' || frozen === true),
          'a payout could go out',
        )
      break
    case 'released':
    case 'paid_out':
      expect(
        seller === splitPart(order, share) && fee === splitPart(order, BigInt(order.fee_raw)),
        `the seller has ${seller} of ${share}, the venue ${fee}`,
      )
      expect(held === 0n, `nobody is owed ${held}`)
      expect(sellerPaid === (order.status === 'paid_out'), 'the state says something else of the payout')
      break
    case 'refunded':
    case 'expired':
      expect(
        seller === 0n && fee === 0n && buyer === received,
        `the buyer has ${buyer} of ${received}, the seller ${seller}, the venue ${fee}`,
      )
      break
  }
  if (order.status !== 'disputed')
    expect(
      payouts.every(({ frozen }) => frozen !== true),
      'a payout is frozen',
    )
  expect(
    payouts.every(
      ({ state, address, agent_id: id }) =>
        state === 'withdrawn' ||
        address === (id === order.buyer_id ? order.refund_address : order.payout_address),
    ),
    'a payout has another address',
  )
  return faults
}

/** The order's steps as the ledger tells them, in the order of its changes. */
function checkSteps(order: OrderRecord, entries: readonly PendingEntry[]): string[] {
  const steps = entries
    .filter(({ data }) => typeof data['status'] === 'string')
    .map(({ source, data }) => ({
      version: Number(source.slice(source.lastIndexOf('/') + 1)),
      step: String(data['step']),
      status: String(data['status']),
    }))
    .sort((a, b) => a.version - b.version)
  const faults: string[] = []
  let status = ''
  for (const [place, { step, status: to }] of steps.entries()) {
    if (place === 0) {
      if (step !== 'ordered') faults.push(`${order._id}: its first entry is ${step}`)
    } else {
      const rule = ORDER_STEPS[step as OrderStep] as (typeof ORDER_STEPS)[OrderStep] | undefined
      if (rule === undefined || !(rule.from as readonly string[]).includes(status) || rule.to !== to)
        faults.push(`${order._id}: ${step} led from ${status} to ${to}`)
    }
    status = to
  }
  if (status !== order.status) faults.push(`${order._id} is ${order.status}, and the ledger says ${status}`)
  return faults
}
