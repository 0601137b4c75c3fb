import { given } from '../foundation/given.ts'
import type { Context } from '../context.ts'
import { commitRecord } from '../crypto/commitment.ts'
import { hint, tell, type EventMark } from '../events/mark.ts'
import { isDuplicateKey, requireOwn, unavailable, type Session } from '../servers/database.ts'
import { newId, newStepId } from '../foundation/ids.ts'
import { newSalt, type PendingEntry } from '../ledger/pending.ts'
import { LAPSED_LOOK_EVERY_MS } from '../foundation/limits.ts'
import { unixSeconds, nowSeconds } from '../foundation/time.ts'
import { dustThreshold, type Coin } from './coin.ts'
import type { InvoiceRecord, PaymentRecord, SeenPayment } from './invoice.ts'
import { paymentLine } from './journal.ts'
import { purposeOf, type Outcome } from './purpose.ts'
import { readFreshRate } from './rate.ts'

/** Payments to one agent change one pass: serialized, so that their transactions don't conflict. */
const keyOf = (agentId: string): string => `payments ${agentId}`

/**
 * Records a payment that was found on the chain or named by the operator. Any number of workers may report
 * the same payment, at any time and repeatedly: it counts once. First the payment is stored, unique by coin,
 * transaction and address. Once it is confirmed, one transaction makes it `settled` and changes invoice,
 * pass, referral and ledger. A confirmed late payment stays `seen` until its invoice has expired and there is
 * a fresh rate (settleWaiting).
 *
 * @returns the invoice's id; undefined if no invoice has this address, or the amount is dust
 */
export async function recordPayment(
  ctx: Context,
  found: SeenPayment,
  by: PaymentRecord['by'] = 'chain',
): Promise<string | undefined> {
  if (found.amountRaw < dustThreshold(found.coin)) return undefined
  const [invoice] = await ctx.invoices.findByAddresses(found.coin, [found.addressIndex])
  if (invoice === undefined) return undefined
  await ctx.serialize(keyOf(invoice.agent_id), () => takeIn(ctx, invoice, found, by))
  return invoice._id
}

async function takeIn(ctx: Context, invoice: InvoiceRecord, found: SeenPayment, by: PaymentRecord['by']) {
  const payment = await notePayment(ctx, invoice, found, by)
  if (BigInt(payment.amount_raw) !== found.amountRaw && !(await correctAmount(ctx, payment, found.amountRaw)))
    return
  if (payment.state === 'gone' || payment.state === 'locked') {
    if (found.lockedUntil === undefined) await bringBack(ctx, payment, payment.state)
    else if (payment.state === 'gone') await ctx.invoices.movePayment(payment._id, 'gone', 'locked')
  }
  if (by === 'chain' && found.isConfirmed) await noteShown(ctx, payment)
  if (payment.reversed_at !== undefined && found.isConfirmed) await restorePayment(ctx, payment)
  if (payment.confirmations !== found.confirmations || payment.height !== found.height)
    await ctx.invoices.noteConfirmations(payment._id, found.confirmations, found.height)
  if (payment.state !== 'settled' && found.isConfirmed)
    await settlePayment(ctx, payment, found.confirmations, by)
}

/** The chain has shown what was recorded by hand: its payouts may be sent. */
export async function noteShown(ctx: Context, { _id, by, shown_at: at }: PaymentRecord): Promise<void> {
  if (by === 'operator' && at === undefined) await ctx.invoices.setShown(_id, nowSeconds(ctx))
}

const invoiceMark = (
  { _id, agent_id: payer, order_id: orderId }: Pick<InvoiceRecord, '_id' | 'agent_id' | 'order_id'>,
  state: 'seen' | 'confirmed' | 'expired',
): EventMark => tell(payer, 'invoice', _id, { state, ...given({ order_id: orderId }) })

