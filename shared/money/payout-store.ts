import { omitUndefined } from '../platform/omit-undefined.ts'
import type { Connection } from 'mongoose'
import { Overtaken, type Session } from '../platform/database.ts'
import { none, only, schemaOf, some } from '../platform/fields.ts'
import { recordsOf, type Records } from '../platform/records.ts'
import { indexMarks, makeMark, tellsField, type EventMark } from '../events/mark.ts'
import { PENDING_INDEX, pendingField, type PendingEntry } from '../ledger/pending.ts'
import type { Coin } from './coin.ts'
import { carries } from './transfer.ts'
import { payoutFields, showPayout, type PayoutRecord, type PayoutState, type StoredPayout } from './payout.ts'
import { HOLD_REASONS, type HoldReason, type PayoutCondition, type PayoutUpdate } from './payout-steps.ts'
import { createTransferStore, type StateCount, type TransferStore } from './transfer-store.ts'
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

/** Filter of payouts that may not have arrived; how far one in a transfer is, only the transfer says. */
export const MAY_BE_UNPAID = { state: { $in: ['owed', 'in_transfer'] as StoredPayout['state'][] } }

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

type Payee = Pick<StoredPayout, '_id' | 'agent_id' | 'order_id' | 'arrival_id' | 'withdraws'>

/**
 * Whether the ledger and the payee are told of its steps: what came to nobody, or is the venue's own, is no agent's, and
 * was never owed.
 */
const isTold = ({ arrival_id: id, withdraws }: Payee): boolean => id === undefined && withdraws !== true

/** The event that tells the payee of a step of its payout. */
export const payoutMark = ({ _id, agent_id: payee, order_id }: Payee, { data }: PendingEntry): EventMark =>
  makeMark(payee, 'payout', _id, { state: String(data['step']), ...omitUndefined({ order_id }) })

export type PayoutStore = ReturnType<typeof createPayoutStore>

const idIn = (ids: readonly string[]) => ({ _id: { $in: [...ids] } })

/** Creates the store of payouts, which are shown with the state of the transfers that carry them. */
export function createPayoutStore(connection: Connection) {
  const transfers = createTransferStore(connection)
  const payouts = recordsOf(connection.model<StoredPayout>('Payout', payoutSchema))
  const withTransfers = joinTransfers(payouts, transfers)
  return {
    models: { payouts: payouts.model },
    transfers,
    /** @throws a duplicate-key error on `source` when that sum is on record */
    insert: (records: readonly PayoutRecord[], session: Session) =>
      payouts.insert(records as StoredPayout[], session),
    async find(payoutId: string, session?: Session): Promise<PayoutRecord | undefined> {
      const found = await payouts.one({ _id: payoutId }, { session })
      return found && (await withTransfers([found], session))[0]
    },
    /** As they are stored: without the states of the transfers that carry them. */
    findStored: (ids: readonly string[], session?: Session) => payouts.all(idIn(ids), { session }),
    /** Payouts in a state, the oldest first; for `owed` only those that walkSendable() leaves out then. */
    async listUnsendable(coin: Coin, state: PayoutState, at: number, limit: number): Promise<PayoutRecord[]> {
      const filter = { coin, ...(await unsendable(transfers, coin, state, at)) }
      return withTransfers(await payouts.all(filter, { fields: { pending: 0 }, sort: { _id: 1 }, limit }))
    },
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
    /** What the venue takes out for itself and has not left yet, by the books. */
    async listWithdrawals(coin: Coin, session?: Session): Promise<PayoutRecord[]> {
      const states = ['owed', 'in_transfer'] as const
      const open = await payouts.all({ coin, withdraws: true, state: { $in: [...states] } }, { session })
      return (await withTransfers(open, session)).filter(({ state }) => state !== 'confirmed')
    },
    /** Payouts that this transaction paid by hand, as the operator recorded. */
    listPaidByHand: (coin: Coin, tx: string, session?: Session) =>
      payouts.all({ coin, state: 'manual', tx }, { fields: { pending: 0 }, session }),
    /** What is owed, and not signed, at these addresses, whether it may be sent or not. */
    listOwedAt: (coin: Coin, addresses: readonly string[]) =>
      payouts.all(
        { coin, state: 'owed', address: { $in: [...addresses] } },
        { fields: { pending: 0 }, sort: { _id: 1 } },
      ),
    listHeldBy: (coin: Coin, transferId: string) =>
      payouts.all({ coin, state: 'owed', held_by: transferId }, { fields: { pending: 0 }, sort: { _id: 1 } }),
    ...payoutsOfOrders(payouts, withTransfers),
    ...payoutsToSend(payouts),
    ...countsOfPayouts(payouts, transfers),
  }
}

