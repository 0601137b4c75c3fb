import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { acceptDelivery, deliverOrder } from '../../shared/market/order-service.ts'
import { recordArrival, recordPayment, recordUnassigned } from '../../shared/money/record-arrival.ts'
import { recordOldArrivals } from '../../shared/money/arrival-migration.ts'
import { compareBooks } from '../../shared/money/books.ts'
import { nanoDriver } from '../../shared/money/coins/nano/nano-driver.ts'
import { runChecks } from '../../shared/operation/check.ts'
import { coinFindings } from '../../shared/operation/coin-findings.ts'
import type { InvoiceRecord } from '../../shared/money/invoice.ts'
import type { Account } from '../../shared/money/journal.ts'
import { startPool } from '../../workers/pool.ts'
import { foundAt, newTx, setRate } from '../support/coins.ts'
import { FULL } from '../support/full.ts'
import {
  DAY_RAW,
  XNO,
  signAndPublish,
  strangerAddress,
  useNanoVenue,
  type NanoVenue,
} from '../support/nano-venue.ts'
import { fillNanoPool, reconcileNano, sendNano, sweepNano, watchNano } from '../support/nano-jobs.ts'
import { runVerb } from '../support/run-verb.ts'
import { withSigning } from '../support/signing.ts'

let venue: NanoVenue
let pool: ReturnType<typeof startPool>

useNanoVenue((opened) => (venue = opened))
beforeEach(() => {
  pool = startPool(withSigning(venue.ctx), ['check-nano'])
})
afterEach(() => pool.close())

const operator = async (...argv: string[]) => {
  const { exitCode, json } = await runVerb(venue.env, argv, () => venue.ctx.now())
  return { exitCode, ...json }
}
const NOBODYS = 9_000_000
/** An address of ours that no invoice has, and that money may come to, as that of a forgotten invoice. */
async function nobodysAddress(place = 0): Promise<{ index: number; address: string }> {
  const { index, address } = venue.wallet.keys.deriveAccount(NOBODYS + place)
  await venue.ctx.coins.addresses.noteUnassigned('xno', { index, address })
  return { index, address }
}
const work = async () => {
  await watchNano(venue.ctx)
  await sweepNano(venue.ctx)
}
/** Pays an address of ours that no invoice has. @returns the transaction, once it is on record */
async function stray(amountRaw: bigint, place = 0): Promise<string> {
  const tx = venue.pay(await nobodysAddress(place), amountRaw)
  await work()
  return tx
}
const balance = async (account: Account): Promise<bigint> =>
  (await venue.ctx.journal.balances('xno')).get(account) ?? 0n
async function gap(): Promise<string | undefined> {
  venue.advance(31_000)
  await setRate(venue.ctx, 'xno', '1')
  await watchNano(venue.ctx)
  await fillNanoPool(venue.ctx)
  await compareBooks(venue.ctx, nanoDriver(venue.ctx))
  return (await venue.ctx.coins.findCoin('xno'))?.gap_raw
}
const arrivals = () => venue.ctx.invoices.arrivals.models.payments.find({}).sort({ _id: 1 }).lean()
const byHand = (invoice: InvoiceRecord, tx: string, amount = '1') =>
  recordPayment(venue.ctx, foundAt(invoice, { amount, tx }), 'operator')

