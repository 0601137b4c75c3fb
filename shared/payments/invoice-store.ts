import type mongoose from 'mongoose'
import { Schema, type Connection, type Model } from 'mongoose'
import { type Session, within } from '../database.ts'
import { createIdLookUp } from '../group-commit.ts'
import { PENDING_INDEX, pendingField, type PendingEntry } from '../ledger/pending.ts'
import type { Coin } from './coin.ts'
import { sumByCoin } from './sum-raw.ts'
import { FIRST_UNLOCK_SECONDS, type InvoiceRecord, type PaymentRecord, type PaymentState, type Watch } from './invoice.ts'

const number = { type: Number, required: true } as const
const string = { type: String, required: true } as const
const boolean = { type: Boolean, required: true } as const

const invoiceSchema = new Schema<InvoiceRecord>(
  {
    _id: string,
    agent_id: string,
    at: number,
    coin: string,
    days: Number,
    order_id: String,
    price_usd_cents: number,
    amount_raw: string,
    rate: string,
    rate_source: string,
    rate_at: number,
    address: string,
    address_index: number,
    expires_at: number,
    open: Boolean,
    lapsed: boolean,
    watch: string,
    look_after: number,
    received_raw: string,
    carried_raw: string,
    moved_raw: string,
    unspent: string,
    has_remainder: Boolean,
    credited_days: number,
    version: number,
    has_payments: Boolean,
    check_asked_ms: Number,
    ...pendingField,
  },
  { collection: 'invoices', strict: 'throw', versionKey: false },
)
// An address belongs to one invoice for ever.
invoiceSchema.index({ address_index: 1, coin: 1 }, { unique: true })
invoiceSchema.index({ agent_id: 1, coin: 1 }, { unique: true, name: 'one_open', partialFilterExpression: { open: true } })
invoiceSchema.index({ agent_id: 1, coin: 1, _id: 1 }, { name: 'remainders', partialFilterExpression: { has_remainder: true } })
invoiceSchema.index({ order_id: 1 }, { unique: true, partialFilterExpression: { order_id: { $exists: true } } })
// With the address's index, so that a round over all of them reads this one alone.
invoiceSchema.index({ coin: 1, watch: 1, look_after: 1, _id: 1, address_index: 1 })
invoiceSchema.index({ coin: 1, expires_at: 1 }, { name: 'not_lapsed', partialFilterExpression: { lapsed: false } })
invoiceSchema.index({ coin: 1, expires_at: 1 }, { name: 'hourly_ends', partialFilterExpression: { watch: 'hourly' } })
invoiceSchema.index(...PENDING_INDEX)

const paymentSchema = new Schema<PaymentRecord>(
  {
    _id: string,
    coin: string,
    tx: string,
    address_index: number,
    invoice_id: string,
    agent_id: string,
    order_id: String,
    amount_raw: string,
    state: string,
    confirmations: number,
    height: Number,
    unlock_time: Number,
    first_seen_at: number,
    late: boolean,
    arrival_rate: String,
    waits_for_rate: Boolean,
    settled_at: Number,
    credited_days: Number,
    price_raw: String,
    reversed_at: Number,
    by: string,
    shown_at: Number,
    undone_at: Number,
    salt: string,
    swept_at: Number,
    ...pendingField,
  },
  { collection: 'payments', strict: 'throw', versionKey: false },
)
// What makes a payment settle once: one record for a transaction's money at one address, whoever finds it, however often.
paymentSchema.index({ tx: 1, address_index: 1, coin: 1 }, { unique: true })
paymentSchema.index({ invoice_id: 1, _id: 1 })
paymentSchema.index({ coin: 1, state: 1 }, { name: 'under_way', partialFilterExpression: { state: 'seen' } })
paymentSchema.index({ coin: 1, unlock_time: 1 }, { name: 'locked', partialFilterExpression: { state: 'locked' } })
paymentSchema.index(
  { coin: 1, height: 1 },
  { name: 'settled_at_height', partialFilterExpression: { state: 'settled', height: { $exists: true } } },
)
paymentSchema.index({ coin: 1, swept_at: 1, _id: 1 }, { name: 'unswept', partialFilterExpression: { state: 'settled' } })
const UNSEEN = { by: 'operator', shown_at: { $exists: false } } as const
paymentSchema.index({ by: 1, coin: 1, order_id: 1 }, { partialFilterExpression: { by: 'operator' } })
paymentSchema.index({ waits_for_rate: 1, coin: 1, _id: 1 }, { partialFilterExpression: { waits_for_rate: true } })
paymentSchema.index(...PENDING_INDEX)

