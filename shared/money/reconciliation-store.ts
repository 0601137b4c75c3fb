import type { Connection } from 'mongoose'
import { within, type Session } from '../platform/database.ts'
import { list, maybe, nested, number, schemaOf, text, textOf, type RecordOf } from '../platform/fields.ts'
import { recordsOf } from '../platform/records.ts'
import { PENDING_INDEX, pendingField, type Ledgered, type PendingEntry } from '../ledger/pending.ts'
import type { Coin } from './coin.ts'

/** A transaction of ours that the database did not know and that sent money away. */
const sendFields = { tx: text, to: list(text), amount_raw: text }
export type FoundSend = RecordOf<typeof sendFields>

/** Money at an address of ours that belongs to no invoice on record. */
const strayFields = {
  address: text,
  address_index: number,
  amount_raw: text,
  /** It has left the address, for the treasury or elsewhere. */
  gone: maybe.flag,
  /** Whom it came from: perhaps all that tells whose it is. */
  senders: maybe.list(text),
}
export type StrayMoney = RecordOf<typeof strayFields>

const reconciliationFields = {
  _id: text,
  coin: textOf<Coin>(),
  at: number,
  reason: text,
  transactions: number,
  payments: number,
  sends: list(nested(sendFields)),
  stray: list(nested(strayFields)),
  held_payout_ids: list(text),
  /** Absent on older records. */
  treasury: maybe.text,
  treasury_before: maybe.text,
}
export type ReconciliationRecord = RecordOf<typeof reconciliationFields> & Ledgered

const storedFields = { ...reconciliationFields, ...pendingField }
const reconciliationSchema = schemaOf<ReconciliationRecord>('reconciliations', storedFields)
reconciliationSchema.index({ coin: 1, _id: -1 })
reconciliationSchema.index(...PENDING_INDEX)

/** Creates the store of reconciliations and what each found. */
export function createReconciliationStore(connection: Connection) {
  const records = recordsOf(connection.model<ReconciliationRecord>('Reconciliation', reconciliationSchema))
  return {
    models: { reconciliations: records.model },
    insert(reconciliation: ReconciliationRecord, session?: Session): Promise<void> {
      const { _id, at, coin, transactions, payments, held_payout_ids: held } = reconciliation
      const data = { reconciliation_id: _id, coin, transactions, payments, payouts_held: held.length }
      const pending = [{ source: `${_id}/reconcile`, at, kind: 'reconcile' as const, data }]
      return records.insert([{ ...reconciliation, pending }], session)
    },
    find: (id: string, session?: Session) =>
      records.one({ _id: id }, { fields: { pending: 0 }, ...within(session) }),
    last: (coin: Coin) => records.one({ coin }, { fields: { pending: 0 }, sort: { _id: -1 } }),
    /** Adds the ledger entry of a later step. @throws Error if there is no such record */
    async addEntry(id: string, entry: PendingEntry, session: Session): Promise<void> {
      if (!(await records.change({ _id: id }, { $push: { pending: entry } }, session)))
        throw new Error(`there is no reconciliation ${id}`)
    },
  }
}
