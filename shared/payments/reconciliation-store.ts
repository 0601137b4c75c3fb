import { Schema, type Connection } from 'mongoose'
import type { Session } from '../servers/database.ts'
import { recordsOf } from '../servers/records.ts'
import { PENDING_INDEX, pendingField, type Ledgered, type PendingEntry } from '../ledger/pending.ts'
import type { Coin } from './coin.ts'

/** A transaction of ours that the database did not know and that sent money away. */
export interface FoundSend {
  tx: string
  to: string[]
  amount_raw: string
}

/** It was paid to an invoice that the database has forgotten. */
export interface StrayMoney {
  address: string
  address_index: number
  amount_raw: string
  /** It has left the address, for the treasury or elsewhere. */
  gone?: true
  /** Whom it came from: all that may tell whose it is. */
  senders?: string[]
}

export interface ReconciliationRecord extends Ledgered {
  _id: string
  coin: Coin
  at: number
  reason: string
  transactions: number
  payments: number
  sends: FoundSend[]
  stray: StrayMoney[]
  held_payout_ids: string[]
}

const number = { type: Number, required: true } as const
const string = { type: String, required: true } as const
const plain = { _id: false } as const

const reconciliationSchema = new Schema<ReconciliationRecord>(
  {
    _id: string,
    coin: string,
    at: number,
    reason: string,
    transactions: number,
    payments: number,
    sends: [new Schema({ tx: string, to: [String], amount_raw: string }, plain)],
    stray: [
      new Schema(
        {
          address: string,
          address_index: number,
          amount_raw: string,
          gone: Boolean,
          senders: { type: [String], default: undefined },
        },
        plain,
      ),
    ],
    held_payout_ids: [String],
    ...pendingField,
  },
  { collection: 'reconciliations', strict: 'throw', versionKey: false },
)
reconciliationSchema.index({ coin: 1, _id: -1 })
reconciliationSchema.index(...PENDING_INDEX)

export function createReconciliationStore(connection: Connection) {
  const reconciliations = recordsOf(
    connection.model<ReconciliationRecord>('Reconciliation', reconciliationSchema),
  )
  return {
    models: { reconciliations: reconciliations.model },
    insert(reconciliation: ReconciliationRecord): Promise<void> {
      const { _id, at, coin, transactions, payments, held_payout_ids: held } = reconciliation
      const data = { reconciliation_id: _id, coin, transactions, payments, payouts_held: held.length }
      const pending = [{ source: `${_id}/reconcile`, at, kind: 'reconcile' as const, data }]
      return reconciliations.insert([{ ...reconciliation, pending }])
    },
    last: (coin: Coin) => reconciliations.one({ coin }, { fields: { pending: 0 }, sort: { _id: -1 } }),
    /** A later step in the ledger. @throws Error where there is no such record */
    async addEntry(id: string, entry: PendingEntry, session: Session): Promise<void> {
      if (!(await reconciliations.change({ _id: id }, { $push: { pending: entry } }, session)))
        throw new Error(`there is no reconciliation ${id}`)
    },
  }
}

export type ReconciliationStore = ReturnType<typeof createReconciliationStore>