describe('money that comes to an address of ours', () => {
  it('is booked once, however many find it at once, and is in the treasury a round later', async () => {
    expect(await gap()).toBe('0')
    const { index, address } = await nobodysAddress()
    const tx = venue.pay({ address }, XNO)
    const found = { coin: 'xno', tx, addressIndex: index, amountRaw: XNO } as const
    const ids = await Promise.all([1, 2, 3, 4].map(() => recordUnassigned(venue.ctx, found)))
    expect(new Set(ids).size).toBe(1)
    expect(await balance('unassigned')).toBe(XNO)
    expect(await gap()).toBe('0')
    await work()
    expect(venue.holds(venue.wallet.treasury.address)).toEqual({ balanceRaw: XNO, receivableRaw: 0n })
    await work()
    expect(await arrivals()).toMatchObject([{ _id: ids[0], tx, came_to: 'unassigned' }])
    expect(await venue.ctx.invoices.arrivals.listUnswept('xno', '', 10)).toEqual([])
    expect([await balance('unassigned'), await gap()]).toEqual([XNO, '0'])
  })

  it('is a payment if an invoice has the address, and nobody’s if it is the treasury, as what a payee sends back', async () => {
    const invoice = await venue.invoice(1)
    const tx = venue.pay(invoice, DAY_RAW)
    await recordArrival(venue.ctx, foundAt(invoice, { amount: '1', tx }))
    venue.pay(venue.wallet.treasury, 2n * XNO)
    await work()
    expect(await arrivals()).toMatchObject([
      { tx, invoice_id: invoice._id, state: 'settled' },
      { came_to: 'unassigned', address_index: 0 },
    ])
    expect([await balance('unassigned'), await gap()]).toEqual([2n * XNO, '0'])
  })

  it.runIf(FULL)(
    'is our own if another program with the seed had sent it, once that is on record',
    async () => {
      await gap()
      const { index } = await nobodysAddress()
      await stray(XNO)
      const second = venue.pay(await nobodysAddress(), XNO)
      await signAndPublish(venue, index, { receive: second, amountRaw: XNO })
      await signAndPublish(venue, index, { sendTo: venue.wallet.treasury.address, amountRaw: XNO })
      await work()
      await reconcileNano(venue.ctx)
      await work()
      expect([await balance('unassigned'), await balance('operator')]).toEqual([2n * XNO, 0n])
      expect(await gap()).toBe('0')
    },
  )

  it('that the operator had recorded for an invoice is that payment, shown where it came to', async () => {
    await gap()
    const invoice = await venue.invoice(1)
    const address = await nobodysAddress()
    const tx = venue.pay(address, DAY_RAW)
    await byHand(invoice, tx)
    expect((await arrivals())[0]).not.toHaveProperty('shown_at')
    await work()
    expect(await arrivals()).toMatchObject([
      { tx, invoice_id: invoice._id, address_index: address.index, shown_at: expect.any(Number) as number },
    ])
    await work()
    expect([await balance('unassigned'), await gap()]).toEqual([0n, '0'])
    expect(venue.holds(venue.wallet.treasury.address).balanceRaw).toBe(DAY_RAW)
  })
})

