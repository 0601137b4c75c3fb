import { given } from '../foundation/given.ts'
import type mongoose from 'mongoose'
import type { Connection } from 'mongoose'
import type { Session } from '../servers/database.ts'
import { createIdLookUp } from '../servers/group-commit.ts'
import { none, only, schemaOf, some } from '../servers/fields.ts'
import { recordsOf } from '../servers/records.ts'
import { pushing, TELLS_INDEX, tellsField, type EventMark } from '../events/mark.ts'
import { PENDING_INDEX, pendingField, type PendingEntry } from '../ledger/pending.ts'
import type { Coin } from './coin.ts'
import { sumByCoin } from './sum-raw.ts'
import {
  FIRST_UNLOCK_SECONDS,
  invoiceFields,
  MAX_PAYMENTS_SHOWN,
  paymentFields,
  type InvoiceRecord,
  type PaymentRecord,
  type PaymentState,
} from './invoice.ts'

const invoiceSchema = schemaOf<InvoiceRecord>('invoices', {
  ...invoiceFields,
  ...tellsField,
  ...pendingField,
})
// An address belongs to one invoice for ever.
invoiceSchema.index({ address_index: 1, coin: 1 }, { unique: true })
invoiceSchema.index({ agent_id: 1, coin: 1 }, only({ open: true }, 'one_open', true))
invoiceSchema.index({ agent_id: 1, coin: 1, _id: 1 }, only({ has_remainder: true }, 'remainders'))
invoiceSchema.index({ order_id: 1 }, only({ order_id: some }, undefined, true))
// With the address's index, so that a round over all of them reads this one alone.
invoiceSchema.index(
  { coin: 1, lapsed: 1, _id: 1, address_index: 1 },
  only({ lapsed: false }, 'open_addresses'),
)
invoiceSchema.index({ coin: 1, expires_at: 1 }, only({ lapsed: false }, 'not_lapsed'))
invoiceSchema.index({ coin: 1, order_id: 1 }, only({ foreign: true }, 'foreign'))
invoiceSchema.index({ coin: 1, look_after: 1 }, only({ lapsed: true, look_after: some }, 'lapsed_looks'))
invoiceSchema.index(...TELLS_INDEX)
invoiceSchema.index(...PENDING_INDEX)

const paymentSchema = schemaOf<PaymentRecord>('payments', { ...paymentFields, ...pendingField })
// One record for a transaction's money at one address: what makes a payment settle once.
paymentSchema.index({ tx: 1, address_index: 1, coin: 1 }, { unique: true })
paymentSchema.index({ invoice_id: 1, _id: 1 })
paymentSchema.index({ invoice_id: 1, late: 1 }, only({ state: 'seen' }, 'under_way_of_an_invoice'))
paymentSchema.index({ invoice_id: 1 }, only({ reversed_at: some }, 'reversed_of_an_invoice'))
paymentSchema.index({ coin: 1, state: 1 }, only({ state: 'seen' }, 'under_way'))
paymentSchema.index({ coin: 1, unlock_time: 1 }, only({ state: 'locked' }, 'locked'))
paymentSchema.index({ coin: 1, height: 1 }, only({ state: 'settled', height: some }, 'settled_at_height'))
paymentSchema.index({ coin: 1, swept_at: 1, _id: 1 }, only({ state: 'settled' }, 'unswept'))
const UNSEEN = { by: 'operator', shown_at: none } as const
paymentSchema.index({ by: 1, coin: 1, order_id: 1 }, only({ by: 'operator' }))
paymentSchema.index({ waits_for_rate: 1, coin: 1, _id: 1 }, only({ waits_for_rate: true }))
paymentSchema.index(...PENDING_INDEX)

export type MoneyFields = Partial<
  Pick<
    InvoiceRecord,
    'received_raw' | 'carried_raw' | 'moved_raw' | 'unspent' | 'credited_days' | 'lapsed' | 'look_after'
  >
