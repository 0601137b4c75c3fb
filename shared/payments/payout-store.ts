import { Schema, type Connection, type Model } from 'mongoose'
import { type Session, within } from '../database.ts'
import { PENDING_INDEX, pendingField, type PendingEntry } from '../ledger/pending.ts'
import { SECOND_MS } from '../time.ts'
import type { Coin } from './coin.ts'
import { carries, OPEN_TRANSFERS, showPayout, TRANSFER_STATES } from './payout.ts'
import type { PayoutRecord, PayoutState, StoredPayout, TransferRecord, TransferState } from './payout.ts'
import { eachCoin, sumByCoin } from './sum-raw.ts'

const number = { type: Number, required: true } as const
const string = { type: String, required: true } as const

const payoutSchema = new Schema<StoredPayout>(
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
    held_by: String,
    to_self: Boolean,
    due_at: Number,
    asked_at: Number,
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
payoutSchema.index({ coin: 1, asked_at: 1 }, { name: 'asked', partialFilterExpression: { state: 'owed', asked_at: { $exists: true } } })
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
    successor: String,
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
    refused: { type: new Schema({ at: number, count: number, next_at: number, reason: string }, { _id: false }), default: undefined },
    foreign: Boolean,
    unexplained_to: { type: [String], default: undefined },
    brings: String,
    brought_by: String,
  },
  { collection: 'transfers', strict: 'throw', versionKey: false },
)
transferSchema.index({ tx: 1, coin: 1 }, { unique: true })
// Two blocks for one place in an account's chain would be a fork: the second is never stored, and so never broadcast.
transferSchema.index({ account_index: 1, previous: 1 }, { unique: true, partialFilterExpression: { account_index: { $exists: true } } })
transferSchema.index({ coin: 1 }, { unique: true, name: 'one_in_flight', partialFilterExpression: { in_flight: true } })
transferSchema.index({ coin: 1, state: 1, _id: 1 })
transferSchema.index({ coin: 1, state: 1, changed_at: 1 })
transferSchema.index({ unexplained_to: 1, coin: 1 }, { partialFilterExpression: { unexplained_to: { $exists: true } } })
transferSchema.index({ brought_by: 1, coin: 1 }, { partialFilterExpression: { brought_by: { $exists: true } } })

/** Owed, and may not have arrived: for one in a transfer that says. */
export const MAY_BE_UNPAID: { state: { $in: StoredPayout['state'][] } } = { state: { $in: ['owed', 'in_transfer'] } }

/** A primary that is cut off from the others steps down by then. */
const SURELY_WITHIN_MS = 15 * SECOND_MS

