import type { Connection } from 'mongoose'
import { isDuplicateKey, Overtaken, type Session } from '../platform/database.ts'
import { createGroups, createIdBatchRead, createBatchRead, insertEach } from '../platform/group-commit.ts'
import { MAX_BATCH_NONCES } from '../platform/limits.ts'
import { PENDING_INDEX, pendingField, type PendingEntry } from '../ledger/pending.ts'
import type { VerifiedBatch, WorkUpdate } from './work-steps.ts'
import { list, maybe, number, only, schemaOf, some, text, type RecordOf } from '../platform/fields.ts'
import { batchFields, workOrderFields, workStatusAt } from './work.ts'
import type { BatchRecord, SharePage, WorkOrderRecord } from './work.ts'
import { rawOf } from '../platform/records.ts'

const orderSchema = schemaOf<WorkOrderRecord>('work_orders', { ...workOrderFields, ...pendingField })
orderSchema.index({ agent_id: 1, _id: -1 })
orderSchema.index({ agent_id: 1, open_slot: 1 }, only({ open_slot: some }, undefined, true))
// Those that have pages, by the end of their time.
orderSchema.index({ expires_at: 1 }, only({ share_pages: some }))
orderSchema.index(...PENDING_INDEX)

/**
 * Nonces are stored as one text, separated by spaces: an array of thousands costs ten times as much to write
 * and to read.
 */
const storedBatchFields = { ...batchFields, nonces: maybe.text }
type StoredBatch = RecordOf<typeof storedBatchFields>

const batchSchema = schemaOf<StoredBatch>('work_batches', storedBatchFields)
const WAITING = { state: 'waiting' } as const
batchSchema.index({ at_ms: 1 }, only(WAITING, 'waiting'))
// It begins with the key by which a router may divide the collection.
batchSchema.index({ order_id: 1, slot: 1 }, only({ slot: some }, 'waiting_of_order', true))
batchSchema.index({ agent_id: 1 }, only(WAITING, 'waiting_of_agent'))
batchSchema.index({ forget_at: 1 }, { expireAfterSeconds: 0 })

/**
 * Whether a batch was refused because its order has a waiting one. The first databases have an index of `slot` alone
 * besides, which may be the one that says so.
 */
export const isSlotTaken = (error: unknown): boolean =>
  isDuplicateKey(error, 'order_id') || isDuplicateKey(error, 'slot')

/**
 * `_id` is `<order id>/<number>`, the number with leading zeros, so that pages sort and each number is
 * unique.
 */
const pageFields = { _id: text, order_id: text, batch_ids: list(text), nonces: text }
type StoredPage = RecordOf<typeof pageFields>

const pageSchema = schemaOf<StoredPage>('share_pages', pageFields)

/**
 * How many shares were ever counted. The sum is spread over COUNT_SLOTS documents, so that concurrent
 * verifications seldom conflict on one.
 */
const countFields = { _id: number, shares: number }
type ShareCount = RecordOf<typeof countFields>

const countSchema = schemaOf<ShareCount>('share_counts', countFields)
const COUNT_SLOTS = 64

/** Batches of 10,000 nonces that fit into one message to MongoDB. */
const BATCHES_AT_ONCE = 100

/**
 * Creates the store of work orders, their batches of nonces, and the pages of counted shares.
 *
 * @param patienceMs how long a batch may wait before its insert begins
 */
