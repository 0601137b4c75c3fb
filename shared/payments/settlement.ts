import type { Context } from '../context.ts'
import { commit } from '../crypto/commitment.ts'
import { isDuplicateKey, requireOwn, unavailable, type Session } from '../database.ts'
import { newId, newStepId } from '../ids.ts'
import { newSalt, type PendingEntry } from '../ledger/pending.ts'
import { MAX_CLOCK_OFF_MS } from '../limits.ts'
import { createTurns } from '../one-at-a-time.ts'
import { unixSeconds } from '../time.ts'
import { dustThreshold, type Coin } from './coin.ts'
import type { InvoiceRecord, PaymentRecord, SeenPayment } from './invoice.ts'
import { paymentLine } from './journal.ts'
import { purposeOf, type Outcome } from './purpose.ts'
import { readFreshRate } from './rate.ts'

/** Payments to one agent change one pass: here they take turns, so that their transactions need not. */
const takeTurns = createTurns()

/**
 * Takes note of what a look at the chain found and settles what is confirmed. Any number of workers may bring the same
 * find, at any time and again after a crash: it counts once.
 *
 * The order of writes: the payment, unique on coin, transaction and address; then, once confirmed, one transaction that
 * turns it `settled` and moves the invoice, the pass, the referral and the ledger with it. A death between the two leaves
 * a `seen` payment, which the next look settles. Confirmed late money stays `seen` until its invoice has lapsed and, where
 * a rate is needed, there is a fresh one (settleWaiting).
 *
 * @returns the invoice's id; undefined where no invoice has this address, or the amount is dust
 */
export async function recordPayment(ctx: Context, found: SeenPayment, by: PaymentRecord['by'] = 'chain'): Promise<string | undefined> {
  if (found.amountRaw < dustThreshold(found.coin)) return undefined
  const [invoice] = await ctx.invoices.findByAddresses(found.coin, [found.addressIndex])
  if (invoice === undefined) return undefined
  await takeTurns(invoice.agent_id, () => takeIn(ctx, invoice, found, by))
  return invoice._id
}

async function takeIn(ctx: Context, invoice: InvoiceRecord, found: SeenPayment, by: PaymentRecord['by']): Promise<void> {
  const payment = await notePayment(ctx, invoice, found, by)
  if (BigInt(payment.amount_raw) !== found.amountRaw && !(await correctAmount(ctx, payment, found.amountRaw))) return
  if (payment.state === 'gone' || payment.state === 'locked') {
    if (found.lockedUntil === undefined) await bringBack(ctx, payment, payment.state)
    else if (payment.state === 'gone') await ctx.invoices.movePayment(payment._id, 'gone', 'locked')
  }
  if (by === 'chain' && found.isConfirmed) await noteShown(ctx, payment)
  if (payment.reversed_at !== undefined && found.isConfirmed) await restorePayment(ctx, payment)
  if (payment.confirmations !== found.confirmations || payment.height !== found.height)
    await ctx.invoices.noteConfirmations(payment._id, found.confirmations, found.height)
  if (payment.state !== 'settled' && found.isConfirmed) await settlePayment(ctx, payment, found.confirmations, by)
}

/** The chain shows what may have been recorded by hand, with this amount. */
export async function noteShown(ctx: Context, { _id, by, shown_at: at }: PaymentRecord): Promise<void> {
  if (by === 'operator' && at === undefined) await ctx.invoices.setShown(_id, unixSeconds(ctx.now()))
}

