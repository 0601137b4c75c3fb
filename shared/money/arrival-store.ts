import type { Connection } from 'mongoose'
import { Overtaken, type Session } from '../platform/database.ts'
import { none, only, schemaOf, some } from '../platform/fields.ts'
import { omitUndefined } from '../platform/omit-undefined.ts'
import { rawOf, recordsOf, type Records } from '../platform/records.ts'
import { pushing } from '../events/mark.ts'
import { PENDING_INDEX, pendingField } from '../ledger/pending.ts'
import { RESTS_ON, type ArrivalUpdate } from './arrival-steps.ts'
import { arrivalFields, FIRST_UNLOCK_SECONDS, type ArrivalRecord, type PaymentRecord } from './arrival.ts'
import type { Coin } from './coin.ts'
import { MAX_PAYMENTS_SHOWN } from './invoice.ts'
import { sumByCoin } from './sum-raw.ts'
import { TREASURY_INDEX } from './transfer.ts'

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

/** Counted by no invoice, and not sent back. */
const UNCLAIMED = { state: 'settled', invoice_id: none, payout_id: none } as const
const PROGRESS = { tx: 1, amount_raw: 1, state: 1, waits_for_rate: 1, reversed_at: 1 } as const
export type PaymentProgress = Pick<PaymentRecord, keyof typeof PROGRESS>

/** What a payment bought. */
export type SettledFields = Partial<Pick<PaymentRecord, 'arrival_rate' | 'credited_days' | 'price_raw'>>

const idIn = (ids: readonly string[]) => ({ _id: { $in: [...ids] } })

/** Creates the store of arrivals, whether an invoice counts them or not. Its collection is `payments`. */
export function createArrivalStore(connection: Connection) {
  const arrivals = recordsOf(connection.model<ArrivalRecord>('Payment', paymentSchema))
  return {
    models: { payments: arrivals.model },
    /** @throws a duplicate-key error if what this transaction sent to this address is on record */
    insert: (arrival: ArrivalRecord, session: Session) => arrivals.insert([arrival], session),
    /** What a transaction sent to an address, whether an invoice counts it or not. */
    find: (coin: Coin, tx: string, addressIndex: number, session?: Session) =>
      arrivals.one({ tx, address_index: addressIndex, coin }, { session }),
    findById: <Arrival extends ArrivalRecord>(arrivalId: string, session: Session) =>
      arrivals.one<Arrival>({ _id: arrivalId }, { session }),
    findMany: (ids: readonly string[], session: Session) => arrivals.all(idIn(ids), { session }),
    findPayment: (paymentId: string, session?: Session) =>
      arrivals.one<PaymentRecord>({ _id: paymentId, invoice_id: some }, { session }),
    listByTx: (coin: Coin, txs: readonly string[], session?: Session) =>
      arrivals.all({ tx: { $in: [...txs] }, coin }, { session }),
    /** Stores what was decided of an arrival. @throws Overtaken, with nothing stored, if that no longer stands */
    async move(
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
      if (!(await arrivals.change({ ...asRead, _id: arrival._id }, update, session)))
        throw new Overtaken(`the money ${arrival._id} has changed since it was read`)
    },
    ...paymentsOfInvoices(arrivals),
    ...paymentsOnTheirWay(arrivals),
    ...moneyOfNobody(arrivals),
    ...moneyAtAddresses(arrivals),
  }
}

