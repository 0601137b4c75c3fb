import type { Context } from '../context.ts'
import type { Session } from '../servers/database.ts'
import { Refusal } from '../foundation/errors.ts'
import type { PendingEntry } from '../ledger/pending.ts'
import type { Coin } from '../payments/coin.ts'
import type { InvoiceRecord, PaymentRecord } from '../payments/invoice.ts'
import { ANYWHERE, type PayoutRecord, type PayoutState } from '../payments/payout.ts'
import type { StoredPayout, UnexplainedSend } from '../payments/payout.ts'
import { withdrawPayout } from '../payments/payout-service.ts'
import type { OrderPurpose, Outcome } from '../payments/purpose.ts'
import { nowSeconds } from '../foundation/time.ts'
import { MARKET_FEE_PERCENT } from './market-terms.ts'
import { enqueueDeadline } from './order-schedule.ts'
import { makeOwnMove, payoutFor, type Move } from './order-service.ts'
import { feeOf, stepRule } from './order-states.ts'
import { atReceived, priceOf, stepChange, sum, type OrderChange, type OrderRecord } from './order.ts'

/*
 * What settlement tells the market, in its transactions. Each changes the order's version, so two at once
 * conflict.
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
    await receiveOrderPayment(ctx, { ...invoice, received_raw }, payment, session)
    return { fields: { received_raw } }
  },
  async undone(ctx, invoice, payment, session) {
    const received_raw = String(BigInt(invoice.received_raw) - BigInt(payment.amount_raw))
    await undoOrderPayment(ctx, { ...invoice, received_raw }, session)
    // An order that waits for its payment again expires with its invoice, so that is open again.
    return { fields: { received_raw, lapsed: false } }
  },
  lost: loseOrderPayment,
  restored: restoreOrderPayment,
  suspected: disputeUnexplained,
  expired: expireOrder,
  payoutMoved: notePayoutStep,
}

async function receiveOrderPayment(
  ctx: Context,
  invoice: InvoiceRecord,
  payment: PaymentRecord,
  session: Session,
): Promise<void> {
  const order = await findOrder(ctx, invoice, session)
  const at = nowSeconds(ctx)
  const isMoreUnderWay = await ctx.invoices.isUnderWay(invoice._id, { butFor: payment._id }, session)
  const move = receive(order, invoice, payment, at, isMoreUnderWay)
  await makeOwnMove(ctx, order, move, session)
  // A job without its transaction finds nothing.
  void enqueueDeadline(ctx, move.change.set)
}

function receive(
  order: OrderRecord,
  invoice: InvoiceRecord,
  payment: PaymentRecord,
  at: number,
  isMoreUnderWay: boolean,
): Move {
  const unset = isMoreUnderWay ? [] : (['payment_seen_at'] as const)
  const noted = { change: { step: 'payment' as const, at, set: {}, unset, entries: [] } }
  switch (order.status) {
    case 'awaiting_payment': {
      const received = countedRaw(order, invoice)
      const priced = atReceived(order, received)
      return priced === undefined ? noted : pay(order, priced, received - BigInt(priced.amount_raw), at)
    }
    case 'disputed':
      return noted
    // The price is held, or was given to its owner: what comes now is over it.
    default: {
      const excess = payoutFor(order, 'buyer', `excess/${payment._id}`, BigInt(payment.amount_raw), at)
      return { ...noted, payouts: [excess] }
    }
  }
}

function pay(order: OrderRecord, priced: OrderRecord, excess: bigint, at: number): Move {
  const deliverBy = at + order.delivery_seconds
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
 * `invoice` no longer counts it.
 *
 * @throws Refusal `wrong_state` if the order can't wait for its price again
 */
async function undoOrderPayment(ctx: Context, invoice: InvoiceRecord, session: Session): Promise<void> {
  const order = await findOrder(ctx, invoice, session)
  const at = nowSeconds(ctx)
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
  if (order.status === 'disputed') return makeOwnMove(ctx, order, { change }, session)
  const due = isOver
    ? received
    : isCovered && order.status !== 'awaiting_payment'
      ? received - BigInt(order.amount_raw)
      : 0n
  const own = (await ctx.payouts.listByOrder(order._id, session)).filter(
    ({ agent_id: agentId, state }) => agentId === order.buyer_id && state !== 'withdrawn',
  )
  // One that is held may have been paid all the same.
  const isOpen = ({ state }: PayoutRecord): boolean => state === 'owed'
  const owed = due - sum(own.filter((payout) => !isOpen(payout)))
  if (owed < 0n)
    throw new Refusal(
      'wrong_state',
      'The buyer has been paid more than is left without this payment; it cannot be taken back.',
    )
  const isSame = owed === sum(own.filter(isOpen))
  if (!isSame) for (const payout of own.filter(isOpen)) await withdrawPayout(ctx, payout, session)
  const payouts = isSame || owed === 0n ? [] : [payoutFor(order, 'buyer', 'undone', owed, at)]
  await makeOwnMove(ctx, order, { change, payouts }, session)
}

async function waitAgain(ctx: Context, order: OrderRecord, invoice: InvoiceRecord, at: number) {
  const used = new Set(await ctx.orders.listUnpaidSlots(order.buyer_id))
  let slot = 0
  while (used.has(slot)) slot++
  const amount = BigInt(invoice.amount_raw)
  return stepChange(order, 'payment_undone', at, {
    set: {
      unpaid_slot: slot,
      amount_raw: String(amount),
      fee_raw: String(feeOf(amount, MARKET_FEE_PERCENT)),
    },
    unset: ['paid_at', 'deliver_by', 'due_at'],
  })
}

