import { omitUndefined } from '../platform/omit-undefined.ts'
import type { Connection } from 'mongoose'
import { Overtaken, type Session } from '../platform/database.ts'
import { createIdBatchRead } from '../platform/group-commit.ts'
import { none, only, schemaOf, some } from '../platform/fields.ts'
import { rawOf, recordsOf, type Records } from '../platform/records.ts'
import { indexMarks, pushing, tellsField, type EventMark } from '../events/mark.ts'
import { PENDING_INDEX, pendingField, type PendingEntry } from '../ledger/pending.ts'
import { createArrivalStore } from './arrival-store.ts'
import type { Coin } from './coin.ts'
import { invoiceFields, type InvoiceRecord } from './invoice.ts'

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

/** What a change of an invoice's money sets; false removes `has_remainder` or `open`. */
export type MoneyFields = Partial<
  Pick<
    InvoiceRecord,
    'received_raw' | 'carried_raw' | 'moved_raw' | 'unspent' | 'credited_days' | 'lapsed' | 'look_after'
  >
> & { has_remainder?: boolean; open?: false }

export type WatchedAddress = Pick<InvoiceRecord, '_id' | 'address' | 'address_index'>

export type InvoiceStore = ReturnType<typeof createInvoiceStore>

const idIn = (ids: readonly string[]) => ({ _id: { $in: [...ids] } })

/** Creates the store of invoices. */
export function createInvoiceStore(connection: Connection) {
  const invoices = recordsOf(connection.model<InvoiceRecord>('Invoice', invoiceSchema))
  const findById = createIdBatchRead(() => rawOf<InvoiceRecord>(invoices.model))
  return {
    models: { invoices: invoices.model },
    arrivals: createArrivalStore(connection),
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
    /**
     * Marks that an invoice has payments, so that a transaction that expires it meanwhile conflicts.
     *
     * @returns the marked invoice; undefined if no invoice has this id
     */
    async markHasPayments(invoiceId: string, session: Session, tells: readonly EventMark[] = []) {
      const marked = { has_payments: true as const }
      const update = { $set: marked, $inc: { version: 1 }, ...pushing({ tells }) }
      const before = await invoices.swap({ _id: invoiceId }, update, session)
      return before === undefined ? undefined : { ...before, ...marked, version: before.version + 1 }
    },
    ...scansOfInvoices(invoices),
    ...endsOfInvoices(invoices),
  }
}

/** What is asked and noted of the scans of invoices' addresses. */
function scansOfInvoices(invoices: Records<InvoiceRecord>) {
  return {
    /** Requests to scan an invoice that are being made, by its id; the result as of askForScan(). */
    scansBeingAsked: new Map<string, Promise<boolean>>(),
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
  }
}

/** What is asked and noted of invoices that may expire, or can't be paid any more. */
function endsOfInvoices(invoices: Records<InvoiceRecord>) {
  return {
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
    /**
     * Expires those of the invoices that have no payments and nothing carried into them, and pay no order.
     */
    async expireUntouched(ids: readonly string[], scanAfter: number, nowMs: number): Promise<void> {
      const fields = { state: 'expired' }
      const expired: EventMark = { to: '$agent_id', at_ms: nowMs, kind: 'invoice', id: '$_id', fields }
      const untouched = { lapsed: false, has_payments: none, order_id: none, carried_raw: '0' }
      await rawOf<InvoiceRecord>(invoices.model).updateMany({ ...idIn(ids), ...untouched }, [
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
  }
}
