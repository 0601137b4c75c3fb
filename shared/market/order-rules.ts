import type { Authorship } from '../crypto/author.ts'
import { commitRecord } from '../crypto/commitment.ts'
import { Refusal } from '../platform/errors.ts'
import type { PayoutRecord } from '../money/payout.ts'
import { newPayout } from '../money/payout-service.ts'
import { SECOND_MS, unixSeconds } from '../platform/time.ts'
import { OUTAGE_GRACE_MS } from './market-terms.ts'
import { deadlineStep, ORDER_STEPS, stepObstacle } from './order-states.ts'
import { addSignature, feeEntries, feeShare, orderEntry, sellerShare, stepChange } from './order.ts'
import type { OrderChange, OrderRecord } from './order.ts'
import type { OutageRecord } from './outage-store.ts'

/*
 * What becomes of an order by a step of one of its sides, or at a deadline: functions of the order and the time.
 * Nothing here reads or stores.
 */

export type Side = 'buyer' | 'seller'

/** A change of an order with all that goes with it; stored together. */
export interface OrderUpdate {
  change: OrderChange
  /** What the venue owes by it. */
  payouts?: PayoutRecord[]
  /** The buyer's payouts that are still owed get this address. */
  refundAddress?: string
}

/**
 * Makes the update for a step that one of the sides takes.
 *
 * @param taker who takes it, when (Unix seconds), and the signature if there is one
 * @param make makes the step's own part, if it may be taken
 * @throws Refusal `not_yours` if the step is the other side's; `wrong_state` if the table in order-states.ts does
 *   not allow it now
 */
export function takeStep(
  order: OrderRecord,
  step: 'delivered' | 'accepted' | 'disputed',
  taker: { agentId: string; at: number; author: Authorship | undefined },
  make: () => OrderUpdate,
): OrderUpdate {
  const { agentId, at, author } = taker
  requireSide(order, agentId, ORDER_STEPS[step].actor)
  const obstacle = stepObstacle(order, step, at)
  if (obstacle !== undefined) throw new Refusal('wrong_state', obstacle, { field: 'order_id' })
  const update = make()
  return { ...update, change: addSignature(order, update.change, agentId, author) }
}

/** @throws Refusal `not_yours` if the agent is the order's other side */
export function requireSide(order: OrderRecord, agentId: string, side: Side): void {
  if (order[`${side}_id`] === agentId) return
  const why = `This step is the ${side}'s, and you are the ${side === 'buyer' ? 'seller' : 'buyer'} of this order.`
  throw new Refusal('not_yours', why, { field: 'order_id' })
}

/** Makes the update with the seller's delivery, from which on the buyer has its time to accept. */
export function deliveryUpdate(order: OrderRecord, at: number, delivery: string, salt: string): OrderUpdate {
  const acceptBy = at + order.accept_seconds
  const set = { delivery, delivery_salt: salt, delivered_at: at, accept_by: acceptBy, due_at: acceptBy }
  const data = { accept_by: acceptBy, delivery_hash: commitRecord(order._id, salt, { delivery }) }
  return { change: stepChange(order, 'delivered', at, { set, data }) }
}

/** Makes the update with the buyer's dispute, after which no deadline holds. */
export function disputeUpdate(order: OrderRecord, at: number, reason: string, salt: string): OrderUpdate {
  const set = { disputed_at: at, disputed_by: 'buyer', dispute_reason: reason, dispute_salt: salt } as const
  const data = { by: 'buyer', reason_hash: commitRecord(order._id, salt, { reason }) }
  return { change: stepChange(order, 'disputed', at, { set, unset: ['due_at'], kind: 'dispute', data }) }
}

/** Makes the update that releases an order: the seller is owed its share, and the fee is taken. */
export function releaseUpdate(
  order: OrderRecord,
  step: 'accepted' | 'unanswered',
  at: number,
  set: OrderChange['set'] = {},
): OrderUpdate {
  return {
    change: stepChange(order, step, at, {
      set: { ...set, closed_at: at, fee_taken: true },
      unset: ['due_at'],
      entries: feeEntries(order, at, feeShare(order)),
    }),
    payouts: [payoutFor(order, 'seller', step, sellerShare(order), at)],
  }
}

/** Makes a payout to one side. `reason` and the order's next version make its source unique. */
export function payoutFor(
  order: OrderRecord,
  side: Side,
  reason: string,
  amountRaw: bigint,
  at: number,
): PayoutRecord {
  return newPayout({
    source: `${order._id}/${reason}/${order.version + 1}`,
    coin: order.coin,
    agentId: order[`${side}_id`],
    orderId: order._id,
    amountRaw,
    address: side === 'buyer' ? order.refund_address : order.payout_address,
    at,
  })
}

/** Makes the update that names the refund address, in the order and in what is still owed to its buyer. */
export function refundAddressUpdate(
  order: OrderRecord,
  address: string,
  at: number,
  salt: string,
  author?: Authorship,
): OrderUpdate {
  const data = { refund_address_hash: commitRecord(order._id, salt, { address }) }
  const change: OrderChange = {
    step: 'refund_address',
    at,
    set: { refund_address: address, refund_salt: salt },
    entries: [orderEntry(order, 'refund_address', at, data)],
  }
  return { change: addSignature(order, change, order.buyer_id, author), refundAddress: address }
}

/**
 * Makes the update for a deadline that has passed. No delivery in time: the buyer is owed the price. No
 * answer in time: the order is released.
 */
export function deadlineUpdate(order: OrderRecord, nowMs: number): OrderUpdate {
  const due = deadlineStep(order.status)
  if (due === undefined || order.due_at === undefined)
    throw new Error(`order ${order._id} is ${order.status}, so no deadline can have passed`)
  const at = unixSeconds(nowMs)
  const late = { late_ms: nowMs - order.due_at * SECOND_MS }
  if (due.step === 'unanswered') return releaseUpdate(order, 'unanswered', at, late)
  const set = { ...late, closed_at: at, undelivered: true } as const
  const change = stepChange(order, 'undelivered', at, { set, unset: ['due_at'] })
  return { change, payouts: [payoutFor(order, 'buyer', 'undelivered', BigInt(order.amount_raw), at)] }
}

/** Makes the update that extends an order's deadline. @returns undefined if there is no outage, or no deadline */
export function extensionUpdate(
  order: OrderRecord,
  outage: OutageRecord | undefined,
  at: number,
): OrderUpdate | undefined {
  const due = deadlineStep(order.status)
  if (outage === undefined || due === undefined || order.due_at === undefined) return undefined
  const until = Math.ceil((outage.to_ms + OUTAGE_GRACE_MS) / SECOND_MS)
  const extension = {
    deadline: due.deadline,
    was: order.due_at,
    until,
    outage_from: unixSeconds(outage._id),
    outage_to: unixSeconds(outage.to_ms),
  }
  const change: OrderChange = {
    step: 'extended',
    at,
    set: { [due.deadline]: until, due_at: until, extensions: [...(order.extensions ?? []), extension] },
    entries: [orderEntry(order, 'extended', at, extension)],
  }
  return { change }
}
