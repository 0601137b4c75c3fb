import { describe, expect, it } from 'vitest'
import type { Ruling } from '../../shared/market/dispute-rules.ts'
import { decideDispute, undoDecision } from '../../shared/market/dispute-service.ts'
import { deliverOrder, disputeOrder } from '../../shared/market/order-service.ts'
import type { OrderRecord } from '../../shared/market/order.ts'
import type { NanoContext } from '../../shared/money/coins/nano/nano-gateway.ts'
import { markPaidByHand, undoPaidByHand } from '../../shared/money/payout-service.ts'
import type { Session } from '../../shared/platform/database.ts'
import { coinFindings } from '../../shared/operation/coin-findings.ts'
import { newTx } from '../support/coins.ts'
import { checkMarket } from '../support/market.ts'
import { sendNano, sweepNano, watchNano } from '../support/nano-jobs.ts'
import { strangerAddress, useNanoVenue, XNO, type NanoVenue } from '../support/nano-venue.ts'

const HOLD_MS = 600_000
let venue: NanoVenue
useNanoVenue((opened) => (venue = opened))

/** The price of an order here, and what of it a release gives to the seller. */
const [PRICE, SHARE] = [10n * XNO, 8n * XNO]
const EXCESS = 7n

/** A paid and disputed order, whose money the treasury has. `EXCESS` was paid beyond its price. */
async function disputedOrder(): Promise<OrderRecord> {
  const { order, invoice } = await venue.order()
  venue.pay(invoice, PRICE + EXCESS)
  await watchNano(venue.ctx)
  await sweepNano(venue.ctx)
  await deliverOrder(venue.ctx, order.seller_id, { order_id: order._id, delivery: 'Saluton' })
  await disputeOrder(venue.ctx, order.buyer_id, { order_id: order._id, reason: 'It is empty.' })
  return order
}
const holding = (): NanoContext => ({
  ...venue.ctx,
  config: { ...venue.ctx.config, disputeHoldMs: HOLD_MS },
})
const statusOf = async ({ _id }: OrderRecord) => (await venue.ctx.orders.find(_id))?.status
/** What the two sides were sent. */
const arrived = ({ payout_address: seller, refund_address: buyer = '' }: OrderRecord) =>
  [seller, buyer].map((address) => venue.holds(address).receivableRaw)
const payoutTo = async ({ _id, seller_id: sellerId }: OrderRecord) => {
  const all = await venue.ctx.payouts.listByOrder(_id)
  const payout = all.find(({ agent_id: id, state }) => id === sellerId && state !== 'withdrawn')
  if (payout === undefined) throw new Error('the seller is owed nothing')
  return payout
}

describe('what a decision owes', () => {
  it('is kept back for some minutes, alone, and is then sent by the ordinary round', async () => {
    const order = await disputedOrder()
    await decideDispute(holding(), order._id, 'release')
    const stranger = strangerAddress()
    await venue.owe(XNO / 2n, stranger)
    await sendNano(venue.ctx)
    expect([arrived(order), venue.holds(stranger).receivableRaw]).toEqual([[0n, 0n], XNO / 2n])
    venue.advance(HOLD_MS / 2)
    await sendNano(venue.ctx)
    expect(arrived(order)[0]).toBe(0n)
    venue.advance(HOLD_MS / 2)
    await sendNano(venue.ctx)
    expect([arrived(order)[0], await statusOf(order)]).toEqual([SHARE, 'paid_out'])
  })

  it('is no finding while it waits, and is due from the end of that on', async () => {
    const order = await disputedOrder()
    const [hour, ctx] = [3_600_000, holding()]
    await decideDispute({ ...ctx, config: { ...ctx.config, disputeHoldMs: 2 * hour } }, order._id, 'release')
    const found = async () =>
      (await coinFindings.read(venue.ctx)).flatMap((finding) =>
        finding?.kind.startsWith('payout') === true ? [finding.kind] : [],
      )
    expect(await found()).toEqual([])
    venue.advance(2 * hour)
    expect(await found()).toEqual([])
    venue.advance(hour + 1_000)
    expect(await found()).toEqual(['payout_due'])
    await sendNano(venue.ctx)
    expect(arrived(order)[0]).toBe(SHARE)
  })

  it('is sent at once if no minutes are set', async () => {
    const order = await disputedOrder()
    await decideDispute(venue.ctx, order._id, 'refund')
    await sendNano(venue.ctx)
    expect(arrived(order)).toEqual([0n, PRICE + EXCESS])
  })

  // holds: rules.market.steps.dispute_split
  it('of a split reaches both sides to the last raw, and ends the order', async () => {
    const order = await disputedOrder()
    const { sellerRaw, buyerRaw, feeRaw } = await decideDispute(venue.ctx, order._id, { percent: 37 })
    expect(sellerRaw + buyerRaw + feeRaw).toBe(PRICE + EXCESS)
    await sendNano(venue.ctx)
    expect(arrived(order)).toEqual([(SHARE * 37n) / 100n, buyerRaw])
    expect(await statusOf(order)).toBe('paid_out')
    await checkMarket(venue.ctx)
  })
})

