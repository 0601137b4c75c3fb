import type { Context } from '../context.ts'
import type { Session } from '../platform/database.ts'
import { Refusal } from '../platform/errors.ts'
import type { PendingEntry } from '../ledger/pending.ts'
import type { InvoiceRecord } from '../money/invoice.ts'
import type { PaymentRecord } from '../money/arrival.ts'
import type { PayoutState, StoredPayout } from '../money/payout.ts'
import type { OrderPurpose, Outcome } from '../money/purpose.ts'
import { nowSeconds } from '../platform/time.ts'
import { enqueueDeadline } from './order-deadlines.ts'
import {
  disputeByChain,
  isSellerPaid,
  markPaidOut,
  netReceivedRaw,
  paidUpdate,
  unpaidChange,
} from './order-money.ts'
import { disputeSuspected, listDisputedAt, resumeCleared } from './order-suspicions.ts'
import { payoutFor, type OrderUpdate } from './order-rules.ts'
import { readPayouts, replaceOpenPayouts, storeUpdate } from './order-updates.ts'
import { feeShare, sellerShare, stepChange, type OrderChange, type OrderRecord } from './order.ts'

/**
 * What the market does when a payment or a payout of an order changes, in the transaction that changes it.
 * What changes money writes the order with its next version, so that two at once conflict.
 */
export const orderPurpose: OrderPurpose = {
  inTurn: (_ctx, _agentId, transact) => transact(),
  async noted(ctx, payment, session) {
    if (payment.order_id !== undefined)
      await ctx.orders.notePaymentSeen(payment.order_id, payment.first_seen_at, session)
  },
  async dropped(ctx, payment) {
    if (payment.order_id !== undefined && !(await ctx.invoices.arrivals.isUnderWay(payment.invoice_id)))
      await ctx.orders.forgetPaymentSeen(payment.order_id)
  },
  async received(ctx, invoice, payment, session) {
    const received_raw = String(BigInt(invoice.received_raw) + BigInt(payment.amount_raw))
    await receivePayment(ctx, { ...invoice, received_raw }, payment, session)
    return { kind: 'buys', outcome: { fields: { received_raw } } }
  },
  async undone(ctx, invoice, payment, session) {
    const received_raw = String(BigInt(invoice.received_raw) - BigInt(payment.amount_raw))
    await undoPayment(ctx, { ...invoice, received_raw }, session)
    // An order that waits for its payment again expires with its invoice, so the invoice is open again.
    return { fields: { received_raw, lapsed: false } }
  },
  async givenUp(ctx, payment, session) {
    // A decision under way counts the payment as received; writing the order makes one of the two conflict.
    await touchOrder(ctx, await findOrder(ctx, payment, session), 'payment', session)
  },
  lost: disputeLostPayment,
  restored: restorePayment,
  suspected: disputeSuspected,
  placedAt: (ctx, orderIds) => ctx.orders.readPlaced(orderIds),
  disputedAt: listDisputedAt,
  cleared: resumeCleared,
  expired: expireOrder,
  payoutMoved: notePayoutState,
}

/**
 * Takes a confirmed payment, which `invoice` counts already: the order is paid if its price is covered; one
 * past that owes the buyer the payment; a disputed one only keeps it.
 */
async function receivePayment(
  ctx: Context,
  invoice: InvoiceRecord,
  payment: PaymentRecord,
  session: Session,
): Promise<void> {
  const order = await findOrder(ctx, invoice, session)
  const at = nowSeconds(ctx)
  const isMoreUnderWay = await ctx.invoices.arrivals.isUnderWay(invoice._id, { butFor: payment._id }, session)
  const unset: OrderChange['unset'] = isMoreUnderWay ? [] : ['payment_seen_at']
  let update: OrderUpdate = { change: { step: 'payment', at, unset } }
  if (order.status === 'awaiting_payment') {
    update = paidUpdate(order, netReceivedRaw(order, invoice), at) ?? update
  } else if (order.status !== 'disputed') {
    // The price is held, or was given to its owner: what comes now is beyond it.
    update.payouts = [payoutFor(order, 'buyer', `excess/${payment._id}`, BigInt(payment.amount_raw), at)]
  }
  await storeUpdate(ctx, order, update, session)
  // Not awaited: it is no part of the transaction. If that fails, the job finds nothing to do.
  void enqueueDeadline(ctx, update.change.set ?? {})
}

/**
 * Takes back a payment that the operator had recorded by hand, and that `invoice` no longer counts: an order
 * that is paid awaits its payment again, and the buyer is owed only what the other payments leave it.
 *
 * @throws Refusal `wrong_state` if the order cannot wait for its price again, or the buyer was paid too much
 */
async function undoPayment(ctx: Context, invoice: InvoiceRecord, session: Session): Promise<void> {
  const order = await findOrder(ctx, invoice, session)
  const at = nowSeconds(ctx)
  const receivedRaw = netReceivedRaw(order, invoice)
  const priceRaw = BigInt(order.amount_raw)
  const isCovered = receivedRaw >= priceRaw
  const isGivenBack = order.status === 'refunded' || order.status === 'expired'
  if (!isCovered && !isGivenBack && !['awaiting_payment', 'paid', 'disputed'].includes(order.status))
    throw new Refusal(
      'wrong_state',
      `The order is ${order.status}, and without this payment its price is not there; it cannot be taken back.`,
    )
  const change: OrderChange =
    order.status === 'paid' && !isCovered
      ? await unpaidChange(ctx, order, invoice, at)
      : { step: 'payment', at }
  const { buyer } = await readPayouts(ctx, order, session)
  const keptRaw = isCovered && !isGivenBack ? sellerShare(order) + feeShare(order) : 0n
  if (receivedRaw - keptRaw < buyer.sentRaw) throw paidTooMuch()
  if (order.status === 'disputed') return storeUpdate(ctx, order, { change }, session)
  let buyerRaw = 0n
  if (isGivenBack) buyerRaw = receivedRaw
  else if (isCovered && order.status !== 'awaiting_payment') buyerRaw = receivedRaw - keptRaw
  if (buyerRaw < buyer.sentRaw) throw paidTooMuch()
  const due = { raw: buyerRaw, reason: 'undone', at }
  const payouts = await replaceOpenPayouts(ctx, order, 'buyer', buyer, due, session)
  await storeUpdate(ctx, order, { change, payouts }, session)
}

