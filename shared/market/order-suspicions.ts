import type { Context } from '../context.ts'
import type { Session } from '../platform/database.ts'
import type { Coin } from '../money/coin.ts'
import type { InvoiceRecord } from '../money/invoice.ts'
import { ANYWHERE, type UnexplainedSend } from '../money/transfer.ts'
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
import { stepRule } from './order-states.ts'
import type { OrderUpdate } from './order-rules.ts'
import { readPayouts, replaceOpenPayouts, storeUpdate } from './order-updates.ts'
import { feeShare, sellerShare, stepChange, type OrderChange, type OrderRecord } from './order.ts'

/*
 * A transaction that the database did not know, as after a restore, may have paid a side of an order. Such an
 * order is disputed, so that it doesn't pay both. It goes on as it was once each such transaction is accounted
 * for, if nothing else disputes it.
 */

/**
 * Disputes the orders for which an unexplained transaction may have paid a side, so that the operator decides
 * them; each in a transaction of its own.
 *
 * @param orderIds the orders in question; if undefined, all that are open
 * @returns the ids of those that are disputed now
 */
export async function disputeSuspected(
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
      const suspects = sends
        .filter((send) => order !== undefined && mayHavePaid(send, order))
        .map(({ _id: id }) => id)
      if (order === undefined || suspects.length === 0) return false
      if (order.status === 'disputed') await addSuspects(ctx, order, suspects, session)
      if (!stepRule('suspected').from.includes(order.status)) return false
      await disputeByChain(ctx, order, 'suspected', { coin }, session, suspects)
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

/**
 * Whether an unexplained send may have paid a side of the order: it went to an address of the order, or the
 * order's refund address isn't known. Not if the order was placed, or disputed by the chain, after the send
 * was found.
 */
function mayHavePaid({ at, unexplained_to: to }: UnexplainedSend, order: OrderRecord): boolean {
  const isDecided =
    order.disputed_by === 'chain' && (order.disputed_at ?? 0) >= at && order.suspects === undefined
  if (order.at > at || isDecided) return false
  const { payout_address: payout, refund_address: refund } = order
  return refund === undefined || [ANYWHERE, payout, refund].some((address) => to.includes(address))
}

/** Notes further sends that may have paid a side of an order, if it is disputed because of sends alone. */
async function addSuspects(ctx: Context, order: OrderRecord, ids: readonly string[], session: Session) {
  const { suspects } = order
  const fresh = suspects === undefined ? [] : ids.filter((id) => !suspects.includes(id))
  if (suspects === undefined || fresh.length === 0) return
  const set = { suspects: [...suspects, ...fresh] }
  await storeUpdate(ctx, order, { change: { step: 'suspected_more', at: nowSeconds(ctx), set } }, session)
}

/** Ids of disputed orders, for whatever reason, one of whose sides has an address that the send went to. */
export async function listDisputedAt(ctx: Context, send: UnexplainedSend): Promise<string[]> {
  const { coin, unexplained_to: to, at } = send
  return (await ctx.orders.listDisputedAt(coin, to, at)).map(({ _id }) => _id)
}

/** Lets the orders go on that are disputed because of this send alone. @returns their ids */
export async function resumeCleared(ctx: Context, { _id: sendId }: UnexplainedSend): Promise<string[]> {
  const resumed: string[] = []
  for (const { _id } of await ctx.orders.listSuspectedFor(sendId)) {
    const isResumed = await ctx.database.transaction(async (session) => {
      const order = await ctx.orders.find(_id, session)
      if (order?.suspects === undefined || order.suspected_from === undefined) return false
      const suspects = order.suspects.filter((id) => id !== sendId)
      if (suspects.length === 0) return resume(ctx, order, session)
      const change: OrderChange = { step: 'suspected_less', at: nowSeconds(ctx), set: { suspects } }
      await storeUpdate(ctx, order, { change }, session)
      return false
    })
    if (isResumed) resumed.push(_id)
  }
  return resumed
}

/** @returns false, with nothing written, if its price is no longer there: then it waits for a decision */
async function resume(ctx: Context, order: OrderRecord, session: Session): Promise<boolean> {
  const invoice = await ctx.invoices.find(order.invoice_id, session)
  if (invoice === undefined) throw new Error(`order ${order._id} has no invoice`)
  const update = await resumedUpdate(ctx, order, invoice, session)
  if (update === undefined) return false
  const { change } = update
  const unset = [...(change.unset ?? []), ...SUSPICION]
  await storeUpdate(ctx, order, { ...update, change: { ...change, unset } }, session)
  await ctx.payouts.setFrozen(order._id, false, session)
  if (change.step === 'resumed_released') await notePaidSeller(ctx, order._id, session)
  // Not awaited: it is no part of the transaction. If that fails, the sweep finds the deadline.
  void enqueueDeadline(ctx, change.set ?? {})
  return true
}

const SUSPICION = ['disputed_at', 'disputed_by', 'suspects', 'suspected_from'] as const

/**
 * Makes the update that gives an order the status back that it had, with what has happened to its money since.
 *
 * @returns undefined if its price is no longer there
 */
async function resumedUpdate(
  ctx: Context,
  order: OrderRecord,
  invoice: InvoiceRecord,
  session: Session,
): Promise<OrderUpdate | undefined> {
  const at = nowSeconds(ctx)
  const [receivedRaw, priceRaw] = [netReceivedRaw(order, invoice), BigInt(order.amount_raw)]
  const { buyer } = await readPayouts(ctx, order, session)
  const owe = (raw: bigint) =>
    replaceOpenPayouts(ctx, order, 'buyer', buyer, { raw, reason: 'resumed', at }, session)
  switch (order.suspected_from) {
    case 'awaiting_payment': {
      const paid = paidUpdate(order, receivedRaw, at, 'resumed_paid')
      if (paid !== undefined) return paid
      if (!invoice.lapsed) return { change: await unpaidChange(ctx, order, invoice, at, 'resumed_unpaid') }
      const change = stepChange(order, 'resumed_expired', at, {
        set: { closed_at: at },
        unset: ['payment_seen_at'],
      })
      return { change, payouts: await owe(receivedRaw) }
    }
    case 'paid':
    case 'delivered':
      if (receivedRaw < priceRaw) return undefined
      return {
        change: resumeBeforeDeadline(order, order.suspected_from, at),
        payouts: await owe(receivedRaw - priceRaw),
      }
    case 'released': {
      if (receivedRaw < priceRaw) return undefined
      const buyerRaw = receivedRaw - sellerShare(order) - feeShare(order)
      return { change: stepChange(order, 'resumed_released', at), payouts: await owe(buyerRaw) }
    }
    case 'refunded':
      return { change: stepChange(order, 'resumed_refunded', at), payouts: await owe(receivedRaw) }
    case 'expired':
      return { change: stepChange(order, 'resumed_expired', at), payouts: await owe(receivedRaw) }
    default:
      return undefined
  }
}

/** Makes the change back to a status with a deadline, which is put off by as long as the order was disputed. */
function resumeBeforeDeadline(order: OrderRecord, status: 'paid' | 'delivered', at: number): OrderChange {
  const isPaid = status === 'paid'
  const deadlineBefore = (isPaid ? order.deliver_by : order.accept_by) ?? at
  const due_at = deadlineBefore + (at - (order.disputed_at ?? at))
  const deadline = isPaid ? { deliver_by: due_at } : { accept_by: due_at }
  return stepChange(order, isPaid ? 'resumed_paid' : 'resumed_delivered', at, {
    set: { ...deadline, due_at },
    data: deadline,
  })
}

/** Notes that the seller of a released order was paid while that was disputed. */
async function notePaidSeller(ctx: Context, orderId: string, session: Session): Promise<void> {
  const order = await ctx.orders.find(orderId, session)
  if (order !== undefined && (await isSellerPaid(ctx, order, session))) await markPaidOut(ctx, order, session)
}