describe('unassigned', () => {
  it('lists what came to nobody, with address and transaction', async () => {
    expect(await operator('unassigned')).toMatchObject({ exitCode: 0, unassigned: [], count: 0 })
    const tx = await stray(XNO)
    const { address } = await nobodysAddress()
    expect(await operator('unassigned')).toMatchObject({
      exitCode: 0,
      unassigned: [{ currency: 'xno', tx_hash: tx, amount: '1', address }],
      truncated: false,
    })
  })

  it('give counts it for an invoice, once, and --undo makes it nobody’s again', async () => {
    await gap()
    const tx = await stray(DAY_RAW)
    const invoice = await venue.invoice(1)
    // With the node there, too, it is no payment of the invoice by itself.
    expect(await operator('settle-invoice', invoice._id, tx)).toMatchObject({
      exitCode: 1,
      message: expect.stringContaining(`unassigned give ${tx} ${invoice._id}`) as string,
    })
    expect(await operator('unassigned', 'give', tx, invoice._id, '--dry-run')).toMatchObject({ exitCode: 0 })
    expect(await venue.read(invoice)).toMatchObject({ credited_days: 0 })
    const given = await operator('unassigned', 'give', tx, invoice._id)
    expect(given).toMatchObject({ exitCode: 0, amount: '1', ledger_entry: 'payment' })
    expect(await venue.read(invoice)).toMatchObject({ credited_days: 1 })
    expect([await balance('unassigned'), await gap()]).toEqual([0n, '0'])
    expect(await operator('unassigned', 'give', tx, invoice._id)).toMatchObject({ error: 'no_such_record' })
    const undone = await operator(
      'settle-invoice',
      '--undo',
      String((given as { payment_id?: unknown }).payment_id),
    )
    expect(undone).toMatchObject({ exitCode: 0 })
    expect(await venue.read(invoice)).toMatchObject({ credited_days: 0 })
    expect(await balance('unassigned')).toBe(DAY_RAW)
    expect(await operator('unassigned', 'give', tx, invoice._id)).toMatchObject({ exitCode: 0 })
    await work()
    expect([await balance('unassigned'), await gap()]).toEqual([0n, '0'])
  })

  it('give pays an order, whose payout is sent without waiting for the chain', async () => {
    const tx = await stray(12n * XNO)
    const { order } = await venue.order()
    expect(await operator('unassigned', 'give', tx, order.invoice_id)).toMatchObject({
      exitCode: 0,
      order_id: order._id,
    })
    expect((await venue.ctx.orders.find(order._id))?.status).toBe('paid')
    await work()
    await sendNano(venue.ctx)
    expect(venue.holds(order.refund_address ?? '').receivableRaw).toBe(2n * XNO)
  })

  it('give refuses late money without a rate, what is counted already, and what is not there', async () => {
    const tx = await stray(DAY_RAW)
    const invoice = await venue.invoice(1)
    venue.advance(3 * 3_600_000)
    await watchNano(venue.ctx)
    expect((await venue.read(invoice)).lapsed).toBe(true)
    expect(await operator('unassigned', 'give', tx, invoice._id)).toMatchObject({
      error: 'wrong_state',
      message: expect.stringContaining('no fresh rate') as string,
    })
    expect(await operator('unassigned', 'give', tx, 'inv_none')).toMatchObject({ error: 'no_such_invoice' })
    expect(await operator('unassigned', 'give', newTx(), invoice._id)).toMatchObject({
      error: 'no_such_record',
    })
    expect(await operator('unassigned', 'give', tx)).toMatchObject({ exitCode: 2 })
    expect(await balance('unassigned')).toBe(DAY_RAW)
    await setRate(venue.ctx, 'xno', '2')
    expect(await operator('unassigned', 'give', tx, invoice._id)).toMatchObject({ exitCode: 0 })
    // At the invoice's own price, which is the higher one.
    expect(await venue.read(invoice)).toMatchObject({ credited_days: 1 })
  })

  it('return sends it to an address, once, and it is nobody’s until it has left', async () => {
    await gap()
    const tx = await stray(XNO)
    const payer = strangerAddress()
    expect(await operator('unassigned', 'return', tx, payer, '--dry-run')).toMatchObject({ exitCode: 0 })
    const own = venue.wallet.treasury.address
    expect(await operator('unassigned', 'return', tx, own)).toMatchObject({ error: 'invalid_field' })
    expect(await operator('unassigned', 'return', tx, payer)).toMatchObject({ exitCode: 0, state: 'owed' })
    expect(await operator('unassigned', 'return', tx, payer)).toMatchObject({ error: 'no_such_record' })
    expect(await operator('unassigned')).toMatchObject({ unassigned: [] })
    expect([await balance('unassigned'), await gap()]).toEqual([XNO, '0'])
    await sendNano(venue.ctx)
    await sendNano(venue.ctx)
    expect(venue.holds(payer).receivableRaw).toBe(XNO)
    expect([await balance('unassigned'), await balance('paid'), await gap()]).toEqual([0n, XNO, '0'])
    for (const only of ['entries', 'money', 'books'] as const)
      expect((await runChecks(venue.ctx, { mends: false, only }))[0]?.faults).toEqual([])
    expect(await operator('unassigned', 'return', tx, '--undo')).toMatchObject({ error: 'wrong_state' })
  })

  it('return --undo keeps it, and it can be given or sent back after that', async () => {
    const tx = await stray(XNO)
    await operator('unassigned', 'return', tx, strangerAddress())
    expect(await operator('unassigned', 'return', tx, '--undo')).toMatchObject({
      exitCode: 0,
      state: 'withdrawn',
    })
    await sendNano(venue.ctx)
    expect(await operator('unassigned')).toMatchObject({ unassigned: [{ tx_hash: tx }] })
    const payer = strangerAddress()
    expect(await operator('unassigned', 'return', tx, payer)).toMatchObject({ exitCode: 0 })
    await sendNano(venue.ctx)
    expect(venue.holds(payer).receivableRaw).toBe(XNO)
  })

  it('lists nothing that the operator said beforehand to put in: it is the venue’s own a round after it came', async () => {
    await gap()
    expect(await operator('top-up', 'xno', '3', '--dry-run')).toMatchObject({ exitCode: 0 })
    expect(await operator('top-up', 'xno', '3')).toMatchObject({ exitCode: 0, state: 'announced' })
    expect(await operator('top-up', 'xno', '3')).toMatchObject({ error: 'wrong_state' })
    expect(await operator('top-up')).toMatchObject({
      announced: [{ currency: 'xno', amount: '3' }],
      count: 1,
    })
    // Not this sum, and not the treasury.
    venue.pay(venue.wallet.treasury, 2n * XNO)
    await stray(3n * XNO)
    await work()
    expect([await balance('unassigned'), await balance('operator')]).toEqual([5n * XNO, 0n])
    venue.pay(venue.wallet.treasury, 3n * XNO)
    venue.pay(venue.wallet.treasury, 3n * XNO)
    for (let rounds = 0; rounds < 3; rounds++) await work()
    // What was said once counts once.
    expect([await balance('unassigned'), await balance('operator')]).toEqual([8n * XNO, 3n * XNO])
    expect([await operator('top-up'), await gap()]).toMatchObject([{ announced: [], count: 0 }, '0'])
  })

  it('lists nothing that top-up names afterwards, by its transaction or a sum that came once, until --undo', async () => {
    await gap()
    const tx = venue.pay(venue.wallet.treasury, XNO)
    venue.pay(venue.wallet.treasury, 2n * XNO)
    await work()
    expect(await operator('top-up', 'xno', tx)).toMatchObject({
      exitCode: 0,
      ...{ state: 'come', amount: '1', account: 'operator' },
    })
    expect(await operator('top-up', 'xno', tx)).toMatchObject({ error: 'wrong_state' })
    expect(await operator('top-up', 'xno', '2')).toMatchObject({ state: 'come', amount: '2' })
    expect([await balance('unassigned'), await balance('operator')]).toEqual([0n, 3n * XNO])
    expect(await operator('top-up', 'xno', tx, '--undo')).toMatchObject({ account: 'unassigned' })
    venue.pay(venue.wallet.treasury, XNO)
    await work()
    expect(await operator('top-up', 'xno', '1')).toMatchObject({ error: 'wrong_state' })
    expect([await balance('unassigned'), await balance('operator')]).toEqual([2n * XNO, 2n * XNO])
    const coming = 'ab'.repeat(32)
    expect(await operator('top-up', 'xno', coming)).toMatchObject({ state: 'announced' })
    expect(await operator('top-up', 'xno', coming, '--undo')).toMatchObject({ state: 'not announced' })
    expect(await operator('top-up', 'xno', '7', '--undo')).toMatchObject({ error: 'no_such_record' })
    for (const words of [['xno'], ['xno', 'much'], ['usd', '1']])
      expect(await operator('top-up', ...words)).toMatchObject({ exitCode: 2 })
    expect(await gap()).toBe('0')
  })

  it('keep makes it the operator’s, who then can’t send it back before he takes that back', async () => {
    await gap()
    const tx = venue.pay(venue.wallet.treasury, XNO)
    await work()
    const found = async () => (await coinFindings.read(venue.ctx)).flatMap((finding) => finding?.kind ?? [])
    expect(await found()).toContain('money_unassigned')
    expect(await operator('unassigned', 'keep', tx, '--dry-run')).toMatchObject({ exitCode: 0 })
    expect(await operator('unassigned', 'keep', tx)).toMatchObject({ exitCode: 0, account: 'operator' })
    expect([await balance('unassigned'), await balance('operator')]).toEqual([0n, XNO])
    expect(await found()).not.toContain('money_unassigned')
    for (const words of [
      ['keep', tx],
      ['return', tx, strangerAddress()],
    ])
      expect(await operator('unassigned', ...words)).toMatchObject({ error: 'wrong_state' })
    expect(await operator('unassigned', 'keep', tx, '--undo')).toMatchObject({
      exitCode: 0,
      account: 'unassigned',
    })
    expect([await balance('unassigned'), await gap()]).toEqual([XNO, '0'])
    const payer = strangerAddress()
    expect(await operator('unassigned', 'return', tx, payer)).toMatchObject({ exitCode: 0 })
    await sendNano(venue.ctx)
    expect(venue.holds(payer).receivableRaw).toBe(XNO)
  })
})