const paidTooMuch = (): Refusal =>
  new Refusal(
    'wrong_state',
    'The buyer has been paid more than is left without this payment; it cannot be taken back.',
  )

/**
 * Disputes the order of a payment that the chain took back. It counts as received until the operator decides.
 */
async function disputeLostPayment(ctx: Context, payment: PaymentRecord, session: Session): Promise<void> {
  const about = { payment_id: payment._id, coin: payment.coin, amount_raw: payment.amount_raw }
  await disputeByChain(ctx, await findOrder(ctx, payment, session), 'payment_lost', about, session)
}

/**
 * Takes a payment that the chain has again: what a decision had written off of it counts as received again
 * and, unless the order is disputed, is owed to the buyer.
 */
async function restorePayment(ctx: Context, payment: PaymentRecord, session: Session): Promise<void> {
  const order = await findOrder(ctx, payment, session)
  const [writtenOffRaw, amountRaw] = [BigInt(order.written_off_raw), BigInt(payment.amount_raw)]
  const returnedRaw = writtenOffRaw < amountRaw ? writtenOffRaw : amountRaw
  const at = nowSeconds(ctx)
  // A decision under way still counts the payment as lost; writing the order makes one of the two conflict.
  if (returnedRaw === 0n) return touchOrder(ctx, order, 'payment_returned', session)
  const entry: PendingEntry = {
    source: `${order._id}/payment_returned/${order.version + 1}`,
    at,
    kind: 'payment',
    data: {
      step: 'returned',
      payment_id: payment._id,
      invoice_id: payment.invoice_id,
      order_id: order._id,
      coin: payment.coin,
      amount_raw: String(returnedRaw),
    },
  }
  const set = { written_off_raw: String(writtenOffRaw - returnedRaw) }
  const change: OrderChange = { step: 'payment_returned', at, set, entries: [entry] }
  const payouts =
    order.status === 'disputed' ? [] : [payoutFor(order, 'buyer', `returned/${payment._id}`, returnedRaw, at)]
  await storeUpdate(ctx, order, { change, payouts }, session)
}

/**
 * Ends an order that awaits payment, with its invoice: the buyer is owed what it has paid of the price.
 * Leaves an order in any other status as it is.
 */
async function expireOrder(ctx: Context, invoice: InvoiceRecord, session: Session): Promise<Outcome> {
  const order = await findOrder(ctx, invoice, session)
  if (order.status !== 'awaiting_payment') return {}
  const at = nowSeconds(ctx)
  const receivedRaw = netReceivedRaw(order, invoice)
  const change = stepChange(order, at < order.pay_by ? 'unpayable' : 'expired', at, {
    set: { closed_at: at },
    unset: ['unpaid_slot', 'payment_seen_at'],
  })
  const payouts = receivedRaw === 0n ? [] : [payoutFor(order, 'buyer', 'expired', receivedRaw, at)]
  await storeUpdate(ctx, order, { change, payouts }, session)
  return {}
}

/** Reads the order of an invoice, payment or payout. @throws Error if it has none */
async function findOrder(ctx: Context, record: { _id: string; order_id?: string }, session: Session) {
  const order = record.order_id === undefined ? undefined : await ctx.orders.find(record.order_id, session)
  if (order === undefined) throw new Error(`${record._id} is of an order that does not exist`)
  return order
}

/**
 * Updates the order of a payout that has arrived or is owed again. The seller's payout ends its order when it
 * arrives; if the order is disputed then, the decision does. What is owed again is frozen while the chain
 * disputes the order.
 */
async function notePayoutState(ctx: Context, payout: StoredPayout, to: PayoutState, session: Session) {
  if (payout.order_id === undefined || !['confirmed', 'manual', 'owed'].includes(to)) return
  const order = await findOrder(ctx, payout, session)
  const isSellers = payout.agent_id === order.seller_id
  if (to === 'owed') {
    if (order.status === 'paid_out' && isSellers) {
      const change = stepChange(order, 'payout_undone', nowSeconds(ctx), { unset: ['paid_out_at'] })
      await storeUpdate(ctx, order, { change }, session)
    } else await touchOrder(ctx, order, 'payout_returned', session)
    const isFrozen = order.status === 'disputed' && order.disputed_by === 'chain'
    await ctx.payouts.setFrozen(order._id, isFrozen, session)
  } else if (isSellers && (order.status === 'released' || order.status === 'disputed')) {
    // A seller has several payouts only if its order was decided more than once; of two that arrive at the same
    // moment, one sees the other, since both write the order.
    const isWhole = order.decided_version === undefined || (await isSellerPaid(ctx, order, session))
    if (order.status === 'released' && isWhole) await markPaidOut(ctx, order, session)
    else await touchOrder(ctx, order, 'payout_arrived', session)
  }
}

/** Writes nothing but a new version, so that a transaction that disputes or decides the order conflicts. */
const touchOrder = (ctx: Context, order: OrderRecord, step: OrderChange['step'], session: Session) =>
  storeUpdate(ctx, order, { change: { step, at: nowSeconds(ctx) } }, session)
