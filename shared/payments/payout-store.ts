import { Schema, type Connection, type Model } from 'mongoose'
import { type Session, within } from '../database.ts'
import { PENDING_INDEX, pendingField, type PendingEntry } from '../ledger/pending.ts'
import { SECOND_MS } from '../time.ts'
import type { Coin } from './coin.ts'
import type { PayoutRecord, PayoutState, TransferRecord, TransferState } from './payout.ts'
import { sumByCoin } from './sum-raw.ts'

const number = { type: Number, required: true } as const
const string = { type: String, required: true } as const

const payoutSchema = new Schema<PayoutRecord>(
  {
    _id: string,
    source: string,
    coin: string,
    agent_id: string,
    order_id: String,
    amount_raw: string,
    address: String,
    state: string,
    frozen: Boolean,
    transfer_id: String,
    tx: String,
    at: number,
    changed_at: number,
    salt: string,
    ...pendingField,
  },
  { collection: 'payouts', strict: 'throw', versionKey: false },
)
payoutSchema.index({ source: 1 }, { unique: true })
payoutSchema.index({ coin: 1, state: 1, address: 1, _id: 1 })
payoutSchema.index({ agent_id: 1, state: 1, _id: -1 })
payoutSchema.index({ order_id: 1 }, { partialFilterExpression: { order_id: { $exists: true } } })
payoutSchema.index({ transfer_id: 1 }, { partialFilterExpression: { transfer_id: { $exists: true } } })
payoutSchema.index(...PENDING_INDEX)

const transferSchema = new Schema<TransferRecord>(
  {
    _id: string,
    coin: string,
    kind: string,
    account_index: Number,
    previous: String,
    in_flight: Boolean,
    tx: string,
    signed: string,
    amount_raw: string,
    fee_raw: String,
    payment_ids: { type: [String], required: true },
    payout_ids: { type: [String], required: true },
    state: string,
    at: number,
    changed_at: number,
    reason: String,
    unexplained_to: { type: [String], default: undefined },
  },
  { collection: 'transfers', strict: 'throw', versionKey: false },
)
transferSchema.index({ tx: 1, coin: 1 }, { unique: true })
// Two blocks for one place in an account's chain would be a fork: the second is never stored, and so never broadcast.
transferSchema.index({ account_index: 1, previous: 1 }, { unique: true, partialFilterExpression: { account_index: { $exists: true } } })
transferSchema.index({ coin: 1 }, { unique: true, name: 'one_in_flight', partialFilterExpression: { in_flight: true } })
transferSchema.index({ coin: 1, state: 1, _id: 1 })
transferSchema.index({ unexplained_to: 1, coin: 1 }, { partialFilterExpression: { unexplained_to: { $exists: true } } })

/** Owed, and not known to have arrived. */
export const UNPAID: { state: { $in: PayoutState[] } } = { state: { $in: ['owed', 'signed', 'sent', 'held'] } }

/** A primary that is cut off from the others steps down by then. */
const SURELY_WITHIN_MS = 15 * SECOND_MS

