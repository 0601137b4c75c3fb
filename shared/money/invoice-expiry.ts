import type { Context } from '../context.ts'
import { LAPSED_LOOK_EVERY_MS } from '../platform/limits.ts'
import { nowSeconds, unixSeconds } from '../platform/time.ts'
import type { Coin } from './coin.ts'
import type { InvoiceRecord } from './invoice.ts'
import { decideInvoice } from './invoice-steps.ts'
import { purposeOf } from './purpose.ts'
import { changeInvoice, invoiceMark, serialKey } from './arrival-updates.ts'
import { holdsOpen } from './arrival.ts'

/* Ends invoices that were not paid in time. */

/** One round expires at most 100 batches of 500 invoices. */
const EXPIRE_BATCH = 500
const EXPIRE_BATCHES = 100

/**
 * Expires unpayable invoices, and those that were overdue when a complete round began, except those with a
 * payment in time that is under way.
 *
 * @param roundAt when the round began, in Unix seconds
 *
 * @throws AggregateError at the end, of those that failed
 */
export async function expireInvoices(ctx: Context, coin: Coin, roundAt: number): Promise<void> {
  const heldOpen = (await ctx.invoices.arrivals.listUnderWay(coin)).filter(holdsOpen)
  const passedOver = new Set(heldOpen.map(({ invoice_id: id }) => id))
  const scanAfter = unixSeconds(ctx.database.now() + LAPSED_LOOK_EVERY_MS)
  const errors: unknown[] = []
  for (let batch = 0; batch < EXPIRE_BATCHES; batch++) {
    const listed = await ctx.invoices.listOverdue(coin, roundAt, EXPIRE_BATCH + passedOver.size)
    const unpayable = batch === 0 ? await ctx.invoices.listUnpayable(coin) : []
    const overdue = [...listed, ...unpayable].filter(({ _id }) => !passedOver.has(_id))
    const untouched = overdue.filter((invoice) => !needsTransaction(invoice)).map(({ _id }) => _id)
    await ctx.invoices.expireUntouched(untouched, scanAfter, ctx.database.now())
    for (const invoice of overdue.filter(needsTransaction)) {
      // Even if it fails, this call doesn't list it again.
      passedOver.add(invoice._id)
      try {
        const end = () => expire(ctx, invoice, scanAfter)
        const inTurn = () => purposeOf(ctx, invoice).inTurn(ctx, invoice.agent_id, end)
        await ctx.database.serialize(serialKey(invoice.agent_id), inTurn)
      } catch (error) {
        errors.push(error)
      }
    }
    if (overdue.length < EXPIRE_BATCH) break
  }
  const failed = `${errors.length} invoices in ${coin} could not be expired, the first: ${String(errors[0])}`
  if (errors.length > 0) throw new AggregateError(errors, failed)
}

/** Whether expiring an invoice may take more than a mark on it. */
const needsTransaction = ({ has_payments, order_id, carried_raw }: InvoiceRecord): boolean =>
  has_payments === true || order_id !== undefined || carried_raw !== '0'

/** Expires an invoice, unless it has changed or a payment in time is under way. */
async function expire(ctx: Context, invoice: InvoiceRecord, look_after: number): Promise<void> {
  await ctx.database.transaction(async (session) => {
    const current = await ctx.invoices.find(invoice._id, session)
    if (current === undefined) return
    const isHeldOpen = await ctx.invoices.arrivals.isUnderWay(current._id, { inTime: true }, session)
    if (decideInvoice(current, 'expired', nowSeconds(ctx), isHeldOpen).kind === 'stays') return
    const outcome = await purposeOf(ctx, current).expired(ctx, current, session)
    const fields = { ...outcome.fields, look_after, lapsed: true, open: false as const }
    await changeInvoice(ctx, current, { ...outcome, fields }, session, [invoiceMark(current, 'expired')])
  })
}
