import { omitUndefined } from '../platform/omit-undefined.ts'
import { RESTS_ON, type ArrivalUpdate } from './arrival-steps.ts'
import type { Connection } from 'mongoose'
import { Overtaken, type Session } from '../platform/database.ts'
import { createIdBatchRead } from '../platform/group-commit.ts'
import { none, only, schemaOf, some } from '../platform/fields.ts'
import { rawOf, recordsOf } from '../platform/records.ts'
import { indexMarks, pushing, tellsField, type EventMark } from '../events/mark.ts'
import { PENDING_INDEX, pendingField, type PendingEntry } from '../ledger/pending.ts'
import type { Coin } from './coin.ts'
import { TREASURY_INDEX } from './transfer.ts'
import { sumByCoin } from './sum-raw.ts'
import { FIRST_UNLOCK_SECONDS, arrivalFields, type ArrivalRecord, type PaymentRecord } from './arrival.ts'
import { MAX_PAYMENTS_SHOWN, invoiceFields, type InvoiceRecord } from './invoice.ts'

const storedFields = { ...invoiceFields, ...tellsField, ...pendingField }
const invoiceSchema = schemaOf<InvoiceRecord>('invoices', storedFields)
// An address belongs to one invoice for ever.
invoiceSchema.index({ address_index: 1, coin: 1 }, { unique: true })
invoiceSchema.index({ agent_id: 1, coin: 1 }, only({ open: true }, 'one_open', true))
invoiceSchema.index({ agent_id: 1, coin: 1, _id: 1 }, only({ has_remainder: true }, 'remainders'))
invoiceSchema.index({ order_id: 1 }, only({ order_id: some }, undefined, true))
// With the address's index, so that a round over all of them reads this one alone.
const openAddresses = only({ lapsed: false }, 'open_addresses')
invoiceSchema.index({ coin: 1, lapsed: 1, _id: 1, address_index: 1 }, openAddresses)
invoiceSchema.index({ coin: 1, expires_at: 1 }, only({ lapsed: false }, 'not_lapsed'))
invoiceSchema.index({ coin: 1, order_id: 1 }, only({ foreign: true }, 'foreign'))
invoiceSchema.index({ coin: 1, look_after: 1 }, only({ lapsed: true, look_after: some }, 'lapsed_looks'))
indexMarks(invoiceSchema)
invoiceSchema.index(...PENDING_INDEX)

const paymentSchema = schemaOf<ArrivalRecord>('payments', { ...arrivalFields, ...pendingField })
// One record for a transaction's money at one address: what makes it be booked once.
paymentSchema.index({ tx: 1, address_index: 1, coin: 1 }, { unique: true })
paymentSchema.index({ invoice_id: 1, _id: 1 })
paymentSchema.index({ invoice_id: 1, late: 1 }, only({ state: 'seen' }, 'under_way_of_an_invoice'))
paymentSchema.index({ invoice_id: 1 }, only({ reversed_at: some }, 'reversed_of_an_invoice'))
paymentSchema.index({ coin: 1, state: 1 }, only({ state: 'seen' }, 'under_way'))
paymentSchema.index({ coin: 1, unlock_time: 1 }, only({ state: 'locked' }, 'locked'))
paymentSchema.index({ coin: 1, height: 1 }, only({ state: 'settled', height: some }, 'settled_at_height'))
paymentSchema.index({ coin: 1, swept_at: 1, _id: 1 }, only({ state: 'settled' }, 'unswept'))
paymentSchema.index({ address_index: 1, coin: 1, _id: 1 }, only({ state: 'settled' }, 'settled_at_address'))
paymentSchema.index({ came_to: 1, _id: 1 }, only({ came_to: some }))
/** Recorded by the operator, and not shown by the chain. */
const UNSHOWN = { by: 'operator', shown_at: none } as const
/** Such a payment that may still come: it isn't given up. */
const EXPECTED = { ...UNSHOWN, state: 'settled', reversed_at: none } as const
paymentSchema.index({ by: 1, coin: 1, order_id: 1 }, only({ by: 'operator' }))
paymentSchema.index({ waits_for_rate: 1, coin: 1, _id: 1 }, only({ waits_for_rate: true }))
paymentSchema.index(...PENDING_INDEX)