export interface PayoutStore {
  /** @throws a duplicate-key error on `source` when that sum is on record */
  insert(payouts: readonly PayoutRecord[], session: Session): Promise<void>
  find(payoutId: string, session?: Session): Promise<PayoutRecord | undefined>
  /** As stored. */
  findMany(payoutIds: readonly string[], session?: Session): Promise<StoredPayout[]>
  listByOrder(orderId: string, session?: Session): Promise<PayoutRecord[]>
  /** Those of a coin that are in this state, the oldest first; for `owed` those that walkSendable() does not give. */
  listUnsendable(coin: Coin, state: PayoutState, limit: number): Promise<PayoutRecord[]>
  /** Owed, with an address of somebody else, and neither frozen nor held, in the order of their addresses; those alone that were asked for, if so. */
  walkSendable(coin: Coin, isAsked?: boolean): AsyncIterable<PayoutRecord>
  /** Of these, those that are owed are due from then on, or asked for by the operator. @returns how many were not so before */
  mark(payoutIds: readonly string[], field: 'due_at' | 'asked_at', at: number): Promise<number>
  /** Of these, those that are owed are to an address of the venue's own. @returns how many were not known to be */
  markToSelf(payoutIds: readonly string[]): Promise<number>
  /** Whether the operator asked for some that are not sent yet. */
  hasAsked(coin: Coin): Promise<boolean>
  /** How many there are in each state, by coin. */
  countByState(): Promise<{ coin: Coin; state: PayoutState; count: number }[]>
  /** How many transfers there are that are not known to be in the chain. */
  countOpenTransfers(): Promise<{ coin: Coin; state: TransferState; count: number }[]>
  /** Names the address of what is owed for an order and has none. */
  setAddress(orderId: string, agentId: string, address: string, session?: Session): Promise<void>
  /** Of an order's payouts that are still owed; false: no longer frozen. */
  setFrozen(orderId: string, isFrozen: boolean, session: Session): Promise<void>
  /**
   * One payout's next state. An owed one that is frozen or held can be withdrawn, and one that is held can be paid by hand;
   * neither can go into a transfer.
   *
   * @returns false if it is not in the expected state
   */
  move(payoutId: string, from: PayoutFrom, change: PayoutChange, entry: PendingEntry, session: Session): Promise<boolean>
  /** Steps that payouts take with their transfer. */
  addEntries(entries: ReadonlyMap<string, PendingEntry>, session: Session): Promise<void>
  /** @throws a duplicate-key error: on `account_index` where that place of the chain is taken, on `coin` where one is in flight */
  insertTransfers(transfers: readonly TransferRecord[], session?: Session): Promise<void>
  findTransfer(transferId: string, session?: Session): Promise<TransferRecord | undefined>
  /**
   * With `surely`, from a primary that made sure that it still is one: a primary that was cut off lacks what its successor
   * has, and an undefined from it says nothing. @throws an outage where that cannot be had
   */
  findTransferByTx(coin: Coin, tx: string, options?: { surely?: boolean }): Promise<TransferRecord | undefined>
  /** Of these transactions, those that are ours and on record. */
  listTransfersByTx(coin: Coin, txs: readonly string[], session?: Session): Promise<TransferRecord[]>
  /** In any of these states, the oldest first; those that no election can take back, so that they can be published. None of another seed or wallet. */
  listTransfers(coin: Coin, states: readonly TransferState[], limit: number): Promise<TransferRecord[]>
  /**
   * A Nano account's blocks that are not confirmed yet, in the order of its chain; a lane has one run of them at a time. Those
   * that no election can take back, so that they can be published.
   */
  listOpenTransfers(accountIndex: number): Promise<TransferRecord[]>
  /**
   * The newest block that was built on this one. The write makes one of two transactions give way, of which the other replaces
   * this block. @returns this block, if it is on record
   */
  noteSuccessor(coin: Coin, tx: string, successor: string, session: Session): Promise<TransferRecord | undefined>
  /** The block on record that stands after this one in a Nano account's chain; one that no election can take back, so that it can be published. */
  findSuccessor(accountIndex: number, previous: string, session?: Session): Promise<TransferRecord | undefined>
  /** What the operator said that this transaction paid by hand. */
  listPaidByHand(coin: Coin, tx: string): Promise<StoredPayout[]>
  /** Transactions that nobody has accounted for; of these addresses alone where they are named. */
  listUnexplained(coin: Coin, addresses?: readonly string[]): Promise<TransferRecord[]>
  /** The operator has accounted for it. @returns false where it is not one of those */
  setExplained(coin: Coin, tx: string, session?: Session): Promise<boolean>
  /** @returns false if it is in none of the expected states */
  moveTransfer(transferId: string, from: readonly TransferState[], change: TransferChange, session?: Session): Promise<boolean>
  /** What came by this transaction was our own after all. @returns the transfer that takes it in, if there is one that did not know */
  claimBrought(coin: Coin, tx: string, session: Session): Promise<TransferRecord | undefined>
  /** What is known of its refusals; null: it is refused no more. */
  setRefused(transferId: string, refused: TransferRecord['refused'] | null): Promise<void>
  /** In the chain, as of this time or later, in Unix seconds; none of another seed or wallet. */
  listConfirmedSince(coin: Coin, changedAt: number): Promise<TransferRecord[]>
  /** Of seeds or wallets that are in use no more. */
  listForeign(coin: Coin): Promise<TransferRecord[]>
  /** It is of a seed or wallet that is in use no more, or again. */
  setForeign(transferId: string, isForeign?: boolean): Promise<void>
  /** Owed to anybody, and not known to have arrived, per coin. */
  sumUnpaid(): Promise<Record<Coin, bigint>>
  /** What an agent is owed and has not been paid, and how much of it has no address yet, per coin. */
  sumOwed(agentId: string): Promise<{ all: Record<Coin, bigint>; withoutAddress: Record<Coin, bigint> }>
  readonly models: { payouts: Model<StoredPayout>; transfers: Model<TransferRecord> }
}