async function notePayment(
  ctx: Context,
  invoice: InvoiceRecord,
  found: SeenPayment,
  by: PaymentRecord['by'],
): Promise<PaymentRecord> {
  const { coin, tx, addressIndex, amountRaw } = found
  const known = await ctx.invoices.findPayment(coin, tx, addressIndex)
  if (known !== undefined) return known
  const [rate, roundAt] = await Promise.all([
    readFreshRate(ctx, coin),
    ctx.coins.findCoin(coin).then((state) => state?.round_at ?? 0),
  ])
  const ids = { _id: newId('payment'), salt: newSalt() }
  try {
    const noted = await ctx.database.transaction(async (session): Promise<PaymentRecord> => {
      const tells = found.lockedUntil === undefined ? [invoiceMark(invoice, 'seen')] : []
      const current = await ctx.invoices.markPayment(invoice._id, session, tells)
      if (current === undefined) throw new Error(`invoice ${invoice._id} was there and is gone`)
      const at = nowSeconds(ctx)
      // A whole round after its time did not find it: another payment under way holds the invoice open, and
      // not for this one.
      const isLate =
        current.lapsed ||
        current.foreign === true ||
        (by === 'chain' && Math.min(roundAt, at) > current.expires_at)
      const isLateForPass = isLate && current.days !== undefined
      const payment: PaymentRecord = {
        ...ids,
        coin,
        tx,
        address_index: addressIndex,
        invoice_id: current._id,
        agent_id: current.agent_id,
        ...given({ order_id: current.order_id }),
        amount_raw: String(amountRaw),
        state: found.lockedUntil === undefined ? 'seen' : 'locked',
        confirmations: found.confirmations,
        ...given({ height: found.height, unlock_time: found.lockedUntil }),
        first_seen_at: at,
        late: isLate,
        ...(isLateForPass && rate !== undefined ? { arrival_rate: rate.usd } : {}),
        by,
      }
      await ctx.invoices.insertPayment(payment, session)
      if (holdsOpen(payment)) await purposeOf(ctx, payment).noted(ctx, payment, session)
      return payment
    })
    const { _id: payment_id, invoice_id, order_id, state } = noted
    ctx.log.info({ money: 'payment', payment_id, invoice_id, order_id, coin, state }, 'a payment was seen')
    return noted
  } catch (error) {
    if (!isDuplicateKey(error)) throw error
    const other = await ctx.invoices.findPayment(coin, tx, addressIndex)
    // What stood there was taken back by an election.
    if (other === undefined) throw unavailable(error)
    return other
  }
}

/**
 * The hash covers the amount, so one look was wrong. What is settled stays.
 *
 * @returns whether it is right now
 */
async function correctAmount(ctx: Context, payment: PaymentRecord, amountRaw: bigint): Promise<boolean> {
  const { _id: payment_id, coin, amount_raw: recorded_raw } = payment
  const about = { payment_id, coin, recorded_raw, found_raw: String(amountRaw) }
  if (await ctx.invoices.correctAmount(payment_id, recorded_raw, String(amountRaw))) {
    ctx.log.warn(about, 'an unsettled payment was found with another amount than before; the new one stands')
    return true
  }
  ctx.log.error(
    about,
    'a settled payment was found with another amount than it was counted with; what was counted stands',
  )
  return false
}

async function bringBack(ctx: Context, payment: PaymentRecord, from: 'gone' | 'locked'): Promise<void> {
  await ctx.database.transaction(async (session) => {
    if (!(await ctx.invoices.movePayment(payment._id, from, 'seen', session))) return
    const told = { ...payment, _id: payment.invoice_id }
    await ctx.invoices.markPayment(told._id, session, from === 'locked' ? [invoiceMark(told, 'seen')] : [])
    if (!payment.late) await purposeOf(ctx, payment).noted(ctx, { ...payment, state: 'seen' }, session)
  })
}

async function settlePayment(
  ctx: Context,
  payment: PaymentRecord,
  confirmations: number,
  by: PaymentRecord['by'],
): Promise<void> {
  const { _id: paymentId, agent_id: agentId } = payment
  const settle = () => transactSettlement(ctx, paymentId, confirmations, by)
  const isWaiting = await purposeOf(ctx, payment).inTurn(ctx, agentId, settle)
  if (isWaiting) await ctx.invoices.setWaitsForRate(paymentId)
}