/** What a change of an invoice's money sets; false removes `has_remainder` or `open`. */
export type MoneyFields = Partial<
  Pick<
    InvoiceRecord,
    'received_raw' | 'carried_raw' | 'moved_raw' | 'unspent' | 'credited_days' | 'lapsed' | 'look_after'
  >
> & { has_remainder?: boolean; open?: false }

/** Counted by no invoice, and not sent back. */
const UNCLAIMED = { state: 'settled', invoice_id: none, payout_id: none } as const
const PROGRESS = { tx: 1, amount_raw: 1, state: 1, waits_for_rate: 1, reversed_at: 1 } as const
export type PaymentProgress = Pick<PaymentRecord, keyof typeof PROGRESS>

/** What a payment bought. */
export type SettledFields = Partial<Pick<PaymentRecord, 'arrival_rate' | 'credited_days' | 'price_raw'>>

export type WatchedAddress = Pick<InvoiceRecord, '_id' | 'address' | 'address_index'>

export type InvoiceStore = ReturnType<typeof createInvoiceStore>

/** Creates the store of invoices and their payments. */
export function createInvoiceStore(connection: Connection) {
  const invoices = recordsOf(connection.model<InvoiceRecord>('Invoice', invoiceSchema))
  const payments = recordsOf(connection.model<ArrivalRecord>('Payment', paymentSchema))
  const raw = () => rawOf<InvoiceRecord>(invoices.model)
  const rawPayments = () => rawOf<ArrivalRecord>(payments.model)
  const findById = createIdBatchRead(raw)
  const idIn = (ids: readonly string[]) => ({ _id: { $in: [...ids] } })
  const listUnsweptOf = (filter: object, after: string, limit: number): Promise<ArrivalRecord[]> =>
    payments.all(
      { ...filter, state: 'settled', swept_at: null, _id: { $gt: after } },
      { fields: { pending: 0 }, sort: { _id: 1 }, limit },
    )
  return {
    models: { invoices: invoices.model, payments: payments.model },
    /** Requests to scan an invoice that are being made, by its id; the result as of askForScan(). */
    scansBeingAsked: new Map<string, Promise<boolean>>(),
    /** @throws a duplicate-key error if the agent has an open one in this coin, or the address is taken */
    insert: (invoice: InvoiceRecord, session?: Session) => invoices.insert([invoice], session),
    find: (invoiceId: string, session?: Session): Promise<InvoiceRecord | undefined> =>
      session === undefined ? findById(invoiceId) : invoices.one({ _id: invoiceId }, { session }),
    findOpen: (agentId: string, coin: Coin) => invoices.one({ agent_id: agentId, coin, open: true }),
    findByAddresses: (coin: Coin, indexes: readonly number[]) =>
      invoices.all({ address_index: { $in: [...indexes] }, coin }),
    listRemainders: (agentId: string, coin: Coin, session: Session) =>
      invoices.all({ agent_id: agentId, coin, has_remainder: true }, { session, sort: { _id: 1 } }),
    /** @throws Overtaken if the invoice has changed since it was read */
    async changeMoney(
      { _id, version }: InvoiceRecord,
      { has_remainder: hasRemainder, open, ...fields }: MoneyFields,
      entries: readonly PendingEntry[],
      session: Session,
      tells: readonly EventMark[] = [],
    ): Promise<void> {
      const unset = omitUndefined({
        has_remainder: hasRemainder === false ? (1 as const) : undefined,
        open: open === false ? (1 as const) : undefined,
      })
      const update = {
        $set: { ...fields, ...(hasRemainder === true ? { has_remainder: true as const } : {}) },
        $inc: { version: 1 },
        ...(Object.keys(unset).length === 0 ? {} : { $unset: unset }),
        ...pushing({ pending: entries, tells }),
      }
      if (!(await invoices.change({ _id, version }, update, session)))
        throw new Overtaken(`invoice ${_id} has changed since it was read`)
    },
    /** Lets the agent have another open invoice in the coin. */
    close: (invoiceId: string) => invoices.change({ _id: invoiceId }, { $unset: { open: 1 } }),
    /** Expired invoices whose addresses are to be scanned now. */
    listExpiredDue: (coin: Coin, nowSeconds: number, after: string, limit: number) =>
      invoices.all<WatchedAddress>(
        { coin, lapsed: true, look_after: { $lte: nowSeconds }, _id: { $gt: after } },
        { fields: { address: 1, address_index: 1 }, sort: { _id: 1 }, limit },
      ),
    /** Address indexes of unexpired invoices, and the id to go on after; undefined if there are no more. */
    async listOpenIndexes(coin: Coin, after: string, limit: number) {
      // One document with all indexes: a document for each costs several times as much to send and to read.
      const [page] = await invoices.model.aggregate<{ indexes: number[]; last: string }>([
        { $match: { coin, lapsed: false, _id: { $gt: after } } },
        { $sort: { _id: 1 } },
        { $limit: limit },
        { $group: { _id: null, indexes: { $push: '$address_index' }, last: { $last: '$_id' } } },
      ])
      return page
    },
    /**
     * Puts the next scan of expired invoices off until `scanAfter`. Those that expired before `endedBefore`
     * are scanned again only if their owners ask. Both are Unix seconds.
     */
    async postponeScan(ids: readonly string[], scanAfter: number, endedBefore: number): Promise<void> {
      const scanned = { ...idIn(ids), lapsed: true }
      const [young, old] = [{ $gte: endedBefore }, { $lt: endedBefore }]
      await invoices.changeAll({ ...scanned, expires_at: young }, { $set: { look_after: scanAfter } })
      await invoices.changeAll({ ...scanned, expires_at: old }, { $unset: { look_after: 1 } })
    },
    /** Unexpired invoices whose time was over before this one (Unix seconds). */
    listOverdue: (coin: Coin, before: number, limit: number) =>
      invoices.all({ coin, lapsed: false, expires_at: { $lt: before } }, { sort: { expires_at: 1 }, limit }),
    /** Unexpired invoices of orders whose addresses are of a wallet that is in use no more. */
    listUnpayable: (coin: Coin) => invoices.all({ coin, foreign: true, lapsed: false, order_id: some }),
    listUnexpired: (coin: Coin, after: string, limit: number) =>
      invoices.all({ coin, lapsed: false, _id: { $gt: after } }, { sort: { _id: 1 }, limit }),
    /** Marks that their wallet is in use no more, or again. */
    setForeign(changed: readonly InvoiceRecord[], isForeign: boolean) {
      const foreign = isForeign ? { $set: { foreign: true as const } } : { $unset: { foreign: 1 as const } }
      return invoices.changeAll(idIn(changed.map(({ _id }) => _id)), { ...foreign, $inc: { version: 1 } })
    },
    /** Makes a scan due, in the next round too. @returns false if it was asked for within `everyMs` */
    askForScan(invoiceId: string, nowMs: number, everyMs: number): Promise<boolean> {
      // A stored time that lies further ahead is of another clock.
      const times = [none, { $lte: nowMs - everyMs }, { $gte: nowMs + everyMs }]
      const asked = { $or: times.map((time) => ({ check_asked_ms: time })) }
      return invoices.change({ _id: invoiceId, ...asked }, { $set: { check_asked_ms: nowMs, look_after: 0 } })
    },
    /** Undoes askForScan(), because no worker could be asked. */
    forgetScan: (invoiceId: string, askedMs: number) =>
      invoices.change({ _id: invoiceId, check_asked_ms: askedMs }, { $unset: { check_asked_ms: 1 } }),
    /**
     * Expires those of the invoices that have no payments and nothing carried into them, and pay no order.
     */
    async expireUntouched(ids: readonly string[], scanAfter: number, nowMs: number): Promise<void> {
      const fields = { state: 'expired' }
      const expired: EventMark = { to: '$agent_id', at_ms: nowMs, kind: 'invoice', id: '$_id', fields }
      const untouched = { lapsed: false, has_payments: none, order_id: none, carried_raw: '0' }
      await raw().updateMany({ ...idIn(ids), ...untouched }, [
        {
          $set: {
            lapsed: true,
            look_after: scanAfter,
            version: { $add: ['$version', 1] },
            tells: { $concatArrays: [{ $ifNull: ['$tells', []] }, [expired]] },
          },
        },
        { $unset: 'open' },
      ])
    },
    /**
     * Marks that an invoice has payments, so that a transaction that expires it meanwhile conflicts.
     *
     * @returns the invoice as it was before; undefined if there is none
     */
    markHasPayments(invoiceId: string, session: Session, tells: readonly EventMark[] = []) {
      const update = { $set: { has_payments: true as const }, $inc: { version: 1 }, ...pushing({ tells }) }
      return invoices.swap({ _id: invoiceId }, update, session)
    },
    /** @throws a duplicate-key error if what this transaction sent to this address is on record */
    insertArrival: (arrival: ArrivalRecord, session: Session) => payments.insert([arrival], session),
    /** Confirmed payments that wait to be settled, the oldest first; without a rate, those that need none. */
    async listWaitingForRate(coin: Coin, hasRate: boolean, nowSeconds: number, limit: number) {
      const needsNone = { $or: [{ order_id: some }, { arrival_rate: some }] }
      const pipeline = [{ $project: { lapsed: 1, expires_at: 1 } }]
      // Those that wait for their invoice to expire must not fill the batch, however many they are.
      return payments.model.aggregate<PaymentRecord>([
        { $match: { waits_for_rate: true, coin, ...(hasRate ? {} : needsNone) } },
        { $sort: { _id: 1 } },
        { $lookup: { from: 'invoices', localField: 'invoice_id', foreignField: '_id', as: 'of', pipeline } },
        { $match: { $or: [{ 'of.lapsed': true }, { 'of.expires_at': { $gt: nowSeconds } }] } },
        { $limit: limit },
        { $unset: 'of' },
      ])
    },
    /** What a transaction sent to an address, whether an invoice counts it or not. */
    findArrival: (coin: Coin, tx: string, addressIndex: number, session?: Session) =>
      payments.one({ tx, address_index: addressIndex, coin }, { session }),
    /** What the operator recorded as paid by a transaction, with this amount, and the chain hasn't shown. */
    findOnWord: (coin: Coin, tx: string, amountRaw: bigint, session: Session) =>
      payments.one({ tx, coin, ...EXPECTED, amount_raw: String(amountRaw) }, { session }),
    findArrivalById: <Arrival extends ArrivalRecord>(arrivalId: string, session: Session) =>
      payments.one<Arrival>({ _id: arrivalId }, { session }),
    findPaymentById: (paymentId: string, session?: Session) =>
      payments.one<PaymentRecord>({ _id: paymentId, invoice_id: some }, { session }),
    /** Money that belongs to nobody, the oldest first. */
    listUnassigned: (limit: number) =>
      payments.all(
        { came_to: 'unassigned', ...UNCLAIMED },
        { fields: { pending: 0 }, sort: { _id: 1 }, limit },
      ),
    sumUnassigned: () => sumByCoin(payments.model, { came_to: 'unassigned', ...UNCLAIMED }, 'amount_raw'),
    /** What is nobody's or the operator's, with an id or from a transaction. */
    listUnclaimed: (word: string, session?: Session) =>
      payments.all(
        { came_to: some, ...UNCLAIMED, $or: [{ tx: word.toLowerCase() }, { _id: word }] },
        { session, sort: { _id: 1 } },
      ),
    /**
     * The invoice's newest payments, in the order of their ids, without those that the operator took back.
     */
    async listPayments(invoiceId: string, limit = MAX_PAYMENTS_SHOWN): Promise<PaymentRecord[]> {
      const standing = { invoice_id: invoiceId, undone_at: none }
      const newest = { fields: { pending: 0 }, sort: { _id: -1 }, limit } as const
      return (await payments.all<PaymentRecord>(standing, newest)).reverse()
    },
    /** Whether the invoice has a payment in state `seen`, other than `butFor`; with `inTime` one not late. */
    async isUnderWay(
      invoiceId: string,
      { inTime = false, butFor }: { inTime?: boolean; butFor?: string } = {},
      session?: Session,
    ): Promise<boolean> {
      const others = butFor === undefined ? {} : { _id: { $ne: butFor } }
      const seen = { invoice_id: invoiceId, state: 'seen', ...(inTime ? { late: false } : {}), ...others }
      return (await payments.model.exists(seen as object).session(session ?? null)) !== null
    },
    /** Notes from which height on payments are missing in the chain; undefined if they are there again. */
    noteMissing: (ids: readonly string[], since: number | undefined) =>
      payments.changeAll(
        idIn(ids),
        since === undefined ? { $unset: { missing_since: 1 } } : { $set: { missing_since: since } },
      ),
    listReversed: (invoiceId: string, session: Session) =>
      payments.all<PaymentRecord>({ invoice_id: invoiceId, reversed_at: some }, { session }),
    listArrivalsByTx: (coin: Coin, txs: readonly string[], session?: Session) =>
      payments.all({ tx: { $in: [...txs] }, coin }, { session }),
    /** How far payments are, without those that the operator recorded and the chain has not shown. */
    listPaymentProgress: (coin: Coin, txs: readonly string[]): Promise<PaymentProgress[]> =>
      rawPayments()
        .find(
          { tx: { $in: [...txs] }, coin, $nor: [UNSHOWN] },
          { projection: { _id: 0, ...PROGRESS }, batchSize: txs.length + 1 },
        )
        .toArray(),
    /** Payments in state `seen`. */
    listUnderWay: (coin: Coin) => payments.all<PaymentRecord>({ coin, state: 'seen' }),
    /** Orders with money that the operator recorded and the chain has not shown. */
    async listUnshownOrders(coin: Coin, orderId?: string): Promise<string[]> {
      const order = orderId === undefined ? some : { $eq: orderId }
      return payments.model.distinct('order_id', { ...EXPECTED, coin, order_id: order })
    },
    /** Locked payments whose lock has ended at this height and time (Unix seconds). */
    listUnlocked(coin: Coin, height: number, nowSeconds: number, limit: number) {
      const ends = [{ $lte: height }, { $gte: FIRST_UNLOCK_SECONDS, $lte: nowSeconds }]
      const ended = { $or: ends.map((end) => ({ unlock_time: end })) }
      const locked = { coin, state: 'locked' as const, ...ended }
      return payments.all<PaymentRecord>(locked, { sort: { unlock_time: 1 }, limit })
    },
    /** Payments in a block that are not settled. */
    async listUncounted(coin: Coin): Promise<ArrivalRecord[]> {
      const states = ['seen', 'locked'] as const
      return (await Promise.all(states.map((state) => payments.all({ coin, state, height: some })))).flat()
    },
    /** Settled payments in blocks numbered `height` or more that the chain has not taken back. */
    listSettledSince: (coin: Coin, height: number) =>
      payments.all<PaymentRecord>({ coin, state: 'settled', height: { $gte: height }, reversed_at: none }),
    /** Money on the books that is still at its address, the oldest first. */
    listUnswept: (coin: Coin, after: string, limit: number) => listUnsweptOf({ coin }, after, limit),
    /** The sum of what is still at invoices' and other addresses, without what the operator recorded. */
    async sumUnswept(coin: Coin): Promise<bigint> {
      const elsewhere = { address_index: { $ne: TREASURY_INDEX } }
      const unswept = { coin, state: 'settled', swept_at: null, by: 'chain', ...elsewhere }
      return (await sumByCoin(payments.model, unswept, 'amount_raw'))[coin]
    },
    listUnsweptAt: (coin: Coin, addressIndex: number, after: string, limit: number) =>
      listUnsweptOf({ coin, address_index: addressIndex }, after, limit),
    /** Notes when their money was in the treasury, or with undefined that it is at its address after all. */
    setSwept: (ids: readonly string[], at: number | undefined, session?: Session) =>
      at === undefined
        ? payments.changeAll(idIn(ids), { $unset: { swept_at: 1 } }, session)
        : payments.changeAll(
            { ...idIn(ids), state: 'settled', swept_at: null },
            { $set: { swept_at: at } },
            session,
          ),
    /** Stores a payment's confirmations and block, in any state. */
    noteConfirmations: (paymentId: string, confirmations: number, height: number | undefined) =>
      payments.change({ _id: paymentId }, { $set: { confirmations, ...omitUndefined({ height }) } }),
    /** Stores what was decided of an arrival. @throws Overtaken, with nothing stored, if that no longer stands */
    async moveArrival(
      arrival: ArrivalRecord,
      { set, unset, entries }: ArrivalUpdate,
      session: Session,
    ): Promise<void> {
      const asRead = Object.fromEntries(RESTS_ON.map((field) => [field, arrival[field] ?? none]))
      const update = {
        $set: set,
        $unset: Object.fromEntries(unset.map((field) => [field, 1])),
        ...pushing({ pending: entries }),
      }
      if (!(await payments.change({ ...asRead, _id: arrival._id }, update, session)))
        throw new Overtaken(`the money ${arrival._id} has changed since it was read`)
    },
    /** What this transaction brought, or has this id, and is being sent back. */
    listSentBack: (word: string, session: Session) =>
      payments.all(
        { came_to: some, payout_id: some, $or: [{ tx: word.toLowerCase() }, { _id: word }] },
        { session },
      ),
  }
}