describe('a decision that is taken back', () => {
  // holds: rules.market.steps.dispute_undone
  it('pays nobody, and the next one pays its side once', async () => {
    const order = await disputedOrder()
    for (const wrong of ['release', { percent: 60 }, 'release'] as const) {
      await decideDispute(holding(), order._id, wrong)
      await sendNano(venue.ctx)
      await undoDecision(venue.ctx, order._id)
      expect(await statusOf(order)).toBe('disputed')
      await checkMarket(venue.ctx)
    }
    await decideDispute(holding(), order._id, 'refund')
    venue.advance(HOLD_MS)
    await sendNano(venue.ctx)
    await sendNano(venue.ctx)
    expect([arrived(order), await statusOf(order)]).toEqual([[0n, PRICE + EXCESS], 'refunded'])
    await checkMarket(venue.ctx)
  })

  it('stands once a payout of it is signed, though that comes in the moment in which it is taken back', async () => {
    const order = await disputedOrder()
    await decideDispute(venue.ctx, order._id, 'refund')
    const { payouts } = venue.ctx
    let tries = 0
    const move: typeof payouts.move = async (...step) => {
      // The transaction reads as of its first look, so it does not see this.
      if (tries++ === 0) await sendNano(venue.ctx)
      return payouts.move(...step)
    }
    const late = { ...venue.ctx, payouts: { ...payouts, move } }
    await expect(undoDecision(late, order._id)).rejects.toMatchObject({
      code: 'wrong_state',
      message: expect.stringContaining('so the decision stands') as string,
    })
    expect([tries, arrived(order), await statusOf(order)]).toEqual([1, [0n, PRICE + EXCESS], 'refunded'])
    await checkMarket(venue.ctx)
  })

  it('has to be no longer on record as paid by hand', async () => {
    const order = await disputedOrder()
    await decideDispute(holding(), order._id, 'release')
    const { _id } = await payoutTo(order)
    expect(await markPaidByHand(venue.ctx, _id, newTx())).toBe(true)
    expect(await statusOf(order)).toBe('paid_out')
    await expect(undoDecision(venue.ctx, order._id)).rejects.toThrow(`"payout-paid --undo ${_id}"`)
    await undoPaidByHand(venue.ctx, _id)
    await undoDecision(venue.ctx, order._id)
    expect(await statusOf(order)).toBe('disputed')
    await checkMarket(venue.ctx)
  })

  it('like each decision is there as a whole or not at all if its process dies', async () => {
    class Death extends Error {}
    const dying = (isCommitted: boolean): NanoContext => ({
      ...venue.ctx,
      database: {
        ...venue.ctx.database,
        async transaction<T>(work: (session: Session) => Promise<T>): Promise<T> {
          await venue.ctx.database.transaction(async (session) => {
            await work(session)
            if (!isCommitted) throw new Death()
          })
          throw new Death()
        },
      },
    })
    const order = await disputedOrder()
    const steps: [string, (ctx: NanoContext) => Promise<unknown>][] = [
      ...(['release', 'refund', { percent: 12 }] satisfies Ruling[]).flatMap(
        (ruling): [string, (ctx: NanoContext) => Promise<unknown>][] => [
          [ruling === 'refund' ? 'refunded' : 'released', (ctx) => decideDispute(ctx, order._id, ruling)],
          ['disputed', (ctx) => undoDecision(ctx, order._id)],
        ],
      ),
    ]
    let before = 'disputed'
    for (const [status, step] of steps) {
      await expect(step(dying(false))).rejects.toBeInstanceOf(Death)
      expect(await statusOf(order)).toBe(before)
      await checkMarket(venue.ctx)
      await expect(step(dying(true))).rejects.toBeInstanceOf(Death)
      expect(await statusOf(order)).toBe(status)
      await checkMarket(venue.ctx)
      before = status
    }
  })
})
