import type mongoose from 'mongoose'
import type { Connection, QueryFilter } from 'mongoose'
import type { Session } from '../servers/database.ts'
import { none, only, schemaOf, some } from '../servers/fields.ts'
import { recordsOf } from '../servers/records.ts'
import { pushing, TELLS_INDEX, tellsField } from '../events/mark.ts'
import { PENDING_INDEX, pendingField } from '../ledger/pending.ts'
import type { Coin } from '../payments/coin.ts'
import { DEADLINE_OVERDUE_SECONDS } from './market-terms.ts'
import { orderFields, orderMarks, type OrderChange, type OrderRecord } from './order.ts'
import { ORDER_STEPS, stepRule, type OrderStep } from './order-states.ts'

const orderSchema = schemaOf<OrderRecord>('orders', { ...orderFields, ...tellsField, ...pendingField })
orderSchema.index({ buyer_id: 1, _id: -1 })
orderSchema.index({ seller_id: 1, _id: -1 })
orderSchema.index({ buyer_id: 1, unpaid_slot: 1 }, only({ unpaid_slot: some }, 'unpaid_slots', true))
orderSchema.index({ due_at: 1, _id: 1 }, only({ due_at: some }, 'due'))
orderSchema.index({ seller_id: 1, status: 1, due_at: 1 }, only({ due_at: some }, 'due_of_a_seller'))
orderSchema.index({ buyer_id: 1, status: 1, due_at: 1 }, only({ due_at: some }, 'due_of_a_buyer'))
orderSchema.index({ status: 1, _id: 1 }, only({ status: 'disputed' }, 'disputed'))
orderSchema.index(...TELLS_INDEX)
orderSchema.index(...PENDING_INDEX)

const LISTED = { pending: 0, tells: 0, delivery: 0 } as const

export const WAITING = {
  buyer: { id: 'buyer_id', filter: { status: 'delivered', due_at: some } },
  seller: { id: 'seller_id', filter: { status: 'paid', due_at: some } },
} as const

export type OrderStore = ReturnType<typeof createOrderStore>

export function createOrderStore(connection: Connection) {
  const orders = recordsOf(connection.model<OrderRecord>('Order', orderSchema))
  // What is written past mongoose is made by changeOf() alone.
  const raw = () => orders.model.collection as unknown as mongoose.mongo.Collection<OrderRecord>
  return {
    models: { orders: orders.model },
    /** @throws a duplicate-key error on `buyer_id` if another order of the buyer has its `unpaid_slot` */
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
      const found = await orders.all({ buyer_id: buyerId, unpaid_slot: some }, { fields: { unpaid_slot: 1 } })
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
     * Orders of a coin with one of these addresses on either side, or with any if `addresses` is undefined:
     * open ones, or those of `orderIds`. An address that no order has may have been named after the copy was
     * made: then orders without a refund address are included.
     */
    async listWith(
      coin: Coin,
      addresses: readonly string[] | undefined,
      orderIds?: readonly string[],
    ): Promise<OrderRecord[]> {
      const open: QueryFilter<OrderRecord> =
        orderIds === undefined
          ? {
              $or: [
                { status: { $in: ['paid', 'delivered'] } },
                { status: 'awaiting_payment', payment_seen_at: some },
              ],
            }
          : { _id: { $in: [...orderIds] } }
      if (addresses === undefined) return orders.all({ coin, ...open }, { fields: LISTED })
      const sides = ['payout_address', 'refund_address'] as const
      const onOrders = await Promise.all(
        sides.map((side) => raw().distinct(side, { coin, [side]: { $in: [...addresses] } } as object)),
      )
      const known = new Set(onOrders.flat())
      const nameless = addresses.every((address) => known.has(address)) ? [] : [{ refund_address: none }]
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
    async readBacklog(nowSeconds: number) {
      const isOverdue = { due_at: { $lte: nowSeconds - DEADLINE_OVERDUE_SECONDS } }
      const [overdue, oldest, disputed] = await Promise.all([
        orders.model.countDocuments(isOverdue),
        orders.one(isOverdue, { fields: { due_at: 1 }, sort: { due_at: 1 } }),
        orders.model.countDocuments({ status: 'disputed' }),
      ])
      const oldestSeconds = oldest?.due_at === undefined ? 0 : nowSeconds - oldest.due_at
      return { overdue, oldestSeconds, disputed }
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
    /** @returns false if only some were changed: the caller must abort the transaction */
    async changeAll(changes: readonly { before: OrderRecord; change: OrderChange }[], session: Session) {
      const operations = changes.map(({ before, change }) => ({ updateOne: changeOf(before, change) }))
      return (await raw().bulkWrite(operations, { session })).matchedCount === changes.length
    },
    notePaymentSeen: (orderId: string, at: number, session: Session) =>
      orders.change(
        { _id: orderId, status: 'awaiting_payment', payment_seen_at: none },
        { $set: { payment_seen_at: at } },
        session,
      ),
    forgetPaymentSeen: (orderId: string) =>
      orders.change({ _id: orderId, payment_seen_at: some }, { $unset: { payment_seen_at: 1 } }),
  }
}

const isStep = (step: OrderChange['step']): step is OrderStep => Object.hasOwn(ORDER_STEPS, step)

/** Every change has this form: it names the state, the version and, if the step has a deadline, the time. */
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