/** What a change of an invoice's money sets; the rest of the record never changes with it. */
export type MoneyFields = Partial<
  Pick<InvoiceRecord, 'received_raw' | 'carried_raw' | 'moved_raw' | 'unspent' | 'credited_days' | 'lapsed' | 'watch' | 'look_after'>
> & { has_remainder?: boolean; open?: false }

const PAYMENT_PROGRESS = { _id: 0, tx: 1, amount_raw: 1, state: 1, waits_for_rate: 1, reversed_at: 1 } as const
export type PaymentProgress = Pick<PaymentRecord, Exclude<keyof typeof PAYMENT_PROGRESS, '_id'>>

export interface InvoiceStore {
  /** @throws a duplicate-key error where the agent has an open one in this coin, or the address is taken */
  insert(invoice: InvoiceRecord, session?: Session): Promise<void>
  find(invoiceId: string, session?: Session): Promise<InvoiceRecord | undefined>
  findOpen(agentId: string, coin: Coin): Promise<InvoiceRecord | undefined>
  findByOrder(orderId: string): Promise<InvoiceRecord | undefined>
  /** The invoices that these addresses belong to; an address without one is left out. */
  findByAddresses(coin: Coin, addressIndexes: readonly number[]): Promise<InvoiceRecord[]>
  /** An agent's invoices in a coin that have something left over. */
  listRemainders(agentId: string, coin: Coin, session: Session): Promise<InvoiceRecord[]>
  /** @returns false where the invoice has changed since it was read */
  changeMoney(before: InvoiceRecord, fields: MoneyFields, entries: readonly PendingEntry[], session: Session): Promise<boolean>
  /** It is no longer the one open invoice of its agent; nothing else changes. */
  close(invoiceId: string): Promise<void>
  /** One page of what a round looks at, after the id `after`; hourly ones only where their time has come. */
  listWatched(coin: Coin, watch: Exclude<Watch, 'on_check'>, nowSeconds: number, after: string, limit: number): Promise<WatchedAddress[]>
  /** The same for a round over very many: the indexes alone, and the id to go on after; undefined where there are no more. */
  listOpenIndexes(coin: Coin, after: string, limit: number): Promise<{ indexes: number[]; last: string } | undefined>
  /** These hourly addresses were looked at. */
  lookLater(invoiceIds: readonly string[], lookAfter: number): Promise<void>
  /** Not lapsed although `expires_at` lies before this time. */
  listOverdue(coin: Coin, beforeSeconds: number, limit: number): Promise<InvoiceRecord[]>
  /** Hourly ones whose 30 days are over are looked at no more but when asked. */
  endHourly(coin: Coin, expiredBeforeSeconds: number): Promise<void>
  /** Lapses those of these invoices at which nothing was ever seen; the others it leaves. */
  lapseUntouched(changes: readonly { invoiceId: string; watch: Watch; lookAfter: number }[]): Promise<void>
  /** Due in the next round as well, whatever becomes of the job. @returns false where a look was asked for less than `everyMs` ago */
  askForLook(invoiceId: string, nowMs: number, everyMs: number): Promise<boolean>
  /** The look that was asked for at that time could not be asked for after all. */
  forgetLook(invoiceId: string, askedMs: number): Promise<void>
  /**
   * Tells the invoice that it has a payment under way. The write makes this transaction and every other one that moves the
   * invoice come after each other: an invoice cannot lapse past a payment that was just noted.
   *
   * @returns the invoice as it is now; undefined where there is none
   */
  markPayment(invoiceId: string, session: Session): Promise<InvoiceRecord | undefined>
  insertPayment(payment: PaymentRecord, session: Session): Promise<void>
  findPayment(coin: Coin, tx: string, addressIndex: number, session?: Session): Promise<PaymentRecord | undefined>
  findPaymentById(paymentId: string, session?: Session): Promise<PaymentRecord | undefined>
  /** An invoice's payments, the oldest first, without those that the operator took back. */
  listPayments(invoiceId: string, session?: Session): Promise<PaymentRecord[]>
  /** Confirmed late money that waits for a rate, and whose invoice has lapsed or still has time, the oldest first; without a rate, that which needs none. */
  listWaitingForRate(coin: Coin, options: { hasRate: boolean; nowSeconds: number }, limit: number): Promise<PaymentRecord[]>
  setWaitsForRate(paymentId: string): Promise<void>
  /** Corrects a payment that is not settled. @returns false where it is, or has another amount than the expected one */
  correctAmount(paymentId: string, fromRaw: string, toRaw: string): Promise<boolean>
  /** Of these transactions, the payments that are on record. */
  listPaymentsByTx(coin: Coin, txs: readonly string[]): Promise<PaymentRecord[]>
  /** How far the payments with these transactions are, for a round that meets the same ones over and over; without those that it is the first to see. */
  listPaymentProgress(coin: Coin, txs: readonly string[]): Promise<PaymentProgress[]>
  listUnderWay(coin: Coin): Promise<PaymentRecord[]>
  /** Orders with money that was recorded by hand and that the chain has not shown. */
  listUnseenOrders(coin: Coin): Promise<string[]>
  /** The chain has shown what was recorded by hand. */
  setShown(paymentId: string, at: number): Promise<void>
  /** Locked ones whose lock has ended, at this height of the chain and this time (Unix seconds). */
  listUnlocked(coin: Coin, height: number, nowSeconds: number, limit: number): Promise<PaymentRecord[]>
  /** In a block, and not settled. */
  listUncounted(coin: Coin): Promise<PaymentRecord[]>
  /** Settled ones in blocks numbered `height` or more, and not taken back. */
  listSettledSince(coin: Coin, height: number): Promise<PaymentRecord[]>
  /** Settled payments that are still at their addresses, after the id `after`, the oldest first. */
  listUnswept(coin: Coin, after: string, limit: number): Promise<PaymentRecord[]>
  /** What of them the chain has shown. */
  sumUnswept(coin: Coin): Promise<bigint>
  /** Those of one address, in the same pages. */
  listUnsweptAt(coin: Coin, addressIndex: number, after: string, limit: number): Promise<PaymentRecord[]>
  /** undefined: they are at their addresses after all. */
  setSwept(paymentIds: readonly string[], at: number | undefined): Promise<void>
  /** News of a payment that is not settled; a settled one keeps its state and gets the counts. */
  noteConfirmations(paymentId: string, confirmations: number, height: number | undefined): Promise<void>
  /** Of one that is not settled. @returns false where it was not in the expected state */
  movePayment(paymentId: string, from: UnsettledState, to: UnsettledState, session?: Session): Promise<boolean>
  /** `seen` → `settled`, once. @returns false where it is not `seen` */
  settlePayment(paymentId: string, settled: SettledFields, entries: PendingEntry[], session: Session): Promise<boolean>
  /** `settled` → `gone`, of one that was recorded by hand and that the chain has not shown: its transaction may be recorded anew. @returns false if it is not so */
  undoPayment(payment: PaymentRecord, at: number, entries: PendingEntry[], session: Session): Promise<boolean>
  /** Marks a settled payment as taken back by the chain, or as back again. @returns false where it was so already */
  setReversed(paymentId: string, at: number | undefined, session?: Session): Promise<boolean>
  readonly models: { invoices: Model<InvoiceRecord>; payments: Model<PaymentRecord> }
}

