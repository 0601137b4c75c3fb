import { omitUndefined, pick } from '../platform/omit-undefined.ts'
import type { Context } from '../context.ts'
import { commitRecord } from '../crypto/commitment.ts'
import { makeMark, type EventMark } from '../events/mark.ts'
import {
  isDuplicateKey,
  isOutage,
  Overtaken,
  rolledBack,
  unavailable,
  type Session,
} from '../platform/database.ts'
import { Refusal } from '../platform/errors.ts'
import { newId, newStepId } from '../platform/ids.ts'
import { newSalt, type PendingEntry } from '../ledger/pending.ts'
import { LAPSED_LOOK_EVERY_MS } from '../platform/limits.ts'
import { unixSeconds, nowSeconds } from '../platform/time.ts'
import { dustThreshold, type Coin } from './coin.ts'
import { isOnWordAlone, isPayment } from './invoice.ts'
import type { ArrivalRecord, InvoiceRecord, PaymentRecord, SeenPayment } from './invoice.ts'
import { paymentLine } from './journal.ts'
import {
  isLateArrival,
  judgeExpiry,
  judgeLoss,
  judgePayment,
  judgeSighting,
  type PaymentVerdict,
} from './payment-rules.ts'
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
  if (BigInt(payment.amount_raw) !== found.amountRaw && !(await correctAmount(ctx, payment, found.amountRaw)))
    return
  const sighting = judgeSighting(payment, found.lockedUntil !== undefined)
  if (sighting.kind === 'moves') {
    if (sighting.to === 'seen') await makeSeen(ctx, payment, sighting.from)
    else await ctx.invoices.movePayment(payment._id, sighting.from, sighting.to)
  }
  if (by === 'chain' && found.isConfirmed) await noteShown(ctx, payment)
  if (payment.reversed_at !== undefined && found.isConfirmed) await restorePayment(ctx, payment)
  if (payment.confirmations !== found.confirmations || payment.height !== found.height)
    await ctx.invoices.noteConfirmations(payment._id, found.confirmations, found.height)
  if (payment.state !== 'settled' && found.isConfirmed)
    await settlePayment(ctx, payment, found.confirmations, by)
}

/** Notes that the chain shows a payment; if the operator had recorded it, payouts of it may now be sent. */
export async function noteShown(ctx: Context, arrival: ArrivalRecord): Promise<void> {
  if (isOnWordAlone(arrival)) await ctx.invoices.setShown(arrival._id, nowSeconds(ctx))
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
  const { coin, tx, addressIndex, amountRaw } = found
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
      const at = nowSeconds(ctx)
      const isLate = isLateArrival(current, { by, roundAt }, at)
      const payment: PaymentRecord = {
        ...ids,
        coin,
        tx,
        address_index: addressIndex,
        invoice_id: current._id,
        agent_id: current.agent_id,
        ...omitUndefined({ order_id: current.order_id }),
        amount_raw: String(amountRaw),
        state: found.lockedUntil === undefined ? 'seen' : 'locked',
        confirmations: found.confirmations,
        ...omitUndefined({ height: found.height, unlock_time: found.lockedUntil }),
        first_seen_at: at,
        late: isLate,
        ...(isLate && current.days !== undefined ? omitUndefined({ arrival_rate: rate?.usd }) : {}),
        by,
      }
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
 * two scans was wrong.) @returns whether the amount on record is now the one that was found
 */
async function correctAmount(ctx: Context, payment: PaymentRecord, amountRaw: bigint): Promise<boolean> {
  const { _id: payment_id, coin, amount_raw: recorded_raw } = payment
  const about = { payment_id, coin, recorded_raw, found_raw: String(amountRaw) }
  if (await ctx.invoices.correctAmount(payment_id, recorded_raw, String(amountRaw))) {
    ctx.log.warn(about, 'an unsettled payment was found with another amount than before; the new one stands')
    return true
  }
  ctx.log.error(about, 'a settled payment was found with another amount than it was counted with')
  return false
}

/** Makes a payment `seen` that has returned or whose lock has ended. */
async function makeSeen(ctx: Context, payment: PaymentRecord, from: 'gone' | 'locked'): Promise<void> {
  await ctx.database.transaction(async (session) => {
    if (!(await ctx.invoices.movePayment(payment._id, from, 'seen', session))) return
    const marks = from === 'locked' ? [invoiceMark({ ...payment, _id: payment.invoice_id }, 'seen')] : []
    await ctx.invoices.markHasPayments(payment.invoice_id, session, marks)
    if (!payment.late) await purposeOf(ctx, payment).noted?.(ctx, { ...payment, state: 'seen' }, session)
  })
}

