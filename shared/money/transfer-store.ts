import type { Connection, PipelineStage } from 'mongoose'
import { Overtaken, type Session } from '../platform/database.ts'
import { none, only, schemaOf, some } from '../platform/fields.ts'
import { recordsOf, type Records } from '../platform/records.ts'
import { SECOND_MS } from '../platform/time.ts'
import type { Coin } from './coin.ts'
import { CARRYING, OPEN_TRANSFERS, transferFields } from './transfer.ts'
import type { TransferRecord, TransferState, UnexplainedSend } from './transfer.ts'
import type { TransferUpdate } from './transfer-steps.ts'

const transferSchema = schemaOf<TransferRecord>('transfers', transferFields)
transferSchema.index({ tx: 1, coin: 1 }, { unique: true })
// Two blocks for one place in an account's chain would be a fork: the second is never stored, and so never
// broadcast.
transferSchema.index({ account_index: 1, previous: 1 }, only({ account_index: some }, undefined, true))
transferSchema.index({ coin: 1 }, only({ in_flight: true }, 'one_in_flight', true))
transferSchema.index({ coin: 1, state: 1, _id: 1 })
transferSchema.index({ coin: 1, state: 1, changed_at: 1 })
transferSchema.index({ unexplained_to: 1, coin: 1 }, only({ unexplained_to: some }))
transferSchema.index({ coin: 1, explained: 1 }, only({ paid_again: some }, 'paid_again'))

/** In the order of their ids, without what an election could take back. */
const LASTING = { isLasting: true, sort: { _id: 1 } } as const
/** A primary that is cut off from the others steps down by then. */
const SURELY_WITHIN_MS = 15 * SECOND_MS

export type TransferStore = ReturnType<typeof createTransferStore>

/** How many there are of a coin in a state. */
export interface StateCount<State> {
  readonly coin: Coin
  readonly state: State
  readonly count: number
}

/** Creates the store of transfers. */
export function createTransferStore(connection: Connection) {
  const transfers = recordsOf(connection.model<TransferRecord>('Transfer', transferSchema))
  return {
    models: { transfers: transfers.model },
    insert: (records: readonly TransferRecord[], session?: Session) => transfers.insert(records, session),
    find: (transferId: string, session?: Session) => transfers.one({ _id: transferId }, { session }),
    /** `surely`: from a primary that isn't cut off. @throws an outage if that cannot be had */
    async findByTx(coin: Coin, tx: string, { surely = false }: { surely?: boolean } = {}) {
      if (!surely) return transfers.one({ tx, coin })
      const query = transfers.model.findOne({ tx, coin }).read('primary').readConcern('linearizable')
      return (await query.maxTimeMS(SURELY_WITHIN_MS).lean<TransferRecord>()) ?? undefined
    },
    listByTx: (coin: Coin, txs: readonly string[], session?: Session) =>
      transfers.all({ tx: { $in: [...txs] }, coin }, { session }),
    /** Without those of another wallet. */
    list: (coin: Coin, states: readonly TransferState[], limit: number) =>
      transfers.all({ coin, state: { $in: [...states] }, foreign: none }, { ...LASTING, limit }),
    /** An account's open transfers in the order of their ids, which is that of its chain. */
    listOpen: (coin: Coin, accountIndex: number) =>
      transfers.all({ coin, state: { $in: [...OPEN_TRANSFERS] }, account_index: accountIndex }, LASTING),
    /** Notes the block built on this one; conflicts with its replacement. @returns this one, if on record */
    noteSuccessor: (coin: Coin, tx: string, successor: string, session: Session) =>
      transfers.swap({ coin, tx }, { $set: { successor } }, session),
    findSuccessor: (accountIndex: number, previous: string, session?: Session) =>
      // A transaction has a read concern of its own.
      transfers.one({ account_index: accountIndex, previous }, { session, isLasting: session === undefined }),
    findMany: (ids: readonly string[], session?: Session) =>
      transfers.all({ _id: { $in: [...ids] } }, { session }),
    /** Stores what was decided of a transfer. @throws Overtaken, with nothing stored, if that no longer stands */
    async move(id: string, { from, set, unset }: TransferUpdate, session: Session): Promise<void> {
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
    ...payoutsInTransfers(transfers),
    ...unknownSends(transfers),
  }
}

/** What is asked of the payouts that transfers carry. */
function payoutsInTransfers(transfers: Records<TransferRecord>) {
  const countByState = async (
    match: PipelineStage.Match['$match'],
    numberOfOne: number | { $size: string },
  ): Promise<StateCount<TransferState>[]> => {
    type Group = { _id: Omit<StateCount<TransferState>, 'count'>; count: number }
    const key = { coin: '$coin', state: '$state' }
    const groups = await transfers.model.aggregate<Group>([
      { $match: match },
      { $group: { _id: key, count: { $sum: numberOfOne } } },
    ])
    return groups.map(({ _id, count }) => ({ ..._id, count }))
  }
  const listCarried = async (filter: object): Promise<string[]> => {
    const carrying = await transfers.all({ ...filter, 'payout_ids.0': some }, { fields: { payout_ids: 1 } })
    return carrying.flatMap(({ payout_ids: ids }) => ids)
  }
  return {
    /** Ids of the payouts in transfers of a coin in a state. */
    listPayoutsIn: (coin: Coin, state: TransferState) => listCarried({ coin, state }),
    /** Ids of the payouts in open transfers of all coins. */
    listPayoutsInOpen: () => listCarried({ state: { $in: [...OPEN_TRANSFERS] } }),
    /** How many payouts transfers carry, by coin and the transfers' state. */
    countPayouts: () =>
      countByState({ state: { $in: CARRYING }, 'payout_ids.0': some }, { $size: '$payout_ids' }),
    /** How many open transfers there are by coin and state, without those of another wallet. */
    countOpen: () => countByState({ state: { $in: [...OPEN_TRANSFERS] }, foreign: none }, 1),
  }
}

/** What is asked and noted of transactions of ours that the database did not know, and that sent money away. */
function unknownSends(transfers: Records<TransferRecord>) {
  return {
    /** Those that the operator has not accounted for. */
    listUnexplained: async (coin: Coin) =>
      (await transfers.all(
        { coin, unexplained_to: some, explained: none },
        { sort: { _id: 1 } },
      )) as UnexplainedSend[],
    /** All: what each paid stays known once the operator has accounted for it. */
    listUnknownSends: async (coin: Coin) =>
      (await transfers.all(
        { coin, unexplained_to: some },
        { fields: { signed: 0 }, sort: { _id: 1 } },
      )) as UnexplainedSend[],
    /** Confirmed ones with payouts that were paid otherwise, which the operator has not accounted for. */
    listPaidAgain: (coin: Coin) =>
      transfers.all({ coin, state: 'confirmed', paid_again: some, explained: none }, { sort: { _id: 1 } }),
    setPaidAgain: (transferId: string, payoutIds: readonly string[], session: Session) =>
      transfers.change(
        { _id: transferId },
        { $set: { paid_again: [...payoutIds] }, $unset: { explained: 1 } },
        session,
      ),
    /** @returns false if it was neither unexplained nor had paid something again */
    setExplained: (coin: Coin, tx: string, session?: Session) =>
      transfers.change(
        { coin, tx, explained: none, $or: [{ unexplained_to: some }, { paid_again: some }] },
        { $set: { explained: true as const } },
        session,
      ),
  }
}
