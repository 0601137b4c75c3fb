import { omitUndefined, pick } from '../platform/omit-undefined.ts'
import type { Context } from '../context.ts'
import { makeMark, type EventMark } from '../events/mark.ts'
import { isDuplicateKey, isOutage, rolledBack, unavailable, type Session } from '../platform/database.ts'
import { Refusal } from '../platform/errors.ts'
import { newId, newStepId } from '../platform/ids.ts'
import { newSalt } from '../ledger/pending.ts'
import { LAPSED_LOOK_EVERY_MS } from '../platform/limits.ts'
import { unixSeconds, nowSeconds } from '../platform/time.ts'
import { dustThreshold, type Coin } from './coin.ts'
import {
  decideArrival,
  newArrival,
  newPayment,
  stageOf,
  type ArrivalEvent,
  type ArrivalStays,
  type ArrivalUpdate,
} from './arrival-steps.ts'
import { isPayment } from './invoice.ts'
import type { ArrivalRecord, InvoiceRecord, PaymentRecord, SeenPayment } from './invoice.ts'
import { decideInvoice } from './invoice-steps.ts'
import { purposeOf, type Outcome } from './purpose.ts'
import { readFreshRate } from './rate.ts'

/** Who says that a payment was made. */
type Reporter = PaymentRecord['by']

/** The key that serializes one agent's payments: they change one pass, and would conflict. */
const serialKey = (agentId: string): string => `payments ${agentId}`

/**
 * Records a payment that was found on the chain or named by the operator. Any number of workers may report
 * the same payment, at any time and repeatedly: it counts once. First the payment is stored, unique by coin,
 * transaction and address; what is on record there as nobody's stays so. Once it is confirmed, one transaction
 * makes it `settled` and changes invoice, pass, referral and ledger. A confirmed late payment stays `seen` until
 * its invoice has expired and there is a fresh rate: see settleWaiting().
 *
 * @returns the invoice's id; undefined if no invoice has this address, or the amount is dust
 */
export async function recordPayment(ctx: Context, found: SeenPayment, by: Reporter = 'chain') {
  if (found.amountRaw < dustThreshold(found.coin)) return undefined
  const [invoice] = await ctx.invoices.findByAddresses(found.coin, [found.addressIndex])
  if (invoice === undefined) return undefined
  await ctx.database.serialize(serialKey(invoice.agent_id), () => recordAt(ctx, invoice, found, by))
  return invoice._id
}

/** Brings what is stored of a payment at the invoice's address up to what was found. */
async function recordAt(ctx: Context, invoice: InvoiceRecord, found: SeenPayment, by: Reporter) {
  const payment = await findOrStorePayment(ctx, invoice, found, by)
  if (payment === undefined) return
  if (
    BigInt(payment.amount_raw) !== found.amountRaw &&
    (await correctAmount(ctx, payment, found)) === 'stays'
  )
    return
  await noteInChain(ctx, payment, found.lockedUntil === undefined ? 'seen' : 'locked')
  if (by === 'chain' && found.isConfirmed) await noteShown(ctx, payment)
  if (found.isConfirmed && (await takeReversal(ctx, payment, 'restored')) === 'taken')
    ctx.log.warn({ payment_id: payment._id, coin: payment.coin }, 'a payment taken back is there again')
  if (payment.confirmations !== found.confirmations || payment.height !== found.height)
    await ctx.invoices.noteConfirmations(payment._id, found.confirmations, found.height)
  if (payment.state !== 'settled' && found.isConfirmed)
    await settlePayment(ctx, payment, found.confirmations, by)
}

/** Whether an event happened to an arrival. */
type Taken = 'taken' | 'stays'

/**
 * Stores what an event makes of an arrival, in a transaction that reads it anew. There is no transaction if the
 * event can't happen to the arrival as it is known.
 *
 * @param then what else is stored in the transaction; it gets the arrival as it was before
 */
