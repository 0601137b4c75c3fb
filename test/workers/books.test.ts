import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { compareBooks } from '../../shared/payments/books.ts'
import { fillNanoPool } from '../../shared/payments/nano/nano-pool.ts'
import { nanoDriver } from '../../shared/payments/nano/nano-driver.ts'
import { reconcileNano } from '../../shared/payments/nano/nano-reconcile.ts'
import { sendNano } from '../../shared/payments/nano/nano-send.ts'
import { sweepNano } from '../../shared/payments/nano/nano-sweep.ts'
import { watchNano } from '../../shared/payments/nano/nano-watch.ts'
import { markPaidByHand, undoPaidByHand } from '../../shared/payments/payout-service.ts'
import { recordPayment } from '../../shared/payments/settlement.ts'
import { foundAt, newTx } from '../support/coins.ts'
import { checkBooksAfterEach } from '../support/money.ts'
import { DAY_RAW, heldByLedger, openNanoVenue, signAndPublish, strangerAddress, XNO, type NanoVenue } from '../support/nano-venue.ts'

let venue: NanoVenue
beforeAll(async () => {
  venue = await openNanoVenue()
})
beforeEach(() => venue.reset())
checkBooksAfterEach(
  () => venue.ctx,
  () => heldByLedger(venue),
)
afterAll(() => venue.stop())

const balances = () => venue.ctx.journal.balances('xno')
/** What the books lack of the chain, looked at now. */
async function gap(): Promise<string | undefined> {
  venue.advance(31_000)
  await watchNano(venue.ctx)
  await fillNanoPool(venue.ctx)
  await compareBooks(venue.ctx, nanoDriver(venue.ctx))
  return (await venue.ctx.coins.findCoin('xno'))?.gap_raw
}
const round = async () => {
  await watchNano(venue.ctx)
  await sweepNano(venue.ctx)
}

describe('the books and the chain', () => {
  it('agree at each step of a payment: at its address, on its way, in the treasury, and paid out', async () => {
    expect(await gap()).toBe('0')
    const invoice = await venue.invoice(2)
    venue.pay(invoice, 2n * DAY_RAW + 5n)
    expect(await gap()).toBe('0')
    expect(await venue.ctx.journal.held('xno')).toBe(2n * DAY_RAW + 5n)
    await sweepNano(venue.ctx)
    expect(await gap()).toBe('0')
    await venue.owe(XNO, strangerAddress())
    expect(await gap()).toBe('0')
    await sendNano(venue.ctx)
    expect(await gap()).toBe('0')
    expect(await venue.ctx.journal.held('xno')).toBe(DAY_RAW + 5n)
  })

  it('agree while a payout of ours is published and not known to be', async () => {
    venue.node.fund(venue.wallet.treasury.address, 3n * XNO, { confirmed: true })
    await round()
    expect(await gap()).toBe('0')
    await venue.owe(XNO, strangerAddress())
    await sendNano(venue.ctx)
    const { transfers } = venue.ctx.payouts.models
    const sent = await transfers.findOne({ kind: 'payout' }).lean()
    expect(sent?.state).toBe('confirmed')
    // As it is after a death between the block and the record of it.
    await venue.ctx.journal.models.journal.deleteMany({ transfer_id: String(sent?._id) })
    await transfers.updateOne({ _id: String(sent?._id) }, { $set: { state: 'sent' } })
    expect(await gap()).toBe('0')
  })

  it('differ by what somebody took out of the treasury, until it is on record as taken by the operator', async () => {
    venue.node.fund(venue.wallet.treasury.address, 5n * XNO, { confirmed: true })
    await round()
    expect(await gap()).toBe('0')
    expect((await balances()).get('operator')).toBe(5n * XNO)
    await signAndPublish(venue, 0, { sendTo: strangerAddress(), amountRaw: 2n * XNO })
    expect(await gap()).toBe(String(-2n * XNO))
    await reconcileNano(venue.ctx)
    expect(await gap()).toBe('0')
    expect((await balances()).get('operator')).toBe(3n * XNO)
  })

  it('differ by a payment that was recorded by hand and is not in the chain', async () => {
    expect(await gap()).toBe('0')
    const invoice = await venue.invoice(1)
    await recordPayment(venue.ctx, { ...foundAt(invoice, { amount: '1' }), tx: newTx() }, 'operator')
    expect(await gap()).toBe(String(-XNO))
  })

  it('agree whether a payout by hand came from the treasury or from elsewhere, and after it is undone', async () => {
    venue.node.fund(venue.wallet.treasury.address, 5n * XNO, { confirmed: true })
    await round()
    const elsewhere = await venue.owe(XNO, strangerAddress())
    await markPaidByHand(venue.ctx, elsewhere._id, newTx())
    expect(await gap()).toBe('0')
    const address = strangerAddress()
    const { _id: id } = await venue.owe(XNO, address)
    const tx = await signAndPublish(venue, 0, { sendTo: address, amountRaw: XNO })
    await markPaidByHand(venue.ctx, id, tx)
    await reconcileNano(venue.ctx)
    expect(await gap()).toBe('0')
    expect((await balances()).get('operator')).toBe(4n * XNO)
    await undoPaidByHand(venue.ctx, elsewhere._id)
    expect(await gap()).toBe('0')
    expect((await balances()).get(`owed:${elsewhere.agent_id}`)).toBe(XNO)
  })

  it('agree after a reconciliation that found the sweep behind what the treasury had taken in', async () => {
    const invoice = await venue.invoice(1)
    venue.pay(invoice, DAY_RAW)
    await round()
    const { payouts, journal } = venue.ctx
    await payouts.models.transfers.deleteMany({})
    await venue.ctx.invoices.models.payments.updateMany({}, { $unset: { swept_at: 1 } })
    expect((await journal.list({}, 10)).length).toBeGreaterThan(0)
    await reconcileNano(venue.ctx)
    expect((await balances()).get('operator') ?? 0n).toBe(0n)
    expect(await gap()).toBe('0')
  })
})
