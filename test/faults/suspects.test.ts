import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { makeOffer } from '../../shared/market/offer-service.ts'
import type { OrderRecord } from '../../shared/market/order.ts'
import { actOnDeadline } from '../../shared/market/order-deadlines.ts'
import { placeOrder } from '../../shared/market/order-placing.ts'
import { acceptDelivery, deliverOrder, setRefundAddress } from '../../shared/market/order-service.ts'
import { markPaidByHand, markPartPaid } from '../../shared/money/payout-service.ts'
import { MINUTE_MS } from '../../shared/platform/time.ts'
import { startPool } from '../../workers/pool.ts'
import { newTx, setRate } from '../support/coins.ts'
import { takeBackup } from '../support/ledger.ts'
import { checkMarket, vouch } from '../support/market.ts'
import { checkBooksAfterEach } from '../support/money.ts'
import { nanoChain, openNanoVenue, signAndPublish, strangerAddress, XNO } from '../support/nano-venue.ts'
import type { NanoVenue } from '../support/nano-venue.ts'
import { fillNanoPool, sendNano, sweepNano, watchNano } from '../support/nano-jobs.ts'
import { runCommand, runVerb } from '../support/run-verb.ts'
import { withSigning } from '../support/signing.ts'

/** Each order is of 10 XNO: 8 for its seller. */
const PRICE_RAW = 10n * XNO
const SHARE_RAW = 8n * XNO

let venue: NanoVenue
let pool: ReturnType<typeof startPool>

beforeAll(async () => {
  venue = await openNanoVenue()
})
beforeEach(begin)
afterEach(() => pool.close())
checkBooksAfterEach(
  () => venue.ctx,
  () => nanoChain(venue),
)
afterAll(() => venue.stop())

async function begin(): Promise<void> {
  await venue.reset()
  pool = startWorkers()
  venue.pay(venue.wallet.treasury, 50n * XNO)
  await sweepNano(venue.ctx)
}

const operator = async (...argv: string[]) => {
  const { exitCode, json } = await runVerb(venue.env, argv, () => venue.ctx.now())
  return { exitCode, json }
}
const text = async (...argv: string[]) => JSON.stringify((await operator(...argv)).json)
const arrived = (address: string) => venue.holds(address).receivableRaw
const statusOf = async ({ _id }: OrderRecord) => (await venue.ctx.orders.find(_id))?.status
const halted = async () => (await venue.ctx.coins.findCoin('xno'))?.halted
const owedOf = async ({ _id }: OrderRecord) =>
  (await venue.ctx.payouts.listByOrder(_id)).filter(({ state }) => state === 'owed' || state === 'held')
const work = async () => {
  await watchNano(venue.ctx)
  await fillNanoPool(venue.ctx)
  await sweepNano(venue.ctx)
  await sendNano(venue.ctx)
}

/** A paid order, delivered if it says so. */
async function sell({ seller, payTo = strangerAddress(), refundTo, isDelivered = true }: Sale = {}) {
  const { ctx } = venue
  const [sellerId, buyer] = [seller ?? (await venue.addAgent()), await venue.addAgent()]
  const terms = { title: 'A translation', description: 'Into Esperanto', price_usd: 10, delivery_hours: 1 }
  const offer = await makeOffer(ctx, sellerId, { ...terms, payout_addresses: { xno: payTo } })
  const refund = refundTo === undefined ? {} : { refund_address: refundTo }
  const { order, invoice } = await placeOrder(ctx, buyer, { offer_id: offer._id, ...refund })
  venue.pay(invoice, PRICE_RAW)
  await watchNano(ctx)
  if (isDelivered) await deliverOrder(ctx, sellerId, { order_id: order._id, delivery: 'Saluton' })
  return order
}
interface Sale {
  seller?: string
  payTo?: string
  refundTo?: string
  isDelivered?: boolean
}
const accept = ({ _id, buyer_id: buyer }: OrderRecord) => acceptDelivery(venue.ctx, buyer, { order_id: _id })
/** Lets the delivery deadline pass. */
async function miss(order: OrderRecord): Promise<void> {
  const { due_at: dueAt = 0 } = (await venue.ctx.orders.find(order._id)) ?? {}
  venue.advance(Math.max(0, dueAt * 1_000 - venue.ctx.now()) + 60_000)
  await vouch(venue.ctx, venue.ctx.now())
  await setRate(venue.ctx, 'xno', '1')
  await actOnDeadline(venue.ctx, dueAt)
}
const startWorkers = () => startPool(withSigning(venue.ctx), ['check-nano', 'reconcile-nano'])

