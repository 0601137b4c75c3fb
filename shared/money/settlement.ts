import { pick } from '../platform/omit-undefined.ts'
import type { Context } from '../context.ts'
import { isOutage, rolledBack, type Session } from '../platform/database.ts'
import { nowSeconds } from '../platform/time.ts'
import type { Coin } from './coin.ts'
import { decideArrival } from './arrival-steps.ts'
import type { InvoiceRecord } from './invoice.ts'
import type { PaymentRecord } from './arrival.ts'
import { purposeOf } from './purpose.ts'
import { readFreshRate } from './rate.ts'
import { changeInvoice, invoiceMark, serialKey, storeArrivalStep } from './arrival-updates.ts'

/* A confirmed payment is settled once: it buys what its invoice is for. */

/** Who says that a payment was made. */
export type Reporter = PaymentRecord['by']

/** Settles a confirmed payment; if it has to wait, that is noted. */
export async function settlePayment(
  ctx: Context,
  payment: PaymentRecord,
  confirmations: number,
  by: Reporter,
) {
  const { _id: paymentId, agent_id: agentId } = payment
  const settle = () =>
    ctx.database.transaction(async (session) => {
      const noted = await ctx.invoices.arrivals.findPayment(paymentId, session)
      if (noted === undefined) throw rolledBack(`payment ${paymentId}`)
      const invoice = await ctx.invoices.find(noted.invoice_id, session)
      if (invoice === undefined) throw new Error(`payment ${paymentId} has no invoice`)
      await settleOrWait(ctx, noted, invoice, { by, confirmations }, session)
    })
  await purposeOf(ctx, payment).inTurn(ctx, agentId, settle)
}

/** What is reported of a confirmed payment. */
interface Report {
  by: Reporter
  confirmations: number
}

/** As settleIn(); if the payment has to wait, that is noted. */
export async function settleOrWait(
  ctx: Context,
  payment: PaymentRecord,
  invoice: InvoiceRecord,
  said: Report,
  session: Session,
): Promise<void> {
  const settlement = await settleIn(ctx, payment, invoice, said, session)
  if (settlement.kind !== 'waits') return
  const update = decideArrival(payment, { step: 'waits' }, nowSeconds(ctx))
  if (update.kind === 'moves') await storeArrivalStep(ctx, payment, update, session)
}

/**
 * What became of a confirmed payment. It waits for its invoice to expire, or for a rate; it stays if it is settled
 * already, gone or locked. Nothing is stored unless it is settled.
 */
export type Settlement = { kind: 'settled' | 'stays' } | { kind: 'waits'; for: 'expiry' | 'rate' }

/**
 * Settles a confirmed payment, unless it has to wait.
 *
 * @param payment as it is stored
 * @param invoice as it was read in this transaction
 * @param said by whom it was reported, with how many confirmations
 */
export async function settleIn(
  ctx: Context,
  payment: PaymentRecord,
  invoice: InvoiceRecord,
  said: Report,
  session: Session,
): Promise<Settlement> {
  const update = decideArrival(payment, { step: 'settled', invoice, ...said }, nowSeconds(ctx))
  if (update.kind === 'stays')
    return update.because === 'invoice_open' ? { kind: 'waits', for: 'expiry' } : { kind: 'stays' }
  const { set, unset, entries, lines } = update
  const received = await purposeOf(ctx, invoice).received(
    ctx,
    invoice,
    { ...payment, ...pick(set, 'late') },
    session,
  )
  if (received.kind === 'waits') return received
  const { outcome: bought } = received
  const marks = [invoiceMark(invoice, 'confirmed')]
  await changeInvoice(ctx, invoice, { ...bought, entries: [] }, session, marks)
  const settled = { ...set, ...bought.settled }
  const told = [...entries, ...(bought.entries ?? [])]
  await storeArrivalStep(ctx, payment, { kind: 'moves', set: settled, unset, entries: told, lines }, session)
  return { kind: 'settled' }
}

const WAITING_BATCH = 500

/** Settles confirmed late payments whose invoice has expired; without a fresh rate, those that need none. */
export async function settleWaiting(ctx: Context, coin: Coin): Promise<number> {
  const hasRate = (await readFreshRate(ctx, coin)) !== undefined
  const waiting = await ctx.invoices.arrivals.listWaitingForRate(
    coin,
    hasRate,
    nowSeconds(ctx),
    WAITING_BATCH,
  )
  for (const payment of waiting) {
    try {
      const settle = () => settlePayment(ctx, payment, payment.confirmations, payment.by)
      await ctx.database.serialize(serialKey(payment.agent_id), settle)
    } catch (error) {
      const level = isOutage(error) ? 'warn' : 'error'
      ctx.log[level]({ err: error, payment_id: payment._id }, 'a late payment could not be settled now')
    }
  }
  return waiting.length
}