describe('settle-invoice --lost', () => {
  /** An order that is released although what the operator recorded for it never came. */
  async function releasedForNothing() {
    venue.pay(venue.wallet.treasury, 20n * XNO)
    await work()
    expect(await gap()).toBe('0')
    const { order } = await venue.order()
    const tx = newTx()
    const settled = await operator('settle-invoice', order.invoice_id, '10', tx, '--unseen')
    const paymentId = String((settled as { payment_id?: unknown }).payment_id)
    await deliverOrder(venue.ctx, order.seller_id, { order_id: order._id, delivery: 'Saluton' })
    await acceptDelivery(venue.ctx, order.buyer_id, { order_id: order._id })
    await sendNano(venue.ctx)
    expect(venue.holds(order.payout_address).receivableRaw).toBe(0n)
    expect(await gap()).toBe(String(-10n * XNO))
    return { order, paymentId }
  }

  it('lets the venue bear a payment that never came: the seller is paid, and the gap is closed', async () => {
    const { order, paymentId } = await releasedForNothing()
    expect(await operator('settle-invoice', '--undo', paymentId)).toMatchObject({ error: 'wrong_state' })
    expect(await operator('settle-invoice', '--lost', paymentId, '--dry-run')).toMatchObject({ exitCode: 0 })
    expect(await gap()).toBe(String(-10n * XNO))
    expect(await operator('settle-invoice', '--lost', paymentId)).toMatchObject({
      exitCode: 0,
      ledger_entry: 'payment',
    })
    expect([await balance('lost'), await gap()]).toEqual([-10n * XNO, '0'])
    await sendNano(venue.ctx)
    expect(venue.holds(order.payout_address).receivableRaw).toBe(8n * XNO)
    expect((await venue.ctx.orders.find(order._id))?.status).toBe('paid_out')
    for (const option of ['--lost', '--undo'])
      expect(await operator('settle-invoice', option, paymentId)).toMatchObject({
        error: 'wrong_state',
        message: expect.stringContaining('is lost') as string,
      })
  })

  it.runIf(FULL)('is over once the chain shows the payment after all', async () => {
    await venue.pay(venue.wallet.treasury, 20n * XNO)
    await work()
    await gap()
    const invoice = await venue.invoice(1)
    const agent = invoice.agent_id
    const tx = venue.node.fund(invoice.address, DAY_RAW, { confirmed: false }).toLowerCase()
    await byHand(invoice, tx)
    const [payment] = (await arrivals()).filter(({ invoice_id: id }) => id === invoice._id)
    const { pass_until_ms: until = 0 } = (await venue.ctx.agents.find(agent)) ?? {}
    await venue.ctx.agents.movePassEnd(agent, until, until - 86_400_000, [])
    expect(await operator('settle-invoice', '--lost', payment?._id ?? '')).toMatchObject({
      exitCode: 0,
      tx_hash: tx,
    })
    expect([await balance('lost'), await gap()]).toEqual([-DAY_RAW, '0'])
    venue.node.confirm(tx.toUpperCase())
    await work()
    expect([await balance('lost'), await gap()]).toEqual([0n, '0'])
    expect((await arrivals()).find(({ _id }) => _id === payment?._id)).not.toHaveProperty('reversed_at')
  })

  it.runIf(FULL)(
    'leaves to nobody what is found at another address after that, and it can be given',
    async () => {
      await gap()
      const invoice = await venue.invoice(1)
      const tx = venue.pay(await nobodysAddress(), DAY_RAW)
      await byHand(invoice, tx)
      const { pass_until_ms: until = 0 } = (await venue.ctx.agents.find(invoice.agent_id)) ?? {}
      await venue.ctx.agents.movePassEnd(invoice.agent_id, until, until - 86_400_000, [])
      const [payment] = await arrivals()
      expect(await operator('settle-invoice', '--lost', payment?._id ?? '')).toMatchObject({ exitCode: 0 })
      await work()
      expect([await balance('unassigned'), await balance('lost'), await gap()]).toEqual([
        DAY_RAW,
        -DAY_RAW,
        '0',
      ])
      const other = await venue.invoice(1)
      expect(await operator('unassigned', 'give', tx, other._id)).toMatchObject({ exitCode: 0 })
      expect([await balance('unassigned'), await gap()]).toEqual([0n, '0'])
    },
  )

  it('is refused while what the payment bought can be taken back, and for one that the chain has shown', async () => {
    await gap()
    const { order } = await venue.order()
    const settled = await operator('settle-invoice', order.invoice_id, '10', newTx(), '--unseen')
    const paymentId = String((settled as { payment_id?: unknown }).payment_id)
    expect(await operator('settle-invoice', '--lost', paymentId)).toMatchObject({
      error: 'wrong_state',
      message: expect.stringContaining(`--undo ${paymentId}`) as string,
    })
    expect(await operator('settle-invoice', '--undo', paymentId)).toMatchObject({ exitCode: 0 })
    const invoice = await venue.invoice(1)
    venue.pay(invoice, DAY_RAW)
    await work()
    const shown = (await arrivals()).find(({ invoice_id: id }) => id === invoice._id)
    expect(await operator('settle-invoice', '--lost', shown?._id ?? '')).toMatchObject({
      error: 'wrong_state',
      message: expect.stringContaining('The chain has shown') as string,
    })
    expect(await operator('settle-invoice', '--lost', 'pay_none')).toMatchObject({ error: 'no_such_record' })
  })
})