/** Everything that was received for an order and not given up. */
export const countedRaw = (order: OrderRecord, invoice: Pick<InvoiceRecord, 'received_raw'>): bigint =>
  BigInt(invoice.received_raw) - BigInt(order.written_off_raw)

/** It counts as received until the operator decides; until then nothing is signed for the order. */
async function loseOrderPayment(ctx: Context, payment: PaymentRecord, session: Session): Promise<void> {
  const about = { payment_id: payment._id, coin: payment.coin, amount_raw: payment.amount_raw }
  await disputeByChain(ctx, await findOrder(ctx, payment, session), 'payment_lost', about, session)
}

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
  await makeOwnMove(ctx, order, { change }, session)
  await ctx.payouts.setFrozen(order._id, true, session)
}

/** The operator decides orders of which an unrecorded transaction may have paid a side. */
async function disputeUnexplained(
  ctx: Context,
  coin: Coin,
  sends: readonly UnexplainedSend[],
  orderIds?: readonly string[],
): Promise<string[]> {
  const disputed: string[] = []
  const addresses = sends.flatMap(({ unexplained_to: to }) => to)
  const isAnywhere = addresses.includes(ANYWHERE)
  for (const { _id } of await ctx.orders.listWith(coin, isAnywhere ? undefined : addresses, orderIds)) {
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

/** Not one that was placed, or decided by the operator for the same reason, since the send was found. */
function mayHavePaid({ at, unexplained_to: to }: UnexplainedSend, order: OrderRecord): boolean {
  if (order.at > at || (order.disputed_by === 'chain' && (order.disputed_at ?? 0) >= at)) return false
  const { payout_address: payout, refund_address: refund } = order
  return refund === undefined || [ANYWHERE, payout, refund].some((address) => to.includes(address))
}

/** What a decision gave up has been received once more, and is owed to the buyer. */
async function restoreOrderPayment(ctx: Context, payment: PaymentRecord, session: Session): Promise<void> {
  const order = await findOrder(ctx, payment, session)
  const [writtenOff, amount] = [BigInt(order.written_off_raw), BigInt(payment.amount_raw)]
  const returned = writtenOff < amount ? writtenOff : amount
  const at = nowSeconds(ctx)
  // Beside a decision that still counts the payment as lost, one of the two conflicts.
  if (returned === 0n) return touchOrder(ctx, order, 'payment_returned', session)
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
  const payouts =
    order.status === 'disputed' ? [] : [payoutFor(order, 'buyer', `returned/${payment._id}`, returned, at)]
  await makeOwnMove(ctx, order, { change, payouts }, session)
}

/** What was paid in part is owed to the buyer. */
async function expireOrder(ctx: Context, invoice: InvoiceRecord, session: Session): Promise<Outcome> {
  const order = await findOrder(ctx, invoice, session)
  if (order.status !== 'awaiting_payment') return {}
  const at = nowSeconds(ctx)
  const received = countedRaw(order, invoice)
  const change = stepChange(order, at < order.pay_by ? 'unpayable' : 'expired', at, {
    set: { closed_at: at },
    unset: ['unpaid_slot', 'payment_seen_at'],
  })
  const payouts = received === 0n ? [] : [payoutFor(order, 'buyer', 'expired', received, at)]
  await makeOwnMove(ctx, order, { change, payouts }, session)
  return {}
}

async function findOrder(ctx: Context, of: { _id: string; order_id?: string }, session: Session) {
  const order = of.order_id === undefined ? undefined : await ctx.orders.find(of.order_id, session)
  if (order === undefined) throw new Error(`${of._id} is of an order that does not exist`)
  return order
}

/**
 * A seller's payout that has arrived ends its order, at once or with the decision of a dispute. One that came
 * back must not leave while its order is disputed because of a lost payment.
 */
export async function notePayoutStep(ctx: Context, payout: StoredPayout, to: PayoutState, session: Session) {
  if (payout.order_id === undefined || !['confirmed', 'manual', 'owed'].includes(to)) return
  const order = await findOrder(ctx, payout, session)
  if (to === 'owed') {
    if (order.status === 'paid_out' && payout.agent_id === order.seller_id) {
      const change = stepChange(order, 'payout_undone', nowSeconds(ctx), { unset: ['paid_out_at'] })
      await makeOwnMove(ctx, order, { change }, session)
    } else await touchOrder(ctx, order, 'payout_returned', session)
    const isFrozen = order.status === 'disputed' && order.disputed_by === 'chain'
    await ctx.payouts.setFrozen(order._id, isFrozen, session)
  } else if (payout.agent_id === order.seller_id) {
    if (order.status === 'released') await endOrder(ctx, order, session)
    else if (order.status === 'disputed') await touchOrder(ctx, order, 'payout_arrived', session)
  }
}

/** Writes the order, unchanged, so that a transaction that disputes or decides it conflicts. */
const touchOrder = (ctx: Context, order: OrderRecord, step: OrderChange['step'], session: Session) =>
  makeOwnMove(ctx, order, { change: { step, at: nowSeconds(ctx), set: {}, entries: [] } }, session)

/** Its seller is paid. In the transaction that read the order. */
export async function endOrder(ctx: Context, order: OrderRecord, session: Session): Promise<void> {
  const at = nowSeconds(ctx)
  const change = stepChange(order, 'paid_out', at, { set: { paid_out_at: at } })
  await makeOwnMove(ctx, order, { change }, session)
}
