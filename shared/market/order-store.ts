import mongoose, { Schema, type Connection, type QueryFilter } from 'mongoose'
import { authorShape } from '../agents/authorship.ts'
import type { Session } from '../servers/database.ts'
import { recordsOf } from '../servers/records.ts'
import { pushing, TELLS_INDEX, tellsField } from '../events/mark.ts'
import { PENDING_INDEX, pendingField } from '../ledger/pending.ts'
import type { Coin } from '../payments/coin.ts'
import { DEADLINE_OVERDUE_SECONDS } from './market-terms.ts'
import { orderMarks, type OrderChange, type OrderRecord } from './order.ts'
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
    refunds_undone: {
      type: [new Schema({ address: string, salt: string }, { _id: false })],
      default: undefined,
    },
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
      type: [
        new Schema(
          { deadline: string, was: number, until: number, outage_from: number, outage_to: number },
          { _id: false },
        ),
      ],
      default: undefined,
    },
    late_ms: Number,
    fee_taken: Boolean,
    written_off_raw: string,
    signatures: {
      type: [new Schema({ ...authorShape, step: string, agent_id: string }, { _id: false })],
      default: undefined,
    },
    ...tellsField,
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
orderSchema.index(
  { due_at: 1, _id: 1 },
  { name: 'due', partialFilterExpression: { due_at: { $exists: true } } },
)
orderSchema.index(
  { seller_id: 1, status: 1, due_at: 1 },
  { name: 'due_of_a_seller', partialFilterExpression: { due_at: { $exists: true } } },
)
orderSchema.index(
  { buyer_id: 1, status: 1, due_at: 1 },
  { name: 'due_of_a_buyer', partialFilterExpression: { due_at: { $exists: true } } },
)
orderSchema.index(
  { status: 1, _id: 1 },
  { name: 'disputed', partialFilterExpression: { status: 'disputed' } },
)
orderSchema.index(...TELLS_INDEX)
orderSchema.index(...PENDING_INDEX)

const LISTED = { pending: 0, tells: 0, delivery: 0 } as const

export const WAITING = {
  buyer: { id: 'buyer_id', filter: { status: 'delivered', due_at: { $exists: true } } },
  seller: { id: 'seller_id', filter: { status: 'paid', due_at: { $exists: true } } },
} as const

export type OrderStore = ReturnType<typeof createOrderStore>