/** Puts the backup in place while no worker runs, lets one find what the backup lacks, and reconciles. */
async function restoreAndReconcile(restore: () => Promise<void>) {
  await pool.close()
  await restore()
  pool = startWorkers()
  await setRate(venue.ctx, 'xno', '1')
  await work()
  expect((await halted())?.reason).toContain('which the database does not know')
  const { exitCode, json } = await operator('reconcile', 'xno')
  expect([exitCode, await halted()]).toEqual([0, undefined])
  return json['sends'] as { tx: string; to: string[] }[]
}

describe('a send that a restored database does not know', () => {
  it('is not accounted for while an order of which it paid a side is disputed, or owes that side', async () => {
    const order = await sell()
    const seller = order.payout_address
    const restore = await takeBackup(venue.ctx)
    await accept(order)
    await work()
    expect(arrived(seller)).toBe(SHARE_RAW)
    const [{ tx } = { tx: '' }] = await restoreAndReconcile(restore)
    expect(await statusOf(order)).toBe('disputed')
    expect(await text('reconcile', 'xno', '--dry-run')).toContain(
      `"undecided":[{"tx":"${tx}","order_ids":["${order._id}"],"payout_ids":[]}]`,
    )
    const env = { ...venue.env, DATA_DIR: '/nonexistent' }
    const printed = (await runCommand(env, ['reconcile', 'xno', '--dry-run'])).stdout
    expect(printed).toContain(`it may have paid a side of the order ${order._id}`)
    const dry = await runCommand(env, ['dispute', order._id, 'release', '--dry-run'])
    expect(dry.stdout).toContain(`${tx} has paid this side: it sent 8 xno to the address of the seller`)
    expect(await text('disputes')).toContain(`{"side":"seller","tx_hash":"${tx}"}`)
    const refused = await operator('reconcile', 'xno', '--explained', tx)
    expect(refused).toMatchObject({ exitCode: 1, json: { error: 'wrong_state' } })
    expect(refused.json['message']).toContain(order._id)

    expect(await operator('dispute', order._id, 'release', '--dry-run')).toMatchObject({ exitCode: 0 })
    expect(await operator('dispute', order._id, 'release')).toMatchObject({ exitCode: 0 })
    await work()
    const [payout] = await owedOf(order)
    expect([payout?.state, arrived(seller)]).toEqual(['held', SHARE_RAW])
    const again = await operator('reconcile', 'xno', '--explained', tx)
    expect(again.json['message']).toContain(`payout-paid ${payout?._id} ${tx}`)
    expect(await operator('payout-paid', payout?._id ?? '', tx)).toMatchObject({ exitCode: 0 })
    expect(await operator('reconcile', 'xno', '--explained', tx)).toMatchObject({ exitCode: 0 })
    await work()
    expect([await statusOf(order), arrived(seller)]).toEqual(['paid_out', SHARE_RAW])
    await checkMarket(venue.ctx)
  })

  it('and paid a part of what is owed splits nothing if another payout was recorded with it meanwhile', async () => {
    const refundTo = strangerAddress()
    const order = await sell({ refundTo, isDelivered: false })
    await miss(order)
    const [whole] = await owedOf(order)
    const other = await venue.owe(XNO, refundTo)
    const [tx, sentRaw] = [newTx(), 3n * XNO]
    expect(await markPaidByHand(venue.ctx, other._id, tx, { sentRaw })).toBe(true)
    // What was left of it when the command looked.
    const part = markPartPaid(venue.ctx, whole?._id ?? '', tx, { paidRaw: sentRaw, sentRaw })
    await expect(part).rejects.toThrow('less than the 4')
    expect(await owedOf(order)).toMatchObject([{ state: 'owed' }])
  })

  it('lets go on only what it alone disputes: an order that a second one may have paid waits for both', async () => {
    const order = await sell()
    const send = () => signAndPublish(venue, 0, { sendTo: strangerAddress(), amountRaw: XNO / 10n })
    const first = await send()
    await work()
    await operator('reconcile', 'xno')
    const second = await send()
    await work()
    await operator('reconcile', 'xno')
    await operator('reconcile', 'xno', '--explained', first)
    expect(await statusOf(order)).toBe('disputed')
    await operator('reconcile', 'xno', '--explained', second)
    expect(await statusOf(order)).toBe('delivered')
    await checkMarket(venue.ctx)
  })

  it('that a recorded payout accounts for in full lets the other orders of the same payee go on', async () => {
    const [seller, payTo] = [await venue.addAgent(), strangerAddress()]
    const [one, other] = [await sell({ seller, payTo }), await sell({ seller, payTo })]
    const restore = await takeBackup(venue.ctx)
    await accept(one)
    await work()
    const [{ tx } = { tx: '' }] = await restoreAndReconcile(restore)
    await operator('dispute', one._id, 'release')
    const [payout] = await owedOf(one)
    await operator('payout-paid', payout?._id ?? '', tx)
    expect(await operator('reconcile', 'xno', '--explained', tx)).toMatchObject({ exitCode: 0 })
    expect(await statusOf(other)).toBe('delivered')
    await accept(other)
    await work()
    expect([arrived(payTo), await statusOf(other)]).toEqual([2n * SHARE_RAW, 'paid_out'])
    await checkMarket(venue.ctx)
  })

  it('holds what a buyer is owed who names the address only later that it paid', async () => {
    const buyer = strangerAddress()
    const order = await sell({ isDelivered: false })
    const restore = await takeBackup(venue.ctx)
    await setRefundAddress(venue.ctx, order.buyer_id, { order_id: order._id, address: buyer })
    await miss(order)
    await work()
    expect(arrived(buyer)).toBe(PRICE_RAW)
    const [{ tx } = { tx: '' }] = await restoreAndReconcile(restore)
    // The operator is mistaken: it is accounted for before the order is decided.
    expect(await operator('reconcile', 'xno', '--explained', tx)).toMatchObject({ exitCode: 0 })
    expect(await statusOf(order)).toBe('paid')
    await miss(order)
    expect(await statusOf(order)).toBe('refunded')
    await setRefundAddress(venue.ctx, order.buyer_id, { order_id: order._id, address: buyer })
    await work()
    const [payout] = await owedOf(order)
    expect([payout?.state, arrived(buyer)]).toEqual(['held', PRICE_RAW])
    expect(await operator('payout-paid', payout?._id ?? '', tx)).toMatchObject({ exitCode: 0 })
    await work()
    expect(arrived(buyer)).toBe(PRICE_RAW)
    await checkMarket(venue.ctx)
  })
})

