import { Refusal } from '../platform/errors.ts'
import { isHeld } from '../money/payout-steps.ts'
import type { PayoutRecord } from '../money/payout.ts'
import type { Side } from './order-rules.ts'
import { stepObstacle, type OrderStep } from './order-states.ts'
import { feeEntries, feeShare, forgiveDust, priceFields, sellerShare, takenFee } from './order.ts'
import { stepChange, type OrderChange, type OrderRecord } from './order.ts'

/*
 * What the operator's decision of a disputed order gives to each side, and what its end takes back: functions of
 * the order, its money and the time. Nothing here reads or stores.
 */

export const DISPUTE_OUTCOMES = ['release', 'refund'] as const
export type DisputeOutcome = (typeof DISPUTE_OUTCOMES)[number]
/** For one side, or for both: the seller has this whole percentage of what a release gives, 1 to 99. */
export type Ruling = DisputeOutcome | { percent: number }

/** What is on record of a disputed order's money, in the coin's smallest unit. */
export interface DisputedMoney {
  /** Received and not written off, payments that the chain took back included. */
  receivedRaw: bigint
  /** Of that, taken back by the chain. */
  lostRaw: bigint
  /** What is signed, sent, held or paid, by side. */
  sentRaw: Record<Side, bigint>
}

/** What each side has or is owed by a decision; amounts in the coin's smallest unit. */
export interface Decision {
  /** With the price, and the percentage of a split, that the decision rests on. */
  order: OrderRecord
  sellerRaw: bigint
  buyerRaw: bigint
  feeRaw: bigint
  /** Payments that the chain took back, given up by this decision. */
  writtenOffRaw: bigint
}

const sellerIsPaid = (): Refusal =>
  new Refusal(
    'wrong_state',
    "The seller's payout is signed or paid already, so the order can only be released.",
  )

const larger = (a: bigint, b: bigint): bigint => (a > b ? a : b)

/**
 * Works out a decision. A payment that the chain took back counts as received only if somebody must have it: a
 * release or a split owes the seller its part, if need be from the venue's own money; a refund writes off the
 * whole loss.
 *
 * @throws Refusal `wrong_state` if the order is not disputed, or a side has been sent what is not its own by this
 */
export function decide(order: OrderRecord, ruling: Ruling, money: DisputedMoney): Decision {
  if (order.status !== 'disputed')
    throw new Refusal('wrong_state', `The order is ${order.status}, not disputed.`)
  const { split_percent: _before, ...whole } = order
  if (ruling === 'refund') return decideRefund(whole, money)
  return decideRelease(ruling === 'release' ? whole : { ...whole, split_percent: ruling.percent }, money)
}

/** Works out a release or a split: the seller has its share, and the buyer what was paid beyond that and the fee. */
function decideRelease(disputed: OrderRecord, { receivedRaw, lostRaw, sentRaw }: DisputedMoney): Decision {
  const order = forgiveDust(disputed, receivedRaw)
  if (order === undefined)
    throw new Refusal(
      'wrong_state',
      'The order was never paid in full, so there is nothing to release; it can only be refunded.',
    )
  const [sellerRaw, feeRaw] = [sellerShare(order), feeShare(order)]
  if (sentRaw.seller > sellerRaw) throw sellerIsPaid()
  const buyerRaw = larger(receivedRaw - lostRaw - sellerRaw - feeRaw, sentRaw.buyer)
  const writtenOffRaw = receivedRaw - sellerRaw - feeRaw - buyerRaw
  if (writtenOffRaw < 0n)
    throw new Refusal(
      'wrong_state',
      `The buyer's payout is signed or paid already, so the order can only be refunded${order.split_percent === undefined ? '' : ' or split with less for the seller'}.`,
    )
  return { order, sellerRaw, buyerRaw, feeRaw, writtenOffRaw }
}

/** Works out a refund: the buyer has everything that was received and not lost. */
function decideRefund(order: OrderRecord, { receivedRaw, lostRaw, sentRaw }: DisputedMoney): Decision {
  if (sentRaw.seller > 0n) throw sellerIsPaid()
  const buyerRaw = larger(receivedRaw - lostRaw, sentRaw.buyer)
  return { order, sellerRaw: 0n, buyerRaw, feeRaw: 0n, writtenOffRaw: receivedRaw - buyerRaw }
}

