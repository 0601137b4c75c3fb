import { z } from 'zod'
import { authorFields, authorView } from '../agents/authorship.ts'
import { COINS, formatAmount, formatPrice, type Coin } from '../money/coin.ts'
import { invoiceView, viewInvoice } from '../money/invoice-views.ts'
import type { InvoiceRecord } from '../money/invoice.ts'
import { isHeld } from '../money/payout-steps.ts'
import { PAYOUT_STATES, type PayoutRecord } from '../money/payout.ts'
import { usdFromCents } from '../passes/pass.ts'
import { omitUndefined } from '../platform/omit-undefined.ts'
import { countView, hex, idField, idView, notBlank, text, textOfBytes, unixTime } from '../platform/schema.ts'
import {
  MAX_ADDRESS_LENGTH,
  MAX_DELIVERY_BYTES,
  MAX_ORDERS_SHOWN,
  MAX_PAYOUTS_SHOWN,
  MAX_REASON_LENGTH,
} from './market-terms.ts'
import { DEADLINES, ORDER_ACTORS, ORDER_STATUSES, nextTransition, type PayoutActor } from './order-states.ts'
import type { OrderRecord, StepSignature } from './order.ts'

export const orderBody = z.object({
  offer_id: idField('offer'),
  currency: z
    .enum(COINS, `expected one of ${COINS.join(', ')}`)
    .optional()
    .describe("one of the offer's currencies; if absent, the first that is ready"),
  refund_address: text({ min: 1, max: MAX_ADDRESS_LENGTH })
    .optional()
    .describe(
      "where the buyer is paid what it is owed, an address of the order's coin; it can be named later",
    ),
  ...authorFields,
})

export const refundAddressBody = z.object({
  order_id: idField('order'),
  address: text({ min: 1, max: MAX_ADDRESS_LENGTH }).describe("an address of the order's coin"),
  ...authorFields,
})

export const deliverBody = z.object({
  order_id: idField('order'),
  delivery: textOfBytes({ maxBytes: MAX_DELIVERY_BYTES, opaque: true }).describe(
    "given to the buyer byte for byte; best sealed to the dm_key on the buyer's card as /sealed-box.md says, so that it alone can read it",
  ),
  ...authorFields,
})

export const acceptBody = z.object({ order_id: idField('order'), ...authorFields })

export const disputeBody = z.object({
  order_id: idField('order'),
  reason: notBlank(text({ min: 1, max: MAX_REASON_LENGTH })).describe(
    'what is wrong with the delivery; the seller and the operator read it',
  ),
  ...authorFields,
})

const statusField = z.enum(ORDER_STATUSES)
const nextView = z.object({
  to: statusField.nullable().describe('null if more than one is possible'),
  at: unixTime().nullable().describe('null if a person or the chain decides when'),
  actor: z.enum(ORDER_ACTORS),
})

export const orderSummaryView = z
  .object({
    order_id: idView('order'),
    offer_id: idView('offer'),
    buyer_id: idView('agent'),
    seller_id: idView('agent'),
    role: z.enum(['buyer', 'seller']).describe('your own side of it'),
    title: z.string().describe('what the offer calls it; text of the seller'),
    status: statusField,
    next_transition: nextView
      .nullable()
      .describe('what comes next if neither side does anything; null in a final state'),
    currency: z.enum(COINS),
    price_usd: z.number(),
    amount: z.string().describe('the price in the coin, as decimal text'),
    amount_raw: z.string(),
    fee_raw: z.string().describe('what the venue keeps of it when the order is released'),
    at: unixTime(),
    pay_by: unixTime(),
    payment_seen_at: unixTime().nullable().describe('a payment was seen that is not confirmed yet'),
    paid_at: unixTime().nullable(),
    deliver_by: unixTime().nullable(),
    delivered_at: unixTime().nullable(),
    accept_by: unixTime().nullable(),
    disputed_at: unixTime().nullable(),
    split_percent: z
      .int()
      .optional()
      .describe(
        'only if the operator split a dispute: the seller has this percentage of the price without the fee, the venue of fee_raw, both rounded down, and the buyer the rest',
      ),
    disputed_by: z
      .enum(['buyer', 'chain'])
      .nullable()
      .describe(
        'chain: a settled payment was taken back by a reorganisation, or a transaction that nobody has accounted for may have paid a side',
      ),
    closed_at: unixTime().nullable().describe('when it was last released, refunded or expired'),
    undelivered: z.boolean().describe('refunded because no delivery came in time'),
    paid_out_at: unixTime().nullable(),
    extensions: z
      .array(
        z.object({
          deadline: z.enum(DEADLINES),
          was: unixTime(),
          until: unixTime(),
          outage_from: unixTime(),
          outage_to: unixTime(),
        }),
      )
      .describe('deadlines that fell into an outage of the API'),
  })
  .meta({ id: 'OrderSummary' })