export function createWorkStore(connection: Connection, patienceMs: number) {
  const orders = connection.model<WorkOrderRecord>('WorkOrder', orderSchema)
  const batches = connection.model<StoredBatch>('WorkBatch', batchSchema)
  const pages = connection.model<StoredPage>('SharePage', pageSchema)
  const counts = connection.model<ShareCount>('ShareCount', countSchema)
  // Without mongoose's casting: nonces come by the thousand, and the route has already validated each.
  const rawOrders = () => rawOf<WorkOrderRecord>(orders)
  const rawBatches = () => rawOf<StoredBatch>(batches)
  const rawPages = () => rawOf<StoredPage>(pages)
  /** Reads those of the given batches that are in a state, in any order. */
  const listBatches = async (
    batchIds: readonly string[],
    state: BatchRecord['state'],
  ): Promise<BatchRecord[]> =>
    (
      await rawBatches()
        .find({ _id: { $in: [...batchIds] }, state }, { batchSize: batchIds.length + 1 })
        .toArray()
    ).map(toBatchRecord)
  const findCount = createBatchRead(
    (agentIds: string[]) =>
      rawBatches()
        .aggregate<{ _id: string; waiting: number }>(
          [
            { $match: { agent_id: { $in: agentIds }, state: 'waiting' } },
            { $group: { _id: '$agent_id', waiting: { $sum: 1 } } },
          ],
          { hint: 'waiting_of_agent', batchSize: agentIds.length + 1 },
        )
        .toArray(),
    ({ _id }) => _id,
  )
  return {
    models: { orders, batches, pages, counts },
    /** @throws a duplicate-key error on `agent_id` if another order of the agent has its `open_slot` */
    async insertOrder(order: WorkOrderRecord): Promise<void> {
      await orders.insertMany([order], { lean: true })
    },
    /**
     * Frees the slots of the agent's credited and expired orders.
     *
     * @returns the slots that its open orders still occupy
     */
    async freeOldSlots(agentId: string, nowSeconds: number): Promise<number[]> {
      const inSlot = await rawOrders()
        .find(
          { agent_id: agentId, open_slot: { $exists: true } },
          { projection: { open_slot: 1, days: 1, credited_days: 1, expires_at: 1 } },
        )
        .toArray()
      const isOpen = (order: WorkOrderRecord) => workStatusAt(order, nowSeconds) === 'open'
      const old = inSlot.filter((order) => !isOpen(order)).map(({ _id }) => _id)
      if (old.length > 0) await rawOrders().updateMany({ _id: { $in: old } }, { $unset: { open_slot: 1 } })
      return inSlot.filter(isOpen).flatMap(({ open_slot: slot }) => (slot === undefined ? [] : [slot]))
    },
    /** Reads an order; undefined if there is none with this id. */
    findOrder: createIdBatchRead(rawOrders),
    /**
     * Inserts one batch, together with others that arrive at the same time (group commit). Resolves once a
     * majority has it in its journal.
     *
     * @throws a duplicate-key error if the order has a waiting batch: see isSlotTaken()
     */
    insertBatch: createGroups(
      (group: BatchRecord[]) =>
        insertEach(
          rawBatches(),
          group.map(({ nonces, ...batch }) => ({
            ...batch,
            ...(nonces === undefined ? {} : { nonces: nonces.join(' ') }),
          })),
        ),
      { patienceMs, maxItems: BATCHES_AT_ONCE },
    ),
    /**
     * Adds nonces to an order's waiting batch.
     *
     * @returns the batch, and how many nonces stand before these; undefined if the order has no waiting
     *   batch, or it has no room for them
     */
    async joinBatch(
      orderId: string,
      nonces: readonly string[],
    ): Promise<{ batchId: string; from: number } | undefined> {
      const before = await rawBatches().findOneAndUpdate(
        {
          order_id: orderId,
          slot: orderId,
          state: 'waiting',
          count: { $lte: MAX_BATCH_NONCES - nonces.length },
        },
        [
          {
            $set: {
              nonces: { $concat: ['$nonces', ' ', { $literal: nonces.join(' ') }] },
              count: { $add: ['$count', nonces.length] },
            },
          },
        ],
        { returnDocument: 'before', projection: { count: 1 } },
      )
      return before === null ? undefined : { batchId: before._id, from: before.count }
    },
    /** Counts the agent's waiting batches, together with those of other agents that are asked for. */
    countWaiting: async (agentId: string): Promise<number> => (await findCount(agentId))?.waiting ?? 0,
    findWaiting: (batchIds: readonly string[]): Promise<BatchRecord[]> => listBatches(batchIds, 'waiting'),
    /** Reads a batch, together with others that are asked for; undefined unless it is verified. */
    findVerified: createBatchRead(
      (batchIds: string[]) => listBatches(batchIds, 'verified'),
      ({ _id }) => _id,
    ),
    /**
     * Lists the ids of waiting batches whose `at_ms` is at most `beforeMs` or above `afterMs`, oldest first.
     */
    async listWaiting(
      beforeMs: number,
      limit: number,
      afterMs: number = Number.POSITIVE_INFINITY,
    ): Promise<string[]> {
      const found = await batches
        .find(
          { state: 'waiting', $or: [{ at_ms: { $lte: beforeMs } }, { at_ms: { $gt: afterMs } }] },
          { _id: 1 },
        )
        .sort({ at_ms: 1 })
        .limit(limit)
        .hint('waiting')
        .lean<{ _id: string }[]>()
      return found.map(({ _id }) => _id)
    },
    /**
     * Reads an order's pages number `from` to number `to`, ascending, as a majority of the database has them.
     */
    async listPages(orderId: string, from: number, to: number): Promise<SharePage[]> {
      const found = await rawPages()
        .find(
          { _id: { $gte: pageId(orderId, from), $lte: pageId(orderId, to) } },
          { readConcern: { level: 'majority' }, batchSize: 1_000 },
        )
        .sort({ _id: 1 })
        .toArray()
      return found.map(({ _id, nonces, ...page }) => ({
        ...page,
        number: Number(_id.slice(orderId.length + 1)),
        nonces: splitNonces(nonces),
      }))
    },
    /**
     * Deletes the pages of up to `limit` orders whose time was over at `beforeSeconds` (Unix seconds), except
     * those with a waiting batch. An order takes nonces only in its time, and what it has counted and
     * credited stands in the order and in the ledger.
     *
     * @returns the number of orders whose pages were deleted
     */
    async deleteOldPages(beforeSeconds: number, limit: number): Promise<number> {
      const closed = await rawOrders()
        .find({ share_pages: { $exists: true }, expires_at: { $lte: beforeSeconds } })
        .limit(limit)
        .toArray()
      let cleared = 0
      for (const { _id, share_pages: pages = 0 } of closed) {
        // A waiting batch will still be compared with the pages.
        if ((await rawBatches().findOne({ order_id: _id, slot: _id })) !== null) continue
        await rawPages().deleteMany({ _id: { $gte: pageId(_id, 1), $lte: pageId(_id, pages) } })
        await rawOrders().updateOne({ _id }, { $unset: { share_pages: 1, last_batch: 1 } })
        cleared++
      }
      return cleared
    },
    /**
     * Stores the batches' results, and removes their nonces.
     *
     * @param forgetAt when MongoDB deletes the batches
     * @throws Overtaken if one of them was verified or added to since it was read; the caller must abort
     */
    async markVerified(verified: readonly VerifiedBatch[], forgetAt: Date, session: Session): Promise<void> {
      const updates = verified.map(({ _id, count, outcomes }) => ({
        updateOne: {
          filter: { _id, state: 'waiting' as const, count },
          update: {
            $set: { state: 'verified' as const, outcomes, forget_at: forgetAt },
            $unset: { nonces: 1 as const, slot: 1 as const },
          },
        },
      }))
      const { matchedCount } = await rawBatches().bulkWrite(updates, { session, ordered: false })
      if (matchedCount !== updates.length)
        throw new Overtaken('one of these batches has changed since it was read')
    },
    /**
     * Stores the orders for which shares count now, with their pages and entries, and adds these shares to the
     * number of all that were ever counted.
     *
     * @param entries those of the days that are completed, by the order's id
     * @throws Overtaken or a duplicate-key error if an order has changed since its `before` was read; the
     *   caller must abort
     */
    async addShares(
      updates: readonly WorkUpdate[],
      entries: ReadonlyMap<string, PendingEntry>,
      session: Session,
    ): Promise<void> {
      if (updates.length === 0) return
      const writes = updates.map(({ before, set }) => {
        const { _id, shares_accepted, credited_days, share_pages = { $exists: false } } = before
        const filter = { _id, shares_accepted, credited_days, share_pages }
        const entry = entries.get(_id)
        const update = { $set: set, ...(entry === undefined ? {} : { $push: { pending: entry } }) }
        return { updateOne: { filter, update } }
      })
      // The orders first: if one of them has changed, the rest needn't be sent.
      const { matchedCount } = await rawOrders().bulkWrite(writes, { session, ordered: false })
      if (matchedCount !== writes.length)
        throw new Overtaken('one of these work orders has changed since it was read')
      const newPages = updates.map(({ page }) => page)
      await rawPages().insertMany(
        newPages.map(({ number: pageNumber, nonces, ...page }) => ({
          ...page,
          _id: pageId(page.order_id, pageNumber),
          nonces: nonces.join(' '),
        })),
        { session },
      )
      const shares = newPages.reduce((sum, { nonces }) => sum + nonces.length, 0)
      await counts.collection.updateOne(
        { _id: Math.floor(Math.random() * COUNT_SLOTS) } as never,
        { $inc: { shares } },
        { session, upsert: true },
      )
    },
  }
}

export type WorkStore = ReturnType<typeof createWorkStore>

/** Returns the `_id` of an order's page; ids of one order sort by number. */
const pageId = (orderId: string, pageNumber: number): string =>
  `${orderId}/${String(pageNumber).padStart(9, '0')}`
/** Returns the nonces of a stored text, which are separated by spaces. */
const splitNonces = (text: string): string[] => (text === '' ? [] : text.split(' '))

function toBatchRecord({ nonces, ...batch }: StoredBatch): BatchRecord {
  return { ...batch, ...(nonces === undefined ? {} : { nonces: splitNonces(nonces) }) }
}
