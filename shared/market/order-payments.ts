import type { Context } from '../context.ts'
import type { Session } from '../servers/database.ts'
import { Refusal } from '../foundation/errors.ts'
import type { PendingEntry } from '../ledger/pending.ts'
import type { Coin } from '../payments/coin.ts'
import type { InvoiceRecord, PaymentRecord } from '../payments/invoice.ts'
import { ANYWHERE, type PayoutState, type StoredPayout, type UnexplainedSend } from '../payments/payout.ts'
import type { OrderPurpose, Outcome } from '../payments/purpose.ts'
import { nowSeconds } from '../foundation/time.ts'
import { enqueueDeadline } from './order-schedule.ts'
import { feeOf, stepRule } from './order-states.ts'
import {
  payoutFor,
  readPayouts,
  replaceOpenPayouts,
  storeOwnUpdate,
  type OrderUpdate,
} from './order-updates.ts'
import { priceAtReceived, priceFields, stepChange, type OrderChange, type OrderRecord } from './order.ts'

/**
 * What the market does when a payment or a payout of an order changes, in the transaction that changes it.
 * Each writes the order with its next version, so two at once conflict.
 */
export const orderPurpose: OrderPurpose = {
  inTurn: (_ctx, _agentId, transact) => transact(),
  async noted(ctx, payment, session) {
    if (payment.order_id !== undefined)
      await ctx.orders.notePaymentSeen(payment.order_id, payment.first_seen_at, session)
  },
  async dropped(ctx, payment) {
    if (payment.order_id !== undefined && !(await ctx.invoices.isUnderWay(payment.invoice_id)))
      await ctx.orders.forgetPaymentSeen(payment.order_id)
  },
  async received(ctx, invoice, payment, session) {
    const received_raw = String(BigInt(invoice.received_raw) + BigInt(payment.amount_raw))
    await receivePayment(ctx, { ...invoice, received_raw }, payment, session)
    return { fields: { received_raw } }
  },
  async undone(ctx, invoice, payment, session) {
    const received_raw = String(BigInt(invoice.received_raw) - BigInt(payment.amount_raw))
    await undoPayment(ctx, { ...invoice, received_raw }, session)
    // An order that waits for its payment again expires with its invoice, so the invoice is open again.
    return { fields: { received_raw, lapsed: false } }
  },
  lost: disputeLostPayment,
  restored: restorePayment,
  suspected: disputeSuspected,
  expired: expireOrder,
  payoutMoved: notePayoutState,
}

/** A change that only notes something about the payment, and leaves the status as it is. */
const paymentNoted = (at: number, unset: OrderChange['unset'] = []): OrderChange => ({
  step: 'payment',
  at,
  unset,
})

/** `invoice` counts the payment already. */
async function receivePayment(
  ctx: Context,
  invoice: InvoiceRecord,
  payment: PaymentRecord,
  session: Session,
): Promise<void> {
  const order = await findOrder(ctx, invoice, session)
  const at = nowSeconds(ctx)
  const isMoreUnderWay = await ctx.invoices.isUnderWay(invoice._id, { butFor: payment._id }, session)
  const noted = paymentNoted(at, isMoreUnderWay ? [] : ['payment_seen_at'])
  let update: OrderUpdate = { change: noted }
  if (order.status === 'awaiting_payment') {
    update = payIfCovered(order, netReceivedRaw(order, invoice), at) ?? update
  } else if (order.status !== 'disputed') {
    // The price is held, or was given to its owner: what comes now is beyond it.
    const excess = payoutFor(order, 'buyer', `excess/${payment._id}`, BigInt(payment.amount_raw), at)
    update = { change: noted, payouts: [excess] }
  }
  await storeOwnUpdate(ctx, order, update, session)
  // Outside of the transaction: if that fails, the job finds nothing to do.
  void enqueueDeadline(ctx, update.change.set ?? {})
}

/**
 * The order is paid, and the buyer is owed what exceeds the price.
 *
 * @returns undefined if the price is not covered
 */
function payIfCovered(order: OrderRecord, receivedRaw: bigint, at: number): OrderUpdate | undefined {
  const priced = priceAtReceived(order, receivedRaw)
  if (priced === undefined) return undefined
  const excessRaw = receivedRaw - BigInt(priced.amount_raw)
  const deliverBy = at + order.delivery_seconds
  return {
    change: stepChange(order, 'paid', at, {
      set: { paid_at: at, deliver_by: deliverBy, due_at: deliverBy, ...priceFields(priced) },
      unset: ['unpaid_slot', 'payment_seen_at'],
      data: { deliver_by: deliverBy, ...(priced === order ? {} : priceFields(priced)) },
    }),
    payouts: excessRaw === 0n ? [] : [payoutFor(order, 'buyer', 'excess', excessRaw, at)],
  }
}

