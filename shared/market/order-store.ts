import type { Connection, QueryFilter } from 'mongoose'
import { Overtaken, type Session } from '../platform/database.ts'
import { none, only, schemaOf, some } from '../platform/fields.ts'
import { rawOf, recordsOf, type Records } from '../platform/records.ts'
import { pushing, indexMarks, tellsField } from '../events/mark.ts'
import { PENDING_INDEX, pendingField } from '../ledger/pending.ts'
import type { Coin } from '../money/coin.ts'
import { DEADLINE_OVERDUE_SECONDS } from './market-terms.ts'
import { createOutageStore } from './outage-store.ts'
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
indexMarks(orderSchema)
orderSchema.index(...PENDING_INDEX)

/** The fields that the records of a list are read without. */
const UNLISTED = { pending: 0, tells: 0, delivery: 0 } as const

/**
 * How to find the orders that the buyer has to accept, or the seller to deliver; `id` is the side's field.
 */
export const WAITING = {
  buyer: { id: 'buyer_id', filter: { status: 'delivered', due_at: some } },
  seller: { id: 'seller_id', filter: { status: 'paid', due_at: some } },
} as const

export type OrderStore = ReturnType<typeof createOrderStore>

/** Creates the store of market orders, and of the outages that their deadlines are moved past. */
export function createOrderStore(connection: Connection) {
  const orders = recordsOf(connection.model<OrderRecord>('Order', orderSchema))
  return {
    models: { orders: orders.model },
    outages: createOutageStore(connection),
    /** @throws a duplicate-key error on `buyer_id` if another order of the buyer has its `unpaid_slot` */
    insert: (order: OrderRecord, session: Session) => orders.insert([order], session),
    find: (orderId: string, session?: Session) => orders.one({ _id: orderId }, { session }),
    /**
     * Stores a change of an order, with its ledger entries and event marks.
     *
     * @throws Overtaken if `before` is outdated, or it is the wrong side of the deadline
     */
    async change(before: OrderRecord, change: OrderChange, session?: Session): Promise<void> {
      const { filter, update } = changeOf(before, change)
      if (!(await orders.change(filter, update, session)))
        throw new Overtaken(`order ${before._id} has changed since it was read`)
    },
    /** Stores changes of many orders, like change(). @throws Overtaken if one of them can't be stored */
    async changeAll(
      changes: readonly { before: OrderRecord; change: OrderChange }[],
      session: Session,
    ): Promise<void> {
      // Mongoose does not check what is written here: only changeOf() may make it.
      const operations = changes.map(({ before, change }) => ({ updateOne: changeOf(before, change) }))
      const { matchedCount } = await rawOf<OrderRecord>(orders.model).bulkWrite(operations, { session })
      if (matchedCount !== changes.length)
        throw new Overtaken('one of these orders has changed since it was read')
    },
    /** Stores when a payment was first seen, if the order awaits payment and has no such time. */
    notePaymentSeen: (orderId: string, at: number, session: Session) =>
      orders.change(
        { _id: orderId, status: 'awaiting_payment', payment_seen_at: none },
        { $set: { payment_seen_at: at } },
        session,
      ),
    forgetPaymentSeen: (orderId: string) =>
      orders.change({ _id: orderId, payment_seen_at: some }, { $unset: { payment_seen_at: 1 } }),
    ...ordersOfAgents(orders),
    ...disputedOrders(orders),
    ...dueOrders(orders),
  }
}

/** What an agent's orders are listed by. */
function ordersOfAgents(orders: Records<OrderRecord>) {
  return {
    /** An agent's orders on either side, newest first, with ids below `before`; without `delivery`. */
    async listByAgent(agentId: string, before: string | undefined, limit: number): Promise<OrderRecord[]> {
      const older = before === undefined ? {} : { _id: { $lt: before } }
      const list = (side: QueryFilter<OrderRecord>) =>
        orders.all({ ...side, ...older }, { fields: UNLISTED, sort: { _id: -1 }, limit })
      // Each side has its own index; no agent is on both sides of an order.
      const [bought, sold] = await Promise.all([list({ buyer_id: agentId }), list({ seller_id: agentId })])
      return [...bought, ...sold].sort((a, b) => (a._id < b._id ? 1 : -1)).slice(0, limit)
    },
    listUnpaidSlots: (buyerId: string): Promise<number[]> =>
      orders.model.distinct('unpaid_slot', { buyer_id: buyerId, unpaid_slot: some }).exec(),
    /** Orders that wait for an agent on one side, the next deadline first; without `delivery`. */
    listWaiting(side: 'buyer' | 'seller', agentId: string, limit: number): Promise<OrderRecord[]> {
      const { id, filter } = WAITING[side]
      return orders.all({ [id]: agentId, ...filter }, { fields: UNLISTED, sort: { due_at: 1 }, limit })
    },
  }
}