/** @returns true if it waits, and nothing was changed */
function transactSettlement(ctx: Context, paymentId: string, confirmations: number, by: PaymentRecord['by']) {
  return ctx.database.transaction(async (session) => {
    const noted = await ctx.invoices.findPaymentById(paymentId, session)
    if (noted === undefined) throw new Error(`payment ${paymentId} was there and is gone`)
    if (noted.state !== 'seen') return false
    const invoice = await ctx.invoices.find(noted.invoice_id, session)
    if (invoice === undefined) throw new Error(`payment ${paymentId} has no invoice`)
    const at = nowSeconds(ctx)
    // Before the time is over nothing is late, whatever was said.
    const payment = {
      ...noted,
      late: noted.late && (invoice.lapsed || invoice.foreign === true || at >= invoice.expires_at),
    }
    // What was in time buys first, at the invoice's own rate.
    if (payment.late && !invoice.lapsed) return true
    const bought = await purposeOf(ctx, invoice).received(ctx, invoice, payment, session)
    if (bought === undefined) return true
    const from = by === 'operator' ? await readHolder(ctx, payment, session) : undefined
    const taken = from === undefined ? {} : { taken_from: from }
    const lines = [...paymentLine({ ...payment, ...taken }, 'received', at), ...(bought.lines ?? [])]
    const mark = invoiceMark(invoice, 'confirmed')
    await changeInvoice(ctx, invoice, { ...bought, entries: [], lines }, session, mark)
    const settled = {
      settled_at: at,
      confirmations,
      late: payment.late,
      ...(by === 'operator' ? { by } : {}),
      ...taken,
      ...bought.settled,
    }
    const entries = [paymentEntry({ ...payment, ...settled }, at), ...(bought.entries ?? [])]
    await requireOwn(ctx.invoices.settlePayment(paymentId, settled, entries, session), `payment ${paymentId}`)
    return false
  })
}

/** Which account has the money that the operator records as a payment, if it is in the books already. */
async function readHolder(ctx: Context, { coin, tx, amount_raw: raw }: PaymentRecord, session: Session) {
  await ctx.coins.claim(coin, [tx], session)
  const taker = await ctx.payouts.findTaker(coin, tx, session)
  // One that is not in the chain yet brings nothing any more.
  if (taker !== undefined && taker.state !== 'confirmed') await ctx.payouts.claimBrought(coin, tx, session)
  if (taker?.state === 'confirmed' && taker.amount_raw === raw) return taker.brings
  const deposit = await ctx.journal.findDeposit(coin, tx, session)
  return deposit?.amount_raw === raw && (deposit.to === 'unassigned' || deposit.to === 'operator')
    ? deposit.to
    : undefined
}

async function changeInvoice(
  ctx: Context,
  invoice: InvoiceRecord,
  { fields = {}, entries = [], lines = [] }: Outcome,
  session: Session,
  tells: EventMark,
): Promise<void> {
  const changed = ctx.invoices.changeMoney(invoice, fields, entries, session, [tells])
  await requireOwn(changed, `invoice ${invoice._id}`)
  await ctx.journal.write(lines, session)
}

const WAITING_BATCH = 500

/** What needs a rate is passed over while there is none, and holds up nothing else. */
export async function settleWaiting(ctx: Context, coin: Coin): Promise<void> {
  const hasRate = (await readFreshRate(ctx, coin)) !== undefined
  const asked = { hasRate, nowSeconds: nowSeconds(ctx) }
  for (const payment of await ctx.invoices.listWaitingForRate(coin, asked, WAITING_BATCH)) {
    try {
      const settle = () => settlePayment(ctx, payment, payment.confirmations, payment.by)
      await ctx.serialize(keyOf(payment.agent_id), settle)
    } catch (error) {
      ctx.log.error(
        { err: error, payment_id: payment._id },
        'late money that waited could not be settled; the next time tries again',
      )
    }
  }
}

export function paymentEntry(payment: PaymentRecord, at: number): PendingEntry {
  return {
    source: `${payment._id}/payment`,
    at,
    kind: 'payment',
    data: {
      payment_id: payment._id,
      invoice_id: payment.invoice_id,
      ...given({ order_id: payment.order_id }),
      coin: payment.coin,
      amount_raw: payment.amount_raw,
      settlement: payment.by === 'operator' ? 'manual' : 'automatic',
      tx_hash: commitRecord(payment._id, payment.salt, { tx: payment.tx }),
    },
  }
}