/** `free`: owed, and neither frozen, nor held by an unexplained transfer, nor to an address of the venue's own. */
export type PayoutFrom = 'free' | 'owed' | 'held' | 'manual' | { transferId: string }

export interface PayoutChange {
  state: StoredPayout['state']
  changed_at: number
  /** null takes it away. */
  held_by?: string | null
  transfer_id?: string | null
  tx?: string | null
}

/** `place` of the chain of an account that it has again. */
export interface TransferChange {
  state: TransferState
  changed_at: number
  reason?: string
  place?: Pick<TransferRecord, 'account_index' | 'previous'>
}

const no = { $exists: false }
const FREE = { held_by: no, frozen: no, to_self: no }

function filterOf(from: PayoutFrom) {
  if (typeof from === 'object') return { state: 'in_transfer' as const, transfer_id: from.transferId }
  if (from === 'manual') return { state: from }
  if (from === 'held') return { state: 'owed' as const, held_by: { $exists: true } }
  return { state: 'owed' as const, ...(from === 'free' ? FREE : {}) }
}

/** A payout may leave its transfer between the reads of the two; that it does so before every look again is no accident. */
const MOST_LOOKS = 5

export function createPayoutStore(connection: Connection): PayoutStore {
  const payouts = connection.model<StoredPayout>('Payout', payoutSchema)
  const transfers = connection.model<TransferRecord>('Transfer', transferSchema)
  const transfersOf = async (found: readonly StoredPayout[], session?: Session) => {
    const ids = [...new Set(found.flatMap(({ state, transfer_id: id }) => (state === 'in_transfer' && id !== undefined ? [id] : [])))]
    const carrying = ids.length === 0 ? [] : await transfers.find({ _id: { $in: ids } }, null, within(session)).lean<TransferRecord[]>()
    return new Map(carrying.map((transfer) => [transfer._id, transfer]))
  }
  const show = async (found: readonly StoredPayout[], session?: Session, looks = 1): Promise<PayoutRecord[]> => {
    const byId = await transfersOf(found, session)
    const transferOf = ({ transfer_id: id = '' }: StoredPayout) => byId.get(id)
    const overtaken = found.filter((payout) => payout.state === 'in_transfer' && !carries(transferOf(payout)))
    if (overtaken.length === 0 || looks === MOST_LOOKS) return found.map((payout) => showPayout(payout, transferOf(payout)))
    const ids = overtaken.map(({ _id }) => _id)
    const again = await payouts.find({ _id: { $in: ids } }, null, within(session)).lean<StoredPayout[]>()
    const fresh = new Map(again.map((payout) => [payout._id, payout]))
    return show(
      found.map((payout) => fresh.get(payout._id) ?? payout),
      session,
      looks + 1,
    )
  }
  /** Sums of what is in transfers that are not known to be in the chain. */
  const sumOpen = async (filter: object) => {
    const open = await transfers.find({ state: { $in: [...OPEN_TRANSFERS] } }, { payout_ids: 1 }).lean<TransferRecord[]>()
    const ids = open.flatMap(({ payout_ids: carried }) => carried)
    return sumByCoin(payouts, { _id: { $in: ids }, state: 'in_transfer', ...filter }, 'amount_raw')
  }
  const sumUnpaid = async (filter: object) => {
    const [owed, open] = await Promise.all([sumByCoin(payouts, { state: 'owed', ...filter }, 'amount_raw'), sumOpen(filter)])
    return eachCoin((coin) => owed[coin] + open[coin])
  }
  return {
    models: { payouts, transfers },
    async insert(records, session) {
      if (records.length > 0) await payouts.insertMany(records as StoredPayout[], { session, lean: true })
    },
    async find(payoutId, session) {
      const found = await payouts.findOne({ _id: payoutId }, null, within(session)).lean<StoredPayout>()
      return found === null ? undefined : (await show([found], session))[0]
    },
    async findMany(payoutIds, session) {
      return payouts.find({ _id: { $in: [...payoutIds] } }, null, within(session)).lean<StoredPayout[]>()
    },
    async listByOrder(orderId, session) {
      return show(await payouts.find({ order_id: orderId }, null, within(session)).sort({ _id: 1 }).lean<StoredPayout[]>(), session)
    },
    async listUnsendable(coin, state, limit) {
      const filter =
        state === 'owed'
          ? { state, held_by: { $exists: false }, $or: [{ address: no }, { frozen: { $exists: true } }, { to_self: { $exists: true } }] }
          : state === 'held'
            ? { $or: [{ state: 'owed' as const, held_by: { $exists: true } }, await carriedBy(coin, state)] }
            : state === 'manual' || state === 'withdrawn'
              ? { state }
              : await carriedBy(coin, state)
      return show(
        await payouts
          .find({ coin, ...filter }, { pending: 0 })
          .sort({ _id: 1 })
          .limit(limit)
          .lean<StoredPayout[]>(),
      )
    },
    walkSendable(coin, isAsked = false) {
      const filter = { coin, ...filterOf('free'), address: { $exists: true }, ...(isAsked ? { asked_at: { $exists: true } } : {}) }
      return payouts
        .find(filter, { pending: 0 })
        .sort({ address: 1, _id: 1 })
        .lean<PayoutRecord[]>()
        .cursor() as unknown as AsyncIterable<PayoutRecord>
    },
    async mark(payoutIds, field, at) {
      const filter = { _id: { $in: [...payoutIds] }, state: 'owed' as const, [field]: no }
      return (await payouts.updateMany(filter, { $set: { [field]: at } })).modifiedCount
    },
    async markToSelf(payoutIds) {
      const filter = { _id: { $in: [...payoutIds] }, state: 'owed' as const, to_self: no }
      return (await payouts.updateMany(filter, { $set: { to_self: true as const } })).modifiedCount
    },
    async hasAsked(coin) {
      return (await payouts.exists({ coin, ...filterOf('free'), asked_at: { $exists: true } })) !== null
    },
    async countByState() {
      const group = (count: object) => ({ $group: { _id: { coin: '$coin', state: '$state' }, count } })
      type Group = { _id: { coin: Coin; state: string }; count: number }
      const [own, held, carried] = await Promise.all([
        payouts.aggregate<Group>([{ $match: { state: { $ne: 'in_transfer' }, held_by: { $exists: false } } }, group({ $sum: 1 })]),
        payouts.aggregate<Group>([
          { $match: { state: 'owed', held_by: { $exists: true } } },
          { $set: { state: 'held' } },
          group({ $sum: 1 }),
        ]),
        transfers.aggregate<Group>([
          { $match: { state: { $in: TRANSFER_STATES.filter((one) => one !== 'replaced') }, 'payout_ids.0': { $exists: true } } },
          group({ $sum: { $size: '$payout_ids' } }),
        ]),
      ])
      const counts = Map.groupBy([...own, ...held, ...carried], ({ _id }) => `${_id.coin} ${_id.state}`)
      return [...counts.values()].map((groups) => {
        const { coin, state } = (groups[0] as Group)._id
        return { coin, state: state as PayoutState, count: groups.reduce((sum, { count }) => sum + count, 0) }
      })
    },
    async countOpenTransfers() {
      const groups = await transfers.aggregate<{ _id: { coin: Coin; state: TransferState }; count: number }>([
        { $match: { state: { $in: [...OPEN_TRANSFERS] }, foreign: { $exists: false } } },
        { $group: { _id: { coin: '$coin', state: '$state' }, count: { $sum: 1 } } },
      ])
      return groups.map(({ _id, count }) => ({ ..._id, count }))
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
      const update = { $set: set, ...(Object.keys(unset).length === 0 ? {} : { $unset: unset }), $push: { pending: entry } }
      return (await payouts.updateOne({ _id: payoutId, ...filterOf(from) }, update, { session })).matchedCount === 1
    },
    async addEntries(entries, session) {
      const writes = [...entries].map(([_id, pending]) => ({ updateOne: { filter: { _id }, update: { $push: { pending } } } }))
      if (writes.length > 0) await payouts.bulkWrite(writes, { session })
    },
    sumUnpaid: () => sumUnpaid({}),
    async sumOwed(agentId) {
      const withoutAddress = { agent_id: agentId, state: 'owed' as const, address: { $exists: false } }
      const [all, none] = await Promise.all([sumUnpaid({ agent_id: agentId }), sumByCoin(payouts, withoutAddress, 'amount_raw')])
      return { all, withoutAddress: none }
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
    async listTransfersByTx(coin, txs, session) {
      return transfers.find({ tx: { $in: [...txs] }, coin }, null, within(session)).lean<TransferRecord[]>()
    },
    async listTransfers(coin, states, limit) {
      return transfers
        .find({ coin, state: { $in: [...states] }, foreign: { $exists: false } })
        .read('primary')
        .readConcern('majority')
        .sort({ _id: 1 })
        .limit(limit)
        .lean<TransferRecord[]>()
    },
    async listOpenTransfers(accountIndex) {
      const filter = { coin: 'xno' as const, state: { $in: [...OPEN_TRANSFERS] }, account_index: accountIndex }
      // The ids of a run are made in the order of its blocks.
      return transfers.find(filter).read('primary').readConcern('majority').sort({ _id: 1 }).lean<TransferRecord[]>()
    },
    async noteSuccessor(coin, tx, successor, session) {
      return (await transfers.findOneAndUpdate({ coin, tx }, { $set: { successor } }, { session }).lean<TransferRecord>()) ?? undefined
    },
    async findSuccessor(accountIndex, previous, session) {
      const query = transfers.findOne({ account_index: accountIndex, previous }, null, within(session))
      // A transaction has its own.
      if (session === undefined) query.read('primary').readConcern('majority')
      return (await query.lean<TransferRecord>()) ?? undefined
    },
    async listPaidByHand(coin, tx) {
      return payouts.find({ coin, state: 'manual', tx }, { pending: 0 }).lean<StoredPayout[]>()
    },
    async listUnexplained(coin, addresses) {
      const to = addresses === undefined ? { $exists: true } : { $in: [...addresses] }
      return transfers.find({ coin, unexplained_to: to }).sort({ _id: 1 }).lean<TransferRecord[]>()
    },
    async setExplained(coin, tx, session) {
      const filter = { coin, tx, unexplained_to: { $exists: true } }
      return (await transfers.updateOne(filter, { $unset: { unexplained_to: 1 } }, within(session))).matchedCount === 1
    },
    async moveTransfer(transferId, from, { place, ...change }, session) {
      const { state: to } = change
      const update = {
        $set: { ...change, ...place },
        $unset: {
          ...(to === 'held' ? {} : { refused: 1 as const }),
          // What is held stands in nobody's way: nothing is lost if another one spends its inputs.
          ...(to === 'confirmed' || to === 'replaced' || to === 'held' ? { in_flight: 1 as const } : {}),
          // A replaced block gives its place in the account's chain to the one that stands there.
          ...(to === 'replaced' ? { account_index: 1 as const } : {}),
        },
      }
      return (await transfers.updateOne({ _id: transferId, state: { $in: [...from] } }, update, within(session))).matchedCount === 1
    },
    async claimBrought(coin, tx, session) {
      const update = { $unset: { brings: 1 as const, brought_by: 1 as const } }
      return (await transfers.findOneAndUpdate({ coin, brought_by: tx }, update, { session }).lean<TransferRecord>()) ?? undefined
    },
    async setRefused(transferId, refused) {
      const update = refused === null ? { $unset: { refused: 1 as const } } : { $set: { refused } }
      await transfers.updateOne({ _id: transferId, state: { $in: [...OPEN_TRANSFERS, 'confirmed'] } }, update)
    },
    async listConfirmedSince(coin, changedAt) {
      const filter = { coin, state: 'confirmed' as const, changed_at: { $gte: changedAt }, foreign: { $exists: false } }
      return transfers.find(filter).read('primary').readConcern('majority').sort({ _id: 1 }).lean<TransferRecord[]>()
    },
    async listForeign(coin) {
      return transfers.find({ coin, foreign: true }).sort({ _id: 1 }).lean<TransferRecord[]>()
    },
    async setForeign(transferId, isForeign = true) {
      const change = isForeign
        ? { $set: { foreign: true as const }, $unset: { in_flight: 1 as const } }
        : { $unset: { foreign: 1 as const } }
      await transfers.updateOne({ _id: transferId }, change)
    },
  }

  async function carriedBy(coin: Coin, state: TransferState) {
    const carrying = await transfers.find({ coin, state, 'payout_ids.0': { $exists: true } }, { payout_ids: 1 }).lean<TransferRecord[]>()
    return { _id: { $in: carrying.flatMap(({ payout_ids: ids }) => ids) }, state: 'in_transfer' as const }
  }
}