/** The payment on record; made on the first look. */
async function notePayment(ctx: Context, invoice: InvoiceRecord, found: SeenPayment, by: PaymentRecord['by']): Promise<PaymentRecord> {
  const { coin, tx, addressIndex, amountRaw } = found
  const known = await ctx.invoices.findPayment(coin, tx, addressIndex)
  if (known !== undefined) return known
  const [rate, roundAt] = await Promise.all([readFreshRate(ctx, coin), ctx.coins.findCoin(coin).then((state) => state?.round_at ?? 0)])
  const ids = { _id: newId('payment'), salt: newSalt() }
  try {
    return await ctx.database.transaction(async (session) => {
      const current = await ctx.invoices.markPayment(invoice._id, session)
      if (current === undefined) throw new Error(`invoice ${invoice._id} was there and is gone`)
      const at = unixSeconds(ctx.now())
      // A whole round after its time did not find it: another payment under way holds the invoice open, and not for this
      // one. A round that lies ahead of the present was made by a clock that was ahead, and says nothing.
      const isLate = current.lapsed || (by === 'chain' && Math.min(roundAt, at) > current.expires_at)
      const isLateForPass = isLate && current.days !== undefined
      const payment: PaymentRecord = {
        ...ids,
        coin,
        tx,
        address_index: addressIndex,
        invoice_id: current._id,
        agent_id: current.agent_id,
        ...(current.order_id === undefined ? {} : { order_id: current.order_id }),
        amount_raw: String(amountRaw),
        state: found.lockedUntil === undefined ? 'seen' : 'locked',
        confirmations: found.confirmations,
        ...(found.height === undefined ? {} : { height: found.height }),
        ...(found.lockedUntil === undefined ? {} : { unlock_time: found.lockedUntil }),
        first_seen_at: at,
        late: isLate,
        ...(isLateForPass && rate !== undefined ? { arrival_rate: rate.usd } : {}),
        by,
      }
      await ctx.invoices.insertPayment(payment, session)
      if (holdsOpen(payment)) await purposeOf(ctx, payment).noted(ctx, payment, session)
      return payment
    })
  } catch (error) {
    if (!isDuplicateKey(error)) throw error
    const other = await ctx.invoices.findPayment(coin, tx, addressIndex)
    // What stood there was taken back by an election.
    if (other === undefined) throw unavailable(error)
    return other
  }
}

/**
 * A transaction's amount is part of its hash, so another one means that this look or an earlier one was wrong. What is
 * not settled yet is corrected, since no money hangs on it; what is settled stays, and the operator is told.
 *
 * @returns whether the payment now has this amount
 */
async function correctAmount(ctx: Context, payment: PaymentRecord, amountRaw: bigint): Promise<boolean> {
  const about = { payment_id: payment._id, coin: payment.coin, recorded_raw: payment.amount_raw, found_raw: String(amountRaw) }
  if (await ctx.invoices.correctAmount(payment._id, payment.amount_raw, String(amountRaw))) {
    ctx.log.warn(about, 'an unsettled payment was found with another amount than before; the new one stands')
    return true
  }
  ctx.log.error(about, 'a settled payment was found with another amount than it was counted with; what was counted stands')
  return false
}

/** What had vanished is seen again, or a lock has ended. */
async function bringBack(ctx: Context, payment: PaymentRecord, from: 'gone' | 'locked'): Promise<void> {
  await ctx.database.transaction(async (session) => {
    await ctx.invoices.markPayment(payment.invoice_id, session)
    if (!(await ctx.invoices.movePayment(payment._id, from, 'seen', session))) return
    if (!payment.late) await purposeOf(ctx, payment).noted(ctx, { ...payment, state: 'seen' }, session)
  })
}

async function settlePayment(ctx: Context, payment: PaymentRecord, confirmations: number, by: PaymentRecord['by']): Promise<void> {
  const { _id: paymentId, agent_id: agentId } = payment
  const isWaiting = await purposeOf(ctx, payment).inTurn(ctx, agentId, () => transactSettlement(ctx, paymentId, confirmations, by))
  if (isWaiting) await ctx.invoices.setWaitsForRate(paymentId)
}

/** @returns true if it waits for its invoice to lapse or for a rate, and nothing was changed */
function transactSettlement(ctx: Context, paymentId: string, confirmations: number, by: PaymentRecord['by']): Promise<boolean> {
  return ctx.database.transaction(async (session) => {
    const noted = await ctx.invoices.findPaymentById(paymentId, session)
    if (noted === undefined) throw new Error(`payment ${paymentId} was there and is gone`)
    if (noted.state !== 'seen') return false
    const invoice = await ctx.invoices.find(noted.invoice_id, session)
    if (invoice === undefined) throw new Error(`payment ${paymentId} has no invoice`)
    const at = unixSeconds(ctx.now())
    // Before the time is over nothing is late: a clock that was ahead has said so.
    const payment = { ...noted, late: noted.late && (invoice.lapsed || at >= invoice.expires_at) }
    // What was in time buys first, at the invoice's own rate.
    if (payment.late && !invoice.lapsed) return true
    const bought = await purposeOf(ctx, invoice).received(ctx, invoice, payment, session)
    if (bought === undefined) return true
    await changeInvoice(
      ctx,
      invoice,
      { ...bought, entries: [], lines: [...paymentLine(payment, 'received', at), ...(bought.lines ?? [])] },
      session,
    )
    const settled = { settled_at: at, confirmations, late: payment.late, ...(by === 'operator' ? { by } : {}), ...bought.settled }
    const entries = [paymentEntry({ ...payment, ...settled }, at), ...(bought.entries ?? [])]
    await requireOwn(ctx.invoices.settlePayment(paymentId, settled, entries, session), `payment ${paymentId}`)
    return false
  })
}