type ShowWithTransfers = (stored: readonly StoredPayout[], session?: Session) => Promise<PayoutRecord[]>

/**
 * Makes the function that shows stored payouts with their transfers. It reads those again whose transfer was
 * replaced between the reads of both.
 */
function joinTransfers(payouts: Records<StoredPayout>, transfers: TransferStore): ShowWithTransfers {
  const findTransfersOf = async (found: readonly StoredPayout[], session?: Session) => {
    const inTransfer = found.filter(({ state }) => state === 'in_transfer')
    const ids = new Set(inTransfer.map(({ transfer_id: id = '' }) => id))
    const carrying = ids.size === 0 ? [] : await transfers.findMany([...ids], session)
    return new Map(carrying.map((transfer) => [transfer._id, transfer]))
  }
  return async (stored, session) => {
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
}

/** The filter of listUnsendable(). */
async function unsendable(transfers: TransferStore, coin: Coin, state: PayoutState, at: number) {
  if (state === 'manual' || state === 'withdrawn') return { state }
  if (state === 'owed') {
    return { state, held_by: none, $nor: [sendableAt(at)] }
  }
  const carried = { ...idIn(await transfers.listPayoutsIn(coin, state)), state: 'in_transfer' as const }
  return state === 'held' ? { $or: [{ state: 'owed' as const, held_by: some }, carried] } : carried
}

/** What is asked and noted of the payouts of an order. */
function payoutsOfOrders(payouts: Records<StoredPayout>, withTransfers: ShowWithTransfers) {
  const owedTo = (orderId: string, agentId: string) =>
    ({ order_id: orderId, agent_id: agentId, state: 'owed' }) as const
  return {
    /** An agent's newest payouts of an order, the oldest of them first. */
    async listNewest(orderId: string, agentId: string, limit: number): Promise<PayoutRecord[]> {
      const newest = await payouts.all({ order_id: orderId, agent_id: agentId }, { sort: { _id: -1 }, limit })
      return withTransfers(newest.reverse())
    },
    async listByOrder(orderId: string, session?: Session): Promise<PayoutRecord[]> {
      return withTransfers(await payouts.all({ order_id: orderId }, { session, sort: { _id: 1 } }), session)
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
  }
}

/** What is asked and noted of payouts that may be sent, or are kept back. */
function payoutsToSend(payouts: Records<StoredPayout>) {
  return {
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
  }
}

/** Numbers and sums of payouts. */
function countsOfPayouts(payouts: Records<StoredPayout>, transfers: TransferStore) {
  const sum = (match: object) => sumByCoin(payouts.model, match, 'amount_raw')
  const sumUnpaid = async (filter: object) => {
    const open = { ...idIn(await transfers.listPayoutsInOpen()), state: 'in_transfer', ...filter }
    const [owed, underWay] = await Promise.all([sum({ state: 'owed', ...filter }), sum(open)])
    return eachCoin((coin) => owed[coin] + underWay[coin])
  }
  return {
    /** How many payouts there are by coin and state. */
    async countByState(): Promise<StateCount<PayoutState>[]> {
      const isHeld = { $and: [{ $eq: ['$state', 'owed'] }, { $ne: [{ $type: '$held_by' }, 'missing'] }] }
      const [own, carried] = await Promise.all([
        payouts.model.aggregate<{ _id: Omit<StateCount<PayoutState>, 'count'>; count: number }>([
          { $match: { state: { $ne: 'in_transfer' } } },
          { $set: { state: { $cond: [isHeld, 'held', '$state'] } } },
          { $group: { _id: { coin: '$coin', state: '$state' }, count: { $sum: 1 } } },
        ]),
        transfers.countPayouts(),
      ])
      const all = [...own.map(({ _id, count }) => ({ ..._id, count })), ...carried]
      const counts = Map.groupBy(all, ({ coin, state }) => `${coin} ${state}`)
      return [...counts.values()].map((groups) => ({
        ...(groups[0] as StateCount<PayoutState>),
        count: groups.reduce((total, { count }) => total + count, 0),
      }))
    },
    /** The sum of what is owed or in open transfers, per coin. */
    sumUnpaid: (): Promise<Record<Coin, bigint>> => sumUnpaid({}),
    /** What an agent is owed and has not been paid, per coin, and how much of that has no address yet. */
    async sumOwed(agentId: string) {
      const nameless = { agent_id: agentId, state: 'owed' as const, address: none }
      const [all, withoutAddress] = await Promise.all([sumUnpaid({ agent_id: agentId }), sum(nameless)])
      return { all, withoutAddress }
    },
  }
}