export type UnsettledState = Exclude<PaymentState, 'settled'>

/** What settling writes to a payment. */
export type SettledFields = Required<Pick<PaymentRecord, 'settled_at' | 'confirmations' | 'late'>> &
  Partial<Pick<PaymentRecord, 'by' | 'arrival_rate' | 'credited_days' | 'price_raw'>>

export type WatchedAddress = Pick<InvoiceRecord, '_id' | 'address' | 'address_index'>

export function createInvoiceStore(connection: Connection): InvoiceStore {
  const invoices = connection.model<InvoiceRecord>('Invoice', invoiceSchema)
  const payments = connection.model<PaymentRecord>('Payment', paymentSchema)
  const raw = () => invoices.collection as unknown as mongoose.mongo.Collection<InvoiceRecord>
  const rawPayments = () => payments.collection as unknown as mongoose.mongo.Collection<PaymentRecord>
  const findById = createIdLookUp(raw)
  return {
    models: { invoices, payments },
    async insert(invoice, session) {
      await invoices.insertMany([invoice], { ...within(session), lean: true })
    },
    async find(invoiceId, session) {
      if (session === undefined) return findById(invoiceId)
      return (await invoices.findOne({ _id: invoiceId }, null, within(session)).lean<InvoiceRecord>()) ?? undefined
    },
    async findOpen(agentId, coin) {
      return (await invoices.findOne({ agent_id: agentId, coin, open: true }).lean<InvoiceRecord>()) ?? undefined
    },
    async findByOrder(orderId) {
      return (await invoices.findOne({ order_id: orderId }).lean<InvoiceRecord>()) ?? undefined
    },
    async findByAddresses(coin, addressIndexes) {
      return invoices.find({ address_index: { $in: [...addressIndexes] }, coin }).lean<InvoiceRecord[]>()
    },
    async listRemainders(agentId, coin, session) {
      return invoices.find({ agent_id: agentId, coin, has_remainder: true }, null, { session }).sort({ _id: 1 }).lean<InvoiceRecord[]>()
    },
    async changeMoney(before, { has_remainder: hasRemainder, open, ...fields }, entries, session) {
      const unset = { ...(hasRemainder === false ? { has_remainder: 1 as const } : {}), ...(open === false ? { open: 1 as const } : {}) }
      const update = {
        $set: { ...fields, ...(hasRemainder === true ? { has_remainder: true as const } : {}) },
        $inc: { version: 1 },
        ...(Object.keys(unset).length === 0 ? {} : { $unset: unset }),
        ...(entries.length === 0 ? {} : { $push: { pending: { $each: [...entries] } } }),
      }
      return (await invoices.updateOne({ _id: before._id, version: before.version }, update, { session })).matchedCount === 1
    },
    async close(invoiceId) {
      await invoices.updateOne({ _id: invoiceId }, { $unset: { open: 1 } })
    },
    async listWatched(coin, watch, nowSeconds, after, limit) {
      const filter = {
        coin,
        watch,
        ...(watch === 'hourly' ? { look_after: { $lte: nowSeconds } } : { look_after: 0 }),
        _id: { $gt: after },
      }
      return invoices.find(filter, { address: 1, address_index: 1 }).sort({ _id: 1 }).limit(limit).lean<WatchedAddress[]>()
    },
    async listOpenIndexes(coin, after, limit) {
      // One document with all of them: a document each costs several times as much to send and to read.
      const [page] = await invoices.aggregate<{ indexes: number[]; last: string }>([
        { $match: { coin, watch: 'round', look_after: 0, _id: { $gt: after } } },
        { $sort: { _id: 1 } },
        { $limit: limit },
        { $group: { _id: null, indexes: { $push: '$address_index' }, last: { $last: '$_id' } } },
      ])
      return page
    },
    async lookLater(invoiceIds, lookAfter) {
      await invoices.updateMany({ _id: { $in: [...invoiceIds] }, watch: 'hourly' }, { $set: { look_after: lookAfter } })
    },
    async listOverdue(coin, beforeSeconds, limit) {
      return invoices
        .find({ coin, lapsed: false, expires_at: { $lt: beforeSeconds } })
        .sort({ expires_at: 1 })
        .limit(limit)
        .lean<InvoiceRecord[]>()
    },
    async endHourly(coin, expiredBeforeSeconds) {
      await invoices.updateMany({ coin, watch: 'hourly', expires_at: { $lt: expiredBeforeSeconds } }, { $set: { watch: 'on_check' } })
    },
    async askForLook(invoiceId, nowMs, everyMs) {
      // A time that lies ahead was set by a clock that was ahead: nobody waits for it.
      const asked = {
        $or: [{ $exists: false }, { $lte: nowMs - everyMs }, { $gte: nowMs + everyMs }].map((is) => ({ check_asked_ms: is })),
      }
      const filter = { _id: invoiceId, ...asked }
      const watch = { $cond: [{ $eq: ['$watch', 'round'] }, 'round', 'hourly'] }
      const update = [{ $set: { check_asked_ms: nowMs, watch, look_after: 0 } }]
      return (await invoices.updateOne(filter, update, { updatePipeline: true })).matchedCount === 1
    },
    async lapseUntouched(changes) {
      if (changes.length === 0) return
      await invoices.bulkWrite(
        changes.map(({ invoiceId, watch, lookAfter }) => ({
          updateOne: {
            filter: { _id: invoiceId, lapsed: false, has_payments: { $exists: false }, order_id: { $exists: false }, carried_raw: '0' },
            update: {
              $set: { lapsed: true, watch, look_after: lookAfter },
              $unset: { open: 1 as const },
              $inc: { version: 1 },
            },
          },
        })),
        { ordered: false },
      )
    },
    async forgetLook(invoiceId, askedMs) {
      await invoices.updateOne({ _id: invoiceId, check_asked_ms: askedMs }, { $unset: { check_asked_ms: 1 } })
    },
    async markPayment(invoiceId, session) {
      const update = { $set: { has_payments: true as const }, $inc: { version: 1 } }
      const marked = invoices.findOneAndUpdate({ _id: invoiceId }, update, { session, returnDocument: 'after' })
      return (await marked.lean<InvoiceRecord>()) ?? undefined
    },
    async insertPayment(payment, session) {
      await payments.insertMany([payment], { session, lean: true })
    },
    async listWaitingForRate(coin, { hasRate, nowSeconds }, limit) {
      const needsNone = { $or: [{ order_id: { $exists: true } }, { arrival_rate: { $exists: true } }] }
      // What waits for its invoice to lapse, however much that is, takes no other's place in the batch.
      return payments.aggregate<PaymentRecord>([
        { $match: { waits_for_rate: true, coin, ...(hasRate ? {} : needsNone) } },
        { $sort: { _id: 1 } },
        {
          $lookup: {
            from: 'invoices',
            localField: 'invoice_id',
            foreignField: '_id',
            as: 'of',
            pipeline: [{ $project: { lapsed: 1, expires_at: 1 } }],
          },
        },
        { $match: { $or: [{ 'of.lapsed': true }, { 'of.expires_at': { $gt: nowSeconds } }] } },
        { $limit: limit },
        { $unset: 'of' },
      ])
    },
    async setWaitsForRate(paymentId) {
      await payments.updateOne({ _id: paymentId, state: 'seen' }, { $set: { waits_for_rate: true } })
    },
    async correctAmount(paymentId, fromRaw, toRaw) {
      const filter = { _id: paymentId, state: { $ne: 'settled' as const }, amount_raw: fromRaw }
      return (await payments.updateOne(filter, { $set: { amount_raw: toRaw } })).matchedCount === 1
    },
    async findPayment(coin, tx, addressIndex, session) {
      return (await payments.findOne({ tx, address_index: addressIndex, coin }, null, within(session)).lean<PaymentRecord>()) ?? undefined
    },
    async findPaymentById(paymentId, session) {
      return (await payments.findOne({ _id: paymentId }, null, within(session)).lean<PaymentRecord>()) ?? undefined
    },
    async listPayments(invoiceId, session) {
      return payments
        .find({ invoice_id: invoiceId, undone_at: { $exists: false } }, { pending: 0 }, within(session))
        .sort({ _id: 1 })
        .lean<PaymentRecord[]>()
    },
    async listPaymentsByTx(coin, txs) {
      return payments.find({ tx: { $in: [...txs] }, coin }).lean<PaymentRecord[]>()
    },
    listPaymentProgress: (coin, txs) =>
      rawPayments()
        .find({ tx: { $in: [...txs] }, coin, $nor: [UNSEEN] }, { projection: PAYMENT_PROGRESS, batchSize: txs.length + 1 })
        .toArray(),
    async listUnderWay(coin) {
      return payments.find({ coin, state: 'seen' }).lean<PaymentRecord[]>()
    },
    async listUnseenOrders(coin) {
      return payments.distinct('order_id', { ...UNSEEN, coin, state: 'settled', order_id: { $exists: true } }) as Promise<string[]>
    },
    async setShown(paymentId, at) {
      await payments.updateOne({ _id: paymentId, ...UNSEEN }, { $set: { shown_at: at } })
    },
    async listUnlocked(coin, height, nowSeconds, limit) {
      const ended = { $or: [{ unlock_time: { $lte: height } }, { unlock_time: { $gte: FIRST_UNLOCK_SECONDS, $lte: nowSeconds } }] }
      return payments
        .find({ coin, state: 'locked', ...ended })
        .sort({ unlock_time: 1 })
        .limit(limit)
        .lean<PaymentRecord[]>()
    },
    async listUncounted(coin) {
      const [seen, locked] = await Promise.all(
        (['seen', 'locked'] as const).map((state) => payments.find({ coin, state, height: { $exists: true } }).lean<PaymentRecord[]>()),
      )
      return [...(seen ?? []), ...(locked ?? [])]
    },
    async listSettledSince(coin, height) {
      return payments.find({ coin, state: 'settled', height: { $gte: height }, reversed_at: { $exists: false } }).lean<PaymentRecord[]>()
    },
    async listUnswept(coin, after, limit) {
      return payments
        .find({ coin, state: 'settled', swept_at: null, _id: { $gt: after } }, { pending: 0 })
        .sort({ _id: 1 })
        .limit(limit)
        .lean<PaymentRecord[]>()
    },
    async sumUnswept(coin) {
      return (await sumByCoin(payments, { coin, state: 'settled', swept_at: null, by: 'chain' }, 'amount_raw'))[coin]
    },
    async listUnsweptAt(coin, addressIndex, after, limit) {
      const [invoice] = await invoices.find({ address_index: addressIndex, coin }, { _id: 1 }).lean<Pick<InvoiceRecord, '_id'>[]>()
      if (invoice === undefined) return []
      return payments
        .find({ invoice_id: invoice._id, state: 'settled', swept_at: null, _id: { $gt: after } }, { pending: 0 })
        .sort({ _id: 1 })
        .limit(limit)
        .lean<PaymentRecord[]>()
    },
    async setSwept(paymentIds, at) {
      const ids = { _id: { $in: [...paymentIds] } }
      if (at === undefined) await payments.updateMany(ids, { $unset: { swept_at: 1 } })
      else await payments.updateMany({ ...ids, state: 'settled', swept_at: null }, { $set: { swept_at: at } })
    },
    async noteConfirmations(paymentId, confirmations, height) {
      await payments.updateOne({ _id: paymentId }, { $set: { confirmations, ...(height === undefined ? {} : { height }) } })
    },
    async movePayment(paymentId, from, to, session) {
      const update = { $set: { state: to }, $unset: { waits_for_rate: 1 as const } }
      return (await payments.updateOne({ _id: paymentId, state: from }, update, within(session))).matchedCount === 1
    },
    async settlePayment(paymentId, settled, entries, session) {
      const update = {
        $set: { ...settled, state: 'settled' as const },
        $unset: { waits_for_rate: 1 as const },
        $push: { pending: { $each: entries } },
      }
      return (await payments.updateOne({ _id: paymentId, state: 'seen' }, update, { session })).matchedCount === 1
    },
    async undoPayment({ _id }, at, entries, session) {
      const update = {
        $set: { state: 'gone' as const, undone_at: at, tx: _id },
        $unset: { settled_at: 1 as const, credited_days: 1 as const, price_raw: 1 as const, reversed_at: 1 as const },
        $push: { pending: { $each: entries } },
      }
      return (await payments.updateOne({ _id, ...UNSEEN, state: 'settled' }, update, { session })).matchedCount === 1
    },
    async setReversed(paymentId, at, session) {
      const filter = { _id: paymentId, state: 'settled' as const, reversed_at: { $exists: at === undefined } }
      const update = at === undefined ? { $unset: { reversed_at: 1 as const } } : { $set: { reversed_at: at } }
      return (await payments.updateOne(filter, update, within(session))).matchedCount === 1
    },
  }
}
