import mongoose, { Schema, type Connection, type Model } from 'mongoose'
import { type Session, within } from '../database.ts'
import { PENDING_INDEX, pendingField } from '../ledger/pending.ts'
import { DEADLINE_OVERDUE_SECONDS } from './market-terms.ts'
import type { OrderChange, OrderRecord } from './order.ts'
import { ORDER_STEPS, stepRule, type OrderStep } from './order-states.ts'

const number = { type: Number, required: true } as const
const string = { type: String, required: true } as const

const orderSchema = new Schema<OrderRecord>(
  {
    _id: string,
    offer_id: string,
    buyer_id: string,
    seller_id: string,
    at: number,
    title: string,
    coin: string,
    price_usd_cents: number,
    amount_raw: string,
    fee_raw: string,
    invoice_id: string,
    delivery_seconds: number,
    accept_seconds: number,
    payout_address: string,
    refund_address: String,
    payout_salt: string,
    refund_salt: String,
    status: string,
    version: number,
    unpaid_slot: Number,
    pay_by: number,
    payment_seen_at: Number,
    paid_at: Number,
    deliver_by: Number,
    delivered_at: Number,
    delivery: String,
    delivery_salt: String,
    accept_by: Number,
    disputed_at: Number,
    disputed_by: String,
    dispute_reason: String,
    dispute_salt: String,
    closed_at: Number,
    undelivered: Boolean,
    paid_out_at: Number,
    due_at: Number,
    extensions: {
      type: [new Schema({ deadline: string, was: number, until: number, outage_from: number, outage_to: number }, { _id: false })],
      default: undefined,
    },
    late_ms: Number,
    fee_taken: Boolean,
    written_off_raw: string,
    ...pendingField,
  },
  { collection: 'orders', strict: 'throw', versionKey: false },
)
orderSchema.index({ buyer_id: 1, _id: -1 })
orderSchema.index({ seller_id: 1, _id: -1 })
orderSchema.index(
  { buyer_id: 1, unpaid_slot: 1 },
  { unique: true, name: 'unpaid_slots', partialFilterExpression: { unpaid_slot: { $exists: true } } },
)
orderSchema.index({ due_at: 1, _id: 1 }, { name: 'due', partialFilterExpression: { due_at: { $exists: true } } })
orderSchema.index(
  { seller_id: 1, status: 1, due_at: 1 },
  { name: 'due_of_a_seller', partialFilterExpression: { due_at: { $exists: true } } },
)
orderSchema.index({ buyer_id: 1, status: 1, due_at: 1 }, { name: 'due_of_a_buyer', partialFilterExpression: { due_at: { $exists: true } } })
orderSchema.index({ status: 1, _id: 1 }, { name: 'disputed', partialFilterExpression: { status: 'disputed' } })
orderSchema.index(...PENDING_INDEX)

/** Of a list: all but what may be large and what nobody lists. */
const LISTED = { pending: 0, delivery: 0 } as const

/** What waits for each side. */
export const WAITING = {
  buyer: { id: 'buyer_id', filter: { status: 'delivered', due_at: { $exists: true } } },
  seller: { id: 'seller_id', filter: { status: 'paid', due_at: { $exists: true } } },
} as const

export interface OrderStore {
  /** @throws a duplicate-key error on `buyer_id` where another order of the buyer has its `unpaid_slot` */
  insert(order: OrderRecord, session: Session): Promise<void>
  find(orderId: string, session?: Session): Promise<OrderRecord | undefined>
  /** Either side's, newest first; `delivery` is left out. */
  listByAgent(agentId: string, limit: number): Promise<OrderRecord[]>
  /** The slots that a buyer's unpaid orders have. */
  listUnpaidSlots(buyerId: string): Promise<number[]>
  /** Deliveries that a buyer has to accept, or orders that a seller has to deliver; the soonest first. */
  listWaiting(side: 'buyer' | 'seller', agentId: string, limit: number): Promise<OrderRecord[]>
  /** The longest first. */
  listDisputed(limit: number): Promise<OrderRecord[]>
  /** Those with this deadline, in the order of their ids, after the id `after`; `delivery` is left out. */
  listDue(dueAt: number, after: string, limit: number): Promise<OrderRecord[]>
  /** Deadlines that passed and were not acted on, how long ago the oldest of them was, and orders that wait for a decision. */
  readBacklog(nowSeconds: number): Promise<{ overdue: number; oldestSeconds: number; disputed: number }>
  /** Different deadlines up to a time, the oldest first. */
  listDueTimes(untilSeconds: number, limit: number): Promise<number[]>
  /** @returns false where the order is no longer as it was read, or the time of the step is over or has not come */
  change(before: OrderRecord, change: OrderChange, session?: Session): Promise<boolean>
  /** All of these or, where it gives back false, some: then the transaction must be ended. */
  changeAll(changes: readonly { before: OrderRecord; change: OrderChange }[], session: Session): Promise<boolean>
  /** A payment was seen, while the order waits for one. */
  notePaymentSeen(orderId: string, at: number, session: Session): Promise<void>
  /** None is under way any more. */
  forgetPaymentSeen(orderId: string): Promise<void>
  readonly models: { orders: Model<OrderRecord> }
}