/** One of the steps that the operator is told to take, if it can be taken now. @returns whether it was */
type Step = () => Promise<boolean>

const done = async (...argv: string[]): Promise<boolean> => (await operator(...argv)).exitCode === 0
/** Of the payout that the order owes now, if it owes one. */
const about = async (order: OrderRecord, argv: (payoutId: string) => string[]): Promise<boolean> => {
  const [payout] = await owedOf(order)
  return payout !== undefined && done(...argv(payout._id))
}

interface Scenario {
  steps: Record<string, Step>
  /** What each has got once everything is decided. */
  gets: [address: string, amountRaw: bigint][]
  /** What happens by itself afterwards. */
  end?: () => Promise<void>
}

const scenarios: Record<string, () => Promise<Scenario>> = {
  async 'a seller was paid'() {
    const order = await sell()
    const restore = await takeBackup(venue.ctx)
    await accept(order)
    await work()
    const [{ tx } = { tx: '' }] = await restoreAndReconcile(restore)
    return {
      steps: {
        dispute: () => done('dispute', order._id, 'release'),
        paid: () => about(order, (id) => ['payout-paid', id, tx]),
        explained: () => done('reconcile', 'xno', '--explained', tx),
      },
      gets: [[order.payout_address, SHARE_RAW]],
    }
  },
  async 'a buyer was paid, at an address that the backup does not know'() {
    const buyer = strangerAddress()
    const order = await sell({ isDelivered: false })
    const restore = await takeBackup(venue.ctx)
    await setRefundAddress(venue.ctx, order.buyer_id, { order_id: order._id, address: buyer })
    await miss(order)
    await work()
    const [{ tx } = { tx: '' }] = await restoreAndReconcile(restore)
    return {
      steps: {
        dispute: () => done('dispute', order._id, 'refund'),
        paid: () => about(order, (id) => ['payout-paid', id, tx, '--address', buyer]),
        explained: () => done('reconcile', 'xno', '--explained', tx),
      },
      gets: [[buyer, PRICE_RAW]],
      async end() {
        if ((await statusOf(order)) === 'paid') await miss(order)
        await setRefundAddress(venue.ctx, order.buyer_id, { order_id: order._id, address: buyer }).catch(
          () => undefined,
        )
      },
    }
  },
  async 'one of two orders of a seller was paid, and the other was not'() {
    const [seller, payTo] = [await venue.addAgent(), strangerAddress()]
    const [one, other] = [await sell({ seller, payTo }), await sell({ seller, payTo })]
    const restore = await takeBackup(venue.ctx)
    await accept(one)
    await work()
    const [{ tx } = { tx: '' }] = await restoreAndReconcile(restore)
    return {
      steps: {
        dispute: () => done('dispute', one._id, 'release'),
        disputeOther: () => done('dispute', other._id, 'release'),
        paid: () => about(one, (id) => ['payout-paid', id, tx]),
        owed: () => about(other, (id) => ['reconcile', 'xno', '--owed', id]),
        explained: () => done('reconcile', 'xno', '--explained', tx),
      },
      gets: [[payTo, 2n * SHARE_RAW]],
      // What was decided for the first alone lets the other one go on.
      async end() {
        if ((await statusOf(other)) === 'delivered') await accept(other)
        await about(other, (id) => ['reconcile', 'xno', '--owed', id])
      },
    }
  },
}

