import { Schema, type Connection, type Model } from 'mongoose'
import { within, type Session } from '../database.ts'
import type { Coin } from './coin.ts'
import { heldRaw, type Account, type Balances, type JournalLine, type LineIds } from './journal.ts'
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
journalSchema.index({ from: 1, coin: 1, amount_raw: 1 })
journalSchema.index({ to: 1, coin: 1, amount_raw: 1 })
journalSchema.index({ agent_id: 1, at: 1 }, { partialFilterExpression: { agent_id: { $exists: true } } })
journalSchema.index({ order_id: 1, at: 1 }, { partialFilterExpression: { order_id: { $exists: true } } })
journalSchema.index({ transfer_id: 1 }, { partialFilterExpression: { transfer_id: { $exists: true } } })

/** Which lines; all of them where nothing is named. */
export type LineFilter = Partial<LineIds> & { coin?: Coin; account?: Account }

export interface JournalStore {
  /** In the transaction that makes the moves. @throws a duplicate-key error for a move that was made before */
  write(lines: readonly JournalLine[], session: Session): Promise<void>
  /** The newest first. */
  list(filter: LineFilter, limit: number, session?: Session): Promise<JournalLine[]>
  /** What these lines come to, by account. */
  balances(coin: Coin, filter?: LineFilter, session?: Session): Promise<Balances>
  /** The same of all lines, with all accounts of a kind, such as `order`, together. */
  totals(coin: Coin): Promise<ReadonlyMap<string, bigint>>
  /** What the venue holds. */
  held(coin: Coin, session?: Session): Promise<bigint>
  /** Which of these lines there are. */
  listKnown(ids: readonly string[]): Promise<string[]>
  /** Whether the books were opened from older records. */
  isMigrated(): Promise<boolean>
  readonly models: { journal: Model<JournalLine> }
}

export function createJournalStore(connection: Connection): JournalStore {
  const journal = connection.model<JournalLine>('JournalLine', journalSchema)
  const sumUp = async <Key extends string = Account>(
    coin: Coin,
    ofSide: (side: 'from' | 'to') => { match?: object; key?: object },
    session?: Session,
  ): Promise<ReadonlyMap<Key, bigint>> => {
    const sums = new Map<Key, bigint>()
    for (const side of ['from', 'to'] as const) {
      const { match, key = `$${side}` } = ofSide(side)
      for (const { key: account, sum } of await sumBy<Key, JournalLine>(journal, { coin, ...match }, 'amount_raw', key, session))
        sums.set(account, (sums.get(account) ?? 0n) + (side === 'to' ? sum : -sum))
    }
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
      sumUp(coin, (side) => ({ match: { ...filter, ...(account === undefined ? {} : { [side]: account }) } }), session),
    totals: (coin) => sumUp<string>(coin, (side) => ({ key: { $first: { $split: [`$${side}`, ':'] } } })),
    async listKnown(ids) {
      return (await journal.find({ _id: { $in: [...ids] } }, { _id: 1 }).lean<Pick<JournalLine, '_id'>[]>()).map(({ _id }) => _id)
    },
    isMigrated: () => isOpenedFromRecords(connection),
    async held(coin, session) {
      const outside: Account[] = ['chain', 'paid', 'network_fee']
      return heldRaw(await sumUp(coin, (side) => ({ match: { [side]: { $in: outside } } }), session))
    },
  }
}