/** What is asked of the payments of an invoice or an order. */
function paymentsOfInvoices(arrivals: Records<ArrivalRecord>) {
  return {
    /**
     * The invoice's newest payments, in the order of their ids, without those that the operator took back.
     */
    async listPayments(invoiceId: string, limit = MAX_PAYMENTS_SHOWN): Promise<PaymentRecord[]> {
      const standing = { invoice_id: invoiceId, undone_at: none }
      const newest = { fields: { pending: 0 }, sort: { _id: -1 }, limit } as const
      return (await arrivals.all<PaymentRecord>(standing, newest)).reverse()
    },
    /** Whether the invoice has a payment in state `seen`, other than `butFor`; with `inTime` one not late. */
    async isUnderWay(
      invoiceId: string,
      { inTime = false, butFor }: { inTime?: boolean; butFor?: string } = {},
      session?: Session,
    ): Promise<boolean> {
      const others = butFor === undefined ? {} : { _id: { $ne: butFor } }
      const seen = { invoice_id: invoiceId, state: 'seen', ...(inTime ? { late: false } : {}), ...others }
      return (await arrivals.model.exists(seen as object).session(session ?? null)) !== null
    },
    listReversed: (invoiceId: string, session: Session) =>
      arrivals.all<PaymentRecord>({ invoice_id: invoiceId, reversed_at: some }, { session }),
    /** Orders with money that the operator recorded and the chain has not shown. */
    async listUnshownOrders(coin: Coin, orderId?: string): Promise<string[]> {
      const order = orderId === undefined ? some : { $eq: orderId }
      return arrivals.model.distinct('order_id', { ...EXPECTED, coin, order_id: order })
    },
  }
}

/** What is asked and noted of payments until they are settled, and until no reorganisation can take them back. */
function paymentsOnTheirWay(arrivals: Records<ArrivalRecord>) {
  return {
    /** Payments in state `seen`. */
    listUnderWay: (coin: Coin) => arrivals.all<PaymentRecord>({ coin, state: 'seen' }),
    /** Confirmed payments that wait to be settled, the oldest first; without a rate, those that need none. */
    async listWaitingForRate(coin: Coin, hasRate: boolean, nowSeconds: number, limit: number) {
      const needsNone = { $or: [{ order_id: some }, { arrival_rate: some }] }
      const pipeline = [{ $project: { lapsed: 1, expires_at: 1 } }]
      // Those that wait for their invoice to expire must not fill the batch, however many they are.
      return arrivals.model.aggregate<PaymentRecord>([
        { $match: { waits_for_rate: true, coin, ...(hasRate ? {} : needsNone) } },
        { $sort: { _id: 1 } },
        { $lookup: { from: 'invoices', localField: 'invoice_id', foreignField: '_id', as: 'of', pipeline } },
        { $match: { $or: [{ 'of.lapsed': true }, { 'of.expires_at': { $gt: nowSeconds } }] } },
        { $limit: limit },
        { $unset: 'of' },
      ])
    },
    /** Locked payments whose lock has ended at this height and time (Unix seconds). */
    listUnlocked(coin: Coin, height: number, nowSeconds: number, limit: number) {
      const ends = [{ $lte: height }, { $gte: FIRST_UNLOCK_SECONDS, $lte: nowSeconds }]
      const ended = { $or: ends.map((end) => ({ unlock_time: end })) }
      const locked = { coin, state: 'locked' as const, ...ended }
      return arrivals.all<PaymentRecord>(locked, { sort: { unlock_time: 1 }, limit })
    },
    /** Payments in a block that are not settled. */
    async listUncounted(coin: Coin): Promise<ArrivalRecord[]> {
      const states = ['seen', 'locked'] as const
      return (await Promise.all(states.map((state) => arrivals.all({ coin, state, height: some })))).flat()
    },
    /** Settled payments in blocks numbered `height` or more that the chain has not taken back. */
    listSettledSince: (coin: Coin, height: number) =>
      arrivals.all<PaymentRecord>({ coin, state: 'settled', height: { $gte: height }, reversed_at: none }),
    /** How far payments are, without those that the operator recorded and the chain has not shown. */
    listProgress: (coin: Coin, txs: readonly string[]): Promise<PaymentProgress[]> =>
      rawOf<ArrivalRecord>(arrivals.model)
        .find(
          { tx: { $in: [...txs] }, coin, $nor: [UNSHOWN] },
          { projection: { _id: 0, ...PROGRESS }, batchSize: txs.length + 1 },
        )
        .toArray(),
    /** Stores a payment's confirmations and block, in any state. */
    noteConfirmations: (paymentId: string, confirmations: number, height: number | undefined) =>
      arrivals.change({ _id: paymentId }, { $set: { confirmations, ...omitUndefined({ height }) } }),
    /** Notes from which height on payments are missing in the chain; undefined if they are there again. */
    noteMissing: (ids: readonly string[], since: number | undefined) =>
      arrivals.changeAll(
        idIn(ids),
        since === undefined ? { $unset: { missing_since: 1 } } : { $set: { missing_since: since } },
      ),
  }
}