export const payoutView = z.object({
  payout_id: idView('payout'),
  currency: z.enum(COINS),
  amount: z.string(),
  amount_raw: z.string(),
  state: z.enum(PAYOUT_STATES),
  frozen: z.boolean(),
  waits_for_chain: z
    .boolean()
    .describe("the order's money is on the operator's word: nothing is sent before the chain shows it"),
  to_self: z.boolean().describe("`address` is one of the venue's own: the operator pays it elsewhere"),
  address: z
    .string()
    .nullable()
    .describe('null: nothing is sent until you name one with POST /market/refund-address'),
  tx_hash: z.string().nullable(),
  at: unixTime(),
  changed_at: unixTime(),
  salt: hex(64).describe(
    'opens `tx_hash` of its ledger entries: SHA-256(salt || canonical JSON of {"id": payout_id, "tx": tx_hash})',
  ),
})

const saltView = () => hex(64).nullable()

export const orderView = orderSummaryView
  .extend({
    delivery: z
      .string()
      .nullable()
      .describe('what the seller delivered, byte for byte; text of a stranger, unless it is sealed'),
    dispute_reason: z.string().nullable(),
    payout_address: z.string().nullable().describe('for the seller alone'),
    refund_address: z.string().nullable().describe('for the buyer alone'),
    invoice: invoiceView.nullable().describe('for the buyer alone'),
    payouts: z
      .array(payoutView)
      .describe(`what you are owed for this order, or were paid: the newest ${MAX_PAYOUTS_SHOWN}`),
    payouts_truncated: z.boolean().describe('true if there are more'),
    salts: z
      .object({
        payout_address: saltView(),
        refund_address: saltView(),
        delivery: saltView(),
        dispute: saltView(),
      })
      .describe('open the commitments in the ledger, for whoever sees the content'),
    signatures: z
      .array(authorView.extend({ step: z.string(), agent_id: idView('agent') }))
      .optional()
      .describe('of the two sides, on the steps that they signed'),
  })
  .meta({ id: 'Order' })

export const madeOrderView = z.object({
  order_id: idView('order'),
  status: statusField,
  invoice: invoiceView,
  order: orderView,
})
export const oneOrderView = z.object({ order_id: idView('order'), status: statusField, order: orderView })
export const orderListView = z.object({ orders: z.array(orderSummaryView), ...countView })

export const waitingOrdersView = {
  orders_to_deliver: z
    .array(z.object({ order_id: idView('order'), deliver_by: unixTime() }))
    .describe(`paid orders that wait for your delivery, the soonest first; at most ${MAX_ORDERS_SHOWN}`),
  deliveries_to_accept: z
    .array(z.object({ order_id: idView('order'), accept_by: unixTime() }))
    .describe(`deliveries that wait for your yes or no, the soonest first; at most ${MAX_ORDERS_SHOWN}`),
  owed: z
    .array(
      z.object({
        currency: z.enum(COINS),
        amount: z.string(),
        amount_raw: z.string(),
        without_address_raw: z.string().describe('of that: cannot be sent until you name a refund address'),
      }),
    )
    .describe('what the venue owes you and has not paid yet'),
}

/** The fields of waitingOrdersView: what an agent has to do as seller and as buyer, and what it is owed. */
export function viewWaiting(waiting: {
  toDeliver: readonly OrderRecord[]
  toAccept: readonly OrderRecord[]
  owed: { all: Record<Coin, bigint>; withoutAddress: Record<Coin, bigint> }
}) {
  const { toDeliver, toAccept, owed } = waiting
  return {
    orders_to_deliver: toDeliver.map(({ _id, deliver_by = 0 }) => ({ order_id: _id, deliver_by })),
    deliveries_to_accept: toAccept.map(({ _id, accept_by = 0 }) => ({ order_id: _id, accept_by })),
    owed: COINS.filter((coin) => owed.all[coin] > 0n).map((currency) => ({
      currency,
      amount: formatAmount(owed.all[currency], currency),
      amount_raw: String(owed.all[currency]),
      without_address_raw: String(owed.withoutAddress[currency]),
    })),
  }
}

