import { omitUndefined } from '../platform/omit-undefined.ts'
import type { Context } from '../context.ts'
import { makeMark, type EventMark } from '../events/mark.ts'
import { rolledBack, type Session } from '../platform/database.ts'
import { nowSeconds } from '../platform/time.ts'
import { decideArrival, stageOf, type ArrivalEvent, type ArrivalUpdate } from './arrival-steps.ts'
import type { ArrivalRecord } from './arrival.ts'
import type { InvoiceRecord } from './invoice.ts'
import type { Outcome } from './purpose.ts'

/*
 * How a decision about an arrival or its invoice is stored: the record, its ledger entries and its lines of the books
 * together, if the record is still as it was read.
 */

/** The key that serializes one agent's payments: they change one pass, and would conflict. */
export const serialKey = (agentId: string): string => `payments ${agentId}`

/** Whether an event happened to an arrival. */
export type Taken = 'taken' | 'stays'

/**
 * Stores what an event makes of an arrival, in a transaction that reads it anew. There is no transaction if the
 * event can't happen to the arrival as it is known.
 *
 * @param then what else is stored in the transaction; it gets the arrival as it was before
 */
export async function takeArrivalStep<Arrival extends ArrivalRecord>(
  ctx: Context,
  known: Arrival,
  event: ArrivalEvent,
  then?: (before: Arrival, session: Session) => Promise<void>,
): Promise<Taken> {
  if (decideArrival(known, event, nowSeconds(ctx)).kind === 'stays') return 'stays'
  return ctx.database.transaction(async (session) => {
    const before = await ctx.invoices.arrivals.findById<Arrival>(known._id, session)
    if (before === undefined) throw rolledBack(`payment ${known._id}`)
    const update = decideArrival(before, event, nowSeconds(ctx))
    if (update.kind === 'stays') return 'stays'
    await storeArrivalStep(ctx, before, update, session)
    await then?.(before, session)
    return 'taken'
  })
}

/** Stores what was decided of an arrival. @throws Overtaken if it is no longer as it was read */
export async function storeArrivalStep(
  ctx: Context,
  arrival: ArrivalRecord,
  update: ArrivalUpdate,
  session: Session,
): Promise<void> {
  await ctx.invoices.arrivals.move(arrival, update, session)
  await ctx.journal.write(update.lines, session)
}

/** The event that tells an invoice's agent of a step. */
export const invoiceMark = (
  { _id, agent_id, order_id }: Pick<InvoiceRecord, '_id' | 'agent_id' | 'order_id'>,
  state: 'seen' | 'confirmed' | 'expired',
): EventMark => makeMark(agent_id, 'invoice', _id, { state, ...omitUndefined({ order_id }) })

/**
 * Stores what a payment's purpose decided: the invoice's fields, ledger entries and marks, and the journal's
 * lines.
 *
 * @param invoice as it was read in this transaction
 * @throws Overtaken if the invoice has changed since then, which only a defect can bring about
 */
export async function changeInvoice(
  ctx: Context,
  invoice: InvoiceRecord,
  { fields = {}, entries = [], lines = [] }: Outcome,
  session: Session,
  marks: readonly EventMark[] = [],
): Promise<void> {
  await ctx.invoices.changeMoney(invoice, fields, entries, session, marks)
  await ctx.journal.write(lines, session)
}

/** Returns what an event makes of an arrival that was listed for it. @throws Error if it stays, by a defect */
export function requireUpdate(arrival: ArrivalRecord, event: ArrivalEvent, at: number): ArrivalUpdate {
  const decision = decideArrival(arrival, event, at)
  if (decision.kind === 'moves') return decision
  throw new Error(`the money ${arrival._id} is ${stageOf(arrival)} and can't be ${event.step}`)
}
