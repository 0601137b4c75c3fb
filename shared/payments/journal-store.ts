import { Schema, type Connection } from 'mongoose'
import type { Session } from '../servers/database.ts'
import { recordsOf } from '../servers/records.ts'
import type { Coin } from './coin.ts'
import {
  heldRaw,
  type Account,
  type AccountKind,
  type Balances,
  type JournalLine,
  type LineIds,
} from './journal.ts'
import { isOpenedFromRecords } from './journal-opening.ts'
import { sumBy } from './sum-raw.ts'

const string = { type: String, required: true } as const

const journalSchema = new Schema<JournalLine>(
  {
    _id: string,
    at: { type: Number, required: true },
    coin: string,
    from: string,
    to: string,
    amount_raw: string,
    agent_id: String,
    order_id: String,
    invoice_id: String,
    payment_id: String,
    payout_id: String,
    transfer_id: String,
  },
  { collection: 'journal', strict: 'throw', versionKey: false },
)
// With the amount, so that a balance is read from the index alone.
journalSchema.index({ coin: 1, from: 1, to: 1, amount_raw: 1 })
journalSchema.index({ coin: 1, to: 1, amount_raw: 1 })
journalSchema.index({ agent_id: 1, at: 1 }, { partialFilterExpression: { agent_id: { $exists: true } } })
journalSchema.index({ order_id: 1, at: 1 }, { partialFilterExpression: { order_id: { $exists: true } } })
journalSchema.index({ transfer_id: 1 }, { partialFilterExpression: { transfer_id: { $exists: true } } })

/** The mark of journal-opening.ts. */
const openingSchema = new Schema(
  { _id: string, done: Boolean, batches: Number, from_records: Boolean },
  { collection: 'openings', strict: 'throw', versionKey: false },
)

export type LineFilter = Partial<LineIds> & { coin?: Coin; account?: Account }

export interface Flow {
  from: AccountKind
  to: AccountKind
  sum: bigint
}

export function createJournalStore(connection: Connection) {
  connection.model('Opening', openingSchema)
  const journal = recordsOf(connection.model<JournalLine>('JournalLine', journalSchema))
  const sumUp = async (
    coin: Coin,
    matchOf: (side: 'from' | 'to') => object,
    session?: Session,
  ): Promise<Balances> => {
    const sums = new Map<Account, bigint>()
    for (const side of ['from', 'to'] as const)
      for (const { key, sum } of await sumBy<Account, JournalLine>(
        journal.model,
        { coin, ...matchOf(side) },
        'amount_raw',
        `$${side}`,
        session,
      ))
        sums.set(key, (sums.get(key) ?? 0n) + (side === 'to' ? sum : -sum))
    return sums
  }
  return {
    models: { journal: journal.model },
    /**
     * In the transaction that makes the moves.
     *
     * @throws a duplicate-key error for a move that was made before
     */
    write: (lines: readonly JournalLine[], session: Session) => journal.insert(lines, session),
    list: ({ account, ...filter }: LineFilter, limit: number, session?: Session) =>
      journal.all(
        { ...filter, ...(account === undefined ? {} : { $or: [{ from: account }, { to: account }] }) },
        { session, sort: { at: -1, _id: -1 }, limit },
      ),
    balances: (coin: Coin, { account, ...filter }: LineFilter = {}, session?: Session): Promise<Balances> =>
      sumUp(coin, (side) => ({ ...filter, ...(account === undefined ? {} : { [side]: account }) }), session),
    async flows(coin: Coin): Promise<Flow[]> {
      const kindOf = (side: string) => ({ $first: { $split: [side, ':'] } })
      const key = { from: kindOf('$from'), to: kindOf('$to') }
      const found = await sumBy<Omit<Flow, 'sum'>, JournalLine>(journal.model, { coin }, 'amount_raw', key)
      return found.map(({ key: way, sum }) => ({ ...way, sum }))
    },
    /** How money that was no payment came into the books. */
    findDeposit: (coin: Coin, tx: string, session: Session) =>
      journal.one({ _id: { $regex: `^${coin}/${tx}/` } }, { session }),
    /** With what the books have begun, by wallet: see books.ts. */
    listOpenings: (coin: Coin) => journal.all({ _id: { $regex: `^opening/${coin}/` } }, { sort: { at: 1 } }),
    async listKnown(ids: readonly string[]): Promise<string[]> {
      return (await journal.all({ _id: { $in: [...ids] } }, { fields: { _id: 1 } })).map(({ _id }) => _id)
    },
    isMigrated: (): Promise<boolean> => isOpenedFromRecords(connection),
    async held(coin: Coin, session?: Session): Promise<bigint> {
      const outside: Account[] = ['chain', 'paid', 'network_fee']
      return heldRaw(await sumUp(coin, (side) => ({ [side]: { $in: outside } }), session))
    },
  }
}

export type JournalStore = ReturnType<typeof createJournalStore>
