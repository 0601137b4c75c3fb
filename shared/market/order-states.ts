import { MARKET_FEE_PERCENT } from './market-terms.ts'

export const ORDER_STATUS_MEANINGS = {
  awaiting_payment:
    'The buyer has until pay_by; a payment that is on its way by then holds the order until it is confirmed or gone.',
  paid: 'The full price is confirmed, and the seller has until deliver_by.',
  delivered: 'The buyer has until accept_by to accept or to dispute.',
  disputed: 'The operator decides, without a deadline.',
  released: 'The seller is owed its part, and the fee is taken.',
  paid_out: "The seller's payout has arrived, or the operator has paid it by hand.",
  refunded: 'The buyer is owed the whole price; undelivered says whether because no delivery came in time.',
  expired: 'Never paid in time; what was paid in part is owed to the buyer.',
} as const
export type OrderStatus = keyof typeof ORDER_STATUS_MEANINGS
export const ORDER_STATUSES = Object.keys(ORDER_STATUS_MEANINGS) as OrderStatus[]

/** Who makes a transition: `chain` by confirmed payments, `service` at a deadline. */
export const ORDER_ACTORS = ['buyer', 'seller', 'operator', 'chain', 'service'] as const
export type OrderActor = (typeof ORDER_ACTORS)[number]
/** Who sends payouts: the service by itself, or the operator by hand. */
export type PayoutActor = 'service' | 'operator'

export const DEADLINES = ['pay_by', 'deliver_by', 'accept_by'] as const
export type Deadline = (typeof DEADLINES)[number]

/** The transaction for which an order was disputed is accounted for. */
const resumed = <Status extends OrderStatus>(to: Status, what: string) =>
  ({
    from: ['disputed'],
    to,
    actor: 'operator',
    text: `The operator has accounted for the transaction that may have paid a side, and the order was disputed for nothing else: ${what}`,
  }) as const

export interface OrderStepRule {
  from: readonly OrderStatus[]
  to: OrderStatus
  actor: OrderActor
  /** When it can be taken: `before` that time, or `after`, from then on. So of two steps only one can win. */
  deadline?: { name: Deadline; side: 'before' | 'after' }
  text: string
}

/** Every step is one conditional update that names the status and, if the step has one, the deadline. */
export const ORDER_STEPS = {
  paid: {
    from: ['awaiting_payment'],
    to: 'paid',
    actor: 'chain',
    text: 'Confirmed payments reach the price. What is over it is owed to the buyer.',
  },
  expired: {
    from: ['awaiting_payment'],
    to: 'expired',
    actor: 'service',
    deadline: { name: 'pay_by', side: 'after' },
    text: 'The chain was looked at after pay_by, with no payment under way. A chain that is out of reach makes nothing expire, unless the operator has switched its coin off.',
  },
  unpayable: {
    from: ['awaiting_payment'],
    to: 'expired',
    actor: 'service',
    text: 'The service has another wallet now, which cannot take what is paid for this order; no payment is under way.',
  },
  delivered: {
    from: ['paid'],
    to: 'delivered',
    actor: 'seller',
    deadline: { name: 'deliver_by', side: 'before' },
    text: 'The seller delivers, once.',
  },
  undelivered: {
    from: ['paid'],
    to: 'refunded',
    actor: 'service',
    deadline: { name: 'deliver_by', side: 'after' },
    text: 'No delivery came in time: the buyer is owed the whole price.',
  },
  accepted: {
    from: ['delivered'],
    to: 'released',
    actor: 'buyer',
    deadline: { name: 'accept_by', side: 'before' },
    text: 'The buyer accepts: the seller is owed the price without the fee.',
  },
  unanswered: {
    from: ['delivered'],
    to: 'released',
    actor: 'service',
    deadline: { name: 'accept_by', side: 'after' },
    text: 'The accept deadline passed: the seller is owed the price without the fee.',
  },
  disputed: {
    from: ['delivered'],
    to: 'disputed',
    actor: 'buyer',
    deadline: { name: 'accept_by', side: 'before' },
    text: 'The buyer disputes the delivery. No deadline holds any more.',
  },
  payment_lost: {
    from: ORDER_STATUSES,
    to: 'disputed',
    actor: 'chain',
    text: 'A reorganisation of the chain took a settled payment away. What is owed for the order and not signed yet is frozen.',
  },
  suspected: {
    from: ['awaiting_payment', 'paid', 'delivered', 'released', 'refunded', 'expired'],
    to: 'disputed',
    actor: 'chain',
    text: 'After a restore, a transaction was found that nobody has accounted for. It went to an address of one side, or the order names no refund address, and then it may have gone to its buyer: it may have paid for this order. What is owed for the order and not signed yet is frozen.',
  },
  resumed_unpaid: resumed('awaiting_payment', 'it waits for its price again.'),
  resumed_paid: resumed('paid', 'it goes on, and the time of the dispute is added to deliver_by.'),
  resumed_delivered: resumed('delivered', 'it goes on, and the time of the dispute is added to accept_by.'),
  resumed_released: resumed('released', "the seller's payout is free."),
  resumed_refunded: resumed('refunded', "the buyer's payout is free."),
  resumed_expired: resumed('expired', 'what was paid in part is owed to the buyer.'),
  payment_undone: {
    from: ['paid'],
    to: 'awaiting_payment',
    actor: 'operator',
    text: 'A payment that the operator had recorded by hand, and that the chain never showed, is taken back.',
  },
  dispute_released: {
    from: ['disputed'],
    to: 'released',
    actor: 'operator',
    text: 'The operator decides for the seller.',
  },
  dispute_refunded: {
    from: ['disputed'],
    to: 'refunded',
    actor: 'operator',
    text: 'The operator decides for the buyer.',
  },
  dispute_split: {
    from: ['disputed'],
    to: 'released',
    actor: 'operator',
    text: 'The operator decides for both: the seller is owed split_percent of what a release gives, the venue has the same part of its fee, both rounded down, and the buyer is owed the rest of the price.',
  },
  dispute_undone: {
    from: ['released', 'refunded'],
    to: 'disputed',
    actor: 'operator',
    text: 'The operator takes its decision back, of which nothing was signed or paid: what it owed is withdrawn, and the fee returned.',
  },
  paid_out: {
    from: ['released'],
    to: 'paid_out',
    actor: 'service',
    text: "The seller's payout is confirmed, or the operator paid it by hand.",
  },
  payout_undone: {
    from: ['paid_out'],
    to: 'released',
    actor: 'operator',
    text: "The seller's payout did not arrive after all: the operator took back what was recorded by hand, or the chain did.",
  },
} as const satisfies Record<string, OrderStepRule>