export interface PayoutStore {
  /** @throws a duplicate-key error on `source` where that sum is on record */
  insert(payouts: readonly PayoutRecord[], session: Session): Promise<void>
  find(payoutId: string, session?: Session): Promise<PayoutRecord | undefined>
  findMany(payoutIds: readonly string[], session?: Session): Promise<PayoutRecord[]>
  listByOrder(orderId: string, session?: Session): Promise<PayoutRecord[]>
  /** An agent's, the newest first. */
  listByAgent(agentId: string, states: readonly PayoutState[], limit: number): Promise<PayoutRecord[]>
  listByState(coin: Coin, states: readonly PayoutState[], limit: number): Promise<PayoutRecord[]>
  /** Those in a state that walkSendable() does not give, the oldest first. */
  listUnsendable(coin: Coin, state: PayoutState, limit: number): Promise<PayoutRecord[]>
  /** Owed, with an address and not frozen, in the order of their addresses. */
  walkSendable(coin: Coin): AsyncIterable<PayoutRecord>
  /** Names the address of what is owed for an order and has none. */
  setAddress(orderId: string, agentId: string, address: string, session?: Session): Promise<void>
  /** Of an order's payouts that are still owed; false: no longer frozen. */
  setFrozen(orderId: string, isFrozen: boolean, session: Session): Promise<void>
  /** One payout's next state. @returns false where it is in none of the expected ones, or frozen and to be signed or held */
  move(payoutId: string, from: readonly PayoutState[], change: PayoutChange, entry: PendingEntry, session: Session): Promise<boolean>
  /** @throws a duplicate-key error: on `account_index` where that place of the chain is taken, on `coin` where one is in flight */
  insertTransfers(transfers: readonly TransferRecord[], session?: Session): Promise<void>
  findTransfer(transferId: string, session?: Session): Promise<TransferRecord | undefined>
  /**
   * With `surely`, from a primary that made sure that it still is one: a primary that was cut off lacks what its successor
   * has, and an undefined from it says nothing. @throws an outage where that cannot be had
   */
  findTransferByTx(coin: Coin, tx: string, options?: { surely?: boolean }): Promise<TransferRecord | undefined>
  /** Of these transactions, those that are ours and on record. */
  listTransfersByTx(coin: Coin, txs: readonly string[]): Promise<TransferRecord[]>
  /** In any of these states, the oldest first; those that no election can take back, so that they can be published. */
  listTransfers(coin: Coin, states: readonly TransferState[], limit: number): Promise<TransferRecord[]>
  /**
   * A Nano account's blocks that are not confirmed yet, in the order of its chain; a lane has one run of them at a time. Those
   * that no election can take back, so that they can be published.
   */
  listOpenTransfers(accountIndex: number): Promise<TransferRecord[]>
  /** The block on record that stands after this one in a Nano account's chain. */
  findSuccessor(accountIndex: number, previous: string): Promise<TransferRecord | undefined>
  /** Whether the operator said that this transaction paid something by hand. */
  isPaidByHand(coin: Coin, tx: string): Promise<boolean>
  /** What the operator said that this transaction paid by hand. */
  sumPaidByHand(coin: Coin, tx: string): Promise<bigint>
  /** Transactions that nobody has accounted for; of these addresses alone where they are named. */
  listUnexplained(coin: Coin, addresses?: readonly string[]): Promise<TransferRecord[]>
  /** The operator has accounted for it. @returns false where it is not one of those */
  setExplained(coin: Coin, tx: string, session?: Session): Promise<boolean>
  /** @returns false where it is in none of the expected states */
  moveTransfer(
    transferId: string,
    from: readonly TransferState[],
    to: TransferState,
    changedAt: number,
    reason: string | undefined,
    session?: Session,
  ): Promise<boolean>
  /** Payouts that have arrived or were paid by hand, per coin. */
  sumPaid(): Promise<Record<Coin, bigint>>
  /** What an agent is owed and has not been paid, and how much of it has no address yet, per coin. */
  sumOwed(agentId: string): Promise<{ all: Record<Coin, bigint>; withoutAddress: Record<Coin, bigint> }>
  readonly models: { payouts: Model<PayoutRecord>; transfers: Model<TransferRecord> }
}

export interface PayoutChange {
  state: PayoutState
  changed_at: number
  /** null takes it away. */
  transfer_id?: string | null
  tx?: string | null
}