/** Makes the change of `before` by a decision. @param at Unix seconds */
export function decisionChange(
  before: OrderRecord,
  ruling: Ruling,
  decision: Decision,
  at: number,
): OrderChange {
  const { order, feeRaw, writtenOffRaw } = decision
  const isRefund = ruling === 'refund'
  const percent = typeof ruling === 'object' ? ruling.percent : undefined
  const split = percent === undefined ? {} : { split_percent: percent }
  let step: OrderStep = isRefund ? 'dispute_refunded' : 'dispute_released'
  if (percent !== undefined) step = 'dispute_split'
  return stepChange(before, step, at, {
    set: {
      closed_at: at,
      written_off_raw: String(BigInt(before.written_off_raw) + writtenOffRaw),
      decided_version: before.version + 1,
      ...(isRefund ? {} : { ...priceFields(order), fee_taken: true }),
      ...split,
    },
    unset: [
      'undelivered',
      'suspects',
      'suspected_from',
      ...(isRefund ? (['fee_taken'] as const) : []),
      ...(percent === undefined ? (['split_percent'] as const) : []),
    ],
    entries: feeEntries(before, at, feeRaw - takenFee(before)),
    kind: 'dispute_outcome',
    data: {
      outcome: typeof ruling === 'object' ? 'split' : ruling,
      ...split,
      coin: order.coin,
      written_off_raw: String(writtenOffRaw),
    },
  })
}

/** The payouts that an order's last decision owes or freed, without withdrawn ones. */
export const decidedPayouts = (order: OrderRecord, payouts: readonly PayoutRecord[]): PayoutRecord[] =>
  payouts.filter(
    ({ decided, state }) =>
      decided !== undefined && decided.version === order.decided_version && state !== 'withdrawn',
  )

/**
 * Says in a sentence why the last decision of an order cannot be taken back; undefined if it can.
 *
 * @param payouts those of the order
 * @param at Unix seconds
 */
export function undoObstacle(
  order: OrderRecord,
  payouts: readonly PayoutRecord[],
  at: number,
): string | undefined {
  if (order.status !== 'disputed') {
    const gone = decidedPayouts(order, payouts).find(({ state }) => state !== 'owed')
    if (gone !== undefined) return goneObstacle(gone)
  }
  const obstacle = stepObstacle(order, 'dispute_undone', at)
  if (obstacle !== undefined) return obstacle
  return order.decided_version === undefined
    ? `The order is ${order.status} by no decision of a dispute, so there is none to take back.`
    : undefined
}

function goneObstacle(payout: PayoutRecord): string {
  const { _id, coin, state } = payout
  if (state === 'manual')
    return `The payout ${_id} of this decision is on record as paid by hand; if it was not paid, take that back first: "payout-paid --undo ${_id}".`
  if (state === 'held' && isHeld(payout, 'may_be_paid'))
    return `The payout ${_id} of this decision is held, because a transaction may have paid it; if none did, say that first: "reconcile ${coin} --owed ${_id}".`
  return `The payout ${_id} of this decision is ${state}, so the decision stands; what the other side should have had can only be paid from your own money.`
}

/**
 * Makes the change that takes an order's last decision back: it is disputed again, and holds all that was paid and
 * is not sent. What the chain took back counts as received again, until the next decision.
 *
 * @param at Unix seconds
 */
export function undoneChange(order: OrderRecord, at: number): OrderChange {
  const { coin, written_off_raw: writtenOffRaw } = order
  const restored =
    writtenOffRaw === '0'
      ? []
      : [
          {
            source: `${order._id}/payment_returned/${order.version + 1}`,
            at,
            kind: 'payment' as const,
            data: { step: 'returned', order_id: order._id, coin, amount_raw: writtenOffRaw },
          },
        ]
  return stepChange(order, 'dispute_undone', at, {
    set: {
      written_off_raw: '0',
      disputed_at: order.disputed_at ?? at,
      disputed_by: disputerOf(order),
    },
    unset: ['closed_at', 'decided_version', 'fee_taken', 'split_percent'],
    entries: [...feeEntries(order, at, -takenFee(order)), ...restored],
    kind: 'dispute_outcome',
    data: { outcome: 'undone', coin, written_off_raw: '0' },
  })
}

/** Who disputed an order; a suspicion that has ended since has taken that from it. */
const disputerOf = ({ disputed_by: by, dispute_reason: reason }: OrderRecord) =>
  by ?? (reason === undefined ? 'chain' : 'buyer')
