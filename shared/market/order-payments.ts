import type { Context } from '../context.ts'
import { requireOwn, type Session } from '../database.ts'
import { Refusal } from '../errors.ts'
import type { InvoiceRecord, PaymentRecord } from '../payments/invoice.ts'
import type { PayoutRecord } from '../payments/payout.ts'
import { withdrawPayout } from '../payments/payout-service.ts'
import { NOTHING_TO_DO, type Outcome, type Purpose } from '../payments/purpose.ts'
import { unixSeconds } from '../time.ts'
import { MARKET_FEE_PERCENT } from './market-terms.ts'
import { notePayoutStep } from './order-payouts.ts'
import { enqueueDeadline, secondsBehind } from './order-schedule.ts'
import { makeMove, payoutFor, type Move } from './order-service.ts'
import { feeOf } from './order-states.ts'
import { atReceived, priceOf, stepChange, sum, type OrderChange, type OrderRecord } from './order.ts'

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
  async undone(ctx, invoice, payment, session) {
    const received_raw = String(BigInt(invoice.received_raw) - BigInt(payment.amount_raw))
    await undoOrderPayment(ctx, { ...invoice, received_raw }, session)
    // An order that waits for its payment again expires with its invoice: that lapses anew.
    return { fields: { received_raw, lapsed: false, watch: 'round', look_after: 0 } }
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

/**
 * The operator takes back a payment of an order; `invoice` has it counted no more. No payout was made of it: those of an order
 * with such a payment are not sent. What the buyer is owed becomes what it has to be without it.
 *
 * @throws Refusal `wrong_state` if the price is no longer there and the order cannot wait for it again
 */
async function undoOrderPayment(ctx: Context, invoice: InvoiceRecord, session: Session): Promise<void> {
  const order = await findOrder(ctx, invoice, session)
  const at = unixSeconds(ctx.now())
  const received = countedRaw(order, invoice)
  const isCovered = received >= BigInt(order.amount_raw)
  const isOver = order.status === 'refunded' || order.status === 'expired'
  if (!isCovered && !isOver && !['awaiting_payment', 'paid', 'disputed'].includes(order.status))
    throw new Refusal(
      'wrong_state',
      `The order is ${order.status}, and without this payment its price is not there; it cannot be taken back.`,
    )
  const change =
    order.status === 'paid' && !isCovered
      ? await waitAgain(ctx, order, invoice, at)
      : { step: 'payment' as const, at, set: {}, entries: [] }
  // The decision says whose it is.
  if (order.status === 'disputed') return makeOwnMove(ctx, order, { change }, session)
  const due = isOver ? received : isCovered && order.status !== 'awaiting_payment' ? received - BigInt(order.amount_raw) : 0n
  const own = (await ctx.payouts.listByOrder(order._id, session)).filter(
    ({ agent_id: agentId, state }) => agentId === order.buyer_id && state !== 'withdrawn',
  )
  const isOpen = ({ state }: PayoutRecord): boolean => state === 'owed' || state === 'held'
  const owed = due - sum(own.filter((payout) => !isOpen(payout)))
  if (owed < 0n)
    throw new Refusal('wrong_state', 'The buyer has been paid more than is left without this payment; it cannot be taken back.')
  const isSame = owed === sum(own.filter(isOpen))
  if (!isSame) for (const payout of own.filter(isOpen)) await withdrawPayout(ctx, payout, session)
  const payouts = isSame || owed === 0n ? [] : [payoutFor(order, 'buyer', 'undone', owed, at)]
  await makeOwnMove(ctx, order, { change, payouts }, session)
}

/** The price is not there after all: it is asked for again, in full. */
async function waitAgain(ctx: Context, order: OrderRecord, invoice: InvoiceRecord, at: number): Promise<OrderChange> {
  const used = new Set(await ctx.orders.listUnpaidSlots(order.buyer_id))
  let slot = 0
  while (used.has(slot)) slot++
  const amount = BigInt(invoice.amount_raw)
  return stepChange(order, 'payment_undone', at, {
    set: { unpaid_slot: slot, amount_raw: String(amount), fee_raw: String(feeOf(amount, MARKET_FEE_PERCENT)) },
    unset: ['paid_at', 'deliver_by', 'due_at'],
  })
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