/** A settled pass stands, a market order doesn't. What only the operator recorded isn't lost by absence. */
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

function setLost(ctx: Context, payment: PaymentRecord, isLost: boolean): Promise<boolean> {
  return ctx.database.transaction(async (session) => {
    const at = nowSeconds(ctx)
    if (!(await ctx.invoices.setReversed(payment._id, isLost ? at : undefined, session))) return false
    const step = isLost ? 'lost' : 'restored'
    await ctx.journal.write(paymentLine(payment, `${step}/${newStepId()}`, at), session)
    await purposeOf(ctx, payment)[step](ctx, payment, session)
    return true
  })
}

async function restorePayment(ctx: Context, payment: PaymentRecord): Promise<void> {
  if (await setLost(ctx, payment, false))
    ctx.log.warn(
      { payment_id: payment._id, coin: payment.coin },
      'a settled payment that the chain had taken back is there again',
    )
}

/** Invoices that expire at once, and at most in one round: what is left over expires after the next. */
const EXPIRE_BATCH = 500
const EXPIRE_BATCHES = 100

/** After a whole round begun at `roundAt`. @throws AggregateError at its end, of those that failed */
export async function expireInvoices(ctx: Context, coin: Coin, roundAt: number): Promise<void> {
  const passedOver = new Set(
    (await ctx.invoices.listUnderWay(coin)).filter(holdsOpen).map(({ invoice_id }) => invoice_id),
  )
  const lookAfter = unixSeconds(ctx.databaseNow() + LAPSED_LOOK_EVERY_MS)
  const errors: unknown[] = []
  for (let batch = 0; batch < EXPIRE_BATCHES; batch++) {
    const listed = await ctx.invoices.listOverdue(coin, roundAt, EXPIRE_BATCH + passedOver.size)
    const unpayable = batch === 0 ? await ctx.invoices.listUnpayable(coin) : []
    const overdue = [...listed, ...unpayable].filter(({ _id }) => !passedOver.has(_id))
    const untouched = overdue.filter((invoice) => !hasMoney(invoice)).map(({ _id }) => _id)
    await ctx.invoices.expireUntouched(untouched, lookAfter, ctx.databaseNow())
    for (const { agent_id: agentId } of overdue) hint(agentId)
    for (const invoice of overdue.filter(hasMoney)) {
      // Whatever comes of it, this call doesn't look at it again.
      passedOver.add(invoice._id)
      try {
        const end = () => expire(ctx, invoice, lookAfter)
        const inTurn = () => purposeOf(ctx, invoice).inTurn(ctx, invoice.agent_id, end)
        await ctx.serialize(keyOf(invoice.agent_id), inTurn)
      } catch (error) {
        errors.push(error)
      }
    }
    if (overdue.length < EXPIRE_BATCH) break
  }
  if (errors.length > 0)
    throw new AggregateError(
      errors,
      `${errors.length} invoices in ${coin} could not be lapsed, the first because of: ${String(errors[0])}`,
    )
}

/** It keeps its invoice from lapsing, and its order from expiring. */
const holdsOpen = ({ state, late }: PaymentRecord): boolean => state === 'seen' && !late

/** Lapsing it may take more than a mark on the invoice. */
const hasMoney = ({ has_payments, order_id, carried_raw }: InvoiceRecord): boolean =>
  has_payments === true || order_id !== undefined || carried_raw !== '0'

async function expire(ctx: Context, invoice: InvoiceRecord, look_after: number): Promise<void> {
  await ctx.database.transaction(async (session) => {
    const current = await ctx.invoices.find(invoice._id, session)
    if (current === undefined || current.lapsed) return
    const isUnpayable = current.foreign === true && current.order_id !== undefined
    if (!isUnpayable && current.expires_at > nowSeconds(ctx)) return
    if (await ctx.invoices.isUnderWay(current._id, { inTime: true }, session)) return
    const outcome = await purposeOf(ctx, current).expired(ctx, current, session)
    const fields = { ...outcome.fields, look_after, lapsed: true, open: false as const }
    await changeInvoice(ctx, current, { ...outcome, fields }, session, invoiceMark(current, 'expired'))
  })
}