/** What is asked of money that no invoice counts. */
function moneyOfNobody(arrivals: Records<ArrivalRecord>) {
  return {
    /** What the operator recorded as paid by a transaction, with this amount, and the chain hasn't shown. */
    findOnWord: (coin: Coin, tx: string, amountRaw: bigint, session: Session) =>
      arrivals.one({ tx, coin, ...EXPECTED, amount_raw: String(amountRaw) }, { session }),
    /** Money that belongs to nobody, the oldest first. */
    listUnassigned: (limit: number) =>
      arrivals.all(
        { came_to: 'unassigned', ...UNCLAIMED },
        { fields: { pending: 0 }, sort: { _id: 1 }, limit },
      ),
    sumUnassigned: () => sumByCoin(arrivals.model, { came_to: 'unassigned', ...UNCLAIMED }, 'amount_raw'),
    /** What is nobody's or the operator's, with an id or from a transaction. */
    listUnclaimed: (word: string, session?: Session) =>
      arrivals.all(
        { came_to: some, ...UNCLAIMED, $or: [{ tx: word.toLowerCase() }, { _id: word }] },
        { session, sort: { _id: 1 } },
      ),
    /** What came to nobody, or is the operator's, as this sum to the treasury, the oldest first. */
    listInTreasury: (coin: Coin, amountRaw: string, session: Session) =>
      arrivals.all(
        { coin, amount_raw: amountRaw, address_index: TREASURY_INDEX, came_to: some, ...UNCLAIMED },
        { session, sort: { _id: 1 } },
      ),
    /** What this transaction brought, or has this id, and is being sent back. */
    listSentBack: (word: string, session: Session) =>
      arrivals.all(
        { came_to: some, payout_id: some, $or: [{ tx: word.toLowerCase() }, { _id: word }] },
        { session },
      ),
  }
}

/** What is asked and noted of where money on the books is: at its address, or in the treasury. */
function moneyAtAddresses(arrivals: Records<ArrivalRecord>) {
  const listUnsweptOf = (filter: object, after: string, limit: number): Promise<ArrivalRecord[]> =>
    arrivals.all(
      { ...filter, state: 'settled', swept_at: null, _id: { $gt: after } },
      { fields: { pending: 0 }, sort: { _id: 1 }, limit },
    )
  return {
    /** Money on the books that is still at its address, the oldest first. */
    listUnswept: (coin: Coin, after: string, limit: number) => listUnsweptOf({ coin }, after, limit),
    /** The sum of what is still at invoices' and other addresses, without what the operator recorded. */
    async sumUnswept(coin: Coin): Promise<bigint> {
      const elsewhere = { address_index: { $ne: TREASURY_INDEX } }
      const unswept = { coin, state: 'settled', swept_at: null, by: 'chain', ...elsewhere }
      return (await sumByCoin(arrivals.model, unswept, 'amount_raw'))[coin]
    },
    listUnsweptAt: (coin: Coin, addressIndex: number, after: string, limit: number) =>
      listUnsweptOf({ coin, address_index: addressIndex }, after, limit),
    /** Notes when their money was in the treasury, or with undefined that it is at its address after all. */
    setSwept: (ids: readonly string[], at: number | undefined, session?: Session) =>
      at === undefined
        ? arrivals.changeAll(idIn(ids), { $unset: { swept_at: 1 } }, session)
        : arrivals.changeAll(
            { ...idIn(ids), state: 'settled', swept_at: null },
            { $set: { swept_at: at } },
            session,
          ),
  }
}