export function createPayoutStore(connection: Connection): PayoutStore {
  const payouts = connection.model<PayoutRecord>('Payout', payoutSchema)
  const transfers = connection.model<TransferRecord>('Transfer', transferSchema)
  return {
    models: { payouts, transfers },
    async insert(records, session) {
      if (records.length > 0) await payouts.insertMany([...records], { session, lean: true })
    },
    async find(payoutId, session) {
      return (await payouts.findOne({ _id: payoutId }, null, within(session)).lean<PayoutRecord>()) ?? undefined
    },
    async findMany(payoutIds, session) {
      return payouts.find({ _id: { $in: [...payoutIds] } }, null, within(session)).lean<PayoutRecord[]>()
    },
    async listByOrder(orderId, session) {
      return payouts.find({ order_id: orderId }, null, within(session)).sort({ _id: 1 }).lean<PayoutRecord[]>()
    },
    async listByAgent(agentId, states, limit) {
      return payouts
        .find({ agent_id: agentId, state: { $in: [...states] } }, { pending: 0 })
        .sort({ _id: -1 })
        .limit(limit)
        .lean<PayoutRecord[]>()
    },
    async listByState(coin, states, limit) {
      return payouts
        .find({ coin, state: { $in: [...states] } }, { pending: 0 })
        .sort({ _id: 1 })
        .limit(limit)
        .lean<PayoutRecord[]>()
    },
    async listUnsendable(coin, state, limit) {
      const withheld = state === 'owed' ? { $or: [{ address: { $exists: false } }, { frozen: { $exists: true } }] } : {}
      return payouts
        .find({ coin, state, ...withheld }, { pending: 0 })
        .sort({ _id: 1 })
        .limit(limit)
        .lean<PayoutRecord[]>()
    },
    walkSendable(coin) {
      return payouts
        .find({ coin, state: 'owed', address: { $exists: true }, frozen: { $exists: false } }, { pending: 0 })
        .sort({ address: 1, _id: 1 })
        .lean<PayoutRecord[]>()
        .cursor() as unknown as AsyncIterable<PayoutRecord>
    },
    async setAddress(orderId, agentId, address, session) {
      const filter = { order_id: orderId, agent_id: agentId, address: { $exists: false }, state: 'owed' as const }
      await payouts.updateMany(filter, { $set: { address } }, within(session))
    },
    async setFrozen(orderId, isFrozen, session) {
      const change = isFrozen ? { $set: { frozen: true as const } } : { $unset: { frozen: 1 as const } }
      await payouts.updateMany({ order_id: orderId, state: 'owed' }, change, { session })
    },
    async move(payoutId, from, change, entry, session) {
      const set = Object.fromEntries(Object.entries(change).filter(([, value]) => value !== null))
      const unset = Object.fromEntries(Object.entries(change).flatMap(([name, value]) => (value === null ? [[name, 1]] : [])))
      // A decision unfreezes only what is owed: what was put aside frozen would stay so.
      const mustBeUnfrozen = change.state === 'signed' || change.state === 'held'
      const filter = { _id: payoutId, state: { $in: [...from] }, ...(mustBeUnfrozen ? { frozen: { $exists: false } } : {}) }
      const update = { $set: set, ...(Object.keys(unset).length === 0 ? {} : { $unset: unset }), $push: { pending: entry } }
      return (await payouts.updateOne(filter, update, { session })).matchedCount === 1
    },
    sumPaid: () => sumByCoin(payouts, { state: { $in: ['confirmed', 'manual'] } }, 'amount_raw'),
    async sumOwed(agentId) {
      const unpaid = { agent_id: agentId, ...UNPAID }
      const [all, withoutAddress] = await Promise.all([
        sumByCoin(payouts, unpaid, 'amount_raw'),
        sumByCoin(payouts, { ...unpaid, address: { $exists: false } }, 'amount_raw'),
      ])
      return { all, withoutAddress }
    },
    async insertTransfers(records, session) {
      await transfers.insertMany([...records], { ...within(session), lean: true })
    },
    async findTransfer(transferId, session) {
      return (await transfers.findOne({ _id: transferId }, null, within(session)).lean<TransferRecord>()) ?? undefined
    },
    async findTransferByTx(coin, tx, { surely = false } = {}) {
      const query = transfers.findOne({ tx, coin }).lean<TransferRecord>()
      if (surely) query.read('primary').readConcern('linearizable').maxTimeMS(SURELY_WITHIN_MS)
      return (await query) ?? undefined
    },
    async listTransfersByTx(coin, txs) {
      return transfers.find({ tx: { $in: [...txs] }, coin }).lean<TransferRecord[]>()
    },
    async listTransfers(coin, states, limit) {
      return transfers
        .find({ coin, state: { $in: [...states] } })
        .read('primary')
        .readConcern('majority')
        .sort({ _id: 1 })
        .limit(limit)
        .lean<TransferRecord[]>()
    },
    async listOpenTransfers(accountIndex) {
      const filter = { coin: 'xno' as const, state: { $in: ['signed', 'sent', 'held'] as TransferState[] }, account_index: accountIndex }
      // The ids of a run are made in the order of its blocks.
      return transfers.find(filter).read('primary').readConcern('majority').sort({ _id: 1 }).lean<TransferRecord[]>()
    },
    async findSuccessor(accountIndex, previous) {
      return (await transfers.findOne({ account_index: accountIndex, previous }).lean<TransferRecord>()) ?? undefined
    },
    async isPaidByHand(coin, tx) {
      return (await payouts.exists({ coin, state: 'manual', tx })) !== null
    },
    async sumPaidByHand(coin, tx) {
      return (await sumByCoin(payouts, { coin, state: 'manual', tx }, 'amount_raw'))[coin]
    },
    async listUnexplained(coin, addresses) {
      const to = addresses === undefined ? { $exists: true } : { $in: [...addresses] }
      return transfers.find({ coin, unexplained_to: to }).sort({ _id: 1 }).lean<TransferRecord[]>()
    },
    async setExplained(coin, tx, session) {
      const filter = { coin, tx, unexplained_to: { $exists: true } }
      return (await transfers.updateOne(filter, { $unset: { unexplained_to: 1 } }, within(session))).matchedCount === 1
    },
    async moveTransfer(transferId, from, to, changedAt, reason, session) {
      const update = {
        $set: { state: to, changed_at: changedAt, ...(reason === undefined ? {} : { reason }) },
        // A replaced block gives its place in the account's chain to the one that stands there.
        ...(to === 'confirmed' ? { $unset: { in_flight: 1 as const } } : {}),
        ...(to === 'replaced' ? { $unset: { in_flight: 1 as const, account_index: 1 as const } } : {}),
      }
      return (await transfers.updateOne({ _id: transferId, state: { $in: [...from] } }, update, within(session))).matchedCount === 1
    },
  }
}
