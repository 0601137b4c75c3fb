import { given } from '../foundation/given.ts'
import type { Context } from '../context.ts'
import { requireOwn } from '../servers/database.ts'
import { Refusal } from '../foundation/errors.ts'
import { nowSeconds } from '../foundation/time.ts'
import type { PaymentRecord } from './invoice.ts'
import { paymentLine } from './journal.ts'
import { purposeOf } from './purpose.ts'

/** With all that it bought. @throws Refusal `no_such_record`; `wrong_state` with what can't be taken back */
export async function undoPayment(ctx: Context, paymentId: string): Promise<PaymentRecord> {
  return ctx.database.transaction(async (session) => {
    const payment = await ctx.invoices.findPaymentById(paymentId, session)
    if (payment === undefined) throw new Refusal('no_such_record', 'There is no payment with this id.')
    if (payment.state !== 'settled')
      throw new Refusal('wrong_state', `The payment is ${payment.state}, so it bought nothing.`)
    if (payment.by !== 'operator' || payment.shown_at !== undefined)
      throw new Refusal('wrong_state', 'The chain has shown this payment, so it stays.')
    const invoice = await ctx.invoices.find(payment.invoice_id, session)
    if (invoice === undefined) throw new Error(`payment ${paymentId} has no invoice`)
    const at = nowSeconds(ctx)
    const undone = await purposeOf(ctx, payment).undone(ctx, invoice, payment, session)
    const { fields = {}, entries = [], lines = [] } = undone
    await requireOwn(ctx.invoices.changeMoney(invoice, fields, [], session), `invoice ${invoice._id}`)
    await ctx.journal.write([...paymentLine(payment, 'undone', at), ...lines], session)
    const stored = ctx.invoices.undoPayment(payment, at, [undoneEntry(payment, at), ...entries], session)
    await requireOwn(stored, `payment ${paymentId}`)
    return payment
  })
}

function undoneEntry({ _id, invoice_id, order_id, coin, amount_raw }: PaymentRecord, at: number) {
  const data = { step: 'undone', payment_id: _id, invoice_id, ...given({ order_id }), coin, amount_raw }
  return { source: `${_id}/undone`, at, kind: 'payment' as const, data }
}
