import type { Context } from '../context.ts'
import { requireOwn, type Session } from '../database.ts'
import type { InvoiceRecord, PaymentRecord } from '../payments/invoice.ts'
import { NOTHING_TO_DO, type Outcome, type Purpose } from '../payments/purpose.ts'
import { unixSeconds } from '../time.ts'
import { notePayoutStep } from './order-payouts.ts'
import { enqueueDeadline, secondsBehind } from './order-schedule.ts'
import { makeMove, payoutFor, type Move } from './order-service.ts'
import { atReceived, priceOf, stepChange, type OrderRecord } from './order.ts'

/*
 * What settlement tells the market, inside its own transactions. Everything that arrives is held for the order, or owed
 * to the buyer; here it is decided which. Each of these changes the order's version, so of two that come at once the
 * second sees what the first did.
 */

/** What settlement and payouts tell the market. */
export const orderPurpose: Purpose = {
  ...NOTHING_TO_DO,
  async noted(ctx, payment, session) {
    if (payment.order_id !== undefined) await ctx.orders.notePaymentSeen(payment.order_id, payment.first_seen_at, session)
  },
  // Nothing hangs on whether another is under way but what a view shows.
  async dropped(ctx, payment) {
    const payments = await ctx.invoices.listPayments(payment.invoice_id)
    if (payment.order_id !== undefined && !payments.some(({ state }) => state === 'seen'))
      await ctx.orders.forgetPaymentSeen(payment.order_id)
  },
  async received(ctx, invoice, payment, session) {
    const received_raw = String(BigInt(invoice.received_raw) + BigInt(payment.amount_raw))
    await receiveOrderPayment(ctx, { ...invoice, received_raw }, payment, session)
    return { fields: { received_raw } }
  },
  lost: loseOrderPayment,
  restored: restoreOrderPayment,
  expired: lapseOrder,
  payoutMoved: notePayoutStep,
}

/** `invoice` has the payment counted in `received_raw`. */
async function receiveOrderPayment(ctx: Context, invoice: InvoiceRecord, payment: PaymentRecord, session: Session): Promise<void> {
  const order = await findOrder(ctx, invoice, session)
  const at = unixSeconds(ctx.now())
  const others = (await ctx.invoices.listPayments(invoice._id, session)).filter(({ _id }) => _id !== payment._id)
  const isMoreUnderWay = others.some(({ state }) => state === 'seen')
  const move = receive(order, invoice, payment, { at, behind: await secondsBehind(ctx), isMoreUnderWay })
  await makeOwnMove(ctx, order, move, session)
  // To-do list alone: where the transaction comes to nothing, the job finds nothing.
  void enqueueDeadline(ctx, move.change.set)
}

function receive(
  order: OrderRecord,
  invoice: InvoiceRecord,
  payment: PaymentRecord,
  { at, behind, isMoreUnderWay }: { at: number; behind: number; isMoreUnderWay: boolean },
): Move {
  const unset = isMoreUnderWay ? [] : (['payment_seen_at'] as const)
  const noted = { change: { step: 'payment' as const, at, set: {}, unset, entries: [] } }
  switch (order.status) {
    case 'awaiting_payment': {
      const received = countedRaw(order, invoice)
      const priced = atReceived(order, received)
      return priced === undefined ? noted : pay(order, priced, received - BigInt(priced.amount_raw), { at, behind })
    }
    // The decision will say whose it is.
    case 'disputed':
      return noted
    // The price is held, or was given to its owner: what comes now is over it.
    default:
      return { ...noted, payouts: [payoutFor(order, 'buyer', `excess/${payment._id}`, BigInt(payment.amount_raw), at)] }
  }
}

/** The full price is there. */
function pay(order: OrderRecord, priced: OrderRecord, excess: bigint, { at, behind }: { at: number; behind: number }): Move {
  const deliverBy = at + behind + order.delivery_seconds
  return {
    change: stepChange(order, 'paid', at, {
      set: { paid_at: at, deliver_by: deliverBy, due_at: deliverBy, ...priceOf(priced) },
      unset: ['unpaid_slot', 'payment_seen_at'],
      data: { deliver_by: deliverBy, ...(priced === order ? {} : priceOf(priced)) },
    }),
    payouts: excess === 0n ? [] : [payoutFor(order, 'buyer', 'excess', excess, at)],
  }
}