/** Settles a confirmed payment; if it has to wait, marks that it waits for a rate. */
async function settlePayment(ctx: Context, payment: PaymentRecord, confirmations: number, by: Reporter) {
  const { _id: paymentId, agent_id: agentId } = payment
  const settle = () => transactSettlement(ctx, paymentId, confirmations, by)
  const settlement = await purposeOf(ctx, payment).inTurn(ctx, agentId, settle)
  if (settlement.kind === 'waits') await ctx.invoices.setWaitsForRate(paymentId)
}

/** What became of a confirmed payment; nothing is stored unless it is settled. */
export type Settlement =
  Exclude<PaymentVerdict, { kind: 'buys' }> | { kind: 'settled' } | { kind: 'waits'; for: 'rate' }

/** Settles a payment in one transaction, if it is `seen` and need not wait. */
function transactSettlement(ctx: Context, paymentId: string, confirmations: number, by: Reporter) {
  return ctx.database.transaction(async (session): Promise<Settlement> => {
    const noted = await ctx.invoices.findPaymentById(paymentId, session)
    if (noted === undefined) throw rolledBack(`payment ${paymentId}`)
    const invoice = await ctx.invoices.find(noted.invoice_id, session)
    if (invoice === undefined) throw new Error(`payment ${paymentId} has no invoice`)
    const recorded = by === 'operator' ? { by } : {}
    return settleIn(ctx, { ...noted, ...recorded, confirmations }, invoice, session)
  })
}

/**
 * Settles a payment that is stored as `seen`, unless it has to wait.
 *
 * @param payment with the fields that are stored with that: who says that it was made, and its confirmations
 * @param invoice as it was read in this transaction
 */