async function takeStep<Arrival extends ArrivalRecord>(
  ctx: Context,
  known: Arrival,
  event: ArrivalEvent,
  then?: (before: Arrival, session: Session) => Promise<void>,
): Promise<Taken> {
  if (decideArrival(known, event, nowSeconds(ctx)).kind === 'stays') return 'stays'
  return ctx.database.transaction(async (session) => {
    const before = await ctx.invoices.findArrivalById<Arrival>(known._id, session)
    if (before === undefined) throw rolledBack(`payment ${known._id}`)
    const update = decideArrival(before, event, nowSeconds(ctx))
    if (update.kind === 'stays') return 'stays'
    await storeStep(ctx, before, update, session)
    await then?.(before, session)
    return 'taken'
  })
}

/** Stores what was decided of an arrival. @throws Overtaken if it is no longer as it was read */
export async function storeStep(
  ctx: Context,
  arrival: ArrivalRecord,
  update: ArrivalUpdate,
  session: Session,
): Promise<void> {
  await ctx.invoices.moveArrival(arrival, update, session)
  await ctx.journal.write(update.lines, session)
}

/** Notes that the chain shows an arrival; if the operator had recorded it, payouts of it may now be sent. */
export async function noteShown(ctx: Context, arrival: ArrivalRecord): Promise<void> {
  await takeStep(ctx, arrival, { step: 'shown' })
}

/** The event that tells an invoice's agent of a step. */
const invoiceMark = (
  { _id, agent_id, order_id }: Pick<InvoiceRecord, '_id' | 'agent_id' | 'order_id'>,
  state: 'seen' | 'confirmed' | 'expired',
): EventMark => makeMark(agent_id, 'invoice', _id, { state, ...omitUndefined({ order_id }) })

/**
 * Returns the payment of this transaction to this address as it is on record, whatever was found now. If
 * there is none it is stored first, as `seen` or `locked`, and marked `late` if it came after the invoice's
 * time.
 *
 * @returns undefined if no invoice counts what is on record
 */
async function findOrStorePayment(ctx: Context, invoice: InvoiceRecord, found: SeenPayment, by: Reporter) {
  const { coin, tx, addressIndex } = found
  const known = await ctx.invoices.findArrival(coin, tx, addressIndex)
  if (known !== undefined) return isPayment(known) ? known : undefined
  const [rate, record] = await Promise.all([readFreshRate(ctx, coin), ctx.coins.findCoin(coin)])
  const roundAt = record?.round_at ?? 0
  const ids = { _id: newId('payment'), salt: newSalt() }
  try {
    const noted = await ctx.database.transaction(async (session): Promise<PaymentRecord> => {
      const tells = found.lockedUntil === undefined ? [invoiceMark(invoice, 'seen')] : []
      const current = await ctx.invoices.markHasPayments(invoice._id, session, tells)
      if (current === undefined) throw rolledBack(`invoice ${invoice._id}`)
      const payment = newPayment(current, found, { ids, by, roundAt, rate: rate?.usd }, nowSeconds(ctx))
      await ctx.invoices.insertArrival(payment, session)
      if (holdsOpen(payment)) await purposeOf(ctx, payment).noted?.(ctx, payment, session)
      return payment
    })
    const { _id: payment_id, invoice_id, order_id, state } = noted
    ctx.log.info({ money: 'payment', payment_id, invoice_id, order_id, coin, state }, 'a payment was seen')
    return noted
  } catch (error) {
    if (!isDuplicateKey(error)) throw error
    const other = await ctx.invoices.findArrival(coin, tx, addressIndex)
    // The record that was in the way has been rolled back by an election.
    if (other === undefined) throw unavailable(error)
    return isPayment(other) ? other : undefined
  }
}

/**
 * Corrects the amount of a payment, unless it is settled. (A transaction's hash covers its amount, so one of
 * two scans was wrong.)
 */
async function correctAmount(
  ctx: Context,
  payment: PaymentRecord,
  { amountRaw }: SeenPayment,
): Promise<Taken> {
  const { _id: payment_id, coin, amount_raw: recorded_raw } = payment
  const about = { payment_id, coin, recorded_raw, found_raw: String(amountRaw) }
  const taken = await takeStep(ctx, payment, { step: 'corrected', amountRaw })
  if (taken === 'taken')
    ctx.log.warn(about, 'an unsettled payment was found with another amount than before; the new one stands')
  else ctx.log.error(about, 'a settled payment was found with another amount than it was counted with')
  return taken
}