export type OrderStep = keyof typeof ORDER_STEPS
export const ORDER_STEP_NAMES = Object.keys(ORDER_STEPS) as OrderStep[]

/** The step's row of the table, with the type of any row. */
export const stepRule = (step: OrderStep): OrderStepRule => ORDER_STEPS[step]

export type OrderState = { status: OrderStatus } & { readonly [Name in Deadline]?: number }

/** Says in a sentence why the step cannot be taken at this time; undefined if it can. */
export function stepObstacle(order: OrderState, step: OrderStep, nowSeconds: number): string | undefined {
  const { from, deadline } = stepRule(step)
  if (!from.includes(order.status))
    return `The order is ${order.status}; this step needs one that is ${from.join(' or ')}.`
  if (deadline === undefined) return undefined
  const time = order[deadline.name]
  if (time === undefined) throw new Error(`an order that is ${order.status} has no ${deadline.name}`)
  if (deadline.side === 'before')
    return nowSeconds < time ? undefined : `The order's ${deadline.name} has passed.`
  return nowSeconds >= time ? undefined : `The order's ${deadline.name} has not passed.`
}

/**
 * Returns the step that the service takes when an order in this status reaches its deadline, and which
 * deadline that is; undefined if it has none. An unpaid order has none here: it expires with its invoice.
 */
export function deadlineStep(status: OrderStatus) {
  if (status === 'paid') return { step: 'undelivered', deadline: 'deliver_by' } as const
  if (status === 'delivered') return { step: 'unanswered', deadline: 'accept_by' } as const
  return undefined
}

interface NextTransition {
  /** null if more than one status is possible. */
  to: OrderStatus | null
  /** null if a person or the chain decides when. */
  at: number | null
  actor: OrderActor
}

/** What happens to an order next if neither side does anything; undefined in a final state. */
export function nextTransition(
  order: OrderState & { payment_seen_at?: number },
  payoutActor: PayoutActor,
): NextTransition | undefined {
  switch (order.status) {
    case 'awaiting_payment':
      if (order.payment_seen_at !== undefined) return { to: null, at: null, actor: 'chain' }
      return { to: 'expired', at: order.pay_by ?? null, actor: 'service' }
    case 'paid':
      return { to: 'refunded', at: order.deliver_by ?? null, actor: 'service' }
    case 'delivered':
      return { to: 'released', at: order.accept_by ?? null, actor: 'service' }
    case 'disputed':
      return { to: null, at: null, actor: 'operator' }
    case 'released':
      return { to: 'paid_out', at: null, actor: payoutActor }
    default:
      return undefined
  }
}

/** The venue's part of an order's amount, rounded down; both in the coin's smallest unit. */
export const feeOf = (amountRaw: bigint): bigint => (amountRaw * BigInt(MARKET_FEE_PERCENT)) / 100n
