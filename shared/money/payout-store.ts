import { omitUndefined } from '../platform/omit-undefined.ts'
import type { Connection } from 'mongoose'
import { Overtaken, type Session } from '../platform/database.ts'
import { none, only, schemaOf, some } from '../platform/fields.ts'
import { recordsOf } from '../platform/records.ts'
import { indexMarks, makeMark, tellsField, type EventMark } from '../events/mark.ts'
import { PENDING_INDEX, pendingField, type PendingEntry } from '../ledger/pending.ts'
import { SECOND_MS } from '../platform/time.ts'
import type { Coin } from './coin.ts'
import {
  CARRYING,
  OPEN_TRANSFERS,
  carries,
  transferFields,
  type TransferRecord,
  type TransferState,
  type UnexplainedSend,
} from './transfer.ts'
import { payoutFields, showPayout, type PayoutRecord, type PayoutState, type StoredPayout } from './payout.ts'
import { HOLD_REASONS, type HoldReason, type PayoutCondition, type PayoutUpdate } from './payout-steps.ts'
import type { TransferUpdate } from './transfer-steps.ts'
import { eachCoin, sumByCoin } from './sum-raw.ts'

const payoutSchema = schemaOf<StoredPayout>('payouts', { ...payoutFields, ...tellsField, ...pendingField })
payoutSchema.index({ source: 1 }, { unique: true })
payoutSchema.index({ coin: 1, state: 1, address: 1, _id: 1 })
payoutSchema.index({ agent_id: 1, state: 1, _id: -1 })
payoutSchema.index({ coin: 1, asked_at: 1 }, only({ state: 'owed', asked_at: some }, 'asked'))
payoutSchema.index({ order_id: 1, agent_id: 1, _id: -1 }, only({ order_id: some }))
payoutSchema.index({ transfer_id: 1 }, only({ transfer_id: some }))
payoutSchema.index({ 'decided.until': 1 }, only({ state: 'owed', 'decided.until': some }, 'decided'))
indexMarks(payoutSchema)
payoutSchema.index(...PENDING_INDEX)

const transferSchema = schemaOf<TransferRecord>('transfers', transferFields)
transferSchema.index({ tx: 1, coin: 1 }, { unique: true })
// Two blocks for one place in an account's chain would be a fork: the second is never stored, and so never
// broadcast.
transferSchema.index({ account_index: 1, previous: 1 }, only({ account_index: some }, undefined, true))
transferSchema.index({ coin: 1 }, only({ in_flight: true }, 'one_in_flight', true))
transferSchema.index({ coin: 1, state: 1, _id: 1 })
transferSchema.index({ coin: 1, state: 1, changed_at: 1 })
transferSchema.index({ unexplained_to: 1, coin: 1 }, only({ unexplained_to: some }))

/** Filter of payouts that may not have arrived; how far one in a transfer is, only the transfer says. */
export const MAY_BE_UNPAID = { state: { $in: ['owed', 'in_transfer'] as StoredPayout['state'][] } }

const BY_STATE = { coin: '$coin', state: '$state' }

/** In the order of their ids, without what an election could take back. */
const LASTING = { isLasting: true, sort: { _id: 1 } } as const
/** A primary that is cut off from the others steps down by then. */
const SURELY_WITHIN_MS = 15 * SECOND_MS

/** Filters for payouts that a reason doesn't hold at a time (Unix seconds); they say the same as holdsOf(). */
const NOT_HELD = {
  no_address: () => ({ address: some }),
  disputed: () => ({ frozen: none }),
  may_be_paid: () => ({ held_by: none }),
  own_address: () => ({ to_self: none }),
  decided: (at) => ({ 'decided.until': { $not: { $gt: at } } }),
} as const satisfies Record<HoldReason, (at: number) => object>

/** The filter for payouts that are as a decision found them. */
const filterOf = ({ state, transferId, unless, at }: PayoutCondition) => ({
  state,
  ...(transferId === undefined ? {} : { transfer_id: transferId }),
  ...Object.fromEntries(unless.flatMap((why) => Object.entries(NOT_HELD[why](at)))),
})

/** Filter of payouts that may be sent at a time (Unix seconds). */
const sendableAt = (at: number) => filterOf({ state: 'owed', unless: HOLD_REASONS, at })