/** Notes that the chain has a payment that had vanished or was locked. */
async function noteInChain(ctx: Context, payment: PaymentRecord, step: 'seen' | 'locked'): Promise<void> {
  await takeStep(ctx, payment, { step }, async (before, session) => {
    if (step === 'locked') return
    const marks =
      before.state === 'locked' ? [invoiceMark({ ...before, _id: before.invoice_id }, 'seen')] : []
    await ctx.invoices.markHasPayments(before.invoice_id, session, marks)
    if (!before.late) await purposeOf(ctx, before).noted?.(ctx, { ...before, state: 'seen' }, session)
  })
}

/** Settles a confirmed payment; if it has to wait, that is noted. */
async function settlePayment(ctx: Context, payment: PaymentRecord, confirmations: number, by: Reporter) {
  const { _id: paymentId, agent_id: agentId } = payment
  const settle = () =>
    ctx.database.transaction(async (session) => {
      const noted = await ctx.invoices.findPaymentById(paymentId, session)
      if (noted === undefined) throw rolledBack(`payment ${paymentId}`)
      const invoice = await ctx.invoices.find(noted.invoice_id, session)
      if (invoice === undefined) throw new Error(`payment ${paymentId} has no invoice`)
      const settlement = await settleIn(ctx, noted, invoice, { by, confirmations }, session)
      if (settlement.kind !== 'waits') return
      const update = decideArrival(noted, { step: 'waits' }, nowSeconds(ctx))
      if (update.kind === 'moves') await storeStep(ctx, noted, update, session)
    })
  await purposeOf(ctx, payment).inTurn(ctx, agentId, settle)
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
  said: { by: Reporter; confirmations: number },
  session: Session,
): Promise<Settlement> {
  const update = decideArrival(payment, { step: 'settled', invoice, ...said }, nowSeconds(ctx))
  if (update.kind === 'stays')
    return update.because === 'invoice_open' ? { kind: 'waits', for: 'expiry' } : { kind: 'stays' }
  const { set, unset, entries, lines } = update
  const bought = await purposeOf(ctx, invoice).received(
    ctx,
    invoice,
    { ...payment, ...pick(set, 'late') },
    session,
  )
  if (bought === undefined) return { kind: 'waits', for: 'rate' }
  const marks = [invoiceMark(invoice, 'confirmed')]
  await changeInvoice(ctx, invoice, { ...bought, entries: [] }, session, marks)
  const settled = { ...set, ...bought.settled }
  const told = [...entries, ...(bought.entries ?? [])]
  await storeStep(ctx, payment, { kind: 'moves', set: settled, unset, entries: told, lines }, session)
  return { kind: 'settled' }
}

/**
 * Stores what a payment's purpose decided: the invoice's fields, ledger entries and marks, and the journal's
 * lines.
 *
 * @param invoice as it was read in this transaction
 * @throws Overtaken if the invoice has changed since then, which only a defect can bring about
 */
async function changeInvoice(
  ctx: Context,
  invoice: InvoiceRecord,
  { fields = {}, entries = [], lines = [] }: Outcome,
  session: Session,
  marks: readonly EventMark[] = [],
): Promise<void> {
  await ctx.invoices.changeMoney(invoice, fields, entries, session, marks)
  await ctx.journal.write(lines, session)
}

const WAITING_BATCH = 500

/** Settles confirmed late payments whose invoice has expired; without a fresh rate, those that need none. */
export async function settleWaiting(ctx: Context, coin: Coin): Promise<void> {
  const hasRate = (await readFreshRate(ctx, coin)) !== undefined
  const waiting = await ctx.invoices.listWaitingForRate(coin, hasRate, nowSeconds(ctx), WAITING_BATCH)
  for (const payment of waiting) {
    try {
      const settle = () => settlePayment(ctx, payment, payment.confirmations, payment.by)
      await ctx.database.serialize(serialKey(payment.agent_id), settle)
    } catch (error) {
      const level = isOutage(error) ? 'warn' : 'error'
      ctx.log[level]({ err: error, payment_id: payment._id }, 'a late payment could not be settled now')
    }
  }
}

