import mongoose, { Schema, type Connection, type Model } from 'mongoose'
import { isDuplicateKey, type Session } from '../database.ts'
import { PENDING_INDEX, pendingField, type PendingEntry } from '../ledger/pending.ts'
import { shareId, type BatchRecord, type Rejected, type ShareRecord, type WorkOrderRecord } from './work.ts'

const number = { type: Number, required: true } as const
const string = { type: String, required: true } as const

const orderSchema = new Schema<WorkOrderRecord>(
  {
    _id: string,
    agent_id: string,
    at: number,
    days: number,
    shares_per_day: number,
    shares_required: number,
    difficulty_bits: number,
    prefix: string,
    expires_at: number,
    shares_accepted: number,
    credited_days: number,
    ...pendingField,
  },
  { collection: 'work_orders', strict: 'throw', versionKey: false },
)
orderSchema.index({ agent_id: 1, _id: -1 })
orderSchema.index(...PENDING_INDEX)

const batchSchema = new Schema<BatchRecord>(
  {
    _id: string,
    order_id: string,
    at_ms: number,
    state: string,
    nonces: { type: [String], default: undefined },
    rejected: { type: Schema.Types.Mixed, required: true },
    accepted: Number,
    forget_at: Date,
  },
  { collection: 'work_batches', strict: 'throw', versionKey: false },
)
batchSchema.index({ at_ms: 1 }, { name: 'waiting', partialFilterExpression: { state: 'waiting' } })
batchSchema.index({ forget_at: 1 }, { expireAfterSeconds: 0 })

const shareSchema = new Schema<ShareRecord>({ _id: string, batch_id: string }, { collection: 'shares', strict: 'throw', versionKey: false })

export interface WorkStore {
  insertOrder(order: WorkOrderRecord): Promise<void>
  findOrder(orderId: string, session?: Session): Promise<WorkOrderRecord | undefined>
  insertBatch(batch: BatchRecord): Promise<void>
  findBatch(batchId: string): Promise<BatchRecord | undefined>
  /** Of the given batches, those that are judged. */
  findJudged(batchIds: readonly string[]): Promise<BatchRecord[]>
  /** Ids of batches that have waited since before `beforeMs`, the oldest first. */
  listWaiting(beforeMs: number, limit: number): Promise<string[]>
  /** Claims nonces that nobody has claimed yet, as part of a transaction. @throws a duplicate-key error where one is claimed */
  claimFreshNonces(orderId: string, batchId: string, nonces: readonly string[], session: Session): Promise<void>
  /**
   * Claims nonces for a batch: of two batches that bring the same nonce the first insert wins, for ever. May be called
   * again for the same batch and then gives the same answer.
   *
   * @returns the nonces that belong to this batch, in the order given
   */
  claimNonces(orderId: string, batchId: string, nonces: readonly string[]): Promise<string[]>
  /** @returns false where the batch was judged before */
  judgeBatch(batchId: string, accepted: number, rejected: Rejected[], forgetAt: Date, session: Session): Promise<boolean>
  /** @returns false where the order no longer stands as `before` has it */
  countShares(before: WorkOrderRecord, counted: number, completedDays: number, entries: PendingEntry[], session: Session): Promise<boolean>
  readonly models: { orders: Model<WorkOrderRecord>; batches: Model<BatchRecord>; shares: Model<ShareRecord> }
}

export function createWorkStore(connection: Connection): WorkStore {
  const orders = connection.model<WorkOrderRecord>('WorkOrder', orderSchema)
  const batches = connection.model<BatchRecord>('WorkBatch', batchSchema)
  const shares = connection.model<ShareRecord>('Share', shareSchema)
  return {
    models: { orders, batches, shares },
    async insertOrder(order) {
      await orders.insertMany([order], { lean: true })
    },
    async findOrder(orderId, session) {
      return (await orders.findOne({ _id: orderId }, null, session === undefined ? {} : { session }).lean<WorkOrderRecord>()) ?? undefined
    },
    async insertBatch(batch) {
      // Ten thousand nonces gain nothing from a schema: the route has made each canonical.
      await batches.collection.insertOne(batch as never)
    },
    async findBatch(batchId) {
      return (await batches.findOne({ _id: batchId }).lean<BatchRecord>()) ?? undefined
    },
    async findJudged(batchIds) {
      return batches.find({ _id: { $in: [...batchIds] }, state: 'judged' }).lean<BatchRecord[]>()
    },
    async listWaiting(beforeMs, limit) {
      const found = await batches
        .find({ state: 'waiting', at_ms: { $lte: beforeMs } }, { _id: 1 })
        .sort({ at_ms: 1 })
        .limit(limit)
        .hint('waiting')
        .lean<{ _id: string }[]>()
      return found.map(({ _id }) => _id)
    },
    async claimFreshNonces(orderId, batchId, nonces, session) {
      if (nonces.length > 0)
        await shares.collection.insertMany(nonces.map((nonce) => ({ _id: shareId(orderId, nonce), batch_id: batchId })) as never[], {
          session,
        })
    },
    async claimNonces(orderId, batchId, nonces) {
      if (nonces.length === 0) return []
      const taken = await insertShares(
        shares,
        nonces.map((nonce) => ({ _id: shareId(orderId, nonce), batch_id: batchId })),
      )
      if (taken.size === 0) return [...nonces]
      // A retry finds its own shares among those taken.
      const own = await shares.find({ _id: { $in: [...taken] }, batch_id: batchId }, { _id: 1 }).lean<{ _id: string }[]>()
      for (const { _id } of own) taken.delete(_id)
      return nonces.filter((nonce) => !taken.has(shareId(orderId, nonce)))
    },
    async judgeBatch(batchId, accepted, rejected, forgetAt, session) {
      const update = { $set: { state: 'judged', accepted, rejected, forget_at: forgetAt }, $unset: { nonces: 1 as const } }
      return (await batches.updateOne({ _id: batchId, state: 'waiting' }, update, { session })).matchedCount === 1
    },
    async countShares(before, counted, completedDays, entries, session) {
      const filter = { _id: before._id, shares_accepted: before.shares_accepted, credited_days: before.credited_days }
      const update = {
        $inc: { shares_accepted: counted, credited_days: completedDays },
        ...(entries.length === 0 ? {} : { $push: { pending: { $each: entries } } }),
      }
      return (await orders.updateOne(filter, update, { session })).matchedCount === 1
    },
  }
}

/** Inserts what is new. @returns the ids that were there already */
async function insertShares(shares: Model<ShareRecord>, documents: ShareRecord[]): Promise<Set<string>> {
  try {
    await shares.collection.insertMany(documents as never[], { ordered: false })
    return new Set()
  } catch (error) {
    if (!(error instanceof mongoose.mongo.MongoBulkWriteError) || !isDuplicateKey(error)) throw error
    const failed = [error.writeErrors].flat()
    if (failed.some((failure) => failure.code !== error.code) || error.result.getWriteConcernError() !== undefined) throw error
    return new Set(failed.map((failure) => documents[failure.index]?._id).filter((id) => id !== undefined))
  }
}
