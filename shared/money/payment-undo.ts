import { pick } from '../platform/omit-undefined.ts'
import type { Context } from '../context.ts'
import type { Session } from '../platform/database.ts'
import { Refusal } from '../platform/errors.ts'
import { newId, newStepId } from '../platform/ids.ts'
import { newSalt } from '../ledger/pending.ts'
import { nowSeconds } from '../platform/time.ts'
import { decideArrival, newArrival, stageOf, type ArrivalStays, type ArrivalUpdate } from './arrival-steps.ts'
import type { PaymentRecord } from './arrival.ts'
import { purposeOf } from './purpose.ts'
import { changeInvoice, storeArrivalStep } from './arrival-updates.ts'

/* What the operator recorded as paid can be taken back with all that it bought, or given up. */

/**
 * Takes back a payment that the operator had recorded, and all that it bought. If its money had come to nobody, it
 * is nobody's again.
 *
 * @throws Refusal `no_such_record`; `wrong_state` if the chain has shown it, or what it bought is used up
 */
export async function undoPayment(ctx: Context, paymentId: string): Promise<PaymentRecord> {
  const ids = { _id: newId('payment'), salt: newSalt() }
  return ctx.database.transaction(async (session) => {
    const payment = await requirePayment(ctx, paymentId, session)
    const at = nowSeconds(ctx)
    const update = requireUndoable(payment, decideArrival(payment, { step: 'undone' }, at))
    const invoice = await ctx.invoices.find(payment.invoice_id, session)
    if (invoice === undefined) throw new Error(`payment ${paymentId} has no invoice`)
    const undone = await purposeOf(ctx, payment).undone(ctx, invoice, payment, session)
    const { entries = [], ...outcome } = undone
    await changeInvoice(ctx, invoice, outcome, session)
    await storeArrivalStep(ctx, payment, { ...update, entries: [...update.entries, ...entries] }, session)
    const { came_to } = payment
    if (came_to !== undefined) {
      const again = { ...newArrival({ ...payment, came_to }, at), ...ids, ...pick(payment, 'swept_at') }
      await ctx.invoices.arrivals.insert(again, session)
    }
    return payment
  })
}

/**
 * Gives up a payment that the operator had recorded and that never came, when what it bought is used: it stays
 * bought, and the venue bears the loss. If the chain shows it after all, the loss is over.
 *
 * @throws Refusal `no_such_record`; `wrong_state` if the chain has shown it
 */
export async function givePaymentUp(ctx: Context, paymentId: string): Promise<PaymentRecord> {
  const stepId = newStepId()
  return ctx.database.transaction(async (session) => {
    const payment = await requirePayment(ctx, paymentId, session)
    const decision = decideArrival(payment, { step: 'given_up', stepId }, nowSeconds(ctx))
    await storeArrivalStep(ctx, payment, requireUndoable(payment, decision), session)
    await purposeOf(ctx, payment).givenUp?.(ctx, payment, session)
    return payment
  })
}

/** @throws Refusal `no_such_record` */
async function requirePayment(ctx: Context, paymentId: string, session: Session): Promise<PaymentRecord> {
  const payment = await ctx.invoices.arrivals.findPayment(paymentId, session)
  if (payment === undefined) throw new Refusal('no_such_record', 'There is no payment with this id.')
  return payment
}

/** Returns what was decided of a payment that the operator ends. @throws Refusal `wrong_state` if it stays */
function requireUndoable(payment: PaymentRecord, decision: ArrivalUpdate | ArrivalStays): ArrivalUpdate {
  if (decision.kind === 'moves') return decision
  if (decision.because !== 'stage')
    throw new Refusal('wrong_state', 'The chain has shown this payment, so it stays.')
  throw new Refusal(
    'wrong_state',
    stageOf(payment) === 'lost'
      ? 'The payment is lost, and the venue bears that already.'
      : `The payment is ${payment.state}, so it bought nothing.`,
  )
}