/** The one change of an invoice, in the transaction that has read it. */
async function changeInvoice(
  ctx: Context,
  invoice: InvoiceRecord,
  { fields = {}, entries = [], lines = [] }: Outcome,
  session: Session,
): Promise<void> {
  await requireOwn(ctx.invoices.changeMoney(invoice, fields, entries, session), `invoice ${invoice._id}`)
  await ctx.journal.write(lines, session)
}

const WAITING_BATCH = 500

/**
 * Settles confirmed late money whose invoice had not lapsed, or that had no fresh rate to buy at, if there is one now. While
 * there is none, what needs one is passed over: however much that is, it holds up nothing else. What fails is logged and
 * holds up no other.
 */
export async function settleWaiting(ctx: Context, coin: Coin): Promise<void> {
  const hasRate = (await readFreshRate(ctx, coin)) !== undefined
  for (const payment of await ctx.invoices.listWaitingForRate(coin, { hasRate, nowSeconds: unixSeconds(ctx.now()) }, WAITING_BATCH)) {
    try {
      await takeTurns(payment.agent_id, () => settlePayment(ctx, payment, payment.confirmations, payment.by))
    } catch (error) {
      ctx.log.error({ err: error, payment_id: payment._id }, 'late money that waited could not be settled; the next time tries again')
    }
  }
}

function paymentEntry(payment: PaymentRecord, at: number): PendingEntry {
  return {
    source: `${payment._id}/payment`,
    at,
    kind: 'payment',
    data: {
      payment_id: payment._id,
      invoice_id: payment.invoice_id,
      ...(payment.order_id === undefined ? {} : { order_id: payment.order_id }),
      coin: payment.coin,
      amount_raw: payment.amount_raw,
      settlement: payment.by === 'operator' ? 'manual' : 'automatic',
      tx_hash: commit(Buffer.from(payment.salt, 'hex'), { tx: payment.tx }),
    },
  }
}

/**
 * An unconfirmed payment that the chain no longer knows, or a settled one that it took back: a settled pass stands, a
 * market order does not. What the operator recorded by hand and the chain never showed says nothing by its absence.
 */
export async function recordLoss(ctx: Context, payment: PaymentRecord): Promise<void> {
  if (payment.by === 'operator' && payment.shown_at === undefined) return
  if (payment.state === 'seen' || payment.state === 'locked') {
    if ((await ctx.invoices.movePayment(payment._id, payment.state, 'gone')) && payment.state === 'seen')
      await purposeOf(ctx, payment).dropped(ctx, payment)
    return
  }
  if (payment.state !== 'settled' || payment.reversed_at !== undefined) return
  if (await setLost(ctx, payment, true))
    ctx.log.error({ payment_id: payment._id, coin: payment.coin }, 'the chain took back a settled payment')
}

/** @returns false if it was so already */
function setLost(ctx: Context, payment: PaymentRecord, isLost: boolean): Promise<boolean> {
  return ctx.database.transaction(async (session) => {
    const at = unixSeconds(ctx.now())
    if (!(await ctx.invoices.setReversed(payment._id, isLost ? at : undefined, session))) return false
    await ctx.journal.write(paymentLine(payment, `${isLost ? 'lost' : 'restored'}/${newStepId()}`, at), session)
    await purposeOf(ctx, payment)[isLost ? 'lost' : 'restored'](ctx, payment, session)
    return true
  })
}

