import { Schema, type Connection, type Model } from 'mongoose'
import { within, type Session } from '../database.ts'
import type { Coin } from './coin.ts'
import { heldRaw, type Account, type AccountKind, type Balances, type JournalLine, type LineIds } from './journal.ts'
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

/** Which lines; all of them where nothing is named. */
export type LineFilter = Partial<LineIds> & { coin?: Coin; account?: Account }

export interface Flow {
  from: AccountKind
  to: AccountKind
  sum: bigint
}

export interface JournalStore {
  /** In the transaction that makes the moves. @throws a duplicate-key error for a move that was made before */
  write(lines: readonly JournalLine[], session: Session): Promise<void>
  /** The newest first. */
  list(filter: LineFilter, limit: number, session?: Session): Promise<JournalLine[]>
  /** What these lines come to, by account. */
  balances(coin: Coin, filter?: LineFilter, session?: Session): Promise<Balances>
  /** All that moved between the kinds of accounts, such as `order`, in each direction. */
  flows(coin: Coin): Promise<Flow[]>
  /** What the venue holds. */
  held(coin: Coin, session?: Session): Promise<bigint>
  /** Which of these lines there are. */
  listKnown(ids: readonly string[]): Promise<string[]>
  /** Whether the books were opened from older records. */
  isMigrated(): Promise<boolean>
  readonly models: { journal: Model<JournalLine> }
}

export function createJournalStore(connection: Connection): JournalStore {
  connection.model('Opening', openingSchema)
  const journal = connection.model<JournalLine>('JournalLine', journalSchema)
  const sumUp = async (coin: Coin, matchOf: (side: 'from' | 'to') => object, session?: Session): Promise<Balances> => {
    const sums = new Map<Account, bigint>()
    for (const side of ['from', 'to'] as const)
      for (const { key, sum } of await sumBy<Account, JournalLine>(journal, { coin, ...matchOf(side) }, 'amount_raw', `$${side}`, session))
        sums.set(key, (sums.get(key) ?? 0n) + (side === 'to' ? sum : -sum))
    return sums
  }
  return {
    models: { journal },
    async write(lines, session) {
      if (lines.length > 0) await journal.insertMany([...lines], { session, lean: true })
    },
    async list({ account, ...filter }, limit, session) {
      const match = { ...filter, ...(account === undefined ? {} : { $or: [{ from: account }, { to: account }] }) }
      return journal.find(match, null, within(session)).sort({ at: -1, _id: -1 }).limit(limit).lean<JournalLine[]>()
    },
    balances: (coin, { account, ...filter } = {}, session) =>
      sumUp(coin, (side) => ({ ...filter, ...(account === undefined ? {} : { [side]: account }) }), session),
    async flows(coin) {
      const kindOf = (side: string) => ({ $first: { $split: [side, ':'] } })
      const key = { from: kindOf('$from'), to: kindOf('$to') }
      return (await sumBy<Omit<Flow, 'sum'>, JournalLine>(journal, { coin }, 'amount_raw', key)).map(({ key: way, sum }) => ({
        ...way,
        sum,
      }))
    },
    async listKnown(ids) {
      return (await journal.find({ _id: { $in: [...ids] } }, { _id: 1 }).lean<Pick<JournalLine, '_id'>[]>()).map(({ _id }) => _id)
    },
    isMigrated: () => isOpenedFromRecords(connection),
    async held(coin, session) {
      const outside: Account[] = ['chain', 'paid', 'network_fee']
      return heldRaw(await sumUp(coin, (side) => ({ [side]: { $in: outside } }), session))
    },
  }
}
