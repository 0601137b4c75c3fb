import type { Context } from '../context.ts'
import { isDuplicateKey, rolledBack, unavailable, type Session } from '../platform/database.ts'
import { newId, newStepId } from '../platform/ids.ts'
import { newSalt } from '../ledger/pending.ts'
import { nowSeconds } from '../platform/time.ts'
import { dustThreshold } from './coin.ts'
import { newArrival, newPayment } from './arrival-steps.ts'
import { holdsOpen, isPayment, type ArrivalRecord, type PaymentRecord, type SeenPayment } from './arrival.ts'
import type { InvoiceRecord } from './invoice.ts'
import { purposeOf } from './purpose.ts'
import { readFreshRate } from './rate.ts'
import { COIN_FACTS } from './coin-facts.ts'
import { arrivalLine } from './journal.ts'
import {
  invoiceMark,
  requireUpdate,
  serialKey,
  storeArrivalStep,
  takeArrivalStep,
  type Taken,
} from './arrival-updates.ts'
import { settleOrWait, settlePayment, type Reporter } from './settlement.ts'

/*
 * What came to an address of ours goes on record here, whoever saw it: as a payment of the invoice that has the
 * address, or else as money of nobody.
 */

/**
 * Records a payment that was found on the chain or named by the operator. Any number of workers may report
 * the same payment, at any time and repeatedly: it counts once. It is stored when it is seen first, unique by coin,
 * transaction and address; what is on record there as nobody's stays so. Once it is confirmed, one transaction
 * makes it `settled` and changes invoice, pass, referral and ledger: the one that stores it, if it is confirmed
 * when it is seen first. A confirmed late payment stays `seen` until its invoice has expired and there is a fresh
 * rate: see settleWaiting().
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
  const { coin, tx, addressIndex } = found
  const payment =
    (await ctx.invoices.arrivals.find(coin, tx, addressIndex)) ?? (await storeFirst(ctx, invoice, found, by))
  if (payment === undefined || !isPayment(payment)) return
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
    await ctx.invoices.arrivals.noteConfirmations(payment._id, found.confirmations, found.height)
  if (payment.state !== 'settled' && found.isConfirmed)
    await settlePayment(ctx, payment, found.confirmations, by)
}

/** Notes that the chain shows an arrival; if the operator had recorded it, payouts of it may now be sent. */
export async function noteShown(ctx: Context, arrival: ArrivalRecord): Promise<void> {
  await takeArrivalStep(ctx, arrival, { step: 'shown' })
}

/**
 * Stores a payment that is seen for the first time, as `seen` or `locked`, and marked `late` if it came after the
 * invoice's time. A confirmed one is settled at once, unless it has to wait.
 *
 * @returns undefined if it is stored; what is on record of it if another was faster
 */