/** Everything that was received for an order and not given up. */
export function countedRaw(order: OrderRecord, invoice: Pick<InvoiceRecord, 'received_raw'>): bigint {
  return BigInt(invoice.received_raw) - BigInt(order.written_off_raw)
}

/**
 * The chain took a settled payment of an order back. It goes on counting as received until the operator decides, and
 * until then nothing of the order's money goes out that is not signed yet.
 */
async function loseOrderPayment(ctx: Context, payment: PaymentRecord, session: Session): Promise<void> {
  const order = await findOrder(ctx, payment, session)
  const at = unixSeconds(ctx.now())
  const change = stepChange(order, 'payment_lost', at, {
    set: { disputed_at: at, disputed_by: 'chain' },
    unset: ['due_at', 'unpaid_slot'],
    kind: 'dispute',
    data: { by: 'chain', payment_id: payment._id, coin: payment.coin, amount_raw: payment.amount_raw },
  })
  await makeOwnMove(ctx, order, { change }, session)
  await ctx.payouts.setFrozen(order._id, true, session)
}

/**
 * A payment that the chain took back is there again. Before a decision that changes nothing. Where the decision gave it
 * up, it has been received once more, and is owed to the buyer.
 */
async function restoreOrderPayment(ctx: Context, payment: PaymentRecord, session: Session): Promise<void> {
  const order = await findOrder(ctx, payment, session)
  const [writtenOff, amount] = [BigInt(order.written_off_raw), BigInt(payment.amount_raw)]
  const returned = writtenOff < amount ? writtenOff : amount
  const at = unixSeconds(ctx.now())
  if (returned === 0n) {
    // Writes the order all the same: beside a decision that still counts the payment as lost, one of the two conflicts.
    await makeOwnMove(ctx, order, { change: { step: 'payment_returned', at, set: {}, entries: [] } }, session)
    return
  }
  const change = {
    step: 'payment_returned' as const,
    at,
    set: { written_off_raw: String(writtenOff - returned) },
    entries: [
      {
        source: `${order._id}/payment_returned/${order.version + 1}`,
        at,
        kind: 'payment' as const,
        data: {
          step: 'returned',
          payment_id: payment._id,
          invoice_id: payment.invoice_id,
          order_id: order._id,
          coin: payment.coin,
          amount_raw: String(returned),
        },
      },
    ],
  }
  const payouts = order.status === 'disputed' ? [] : [payoutFor(order, 'buyer', `returned/${payment._id}`, returned, at)]
  await makeOwnMove(ctx, order, { change, payouts }, session)
}

/**
 * The time to pay an order is over, the chain has been looked at since, and no payment is under way; in this
 * transaction. What was paid in part is owed to the buyer.
 */
async function lapseOrder(ctx: Context, invoice: InvoiceRecord, session: Session): Promise<Outcome> {
  const order = await findOrder(ctx, invoice, session)
  if (order.status !== 'awaiting_payment') return {}
  const at = unixSeconds(ctx.now())
  const received = countedRaw(order, invoice)
  const change = stepChange(order, 'expired', at, { set: { closed_at: at }, unset: ['unpaid_slot', 'payment_seen_at'] })
  await makeOwnMove(ctx, order, { change, payouts: received === 0n ? [] : [payoutFor(order, 'buyer', 'expired', received, at)] }, session)
  return {}
}

async function findOrder(ctx: Context, of: { _id: string; order_id?: string }, session: Session): Promise<OrderRecord> {
  const order = of.order_id === undefined ? undefined : await ctx.orders.find(of.order_id, session)
  if (order === undefined) throw new Error(`${of._id} is of an order that does not exist`)
  return order
}

/** A move inside the transaction that read the order: a conflict ends that as a whole, so nothing can have changed. */
async function makeOwnMove(ctx: Context, order: OrderRecord, move: Move, session: Session): Promise<void> {
  await requireOwn(makeMove(ctx, order, move, session), `order ${order._id}`)
}