export function createOrderStore(connection: Connection): OrderStore {
  const orders = connection.model<OrderRecord>('Order', orderSchema)
  // Deadlines come by the thousand, and what they write is made by changeOf() alone.
  const raw = () => orders.collection as unknown as mongoose.mongo.Collection<OrderRecord>
  return {
    models: { orders },
    async insert(order, session) {
      await orders.insertMany([order], { session, lean: true })
    },
    async find(orderId, session) {
      return (await orders.findOne({ _id: orderId }, null, within(session)).lean<OrderRecord>()) ?? undefined
    },
    async listByAgent(agentId, limit) {
      // Each side by its own index; nobody stands on both sides of an order.
      const [bought, sold] = await Promise.all(
        [{ buyer_id: agentId }, { seller_id: agentId }].map((side) =>
          orders.find(side, LISTED).sort({ _id: -1 }).limit(limit).lean<OrderRecord[]>(),
        ),
      )
      return [...(bought ?? []), ...(sold ?? [])].sort((a, b) => (a._id < b._id ? 1 : -1)).slice(0, limit)
    },
    async listUnpaidSlots(buyerId) {
      const found = await orders
        .find({ buyer_id: buyerId, unpaid_slot: { $exists: true } }, { _id: 0, unpaid_slot: 1 })
        .lean<Required<Pick<OrderRecord, 'unpaid_slot'>>[]>()
      return found.map(({ unpaid_slot: slot }) => slot)
    },
    async listWaiting(side, agentId, limit) {
      const { id, filter } = WAITING[side]
      return orders
        .find({ [id]: agentId, ...filter }, LISTED)
        .sort({ due_at: 1 })
        .limit(limit)
        .lean<OrderRecord[]>()
    },
    async listDisputed(limit) {
      return orders.find({ status: 'disputed' }, LISTED).sort({ _id: 1 }).limit(limit).lean<OrderRecord[]>()
    },
    async listDue(dueAt, after, limit) {
      return raw()
        .find({ due_at: dueAt, _id: { $gt: after } }, { projection: LISTED, limit, batchSize: limit })
        .sort({ _id: 1 })
        .toArray()
    },
    async readBacklog(nowSeconds) {
      // A deadline is acted on a moment after it; what is older than that is late.
      const isOverdue = { due_at: { $lte: nowSeconds - DEADLINE_OVERDUE_SECONDS } }
      const [overdue, oldest, disputed] = await Promise.all([
        orders.countDocuments(isOverdue),
        orders.findOne(isOverdue, { due_at: 1 }).sort({ due_at: 1 }).lean<Pick<OrderRecord, 'due_at'>>(),
        orders.countDocuments({ status: 'disputed' }),
      ])
      return { overdue, oldestSeconds: oldest?.due_at === undefined ? 0 : nowSeconds - oldest.due_at, disputed }
    },
    async listDueTimes(untilSeconds, limit) {
      const times = await raw()
        .aggregate<{ _id: number }>([
          { $match: { due_at: { $lte: untilSeconds } } },
          { $group: { _id: '$due_at' } },
          { $sort: { _id: 1 } },
          { $limit: limit },
        ])
        .toArray()
      return times.map(({ _id }) => _id)
    },
    async change(before, change, session) {
      const { filter, update } = changeOf(before, change)
      return (await orders.updateOne(filter, update, within(session))).matchedCount === 1
    },
    async changeAll(changes, session) {
      const operations = changes.map(({ before, change }) => ({ updateOne: changeOf(before, change) }))
      return (await raw().bulkWrite(operations as never[], { session })).matchedCount === changes.length
    },
    async notePaymentSeen(orderId, at, session) {
      await orders.updateOne(
        { _id: orderId, status: 'awaiting_payment', payment_seen_at: { $exists: false } },
        { $set: { payment_seen_at: at } },
        { session },
      )
    },
    async forgetPaymentSeen(orderId) {
      await orders.updateOne({ _id: orderId, payment_seen_at: { $exists: true } }, { $unset: { payment_seen_at: 1 } })
    },
  }
}

const isStep = (step: OrderChange['step']): step is OrderStep => Object.hasOwn(ORDER_STEPS, step)

/** The one form of every change: it names the state, the version and, where the step has a deadline, the time. */
function changeOf(before: OrderRecord, { step, at, set, unset = [], entries }: OrderChange) {
  const rule = isStep(step) ? stepRule(step) : undefined
  if (rule !== undefined && !rule.from.includes(before.status))
    throw new Error(`an order that is ${before.status} cannot take the step ${step}`)
  const { deadline } = rule ?? {}
  return {
    filter: {
      _id: before._id,
      status: before.status,
      version: before.version,
      ...(deadline === undefined ? {} : { [deadline.name]: deadline.side === 'before' ? { $gt: at } : { $lte: at } }),
    },
    update: {
      $set: set,
      $inc: { version: 1 },
      ...(unset.length === 0 ? {} : { $unset: Object.fromEntries(unset.map((name) => [name, 1 as const])) }),
      ...(entries.length === 0 ? {} : { $push: { pending: { $each: [...entries] } } }),
    },
  }
}