export async function settleIn(
  ctx: Context,
  payment: PaymentRecord,
  invoice: InvoiceRecord,
  session: Session,
): Promise<Settlement> {
  const at = nowSeconds(ctx)
  const verdict = judgePayment(payment, invoice, at)
  if (verdict.kind !== 'buys') return verdict
  const { late } = verdict
  const bought = await purposeOf(ctx, invoice).received(ctx, invoice, { ...payment, late }, session)
  if (bought === undefined) return { kind: 'waits', for: 'rate' }
  const lines = [...paymentLine(payment, 'received', at), ...(bought.lines ?? [])]
  const marks = [invoiceMark(invoice, 'confirmed')]
  await changeInvoice(ctx, invoice, { ...bought, entries: [], lines }, session, marks)
  const { by, confirmations } = payment
  const settled = { settled_at: at, confirmations, late, by, ...bought.settled }
  const entries = [paymentEntry({ ...payment, ...settled }, at), ...(bought.entries ?? [])]
  await ctx.invoices.settlePayment(payment._id, settled, entries, session)
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

/** The ledger entry of a settled payment, which commits to its transaction. */
export function paymentEntry(payment: PaymentRecord, at: number): PendingEntry {
  const { _id, invoice_id, order_id, coin, amount_raw, salt, tx } = payment
  const settlement = payment.by === 'operator' ? 'manual' : 'automatic'
  const tx_hash = commitRecord(_id, salt, { tx })
  const data = {
    payment_id: _id,
    invoice_id,
    ...omitUndefined({ order_id }),
    coin,
    amount_raw,
    settlement,
    tx_hash,
  }
  return { source: `${_id}/payment`, at, kind: 'payment', data }
}

/** Notes that the chain lacks a payment (gone, or reversed), unless only the operator has recorded it. */
export async function recordLoss(ctx: Context, payment: PaymentRecord): Promise<void> {
  const verdict = judgeLoss(payment)
  if (verdict.kind === 'gone') {
    if ((await ctx.invoices.movePayment(payment._id, verdict.from, 'gone')) && verdict.from === 'seen')
      await purposeOf(ctx, payment).dropped?.(ctx, payment)
  } else if (verdict.kind === 'reversed' && (await setLost(ctx, payment, true)))
    ctx.log.error({ payment_id: payment._id, coin: payment.coin }, 'the chain took back a settled payment')
}

/** Books a settled payment as lost, or as restored. @returns false if it was so before */
function setLost(ctx: Context, payment: PaymentRecord, isLost: boolean): Promise<boolean> {
  return ctx.database.transaction(async (session) => {
    const at = nowSeconds(ctx)
    if (!(await ctx.invoices.setReversed(payment._id, isLost ? at : undefined, session))) return false
    const step = isLost ? 'lost' : 'restored'
    await ctx.journal.write(paymentLine(payment, `${step}/${newStepId()}`, at), session)
    await purposeOf(ctx, payment)[step]?.(ctx, payment, session)
    return true
  })
}

/** Notes that the chain has a reversed payment again. */
async function restorePayment(ctx: Context, payment: PaymentRecord): Promise<void> {
  if (await setLost(ctx, payment, false))
    ctx.log.warn({ payment_id: payment._id, coin: payment.coin }, 'a payment taken back is there again')
}

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
    if (judgeExpiry(current, isHeldOpen, nowSeconds(ctx)).kind === 'stays') return
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
    const payment = await requireCounted(ctx, paymentId, session)
    const { came_to } = payment
    if (!isOnWordAlone(payment) && !(payment.by === 'operator' && came_to !== undefined)) throw shownByChain()
    const invoice = await ctx.invoices.find(payment.invoice_id, session)
    if (invoice === undefined) throw new Error(`payment ${paymentId} has no invoice`)
    const at = nowSeconds(ctx)
    const undone = await purposeOf(ctx, payment).undone(ctx, invoice, payment, session)
    const { entries = [], lines = [], ...outcome } = undone
    const reversed = [...paymentLine(payment, 'undone', at), ...lines]
    await changeInvoice(ctx, invoice, { ...outcome, lines: reversed }, session)
    await ctx.invoices.undoPayment(payment, at, [undoneEntry(payment, at), ...entries], session)
    if (came_to !== undefined)
      await ctx.invoices.insertArrival(
        { ...newArrival({ ...payment, came_to }, at), ...ids, ...pick(payment, 'swept_at') },
        session,
      )
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
    const payment = await requireCounted(ctx, paymentId, session)
    if (!isOnWordAlone(payment)) throw shownByChain()
    const at = nowSeconds(ctx)
    const { _id, invoice_id, coin, amount_raw } = payment
    // Without the order, whose sides are owed what they were: the verifiers add up payments of orders.
    const data = { step: 'lost', payment_id: _id, invoice_id, coin, amount_raw }
    const entry: PendingEntry = { source: `${_id}/lost`, at, kind: 'payment', data }
    if (!(await ctx.invoices.setReversed(_id, at, session, entry)))
      throw new Overtaken(`payment ${_id} has changed since it was read`)
    await ctx.journal.write(paymentLine(payment, `lost/${stepId}`, at), session)
    await purposeOf(ctx, payment).givenUp?.(ctx, payment, session)
    return payment
  })
}

/** Reads a payment that bought something. @throws Refusal `no_such_record`, `wrong_state` */
async function requireCounted(ctx: Context, paymentId: string, session: Session): Promise<PaymentRecord> {
  const payment = await ctx.invoices.findPaymentById(paymentId, session)
  if (payment === undefined) throw new Refusal('no_such_record', 'There is no payment with this id.')
  if (payment.state !== 'settled')
    throw new Refusal('wrong_state', `The payment is ${payment.state}, so it bought nothing.`)
  if (payment.reversed_at !== undefined)
    throw new Refusal('wrong_state', 'The payment is lost, and the venue bears that already.')
  return payment
}

const shownByChain = (): Refusal =>
  new Refusal('wrong_state', 'The chain has shown this payment, so it stays.')

/** The record of confirmed money that no invoice counts, but for its id and salt. @param at Unix seconds */
export function newArrival(
  {
    coin,
    tx,
    address_index,
    amount_raw,
    came_to,
  }: Pick<ArrivalRecord, 'coin' | 'tx' | 'address_index' | 'amount_raw'> &
    Required<Pick<ArrivalRecord, 'came_to'>>,
  at: number,
) {
  const seen = { confirmations: 1, first_seen_at: at, settled_at: at, late: false }
  return { coin, tx, address_index, amount_raw, came_to, state: 'settled', by: 'chain', ...seen } as const
}

/** The ledger entry of a payment that the operator took back. */
function undoneEntry({ _id, invoice_id, order_id, coin, amount_raw }: PaymentRecord, at: number) {
  const data = {
    step: 'undone',
    payment_id: _id,
    invoice_id,
    ...omitUndefined({ order_id }),
    coin,
    amount_raw,
  }
  return { source: `${_id}/undone`, at, kind: 'payment' as const, data }
}
