import { Schema, type Connection, type Model } from 'mongoose'
import type { Session } from '../database.ts'
import { PENDING_INDEX, pendingField, type Ledgered, type PendingEntry } from '../ledger/pending.ts'
import type { Coin } from './coin.ts'

/** A transaction of ours that the database did not know and that sent money away. */
export interface FoundSend {
  tx: string
  /** Its destinations. */
  to: string[]
  amount_raw: string
}

/** Money at an address of ours that no invoice has: it was paid to an invoice that the database has forgotten. */
export interface StrayMoney {
  address: string
  address_index: number
  amount_raw: string
  /** It has left the address, for the treasury or elsewhere. */
  gone?: true
  /** Whom it came from: all that may tell whose it is. */
  senders?: string[]
}

/** What the operator's `reconcile` found, once a coin's chain and its records agree again. */
export interface ReconciliationRecord extends Ledgered {
  _id: string
  coin: Coin
  /** Unix seconds. */
  at: number
  /** Why the coin was halted. */
  reason: string
  /** Transactions of ours that are on record now and were not. */
  transactions: number
  /** Payments that are counted now and were not. */
  payments: number
  /** Of the transactions, those that may have paid somebody. */
  sends: FoundSend[]
  stray: StrayMoney[]
  /** Payouts that were put aside because one of those may have paid them. */
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
        { address: string, address_index: number, amount_raw: string, gone: Boolean, senders: { type: [String], default: undefined } },
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

export interface ReconciliationStore {
  /** Stores it with its ledger entry. */
  insert(reconciliation: ReconciliationRecord): Promise<void>
  last(coin: Coin): Promise<ReconciliationRecord | undefined>
  /** A later step in the ledger. @throws Error where there is no such record */
  addEntry(reconciliationId: string, entry: PendingEntry, session: Session): Promise<void>
  readonly models: { reconciliations: Model<ReconciliationRecord> }
}

export function createReconciliationStore(connection: Connection): ReconciliationStore {
  const reconciliations = connection.model<ReconciliationRecord>('Reconciliation', reconciliationSchema)
  return {
    models: { reconciliations },
    async insert(reconciliation) {
      const { _id, at, coin, transactions, payments, held_payout_ids: held } = reconciliation
      const data = { reconciliation_id: _id, coin, transactions, payments, payouts_held: held.length }
      const pending = [{ source: `${_id}/reconcile`, at, kind: 'reconcile' as const, data }]
      await reconciliations.insertMany([{ ...reconciliation, pending }], { lean: true })
    },
    async last(coin) {
      return (await reconciliations.findOne({ coin }, { pending: 0 }).sort({ _id: -1 }).lean<ReconciliationRecord>()) ?? undefined
    },
    async addEntry(reconciliationId, entry, session) {
      const { matchedCount } = await reconciliations.updateOne({ _id: reconciliationId }, { $push: { pending: entry } }, { session })
      if (matchedCount !== 1) throw new Error(`there is no reconciliation ${reconciliationId}`)
    },
  }
}
