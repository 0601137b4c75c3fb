import { afterAll, beforeAll, expect, it } from 'vitest'
import { newId } from '../../shared/platform/ids.ts'
import type { PaymentRecord } from '../../shared/money/arrival.ts'
import { paymentLine, payoutLine, type JournalLine } from '../../shared/money/journal.ts'
import { paymentEntry } from '../../shared/money/arrival-steps.ts'
import type { StoredPayout } from '../../shared/money/payout.ts'
import { newTx, pay } from '../support/coins.ts'
import { ADDRESSES, startMarket, type TestMarket } from '../support/market.ts'
import { checkBooksAfterEach } from '../support/money.ts'
import { tellArrivals } from '../support/told-chain.ts'

/** Well above what may be read for one of them. */
const CRUMBS = 10_000
const CRUMB = '0.000001'
const MOST_READ = 1_000
let market: TestMarket
beforeAll(async () => {
  market = await startMarket({ queues: [] })
})
checkBooksAfterEach(() => market.ctx)
afterAll(() => market.stop())

const enter = (lines: readonly JournalLine[]): Promise<void> =>
  market.ctx.database.transaction((session) => market.ctx.journal.write(lines, session))

/** As if so many crumbs had been paid; the last of them really was. */
async function payCrumbs(invoiceId: string): Promise<void> {
  const { invoices } = market.ctx.invoices.models
  const { payments } = market.ctx.invoices.arrivals.models
  await pay(market.ctx, invoiceId, { amount: CRUMB })
  const [one] = await payments.find({ invoice_id: invoiceId }).lean<PaymentRecord[]>()
  if (one === undefined) throw new Error('it was not paid')
  const { pending: _none, ...crumb } = one
  const others = Array.from({ length: CRUMBS - 1 }, () => {
    const other = { ...crumb, _id: newId('payment'), tx: newTx() }
    return { ...other, pending: [paymentEntry(other, other.first_seen_at)] }
  })
  await payments.collection.insertMany(others as object[])
  await enter(others.flatMap((other) => paymentLine(other, 'received', other.first_seen_at)))
  tellArrivals(market.ctx, others)
  const { days } = (await market.ctx.invoices.find(invoiceId)) ?? {}
  const receivedRaw = BigInt(crumb.amount_raw) * BigInt(CRUMBS)
  const unspent = days === undefined ? {} : { unspent: String(receivedRaw * BigInt(days)) }
  await invoices.updateOne({ _id: invoiceId }, { $set: { received_raw: String(receivedRaw), ...unspent } })
}

/** Documents and keys of payments and payouts that MongoDB read for it. */
async function countRead(work: () => Promise<unknown>): Promise<number> {
  const { db } = market.ctx.database.connection
  if (db === undefined) throw new Error('there is no database')
  await db.command({ profile: 2 })
  await work()
  await db.command({ profile: 0 })
  const read = await db
    .collection('system.profile')
    .find({ ns: { $in: ['payments', 'payouts'].map((name) => `${db.databaseName}.${name}`) } })
    .toArray()
  await db.collection('system.profile').drop()
  return read.reduce(
    (sum, { docsExamined = 0, keysExamined = 0 }) => sum + Number(docsExamined) + Number(keysExamined),
    0,
  )
}

it('an invoice that was paid in thousands of crumbs is checked by reading and showing a few of them', async () => {
  const agent = await market.register()
  const { json } = await market.call('POST', '/invoice', {
    token: agent.token,
    body: { currency: 'xno', days: 1 },
  })
  const body = { invoice_id: json['invoice_id'] }
  await payCrumbs(String(body.invoice_id))
  let checked: Awaited<ReturnType<typeof market.call>> | undefined
  const read = await countRead(
    async () => void (checked = await market.call('POST', '/invoice/check', { token: agent.token, body })),
  )
  expect(read).toBeLessThan(MOST_READ)
  expect((checked?.json['payments'] as unknown[]).length).toBe(200)
  expect(checked?.json).toMatchObject({
    status: 'underpaid',
    paid: String(CRUMBS / 1e6),
    payments_truncated: true,
  })
  await expect(
    countRead(() => pay(market.ctx, String(body.invoice_id), { amount: CRUMB })),
  ).resolves.toBeLessThan(MOST_READ)
})

it('an order of which thousands of crumbs are owed to its buyer is shown with a few of them', async () => {
  const order = await market.paidOrder({ currency: 'xno' })
  await market.payPercent(order, 1)
  const { payouts } = market.ctx.payouts.models
  const one = await payouts.findOne({ order_id: order.id }).lean<StoredPayout>()
  if (one === null) throw new Error('nothing is owed')
  const others = Array.from({ length: CRUMBS }, () => ({
    ...one,
    pending: [],
    _id: newId('payout'),
    source: newTx(),
  }))
  await payouts.collection.insertMany(others as object[])
  await enter(others.flatMap((other) => payoutLine(other, 'owed', other.at)))
  await expect(countRead(() => market.read(order))).resolves.toBeLessThan(MOST_READ)
  const shown = await market.read(order)
  expect([shown.payouts.length, shown['payouts_truncated']]).toEqual([200, true])
})

it('an order that was paid in thousands of crumbs is paid and ends without reading all of them', async () => {
  const order = await market.order({ currency: 'xno', refund_address: ADDRESSES.xno })
  await payCrumbs(order.invoiceId)
  await expect(countRead(() => pay(market.ctx, order.invoiceId, { amount: CRUMB }))).resolves.toBeLessThan(
    MOST_READ,
  )
  await market.letPass(2 * 3_600_000)
  await expect(countRead(() => market.lapse())).resolves.toBeLessThan(MOST_READ)
  expect((await market.read(order)).status).toBe('expired')
})