/**
 * The operator takes back a payment that it had recorded by hand. `invoice` no longer counts the payment.
 *
 * @throws Refusal `wrong_state` if the order cannot wait for its price again, or the buyer was paid too much
 */
async function undoPayment(ctx: Context, invoice: InvoiceRecord, session: Session): Promise<void> {
  const order = await findOrder(ctx, invoice, session)
  const at = nowSeconds(ctx)
  const receivedRaw = netReceivedRaw(order, invoice)
  const priceRaw = BigInt(order.amount_raw)
  const isCovered = receivedRaw >= priceRaw
  const isClosed = order.status === 'refunded' || order.status === 'expired'
  if (!isCovered && !isClosed && !['awaiting_payment', 'paid', 'disputed'].includes(order.status))
    throw new Refusal(
      'wrong_state',
      `The order is ${order.status}, and without this payment its price is not there; it cannot be taken back.`,
    )
  const change =
    order.status === 'paid' && !isCovered
      ? await awaitPaymentAgain(ctx, order, invoice, at)
      : paymentNoted(at)
  if (order.status === 'disputed') return storeOwnUpdate(ctx, order, { change }, session)
  let dueRaw = 0n
  if (isClosed) dueRaw = receivedRaw
  else if (isCovered && order.status !== 'awaiting_payment') dueRaw = receivedRaw - priceRaw
  const { open, sentRaw } = (await readPayouts(ctx, order, session)).buyer
  if (dueRaw < sentRaw)
    throw new Refusal(
      'wrong_state',
      'The buyer has been paid more than is left without this payment; it cannot be taken back.',
    )
  const owed = { raw: dueRaw - sentRaw, reason: 'undone', at }
  const payouts = await replaceOpenPayouts(ctx, order, 'buyer', open, owed, session)
  await storeOwnUpdate(ctx, order, { change, payouts }, session)
}

/** The order waits for its full price, in a slot that may lie beyond those of new orders. */
async function awaitPaymentAgain(ctx: Context, order: OrderRecord, invoice: InvoiceRecord, at: number) {
  const used = new Set(await ctx.orders.listUnpaidSlots(order.buyer_id))
  let slot = 0
  while (used.has(slot)) slot++
  const { amount_raw } = invoice
  return stepChange(order, 'payment_undone', at, {
    set: { unpaid_slot: slot, amount_raw, fee_raw: String(feeOf(BigInt(amount_raw))) },
    unset: ['paid_at', 'deliver_by', 'due_at'],
  })
}

/** Everything that was received for an order and not written off. */
export const netReceivedRaw = (order: OrderRecord, invoice: Pick<InvoiceRecord, 'received_raw'>): bigint =>
  BigInt(invoice.received_raw) - BigInt(order.written_off_raw)

/** The lost payment counts as received until the operator decides; until then nothing is signed. */
async function disputeLostPayment(ctx: Context, payment: PaymentRecord, session: Session): Promise<void> {
  const about = { payment_id: payment._id, coin: payment.coin, amount_raw: payment.amount_raw }
  await disputeByChain(ctx, await findOrder(ctx, payment, session), 'payment_lost', about, session)
}

/** Disputes an order and freezes what is owed for it. */
async function disputeByChain(
  ctx: Context,
  order: OrderRecord,
  step: 'payment_lost' | 'suspected',
  about: PendingEntry['data'],
  session: Session,
): Promise<void> {
  const at = nowSeconds(ctx)
  const change = stepChange(order, step, at, {
    set: { disputed_at: at, disputed_by: 'chain' },
    unset: ['due_at', 'unpaid_slot'],
    kind: 'dispute',
    data: { by: 'chain', ...about },
  })
  await storeOwnUpdate(ctx, order, { change }, session)
  await ctx.payouts.setFrozen(order._id, true, session)
}

/**
 * Disputes the orders for which an unaccounted transaction may have paid a side, so that the operator decides
 * them.
 *
 * @returns their ids
 */