export function createOrderStore(connection: Connection) {
  const orders = recordsOf(connection.model<OrderRecord>('Order', orderSchema))
  // What is written past mongoose is made by changeOf() alone.
  const raw = () => orders.model.collection as unknown as mongoose.mongo.Collection<OrderRecord>
  return {
    models: { orders: orders.model },
    /** @throws a duplicate-key error on `buyer_id` where another order of the buyer has its `unpaid_slot` */
    insert: (order: OrderRecord, session: Session) => orders.insert([order], session),
    find: (orderId: string, session?: Session) => orders.one({ _id: orderId }, { session }),
    /** Either side's, newest first; with `before`, those with a smaller id. `delivery` is left out. */
    async listByAgent(agentId: string, before: string | undefined, limit: number): Promise<OrderRecord[]> {
      // Each side by its own index; nobody stands on both sides of an order.
      const older = before === undefined ? {} : { _id: { $lt: before } }
      const sides = [
        { buyer_id: agentId, ...older },
        { seller_id: agentId, ...older },
      ]
      const found = await Promise.all(
        sides.map((side) => orders.all(side, { fields: LISTED, sort: { _id: -1 }, limit })),
      )
      return found
        .flat()
        .sort((a, b) => (a._id < b._id ? 1 : -1))
        .slice(0, limit)
    },
    async listUnpaidSlots(buyerId: string): Promise<number[]> {
      const found = await orders.all(
        { buyer_id: buyerId, unpaid_slot: { $exists: true } },
        { fields: { unpaid_slot: 1 } },
      )
      return found.flatMap(({ unpaid_slot: slot }) => slot ?? [])
    },
    /** Deliveries that a buyer has to accept, or orders that a seller has to deliver; the soonest first. */
    listWaiting(side: 'buyer' | 'seller', agentId: string, limit: number): Promise<OrderRecord[]> {
      const { id, filter } = WAITING[side]
      return orders.all({ [id]: agentId, ...filter }, { fields: LISTED, sort: { due_at: 1 }, limit })
    },
    listDisputed: (limit: number) =>
      orders.all({ status: 'disputed' }, { fields: LISTED, sort: { _id: 1 }, limit }),
    /**
     * Open orders of a coin with one of these addresses on either side; all of them if `addresses` is
     * undefined. An address that no order has may have been named after the copy was made: then orders
     * without a refund address are among them.
     */
    async listOpenWith(coin: Coin, addresses: readonly string[] | undefined): Promise<OrderRecord[]> {
      const open: QueryFilter<OrderRecord> = {
        $or: [
          { status: { $in: ['paid', 'delivered'] } },
          { status: 'awaiting_payment', payment_seen_at: { $exists: true } },
        ],
      }
      if (addresses === undefined) return orders.all({ coin, ...open }, { fields: LISTED })
      const sides = ['payout_address', 'refund_address'] as const
      const onOrders = await Promise.all(
        sides.map((side) => raw().distinct(side, { coin, [side]: { $in: [...addresses] } } as object)),
      )
      const known = new Set(onOrders.flat())
      const nameless = addresses.every((address) => known.has(address))
        ? []
        : [{ refund_address: { $exists: false } }]
      const either = { $or: [...sides.map((side) => ({ [side]: { $in: [...addresses] } })), ...nameless] }
      return orders.all({ coin, $and: [open, either] }, { fields: LISTED })
    },
    /** By id, after the id `after`; without `delivery`. */
    async listDue(dueAt: number, after: string, limit: number): Promise<OrderRecord[]> {
      return raw()
        .find({ due_at: dueAt, _id: { $gt: after } }, { projection: LISTED, limit, batchSize: limit })
        .sort({ _id: 1 })
        .toArray()
    },
    /** `oldestSeconds`: how long ago the oldest overdue deadline was. */
    async readBacklog(
      nowSeconds: number,
    ): Promise<{ overdue: number; oldestSeconds: number; disputed: number }> {
      const isOverdue = { due_at: { $lte: nowSeconds - DEADLINE_OVERDUE_SECONDS } }
      const [overdue, oldest, disputed] = await Promise.all([
        orders.model.countDocuments(isOverdue),
        orders.one(isOverdue, { fields: { due_at: 1 }, sort: { due_at: 1 } }),
        orders.model.countDocuments({ status: 'disputed' }),
      ])
      return {
        overdue,
        oldestSeconds: oldest?.due_at === undefined ? 0 : nowSeconds - oldest.due_at,
        disputed,
      }
    },
    async listDueTimes(untilSeconds: number, limit: number): Promise<number[]> {
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
    async change(before: OrderRecord, change: OrderChange, session?: Session): Promise<boolean> {
      const { filter, update } = changeOf(before, change)
      return orders.change(filter, update, session)
    },
    /** All of these or, where it gives back false, some: then the transaction must be ended. */
    async changeAll(
      changes: readonly { before: OrderRecord; change: OrderChange }[],
      session: Session,
    ): Promise<boolean> {
      const operations = changes.map(({ before, change }) => ({ updateOne: changeOf(before, change) }))
      return (await raw().bulkWrite(operations, { session })).matchedCount === changes.length
    },
    notePaymentSeen: (orderId: string, at: number, session: Session) =>
      orders.change(
        { _id: orderId, status: 'awaiting_payment', payment_seen_at: { $exists: false } },
        { $set: { payment_seen_at: at } },
        session,
      ),
    forgetPaymentSeen: (orderId: string) =>
      orders.change({ _id: orderId, payment_seen_at: { $exists: true } }, { $unset: { payment_seen_at: 1 } }),
  }
}

const isStep = (step: OrderChange['step']): step is OrderStep => Object.hasOwn(ORDER_STEPS, step)

/**
 * The one form of every change: it names the state, the version and, where the step has a deadline, the time.
 */
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
      ...(deadline === undefined
        ? {}
        : { [deadline.name]: deadline.side === 'before' ? { $gt: at } : { $lte: at } }),
    },
    update: {
      $set: set,
      $inc: { version: 1 },
      ...(unset.length === 0 ? {} : { $unset: Object.fromEntries(unset.map((name) => [name, 1 as const])) }),
      ...pushing({ pending: entries, tells: orderMarks(before, step, set.status ?? before.status) }),
    },
  }
}