/** Notes that the chain lacks a payment (gone, or reversed), unless only the operator has recorded it. */
export async function recordLoss(ctx: Context, payment: PaymentRecord): Promise<void> {
  if ((await takeStep(ctx, payment, { step: 'gone' })) === 'taken')
    await purposeOf(ctx, payment).dropped?.(ctx, payment)
  else if ((await takeReversal(ctx, payment, 'lost')) === 'taken')
    ctx.log.error({ payment_id: payment._id, coin: payment.coin }, 'the chain took back a settled payment')
}

/** Notes that the chain took a settled payment back, or that it is there again, and tells its purpose. */
const takeReversal = (ctx: Context, payment: PaymentRecord, step: 'lost' | 'restored'): Promise<Taken> =>
  takeStep(ctx, payment, { step, stepId: newStepId() }, async (before, session) => {
    await purposeOf(ctx, before)[step]?.(ctx, before, session)
  })

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
  const heldOpen = (await ctx.invoices.listUnderWay(coin)).filter(holdsOpen)
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

/** Whether a payment keeps its invoice, and the order that it pays, from expiring. */
const holdsOpen = ({ state, late }: PaymentRecord): boolean => state === 'seen' && !late

/** Whether expiring an invoice may take more than a mark on it. */
const needsTransaction = ({ has_payments, order_id, carried_raw }: InvoiceRecord): boolean =>
  has_payments === true || order_id !== undefined || carried_raw !== '0'

/** Expires an invoice, unless it has changed or a payment in time is under way. */
async function expire(ctx: Context, invoice: InvoiceRecord, look_after: number): Promise<void> {
  await ctx.database.transaction(async (session) => {
    const current = await ctx.invoices.find(invoice._id, session)
    if (current === undefined) return
    const isHeldOpen = await ctx.invoices.isUnderWay(current._id, { inTime: true }, session)
    if (decideInvoice(current, 'expired', nowSeconds(ctx), isHeldOpen).kind === 'stays') return
    const outcome = await purposeOf(ctx, current).expired(ctx, current, session)
    const fields = { ...outcome.fields, look_after, lapsed: true, open: false as const }
    await changeInvoice(ctx, current, { ...outcome, fields }, session, [invoiceMark(current, 'expired')])
  })
}

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
    const update = requireMove(payment, decideArrival(payment, { step: 'undone' }, at))
    const invoice = await ctx.invoices.find(payment.invoice_id, session)
    if (invoice === undefined) throw new Error(`payment ${paymentId} has no invoice`)
    const undone = await purposeOf(ctx, payment).undone(ctx, invoice, payment, session)
    const { entries = [], ...outcome } = undone
    await changeInvoice(ctx, invoice, outcome, session)
    await storeStep(ctx, payment, { ...update, entries: [...update.entries, ...entries] }, session)
    const { came_to } = payment
    if (came_to !== undefined) {
      const again = { ...newArrival({ ...payment, came_to }, at), ...ids, ...pick(payment, 'swept_at') }
      await ctx.invoices.insertArrival(again, session)
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
    await storeStep(ctx, payment, requireMove(payment, decision), session)
    await purposeOf(ctx, payment).givenUp?.(ctx, payment, session)
    return payment
  })
}

/** @throws Refusal `no_such_record` */
async function requirePayment(ctx: Context, paymentId: string, session: Session): Promise<PaymentRecord> {
  const payment = await ctx.invoices.findPaymentById(paymentId, session)
  if (payment === undefined) throw new Refusal('no_such_record', 'There is no payment with this id.')
  return payment
}

/** Returns what was decided of a payment that the operator ends. @throws Refusal `wrong_state` if it stays */
function requireMove(payment: PaymentRecord, decision: ArrivalUpdate | ArrivalStays): ArrivalUpdate {
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