describe('a database of schema 1', () => {
  it('gets a record of all money that no invoice counts, once', async () => {
    await gap()
    const { ctx } = venue
    const [kept, given] = [await stray(XNO), await stray(2n * DAY_RAW, 1)]
    const put = venue.pay(venue.wallet.treasury, 3n * XNO)
    await work()
    await operator('unassigned', 'keep', put)
    const invoice = await venue.invoice(2)
    await operator('unassigned', 'give', given, invoice._id)
    const before = await ctx.journal.balances('xno')
    // As the version before stored it: the transfer says what it took in, and what the operator counted of it.
    const { payments } = ctx.invoices.arrivals.models
    const connection = ctx.database.connection
    for (const arrival of await arrivals()) {
      const { came_to: account, tx, _id } = arrival
      const transfer = { kind: 'receive', payment_ids: _id }
      const brought = { brings: account, brought_by: tx }
      await connection.collection('transfers').updateOne(transfer, { $set: { ...brought, payment_ids: [] } })
      if (arrival.invoice_id === undefined) await payments.deleteOne({ _id })
      else
        await connection
          .collection<{ _id: string }>('payments')
          .updateOne({ _id }, { $set: { taken_from: account }, $unset: { came_to: 1, shown_at: 1 } })
    }
    for (let times = 0; times < 2; times++) await recordOldArrivals(connection)
    expect(await ctx.journal.balances('xno')).toEqual(before)
    expect((await arrivals()).map(({ tx, came_to: account }) => [tx, account])).toEqual(
      expect.arrayContaining([
        [kept, 'unassigned'],
        [given, 'unassigned'],
        [put, 'operator'],
      ]),
    )
    expect(await arrivals()).toHaveLength(3)
    await work()
    expect([await gap(), await ctx.invoices.arrivals.listUnswept('xno', '', 10)]).toEqual(['0', []])
    expect(await operator('unassigned')).toMatchObject({ unassigned: [{ tx_hash: kept }] })
  })
})