async function disputeSuspected(
  ctx: Context,
  coin: Coin,
  sends: readonly UnexplainedSend[],
  orderIds?: readonly string[],
): Promise<string[]> {
  const disputed: string[] = []
  const addresses = sends.flatMap(({ unexplained_to: to }) => to)
  const isAnywhere = addresses.includes(ANYWHERE)
  for (const { _id } of await ctx.orders.listByAddress(coin, isAnywhere ? undefined : addresses, orderIds)) {
    const isDisputed = await ctx.database.transaction(async (session) => {
      const order = await ctx.orders.find(_id, session)
      if (order === undefined || !stepRule('suspected').from.includes(order.status)) return false
      if (!sends.some((send) => mayHavePaid(send, order))) return false
      await disputeByChain(ctx, order, 'suspected', { coin }, session)
      return true
    })
    if (isDisputed) disputed.push(_id)
  }
  if (disputed.length > 0)
    ctx.log.error(
      { order_ids: disputed },
      'orders are disputed: a transaction that nobody has accounted for may have paid one of their sides',
    )
  return disputed
}

/** Not if the order was placed, or decided by the operator for the same reason, since the send was found. */
function mayHavePaid({ at, unexplained_to: to }: UnexplainedSend, order: OrderRecord): boolean {
  if (order.at > at || (order.disputed_by === 'chain' && (order.disputed_at ?? 0) >= at)) return false
  const { payout_address: payout, refund_address: refund } = order
  return refund === undefined || [ANYWHERE, payout, refund].some((address) => to.includes(address))
}

/** What a decision had written off of the payment has come back, and is owed to the buyer. */
async function restorePayment(ctx: Context, payment: PaymentRecord, session: Session): Promise<void> {
  const order = await findOrder(ctx, payment, session)
  const [writtenOff, amount] = [BigInt(order.written_off_raw), BigInt(payment.amount_raw)]
  const returned = writtenOff < amount ? writtenOff : amount
  const at = nowSeconds(ctx)
  // A decision under way still counts the payment as lost; writing the order makes one of the two conflict.
  if (returned === 0n) return touchOrder(ctx, order, 'payment_returned', session)
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
      amount_raw: String(returned),
    },
  }
  const set = { written_off_raw: String(writtenOff - returned) }
  const change: OrderChange = { step: 'payment_returned', at, set, entries: [entry] }
  const payouts =
    order.status === 'disputed' ? [] : [payoutFor(order, 'buyer', `returned/${payment._id}`, returned, at)]
  await storeOwnUpdate(ctx, order, { change, payouts }, session)
}

/** The buyer is owed what it has paid of the price. */
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
  await storeOwnUpdate(ctx, order, { change, payouts }, session)
  return {}
}

async function findOrder(ctx: Context, of: { _id: string; order_id?: string }, session: Session) {
  const order = of.order_id === undefined ? undefined : await ctx.orders.find(of.order_id, session)
  if (order === undefined) throw new Error(`${of._id} is of an order that does not exist`)
  return order
}

/**
 * A seller's payout that has arrived ends its order, at once or with the decision of a dispute. A payout that
 * came back is frozen while its order is disputed because of a lost payment.
 */
async function notePayoutState(ctx: Context, payout: StoredPayout, to: PayoutState, session: Session) {
  if (payout.order_id === undefined || !['confirmed', 'manual', 'owed'].includes(to)) return
  const order = await findOrder(ctx, payout, session)
  const isSellers = payout.agent_id === order.seller_id
  if (to === 'owed') {
    if (order.status === 'paid_out' && isSellers) {
      const change = stepChange(order, 'payout_undone', nowSeconds(ctx), { unset: ['paid_out_at'] })
      await storeOwnUpdate(ctx, order, { change }, session)
    } else await touchOrder(ctx, order, 'payout_returned', session)
    const isFrozen = order.status === 'disputed' && order.disputed_by === 'chain'
    await ctx.payouts.setFrozen(order._id, isFrozen, session)
  } else if (isSellers) {
    if (order.status === 'released') await markPaidOut(ctx, order, session)
    else if (order.status === 'disputed') await touchOrder(ctx, order, 'payout_arrived', session)
  }
}

/** Writes only a new version, so that a transaction that disputes or decides the order conflicts. */
const touchOrder = (ctx: Context, order: OrderRecord, step: OrderChange['step'], session: Session) =>
  storeOwnUpdate(ctx, order, { change: { step, at: nowSeconds(ctx) } }, session)

/** The seller has its payout. In the transaction that read the order. */
export async function markPaidOut(ctx: Context, order: OrderRecord, session: Session): Promise<void> {
  const at = nowSeconds(ctx)
  const change = stepChange(order, 'paid_out', at, { set: { paid_out_at: at } })
  await storeOwnUpdate(ctx, order, { change }, session)
}