/** Filter of payouts that a decision keeps back at a time (Unix seconds). */
const decidedAt = (at: number) => ({ state: 'owed' as const, 'decided.until': { $gt: at } })

/** A payout may leave its transfer between the reads of both, but hardly each time. */
const MAX_READS = 5

type Payee = Pick<StoredPayout, '_id' | 'agent_id' | 'order_id' | 'arrival_id'>

/** Whether the ledger and the payee are told of its steps: what came to nobody is no agent's, and was never owed. */
const isTold = ({ arrival_id: id }: Payee): boolean => id === undefined

/** The event that tells the payee of a step of its payout. */
export const payoutMark = ({ _id, agent_id: payee, order_id }: Payee, { data }: PendingEntry): EventMark =>
  makeMark(payee, 'payout', _id, { state: String(data['step']), ...omitUndefined({ order_id }) })

export type PayoutStore = ReturnType<typeof createPayoutStore>

/** Creates the store of payouts and of the transfers that pay them. */
export function createPayoutStore(connection: Connection) {
  const idIn = (ids: readonly string[]) => ({ _id: { $in: [...ids] } })
  const owedTo = (orderId: string, agentId: string) =>
    ({ order_id: orderId, agent_id: agentId, state: 'owed' }) as const
  const payouts = recordsOf(connection.model<StoredPayout>('Payout', payoutSchema))
  const transfers = recordsOf(connection.model<TransferRecord>('Transfer', transferSchema))
  const findTransfersOf = async (found: readonly StoredPayout[], session?: Session) => {
    const inTransfer = found.filter(({ state }) => state === 'in_transfer')
    const ids = new Set(inTransfer.map(({ transfer_id: id = '' }) => id))
    const carrying = ids.size === 0 ? [] : await transfers.all(idIn([...ids]), { session })
    return new Map(carrying.map((transfer) => [transfer._id, transfer]))
  }
  /** Joins stored payouts with their transfers; reads those again whose transfer was replaced meanwhile. */
  const withTransfers = async (stored: readonly StoredPayout[], session?: Session) => {
    let found = stored
    for (let reads = 1; ; reads++) {
      const byId = await findTransfersOf(found, session)
      const transferOf = ({ transfer_id: id = '' }: StoredPayout) => byId.get(id)
      const isOutdated = (one: StoredPayout) => one.state === 'in_transfer' && !carries(transferOf(one))
      const outdated = found.filter(isOutdated)
      if (outdated.length === 0 || reads === MAX_READS)
        return found.map((payout) => showPayout(payout, transferOf(payout)))
      const again = await payouts.all(idIn(outdated.map(({ _id }) => _id)), { session })
      const fresh = new Map(again.map((payout) => [payout._id, payout]))
      found = found.map((payout) => fresh.get(payout._id) ?? payout)
    }
  }
  const sum = (match: object) => sumByCoin(payouts.model, match, 'amount_raw')
  /** Sums what is in open transfers. */
  const sumOpen = async (filter: object) => {
    const open = await transfers.all({ state: { $in: [...OPEN_TRANSFERS] } }, { fields: { payout_ids: 1 } })
    const ids = open.flatMap(({ payout_ids: carried }) => carried)
    return sum({ _id: { $in: ids }, state: 'in_transfer', ...filter })
  }
  const sumUnpaid = async (filter: object) => {
    const [owed, open] = await Promise.all([sum({ state: 'owed', ...filter }), sumOpen(filter)])
    return eachCoin((coin) => owed[coin] + open[coin])
  }
  return {
    models: { payouts: payouts.model, transfers: transfers.model },
    /** @throws a duplicate-key error on `source` when that sum is on record */
    insert: (records: readonly PayoutRecord[], session: Session) =>
      payouts.insert(records as StoredPayout[], session),
    async find(payoutId: string, session?: Session): Promise<PayoutRecord | undefined> {
      const found = await payouts.one({ _id: payoutId }, { session })
      return found && (await withTransfers([found], session))[0]
    },
    findMany: (ids: readonly string[], session?: Session) => payouts.all(idIn(ids), { session }),
    /** An agent's newest payouts of an order, the oldest of them first. */
    async listNewest(orderId: string, agentId: string, limit: number): Promise<PayoutRecord[]> {
      const newest = await payouts.all({ order_id: orderId, agent_id: agentId }, { sort: { _id: -1 }, limit })
      return withTransfers(newest.reverse())
    },
    async listByOrder(orderId: string, session?: Session): Promise<PayoutRecord[]> {
      return withTransfers(await payouts.all({ order_id: orderId }, { session, sort: { _id: 1 } }), session)
    },
    /** Payouts in a state, the oldest first; for `owed` only those that walkSendable() leaves out then. */
    async listUnsendable(coin: Coin, state: PayoutState, at: number, limit: number): Promise<PayoutRecord[]> {
      const filter = { coin, ...(await unsendable(coin, state, at)) }
      return withTransfers(await payouts.all(filter, { fields: { pending: 0 }, sort: { _id: 1 }, limit }))
    },
    /** Payouts that aren't sent yet because their orders were just decided, the next to be sent first. */
    listDecided: (at: number, limit: number) =>
      payouts.all(decidedAt(at), { fields: { pending: 0 }, sort: { 'decided.until': 1 }, limit }),
    countDecided: (at: number): Promise<number> => payouts.model.countDocuments(decidedAt(at)).exec(),
    /**
     * Payouts that may be sent at a time (Unix seconds), by address; with `isAsked` only those that the operator
     * asked for.
     */
    walkSendable(coin: Coin, at: number, isAsked = false): AsyncIterable<PayoutRecord> {
      const filter = { coin, ...sendableAt(at), ...(isAsked ? { asked_at: some } : {}) }
      return payouts.model
        .find(filter, { pending: 0 })
        .sort({ address: 1, _id: 1 })
        .lean<PayoutRecord[]>()
        .cursor()
    },
    /** Marks owed payouts as due, or as asked for. @returns how many were not so before */
    mark: (ids: readonly string[], field: 'due_at' | 'asked_at', at: number) =>
      payouts.changeAll({ ...idIn(ids), state: 'owed', [field]: none }, { $set: { [field]: at } }),
    /** Marks that they go to an address of the venue's own. @returns how many were not marked before */
    markToSelf: (ids: readonly string[]) =>
      payouts.changeAll({ ...idIn(ids), state: 'owed', to_self: none }, { $set: { to_self: true } }),
    /** Whether the operator asked for a payout that may be sent. */
    async hasAsked(coin: Coin, at: number): Promise<boolean> {
      return (await payouts.model.exists({ coin, ...sendableAt(at), asked_at: some })) !== null
    },
    /** How many owed payouts are not sent: for these orders, and to an address of the venue's own. */
    async countKeptBack(coin: Coin, orderIds: readonly string[]) {
      const owed = { coin, state: 'owed' as const }
      const [waitsForChain, toSelf] = await Promise.all([
        payouts.model.countDocuments({ ...owed, order_id: { $in: [...orderIds] } }),
        payouts.model.countDocuments({ ...owed, to_self: true }),
      ])
      return { waitsForChain, toSelf }
    },
    /** How many payouts there are by coin and state. */
    async countByState(): Promise<{ coin: Coin; state: PayoutState; count: number }[]> {
      type Group = { _id: { coin: Coin; state: PayoutState }; count: number }
      const group = (count: object) => ({ $group: { _id: BY_STATE, count } })
      const isHeld = { $and: [{ $eq: ['$state', 'owed'] }, { $ne: [{ $type: '$held_by' }, 'missing'] }] }
      const [own, carried] = await Promise.all([
        payouts.model.aggregate<Group>([
          { $match: { state: { $ne: 'in_transfer' } } },
          { $set: { state: { $cond: [isHeld, 'held', '$state'] } } },
          group({ $sum: 1 }),
        ]),
        transfers.model.aggregate<Group>([
          { $match: { state: { $in: CARRYING }, 'payout_ids.0': some } },
          group({ $sum: { $size: '$payout_ids' } }),
        ]),
      ])
      const counts = Map.groupBy([...own, ...carried], ({ _id }) => `${_id.coin} ${_id.state}`)
      return [...counts.values()].map((groups) => ({
        ...(groups[0] as Group)._id,
        count: groups.reduce((total, { count }) => total + count, 0),
      }))
    },
    /** How many open transfers there are by coin and state, without those of another wallet. */
    async countOpenTransfers(): Promise<{ coin: Coin; state: TransferState; count: number }[]> {
      type Group = { _id: { coin: Coin; state: TransferState }; count: number }
      const groups = await transfers.model.aggregate<Group>([
        { $match: { state: { $in: [...OPEN_TRANSFERS] }, foreign: none } },
        { $group: { _id: BY_STATE, count: { $sum: 1 } } },
      ])
      return groups.map(({ _id, count }) => ({ ..._id, count }))
    },
    /** Gives the agent's payouts of an order that have no address this one. */
    setAddress: (orderId: string, agentId: string, address: string, session?: Session) =>
      payouts.changeAll({ ...owedTo(orderId, agentId), address: none }, { $set: { address } }, session),
    forgetAddress: (orderId: string, agentId: string, session: Session) =>
      payouts.changeAll(owedTo(orderId, agentId), { $unset: { address: 1 } }, session),
    setFrozen(orderId: string, isFrozen: boolean, session: Session) {
      const update = isFrozen ? { $set: { frozen: true as const } } : { $unset: { frozen: 1 as const } }
      return payouts.changeAll({ order_id: orderId, state: 'owed' }, update, session)
    },
    /** Ends that an order's payouts are frozen, as the operator's decision of its dispute does. */
    free: (orderId: string, decided: StoredPayout['decided'], session: Session) =>
      payouts.changeAll(
        { order_id: orderId, state: 'owed', frozen: some },
        { $unset: { frozen: 1 as const }, $set: { decided } },
        session,
      ),
    /** Stores what was decided of a payout. @throws Overtaken, with nothing stored, if that no longer stands */
    async move(
      payout: Payee,
      { condition, set, unset, entry }: PayoutUpdate,
      session: Session,
    ): Promise<void> {
      const gone = Object.fromEntries(unset.map((name) => [name, 1]))
      const update = {
        $set: set,
        ...(unset.length === 0 ? {} : { $unset: gone }),
        ...(isTold(payout) ? { $push: { pending: entry, tells: payoutMark(payout, entry) } } : {}),
      }
      if (!(await payouts.change({ _id: payout._id, ...filterOf(condition) }, update, session)))
        throw new Overtaken(`payout ${payout._id} has changed since it was read`)
    },
    async addEntries(entries: ReadonlyMap<Payee, PendingEntry>, session: Session): Promise<void> {
      const writes = [...entries].flatMap(([payout, pending]) => {
        if (!isTold(payout)) return []
        const update = { $push: { pending, tells: payoutMark(payout, pending) } }
        return [{ updateOne: { filter: { _id: payout._id }, update } }]
      })
      if (writes.length > 0) await payouts.model.bulkWrite(writes, { session })
    },
    sumUnpaid: (): Promise<Record<Coin, bigint>> => sumUnpaid({}),
    /** What an agent is owed and has not been paid, per coin, and how much of that has no address yet. */
    async sumOwed(agentId: string) {
      const nameless = { agent_id: agentId, state: 'owed' as const, address: none }
      const [all, withoutAddress] = await Promise.all([sumUnpaid({ agent_id: agentId }), sum(nameless)])
      return { all, withoutAddress }
    },
    insertTransfers: (records: readonly TransferRecord[], session?: Session) =>
      transfers.insert(records, session),
    findTransfer: (transferId: string, session?: Session) => transfers.one({ _id: transferId }, { session }),
    /** `surely`: from a primary that isn't cut off. @throws an outage if that cannot be had */
    async findTransferByTx(coin: Coin, tx: string, { surely = false }: { surely?: boolean } = {}) {
      if (!surely) return transfers.one({ tx, coin })
      const query = transfers.model.findOne({ tx, coin }).read('primary').readConcern('linearizable')
      return (await query.maxTimeMS(SURELY_WITHIN_MS).lean<TransferRecord>()) ?? undefined
    },
    listTransfersByTx: (coin: Coin, txs: readonly string[], session?: Session) =>
      transfers.all({ tx: { $in: [...txs] }, coin }, { session }),
    /** Without those of another wallet. */
    listTransfers: (coin: Coin, states: readonly TransferState[], limit: number) =>
      transfers.all({ coin, state: { $in: [...states] }, foreign: none }, { ...LASTING, limit }),
    /** An account's open transfers in the order of their ids, which is that of its chain. */
    listOpenTransfers: (coin: Coin, accountIndex: number) =>
      transfers.all({ coin, state: { $in: [...OPEN_TRANSFERS] }, account_index: accountIndex }, LASTING),
    /** Notes the block built on this one; conflicts with its replacement. @returns this one, if on record */
    noteSuccessor: (coin: Coin, tx: string, successor: string, session: Session) =>
      transfers.swap({ coin, tx }, { $set: { successor } }, session),
    findSuccessor: (accountIndex: number, previous: string, session?: Session) =>
      // A transaction has a read concern of its own.
      transfers.one({ account_index: accountIndex, previous }, { session, isLasting: session === undefined }),
    /** Payouts that this transaction paid by hand, as the operator recorded. */
    listPaidByHand: (coin: Coin, tx: string, session?: Session) =>
      payouts.all({ coin, state: 'manual', tx }, { fields: { pending: 0 }, session }),
    /** Transactions that sent money away and that the operator has not accounted for. */
    listUnexplained: async (coin: Coin) =>
      (await transfers.all(
        { coin, unexplained_to: some, explained: none },
        { sort: { _id: 1 } },
      )) as UnexplainedSend[],
    /** Those, and those that he has accounted for: what each paid stays known. */
    listUnknownSends: async (coin: Coin) =>
      (await transfers.all(
        { coin, unexplained_to: some },
        { fields: { signed: 0 }, sort: { _id: 1 } },
      )) as UnexplainedSend[],
    /** @returns false if it was not unexplained */
    setExplained: (coin: Coin, tx: string, session?: Session) =>
      transfers.change(
        { coin, tx, unexplained_to: some, explained: none },
        { $set: { explained: true as const } },
        session,
      ),
    /** What is owed, and not signed, at these addresses, whether it may be sent or not. */
    listOwedAt: (coin: Coin, addresses: readonly string[]) =>
      payouts.all(
        { coin, state: 'owed', address: { $in: [...addresses] } },
        { fields: { pending: 0 }, sort: { _id: 1 } },
      ),
    listHeldBy: (coin: Coin, transferId: string) =>
      payouts.all({ coin, state: 'owed', held_by: transferId }, { fields: { pending: 0 }, sort: { _id: 1 } }),
    findTransfers: (ids: readonly string[], session: Session) => transfers.all(idIn(ids), { session }),
    /** Stores what was decided of a transfer. @throws Overtaken, with nothing stored, if that no longer stands */
    async moveTransfer(id: string, { from, set, unset }: TransferUpdate, session: Session): Promise<void> {
      const gone = Object.fromEntries(unset.map((name) => [name, 1]))
      const update = { $set: set, ...(unset.length === 0 ? {} : { $unset: gone }) }
      if (!(await transfers.change({ _id: id, state: from }, update, session)))
        throw new Overtaken(`transfer ${id} has changed since it was read`)
    },
    setRefused: (transferId: string, refused: TransferRecord['refused'] | null) =>
      transfers.change(
        { _id: transferId, state: { $in: [...OPEN_TRANSFERS, 'confirmed'] } },
        refused === null ? { $unset: { refused: 1 } } : { $set: { refused } },
      ),
    /** Confirmed at this time (Unix seconds) or later; without those of another wallet. */
    listConfirmedSince: (coin: Coin, changedAt: number) =>
      transfers.all({ coin, state: 'confirmed', changed_at: { $gte: changedAt }, foreign: none }, LASTING),
    listForeign: (coin: Coin) => transfers.all({ coin, foreign: true }, { sort: { _id: 1 } }),
    setForeign: (transferId: string, isForeign = true) =>
      transfers.change(
        { _id: transferId },
        isForeign ? { $set: { foreign: true }, $unset: { in_flight: 1 } } : { $unset: { foreign: 1 } },
      ),
  }

  /** The filter of listUnsendable(). */
  async function unsendable(coin: Coin, state: PayoutState, at: number) {
    if (state === 'manual' || state === 'withdrawn') return { state }
    if (state === 'owed') {
      const isDecided = { 'decided.until': { $gt: at } }
      const holds = [{ address: none }, { frozen: some }, { to_self: some }, isDecided]
      return { state, held_by: none, $or: holds }
    }
    const carrying = await transfers.all({ coin, state, 'payout_ids.0': some }, { fields: { payout_ids: 1 } })
    const ids = carrying.flatMap(({ payout_ids: carried }) => carried)
    const carried = { ...idIn(ids), state: 'in_transfer' as const }
    return state === 'held' ? { $or: [{ state: 'owed' as const, held_by: some }, carried] } : carried
  }
}