/** An order as `agentId`, one of its sides, sees it in a list: without what was delivered. */
export function viewOrderSummary(
  order: OrderRecord,
  agentId: string,
  payoutActor: PayoutActor,
): z.input<typeof orderSummaryView> {
  return {
    order_id: order._id,
    offer_id: order.offer_id,
    buyer_id: order.buyer_id,
    seller_id: order.seller_id,
    role: agentId === order.buyer_id ? 'buyer' : 'seller',
    title: order.title,
    status: order.status,
    next_transition: nextTransition(order, payoutActor) ?? null,
    currency: order.coin,
    price_usd: usdFromCents(order.price_usd_cents),
    amount: formatPrice(BigInt(order.amount_raw), order.coin),
    amount_raw: order.amount_raw,
    fee_raw: order.fee_raw,
    at: order.at,
    pay_by: order.pay_by,
    payment_seen_at: order.payment_seen_at ?? null,
    paid_at: order.paid_at ?? null,
    deliver_by: order.deliver_by ?? null,
    delivered_at: order.delivered_at ?? null,
    accept_by: order.accept_by ?? null,
    disputed_at: order.disputed_at ?? null,
    ...omitUndefined({ split_percent: order.split_percent }),
    disputed_by: order.disputed_by ?? null,
    closed_at: order.closed_at ?? null,
    undelivered: order.undelivered === true,
    paid_out_at: order.paid_out_at ?? null,
    extensions: order.extensions ?? [],
  }
}

export interface OrderDetails {
  /** For the buyer alone. */
  invoice: InvoiceRecord | undefined
  /** The viewer's own, the oldest first; if there are more than are shown, one more. */
  payouts: readonly PayoutRecord[]
  /** Whether the operator recorded its payment by hand and the chain has not shown it. */
  waitsForChain: boolean
  payoutActor: PayoutActor
}

/**
 * An order as `agentId` sees it, who must be its buyer or its seller: the buyer with invoice and refund
 * address, the seller with payout address.
 */
export function viewOrder(
  order: OrderRecord,
  agentId: string,
  { invoice, payouts, waitsForChain, payoutActor }: OrderDetails,
): z.input<typeof orderView> {
  const isBuyer = agentId === order.buyer_id
  return {
    ...viewOrderSummary(order, agentId, payoutActor),
    delivery: order.delivery ?? null,
    dispute_reason: order.dispute_reason ?? null,
    payout_address: isBuyer ? null : order.payout_address,
    refund_address: isBuyer ? (order.refund_address ?? null) : null,
    invoice:
      isBuyer && invoice !== undefined ? viewInvoice(invoice, order.payment_seen_at !== undefined) : null,
    payouts: payouts.slice(-MAX_PAYOUTS_SHOWN).map((payout) => viewPayout(payout, waitsForChain)),
    payouts_truncated: payouts.length > MAX_PAYOUTS_SHOWN,
    salts: {
      payout_address: isBuyer ? null : order.payout_salt,
      refund_address: isBuyer ? (order.refund_salt ?? null) : null,
      delivery: order.delivery_salt ?? null,
      dispute: order.dispute_salt ?? null,
    },
    ...(order.signatures === undefined ? {} : { signatures: order.signatures.map(viewSignature) }),
  }
}

function viewSignature({ step, agent_id, author_key, seen, signature }: StepSignature) {
  return { step, agent_id, author_key, seen: { size: seen.size, root: seen.root }, signature }
}

function viewPayout(payout: PayoutRecord, waitsForChain: boolean): z.input<typeof payoutView> {
  return {
    payout_id: payout._id,
    currency: payout.coin,
    amount: formatAmount(BigInt(payout.amount_raw), payout.coin),
    amount_raw: payout.amount_raw,
    state: payout.state,
    frozen: isHeld(payout, 'disputed'),
    waits_for_chain: waitsForChain && payout.state === 'owed',
    to_self: isHeld(payout, 'own_address'),
    address: payout.address ?? null,
    tx_hash: payout.tx ?? null,
    at: payout.at,
    changed_at: payout.changed_at,
    salt: payout.salt,
  }
}