> & { has_remainder?: boolean; open?: false }

const PAYMENT_PROGRESS = {
  _id: 0,
  tx: 1,
  amount_raw: 1,
  state: 1,
  waits_for_rate: 1,
  reversed_at: 1,
} as const
export type PaymentProgress = Pick<PaymentRecord, Exclude<keyof typeof PAYMENT_PROGRESS, '_id'>>

export type UnsettledState = Exclude<PaymentState, 'settled'>

export type SettledFields = Required<Pick<PaymentRecord, 'settled_at' | 'confirmations' | 'late'>> &
  Partial<Pick<PaymentRecord, 'by' | 'arrival_rate' | 'credited_days' | 'price_raw'>>

export type WatchedAddress = Pick<InvoiceRecord, '_id' | 'address' | 'address_index'>

export type InvoiceStore = ReturnType<typeof createInvoiceStore>

export function createInvoiceStore(connection: Connection) {
  const invoices = recordsOf(connection.model<InvoiceRecord>('Invoice', invoiceSchema))
  const payments = recordsOf(connection.model<PaymentRecord>('Payment', paymentSchema))
  const raw = () => invoices.model.collection as unknown as mongoose.mongo.Collection<InvoiceRecord>
  const rawPayments = () => payments.model.collection as unknown as mongoose.mongo.Collection<PaymentRecord>
  const findById = createIdLookUp(raw)
  const listUnswept = (filter: object, after: string, limit: number): Promise<PaymentRecord[]> =>
    payments.all(
      { ...filter, state: 'settled', swept_at: null, _id: { $gt: after } },
      { fields: { pending: 0 }, sort: { _id: 1 }, limit },
    )
  return {
    models: { invoices: invoices.model, payments: payments.model },
    /** @throws a duplicate-key error if the agent has an open one in this coin, or the address is taken */
    insert: (invoice: InvoiceRecord, session?: Session) => invoices.insert([invoice], session),
    find: (invoiceId: string, session?: Session): Promise<InvoiceRecord | undefined> =>
      session === undefined ? findById(invoiceId) : invoices.one({ _id: invoiceId }, { session }),
    findOpen: (agentId: string, coin: Coin) => invoices.one({ agent_id: agentId, coin, open: true }),
    findByAddresses: (coin: Coin, indexes: readonly number[]) =>
      invoices.all({ address_index: { $in: [...indexes] }, coin }),
    listRemainders: (agentId: string, coin: Coin, session: Session) =>
      invoices.all({ agent_id: agentId, coin, has_remainder: true }, { session, sort: { _id: 1 } }),
    changeMoney(
      { _id, version }: InvoiceRecord,
      { has_remainder: hasRemainder, open, ...fields }: MoneyFields,
      entries: readonly PendingEntry[],
      session: Session,
      tells: readonly EventMark[] = [],
    ): Promise<boolean> {
      const unset = {
        ...(hasRemainder === false ? { has_remainder: 1 as const } : {}),
        ...(open === false ? { open: 1 as const } : {}),
      }
      const update = {
        $set: { ...fields, ...(hasRemainder === true ? { has_remainder: true as const } : {}) },
        $inc: { version: 1 },
        ...(Object.keys(unset).length === 0 ? {} : { $unset: unset }),
        ...pushing({ pending: entries, tells }),
      }
      return invoices.change({ _id, version }, update, session)
    },
    close: (invoiceId: string) => invoices.change({ _id: invoiceId }, { $unset: { open: 1 } }),
    listExpiredDue: (
      coin: Coin,
      nowSeconds: number,
      after: string,
      limit: number,
    ): Promise<WatchedAddress[]> =>
      invoices.all(
        { coin, lapsed: true, look_after: { $lte: nowSeconds }, _id: { $gt: after } },
        { fields: { address: 1, address_index: 1 }, sort: { _id: 1 }, limit },
      ),
    /** Indexes alone, and the id to go on after; undefined if there are no more. */
    async listOpenIndexes(coin: Coin, after: string, limit: number) {
      // One document with all of them: a document each costs several times as much to send and to read.
      const [page] = await invoices.model.aggregate<{ indexes: number[]; last: string }>([
        { $match: { coin, lapsed: false, _id: { $gt: after } } },
        { $sort: { _id: 1 } },
        { $limit: limit },
        { $group: { _id: null, indexes: { $push: '$address_index' }, last: { $last: '$_id' } } },
      ])
      return page
    },
    /** In Unix seconds; those that expired before `endedBefore` when their owners ask. */
    async lookLater(ids: readonly string[], lookAfter: number, endedBefore: number): Promise<void> {
      const looked = { _id: { $in: [...ids] }, lapsed: true }
      const [young, old] = [{ $gte: endedBefore }, { $lt: endedBefore }]
      await invoices.changeAll({ ...looked, expires_at: young }, { $set: { look_after: lookAfter } })
      await invoices.changeAll({ ...looked, expires_at: old }, { $unset: { look_after: 1 } })
    },
    listOverdue: (coin: Coin, beforeSeconds: number, limit: number) =>
      invoices.all(
        { coin, lapsed: false, expires_at: { $lt: beforeSeconds } },
        { sort: { expires_at: 1 }, limit },
      ),
    /** Of orders, and nobody can take what is paid there. */
    listUnpayable: (coin: Coin) => invoices.all({ coin, foreign: true, lapsed: false, order_id: some }),
    listUnexpired: (coin: Coin, after: string, limit: number) =>
      invoices.all({ coin, lapsed: false, _id: { $gt: after } }, { sort: { _id: 1 }, limit }),
    /** Their wallet is in use no more, or again. */
    setForeign: (ids: readonly string[], isForeign: boolean) =>
      invoices.changeAll(
        { _id: { $in: [...ids] } },
        { ...(isForeign ? { $set: { foreign: true } } : { $unset: { foreign: 1 } }), $inc: { version: 1 } },
      ),
    /** Due in the next round as well. @returns false if one was asked for less than `everyMs` ago */
    askForLook(invoiceId: string, nowMs: number, everyMs: number): Promise<boolean> {
      // Nobody waits for a time that lies ahead.
      const times = [none, { $lte: nowMs - everyMs }, { $gte: nowMs + everyMs }]
      const asked = { $or: times.map((time) => ({ check_asked_ms: time })) }
      return invoices.change({ _id: invoiceId, ...asked }, { $set: { check_asked_ms: nowMs, look_after: 0 } })
    },
    /** It could not be asked for after all. */
    forgetLook: (invoiceId: string, askedMs: number) =>
      invoices.change({ _id: invoiceId, check_asked_ms: askedMs }, { $unset: { check_asked_ms: 1 } }),
    /** Those at which nothing was ever seen. */
    async expireUntouched(ids: readonly string[], lookAfter: number, nowMs: number): Promise<void> {
      const fields = { state: 'expired' }
      const expired = {
        to: '$agent_id',
        at_ms: nowMs,
        kind: 'invoice',
        id: '$_id',
        fields,
      } satisfies EventMark
      const bare = { lapsed: false, has_payments: none, order_id: none, carried_raw: '0' }
      const untouched = { _id: { $in: [...ids] }, ...bare }
      await raw().updateMany(untouched, [
        {
          $set: {
            lapsed: true,
            look_after: lookAfter,
            version: { $add: ['$version', 1] },
            tells: { $concatArrays: [{ $ifNull: ['$tells', []] }, [expired]] },
          },
        },
        { $unset: 'open' },
      ])
    },
    /** Conflicts with the invoice's expiry. @returns the invoice as it was before */
    markPayment: (invoiceId: string, session: Session, tells: readonly EventMark[] = []) =>
      invoices.swap(
        { _id: invoiceId },
        { $set: { has_payments: true }, $inc: { version: 1 }, ...pushing({ tells }) },
        session,
      ),
    insertPayment: (payment: PaymentRecord, session: Session) => payments.insert([payment], session),
    /** The oldest first; without a rate, that which needs none. */
    async listWaitingForRate(
      coin: Coin,
      { hasRate, nowSeconds }: { hasRate: boolean; nowSeconds: number },
      limit: number,
    ): Promise<PaymentRecord[]> {
      const needsNone = { $or: [{ order_id: some }, { arrival_rate: some }] }
      const pipeline = [{ $project: { lapsed: 1, expires_at: 1 } }]
      // What waits for its invoice to expire, however much that is, takes no other's place in the batch.
      return payments.model.aggregate<PaymentRecord>([
        { $match: { waits_for_rate: true, coin, ...(hasRate ? {} : needsNone) } },
        { $sort: { _id: 1 } },
        { $lookup: { from: 'invoices', localField: 'invoice_id', foreignField: '_id', as: 'of', pipeline } },
        { $match: { $or: [{ 'of.lapsed': true }, { 'of.expires_at': { $gt: nowSeconds } }] } },
        { $limit: limit },
        { $unset: 'of' },
      ])
    },
    setWaitsForRate: (paymentId: string) =>
      payments.change({ _id: paymentId, state: 'seen' }, { $set: { waits_for_rate: true } }),
    correctAmount: (paymentId: string, fromRaw: string, toRaw: string) =>
      payments.change(
        { _id: paymentId, state: { $ne: 'settled' }, amount_raw: fromRaw },
        { $set: { amount_raw: toRaw } },
      ),
    findPayment: (coin: Coin, tx: string, addressIndex: number, session?: Session) =>
      payments.one({ tx, address_index: addressIndex, coin }, { session }),
    findPaymentById: (paymentId: string, session?: Session) => payments.one({ _id: paymentId }, { session }),
    /** The newest, the oldest of them first, without those that the operator took back. */
    async listPayments(invoiceId: string, limit = MAX_PAYMENTS_SHOWN): Promise<PaymentRecord[]> {
      const standing = { invoice_id: invoiceId, undone_at: none }
      return (await payments.all(standing, { fields: { pending: 0 }, sort: { _id: -1 }, limit })).reverse()
    },
    /** Seen and not confirmed; with `inTime` those that aren't late. */
    async isUnderWay(
      invoiceId: string,
      { inTime = false, butFor }: { inTime?: boolean; butFor?: string } = {},
      session?: Session,
    ): Promise<boolean> {
      const seen = {
        invoice_id: invoiceId,
        state: 'seen',
        ...(inTime ? { late: false } : {}),
        ...(butFor && { _id: { $ne: butFor } }),
      }
      return (await payments.model.exists(seen as object).session(session ?? null)) !== null
    },
    listReversed: (invoiceId: string, session: Session) =>
      payments.all({ invoice_id: invoiceId, reversed_at: some }, { session }),
    listPaymentsByTx: (coin: Coin, txs: readonly string[], session?: Session) =>
      payments.all({ tx: { $in: [...txs] }, coin }, { session }),
    /** Without those that this round is the first to see. */
    listPaymentProgress: (coin: Coin, txs: readonly string[]): Promise<PaymentProgress[]> =>
      rawPayments()
        .find(
          { tx: { $in: [...txs] }, coin, $nor: [UNSEEN] },
          { projection: PAYMENT_PROGRESS, batchSize: txs.length + 1 },
        )
        .toArray(),
    listUnderWay: (coin: Coin) => payments.all({ coin, state: 'seen' }),
    /** Orders with money that was recorded by hand and that the chain has not shown. */
    async listUnseenOrders(coin: Coin, orderId?: string): Promise<string[]> {
      const order = orderId === undefined ? some : { $eq: orderId }
      return payments.model.distinct('order_id', { ...UNSEEN, coin, state: 'settled', order_id: order })
    },
    /** The chain has shown what was recorded by hand. */
    setShown: (paymentId: string, at: number) =>
      payments.change({ _id: paymentId, ...UNSEEN }, { $set: { shown_at: at } }),
    /** At this height and time (Unix seconds). */
    listUnlocked: (coin: Coin, height: number, nowSeconds: number, limit: number) =>
      payments.all(
        {
          coin,
          state: 'locked',
          $or: [
            { unlock_time: { $lte: height } },
            { unlock_time: { $gte: FIRST_UNLOCK_SECONDS, $lte: nowSeconds } },
          ],
        },
        { sort: { unlock_time: 1 }, limit },
      ),
    /** In a block, and not settled. */
    async listUncounted(coin: Coin): Promise<PaymentRecord[]> {
      const states = ['seen', 'locked'] as const
      return (await Promise.all(states.map((state) => payments.all({ coin, state, height: some })))).flat()
    },
    /** Settled ones in blocks numbered `height` or more, and not taken back. */
    listSettledSince: (coin: Coin, height: number) =>
      payments.all({ coin, state: 'settled', height: { $gte: height }, reversed_at: none }),
    /** Still at their addresses; the oldest first. */
    listUnswept: (coin: Coin, after: string, limit: number) => listUnswept({ coin }, after, limit),
    /** What of them the chain has shown. */
    async sumUnswept(coin: Coin): Promise<bigint> {
      const unswept = { coin, state: 'settled', swept_at: null, by: 'chain' }
      return (await sumByCoin(payments.model, unswept, 'amount_raw'))[coin]
    },
    async listUnsweptAt(coin: Coin, addressIndex: number, after: string, limit: number) {
      const invoice = await invoices.one({ address_index: addressIndex, coin }, { fields: { _id: 1 } })
      return invoice === undefined ? [] : listUnswept({ invoice_id: invoice._id }, after, limit)
    },
    /** undefined: they are at their addresses after all. */
    setSwept: (ids: readonly string[], at: number | undefined) =>
      at === undefined
        ? payments.changeAll({ _id: { $in: [...ids] } }, { $unset: { swept_at: 1 } })
        : payments.changeAll(
            { _id: { $in: [...ids] }, state: 'settled', swept_at: null },
            { $set: { swept_at: at } },
          ),
    /** A settled one keeps its state and gets the counts. */
    noteConfirmations: (paymentId: string, confirmations: number, height: number | undefined) =>
      payments.change({ _id: paymentId }, { $set: { confirmations, ...given({ height }) } }),
    movePayment: (paymentId: string, from: UnsettledState, to: UnsettledState, session?: Session) =>
      payments.change(
        { _id: paymentId, state: from },
        { $set: { state: to }, $unset: { waits_for_rate: 1 } },
        session,
      ),
    /** Once. @returns false if it is not `seen` */
    settlePayment: (paymentId: string, settled: SettledFields, entries: PendingEntry[], session: Session) =>
      payments.change(
        { _id: paymentId, state: 'seen' },
        {
          $set: { ...settled, state: 'settled' },
          $unset: { waits_for_rate: 1 },
          $push: { pending: { $each: entries } },
        },
        session,
      ),
    /** Its transaction may be recorded anew. @returns false if it is not of the operator's word alone */
    undoPayment({ _id, tx }: PaymentRecord, at: number, entries: PendingEntry[], session: Session) {
      const update = {
        $set: { state: 'gone', undone_at: at, undone_tx: tx, tx: _id },
        $unset: { settled_at: 1, credited_days: 1, price_raw: 1, reversed_at: 1 },
        $push: { pending: { $each: entries } },
      }
      return payments.change({ _id, ...UNSEEN, state: 'settled' }, update, session)
    },
    setReversed: (paymentId: string, at: number | undefined, session?: Session) =>
      payments.change(
        { _id: paymentId, state: 'settled', reversed_at: { $exists: at === undefined } },
        at === undefined ? { $unset: { reversed_at: 1 } } : { $set: { reversed_at: at } },
        session,
      ),
  }
}