async function storeFirst(
  ctx: Context,
  invoice: InvoiceRecord,
  found: SeenPayment,
  by: Reporter,
): Promise<ArrivalRecord | undefined> {
  const { coin, tx, addressIndex, confirmations } = found
  const [rate, record] = await Promise.all([readFreshRate(ctx, coin), ctx.coins.findCoin(coin)])
  const roundAt = record?.round_at ?? 0
  const ids = { _id: newId('payment'), salt: newSalt() }
  const store = () =>
    ctx.database.transaction(async (session): Promise<PaymentRecord> => {
      const tells = found.lockedUntil === undefined ? [invoiceMark(invoice, 'seen')] : []
      const current = await ctx.invoices.markHasPayments(invoice._id, session, tells)
      if (current === undefined) throw rolledBack(`invoice ${invoice._id}`)
      const payment = newPayment(current, found, { ids, by, roundAt, rate: rate?.usd }, nowSeconds(ctx))
      await ctx.invoices.arrivals.insert(payment, session)
      if (holdsOpen(payment)) await purposeOf(ctx, payment).noted?.(ctx, payment, session)
      if (found.isConfirmed) await settleOrWait(ctx, payment, current, { by, confirmations }, session)
      return payment
    })
  try {
    const noted = await (found.isConfirmed
      ? purposeOf(ctx, invoice).inTurn(ctx, invoice.agent_id, store)
      : store())
    const { _id: payment_id, invoice_id, order_id, state } = noted
    ctx.log.info({ money: 'payment', payment_id, invoice_id, order_id, coin, state }, 'a payment was seen')
    return undefined
  } catch (error) {
    if (!isDuplicateKey(error)) throw error
    const other = await ctx.invoices.arrivals.find(coin, tx, addressIndex)
    // The record that was in the way has been rolled back by an election.
    if (other === undefined) throw unavailable(error)
    return other
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
  const taken = await takeArrivalStep(ctx, payment, { step: 'corrected', amountRaw })
  if (taken === 'taken')
    ctx.log.warn(about, 'an unsettled payment was found with another amount than before; the new one stands')
  else ctx.log.error(about, 'a settled payment was found with another amount than it was counted with')
  return taken
}

/** Notes that the chain has a payment that had vanished or was locked. */
async function noteInChain(ctx: Context, payment: PaymentRecord, step: 'seen' | 'locked'): Promise<void> {
  await takeArrivalStep(ctx, payment, { step }, async (before, session) => {
    if (step === 'locked') return
    const marks =
      before.state === 'locked' ? [invoiceMark({ ...before, _id: before.invoice_id }, 'seen')] : []
    await ctx.invoices.markHasPayments(before.invoice_id, session, marks)
    if (!before.late) await purposeOf(ctx, before).noted?.(ctx, { ...before, state: 'seen' }, session)
  })
}

/** Notes that the chain lacks a payment (gone, or reversed), unless only the operator has recorded it. */
export async function recordLoss(ctx: Context, payment: PaymentRecord): Promise<void> {
  if ((await takeArrivalStep(ctx, payment, { step: 'gone' })) === 'taken')
    await purposeOf(ctx, payment).dropped?.(ctx, payment)
  else if ((await takeReversal(ctx, payment, 'lost')) === 'taken')
    ctx.log.error({ payment_id: payment._id, coin: payment.coin }, 'the chain took back a settled payment')
}

/** Notes that the chain took a settled payment back, or that it is there again, and tells its purpose. */
const takeReversal = (ctx: Context, payment: PaymentRecord, step: 'lost' | 'restored'): Promise<Taken> =>
  takeArrivalStep(ctx, payment, { step, stepId: newStepId() }, async (before, session) => {
    await purposeOf(ctx, before)[step]?.(ctx, before, session)
  })

type Found = Pick<SeenPayment, 'coin' | 'tx' | 'addressIndex' | 'amountRaw'>

/**
 * Records confirmed money at an address of ours: as a payment if an invoice has that address, or else as money
 * of nobody, though it came to the treasury. Any number of workers may do so, repeatedly: it is booked once.
 *
 * @returns the id of its record; undefined if it is our own money, from another address of ours
 */
export async function recordArrival(ctx: Context, found: SeenPayment): Promise<string | undefined> {
  await recordPayment(ctx, found)
  const known = await ctx.invoices.arrivals.find(found.coin, found.tx, found.addressIndex)
  return known?._id ?? recordUnassigned(ctx, found)
}

/**
 * Records confirmed money at an address that no invoice has, like recordArrival(). If the operator has recorded
 * it as a payment, that payment takes over the address which the money reached, and counts as shown by the chain.
 */
export function recordUnassigned(ctx: Context, found: Found): Promise<string | undefined> {
  const { coin, tx, addressIndex, amountRaw } = found
  const ids = { _id: newId('payment'), salt: newSalt() }
  return ctx.database.transaction(async (session) => {
    const known = await ctx.invoices.arrivals.find(coin, tx, addressIndex, session)
    if (known !== undefined) return known._id
    if (await isOurs(ctx, found, session)) return undefined
    const at = nowSeconds(ctx)
    const onWord = await ctx.invoices.arrivals.findOnWord(coin, tx, amountRaw, session)
    if (onWord !== undefined) {
      await storeArrivalStep(ctx, onWord, requireUpdate(onWord, { step: 'shown', addressIndex }, at), session)
      return onWord._id
    }
    const place = { coin, tx, address_index: addressIndex, amount_raw: String(amountRaw) }
    const arrival: ArrivalRecord = { ...ids, ...newArrival({ ...place, came_to: 'unassigned' }, at) }
    await ctx.invoices.arrivals.insert(arrival, session)
    await ctx.journal.write(arrivalLine(arrival, 'arrived', at), session)
    return arrival._id
  })
}

/** Whether it was sent by a transaction of ours. A wallet with one balance leaves such sends out by itself. */
async function isOurs(ctx: Context, { coin, tx }: Found, session: Session): Promise<boolean> {
  if (!COIN_FACTS[coin].paysOneAddress) return false
  return (await ctx.payouts.transfers.listByTx(coin, [tx], session)).length > 0
}