function* permutations<T>(items: readonly T[]): Generator<T[]> {
  if (items.length === 0) yield []
  for (const [place, item] of items.entries())
    for (const rest of permutations(items.toSpliced(place, 1))) yield [item, ...rest]
}

// Each plays every order of its steps, up to 120, and arranges what they are about anew for each, some 7 s.
const ALL_ORDERS_MS = 120 * MINUTE_MS

describe('the steps that a reconciliation prints', () => {
  it.each(Object.entries(scenarios))(
    'pay no side twice, in whatever order they are taken: %s',
    async (_, make) => {
      const names = Object.keys((await make()).steps)
      for (const order of permutations(names)) {
        await pool.close()
        await begin()
        const { steps, gets, end } = await make()
        const seen: string[] = []
        // What was refused is tried again after the others, as an operator would.
        for (let left = order, round = 0; left.length > 0 && round < order.length; round++) {
          const refused: string[] = []
          for (const name of left) {
            const isDone = (await steps[name]?.()) === true
            seen.push(isDone ? name : `${name} refused`)
            if (!isDone) refused.push(name)
            await work()
          }
          left = refused
        }
        await end?.()
        for (let round = 0; round < 2; round++) await work()
        const got = gets.map(([address]) => [address, arrived(address)])
        expect(got, seen.join(', ')).toEqual(gets)
        expect(await halted()).toBeUndefined()
        await checkMarket(venue.ctx)
      }
    },
    ALL_ORDERS_MS,
  )
})