/** What is asked of orders that are disputed, or may have to be. */
function disputedOrders(orders: Records<OrderRecord>) {
  return {
    /** Disputed orders, the oldest first; without `delivery`. */
    listDisputed: (limit: number) =>
      orders.all({ status: 'disputed' }, { fields: UNLISTED, sort: { _id: 1 }, limit }),
    /**
     * Orders of a coin with one of these addresses as payout or refund address: of the open orders, or of
     * `orderIds`. An address that no order has may have been named by a buyer after the backup was made from
     * which the database was restored: then orders without a refund address are listed too.
     *
     * @param addresses undefined to list the orders whatever their addresses
     */
    async listByAddress(
      coin: Coin,
      addresses: readonly string[] | undefined,
      orderIds?: readonly string[],
    ): Promise<OrderRecord[]> {
      const openStates: QueryFilter<OrderRecord>[] = [
        { status: { $in: ['paid', 'delivered'] } },
        { status: 'awaiting_payment', payment_seen_at: some },
        { status: 'disputed', suspects: some },
      ]
      const chosen: QueryFilter<OrderRecord> =
        orderIds === undefined ? { $or: openStates } : { _id: { $in: [...orderIds] } }
      if (addresses === undefined) return orders.all({ coin, ...chosen }, { fields: UNLISTED })
      const among = { $in: [...addresses] }
      const sides = ['payout_address', 'refund_address'] as const
      const named = await Promise.all(
        sides.map((side) =>
          rawOf<OrderRecord>(orders.model).distinct(side, { coin, [side]: among } as object),
        ),
      )
      const known = new Set(named.flat())
      const withAddress: QueryFilter<OrderRecord>[] = sides.map((side) => ({ [side]: among }))
      if (!addresses.every((address) => known.has(address))) withAddress.push({ refund_address: none })
      return orders.all({ coin, $and: [chosen, { $or: withAddress }] }, { fields: UNLISTED })
    },
    /** When orders were placed, by id. */
    async readPlaced(orderIds: readonly string[]): Promise<Map<string, number>> {
      if (orderIds.length === 0) return new Map()
      const found = await orders.all({ _id: { $in: [...orderIds] } }, { fields: { at: 1 } })
      return new Map(found.map(({ _id, at }) => [_id, at]))
    },
    /** Disputed orders, placed by then (Unix seconds), one of whose sides has one of these addresses. */
    listDisputedAt: (coin: Coin, addresses: readonly string[], placedBy: number) => {
      const among = { $in: [...addresses] }
      const isSides = { $or: [{ payout_address: among }, { refund_address: among }] }
      return orders.all(
        { status: 'disputed', coin, at: { $lte: placedBy }, ...isSides },
        { fields: UNLISTED, sort: { _id: 1 } },
      )
    },
    /** Orders that are disputed because of this transfer, among others. */
    listSuspectedFor: (transferId: string) =>
      orders.all({ status: 'disputed', suspects: transferId }, { fields: UNLISTED, sort: { _id: 1 } }),
  }
}

/** What is asked of orders by their deadlines. */
function dueOrders(orders: Records<OrderRecord>) {
  return {
    /** Orders with this deadline and an id above `after`, by ascending ids; without `delivery`. */
    listDue: (dueAt: number, after: string, limit: number) =>
      orders.all({ due_at: dueAt, _id: { $gt: after } }, { fields: UNLISTED, sort: { _id: 1 }, limit }),
    /** How many orders are overdue or disputed, and for how many seconds the oldest overdue one has been. */
    async readBacklog(nowSeconds: number) {
      const overdueFilter = { due_at: { $lte: nowSeconds - DEADLINE_OVERDUE_SECONDS } }
      const [overdue, oldest, disputed] = await Promise.all([
        orders.model.countDocuments(overdueFilter),
        orders.one(overdueFilter, { fields: { due_at: 1 }, sort: { due_at: 1 } }),
        orders.model.countDocuments({ status: 'disputed' }),
      ])
      const oldestSeconds = oldest?.due_at === undefined ? 0 : nowSeconds - oldest.due_at
      return { overdue, oldestSeconds, disputed }
    },
    /** The different deadlines up to a time, the earliest first. */
    async listDueTimes(untilSeconds: number, limit: number): Promise<number[]> {
      const times = await orders.model.aggregate<{ _id: number }>([
        { $match: { due_at: { $lte: untilSeconds } } },
        { $group: { _id: '$due_at' } },
        { $sort: { _id: 1 } },
        { $limit: limit },
      ])
      return times.map(({ _id }) => _id)
    },
  }
}

/**
 * Makes the conditional update for a change: its filter names the status, the version and the deadline, if
 * the step has one.
 *
 * @throws Error if the table does not allow the step from the order's status
 */
function changeOf(before: OrderRecord, { step, at, set = {}, unset = [], entries = [] }: OrderChange) {
  const rule = Object.hasOwn(ORDER_STEPS, step) ? stepRule(step as OrderStep) : undefined
  if (rule !== undefined && !rule.from.includes(before.status))
    throw new Error(`an order that is ${before.status} cannot take the step ${step}`)
  const deadline = rule?.deadline
  const timeCondition = deadline?.side === 'before' ? { $gt: at } : { $lte: at }
  const filter = { _id: before._id, status: before.status, version: before.version }
  return {
    filter: deadline === undefined ? filter : { ...filter, [deadline.name]: timeCondition },
    update: {
      $set: set,
      $inc: { version: 1 },
      ...(unset.length === 0 ? {} : { $unset: Object.fromEntries(unset.map((name) => [name, 1 as const])) }),
      ...pushing({ pending: entries, tells: orderMarks(before, step, set.status ?? before.status) }),
    },
  }
}