/** It is back. What the loss froze stays so until the operator decides. */
async function restorePayment(ctx: Context, payment: PaymentRecord): Promise<void> {
  if (await setLost(ctx, payment, false))
    ctx.log.warn({ payment_id: payment._id, coin: payment.coin }, 'a settled payment that the chain had taken back is there again')
}

/** Invoices lapsed at once, and at most in one round: what is left over lapses after the next. */
const LAPSE_BATCH = 500
const LAPSE_BATCHES = 100

/** By how much this machine's clock is ahead of the database's; undefined where that is not too much to go by it. */
export async function findClockAheadMs(ctx: Context): Promise<number | undefined> {
  const aheadMs = await ctx.database.clockAheadMs()
  return aheadMs > MAX_CLOCK_OFF_MS ? aheadMs : undefined
}

/**
 * After a round that began at `roundAt` (Unix seconds) and looked at every open address: invoices whose time was over
 * before it lapse, unless a payment that came in time is under way. What was paid in part buys whole days now.
 * Nothing lapses by a clock that is ahead of the database's: it would take hours from whoever still has time to pay.
 *
 * @throws AggregateError at its end, where some could not be lapsed; the others are. Its message ends with the first one's
 */
export async function lapseInvoices(
  ctx: Context,
  coin: Coin,
  roundAt: number,
  watchLater: (invoice: InvoiceRecord) => LapsedWatch,
): Promise<void> {
  const aheadMs = await findClockAheadMs(ctx)
  if (aheadMs !== undefined) {
    ctx.log.error({ coin, ahead_ms: aheadMs }, "this machine's clock is ahead of the database's: no invoice lapses by it")
    return
  }
  const passedOver = new Set((await ctx.invoices.listUnderWay(coin)).filter(holdsOpen).map(({ invoice_id }) => invoice_id))
  const errors: unknown[] = []
  for (let batch = 0; batch < LAPSE_BATCHES; batch++) {
    const listed = await ctx.invoices.listOverdue(coin, roundAt, LAPSE_BATCH + passedOver.size)
    const overdue = listed.filter(({ _id }) => !passedOver.has(_id))
    const untouched = overdue.filter((invoice) => !hasMoney(invoice))
    await ctx.invoices.lapseUntouched(
      untouched.map((invoice) => {
        const { watch, look_after } = watchLater(invoice)
        return { invoiceId: invoice._id, watch, lookAfter: look_after }
      }),
    )
    for (const invoice of overdue.filter(hasMoney)) {
      // Whatever comes of it, this call doesn't look at it again.
      passedOver.add(invoice._id)
      try {
        const end = () => lapse(ctx, invoice, watchLater(invoice))
        await takeTurns(invoice.agent_id, () => purposeOf(ctx, invoice).inTurn(ctx, invoice.agent_id, end))
      } catch (error) {
        errors.push(error)
      }
    }
    if (overdue.length < LAPSE_BATCH) break
  }
  if (errors.length > 0)
    throw new AggregateError(errors, `${errors.length} invoices in ${coin} could not be lapsed, the first because of: ${String(errors[0])}`)
}

/** Whether an invoice is kept from lapsing by it, and its order from expiring. */
const holdsOpen = ({ state, late }: PaymentRecord): boolean => state === 'seen' && !late

/** Whether lapsing it may take more than a mark on the invoice alone. */
function hasMoney({ has_payments, order_id, carried_raw }: InvoiceRecord): boolean {
  return has_payments === true || order_id !== undefined || carried_raw !== '0'
}

/** How a lapsed invoice is watched on. */
export type LapsedWatch = Pick<InvoiceRecord, 'watch' | 'look_after'>

async function lapse(ctx: Context, invoice: InvoiceRecord, later: LapsedWatch): Promise<void> {
  await ctx.database.transaction(async (session) => {
    const current = await ctx.invoices.find(invoice._id, session)
    if (current === undefined || current.lapsed) return
    // A clock that was set back since the round began says that there is time left; the next round goes by it.
    if (current.expires_at > unixSeconds(ctx.now())) return
    if ((await ctx.invoices.listPayments(current._id, session)).some(holdsOpen)) return
    const outcome = await purposeOf(ctx, current).expired(ctx, current, session)
    const fields = { ...outcome.fields, ...later, lapsed: true, open: false as const }
    await changeInvoice(ctx, current, { ...outcome, fields }, session)
  })
}
