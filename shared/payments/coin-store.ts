import { given } from '../foundation/given.ts'
import { randomUUID } from 'node:crypto'
import type { Connection } from 'mongoose'
import { MAX_RATE_AGE_MS } from '../foundation/limits.ts'
import { SECOND_MS } from '../foundation/time.ts'
import type { Session } from '../servers/database.ts'
import { flag, maybe, nested, none, number, only, schemaOf, some, text, textOf } from '../servers/fields.ts'
import type { RecordOf } from '../servers/fields.ts'
import { recordsOf } from '../servers/records.ts'
import type { Coin } from './coin.ts'

/** What the workers tell of a coin: the API knows no node and no wallet. */
const coinFields = {
  _id: textOf<Coin>(),
  /** False once no worker has a node or wallet for it; the other fields then say how it was. */
  configured: flag,
  reachable: flag,
  unreachable: maybe.text,
  /** Nano: whether the node's websocket brings anything. Without it payments are found by polling, later. */
  websocket: maybe.textOf<'listening' | 'silent'>(),
  /** When a worker last wrote this; Unix seconds. A coin whose worker fell silent is not ready. */
  alive_at: number,
  checked_at: maybe.number,
  /** Of the last round that looked at every open address and succeeded throughout; Unix seconds. */
  round_at: maybe.number,
  height: maybe.number,
  /** When that was last found to have grown; Unix seconds. */
  grown_at: maybe.number,
  /** What keeps it from being ready, apart from its chain and a stop: sentences. */
  problems: maybe.nested({ wallet: maybe.text, work: maybe.text, node: maybe.text }),
  required_confirmations: number,
  /** When the pool was last seen to (address-pool.ts); Unix seconds. */
  pool_at: maybe.number,
  /** Wallet and database disagree: no payouts, no sweeps, no new addresses (`operator reconcile`). */
  halted: maybe.nested({ at: number, reason: text, kind: maybe.textOf<HaltKind>() }),
  /** Swept money comes together here, and payouts go out from it; Nano: account 0 of the seed. */
  treasury_address: maybe.text,
  treasuries: maybe.list(text),
  treasury_raw: maybe.text,
  /** What it lacks for the payouts that are due; '0' if all could be sent. */
  treasury_short_raw: maybe.text,
  /** How much more the chain held than the books said, and when that was compared; Unix seconds. */
  gap_raw: maybe.text,
  gap_at: maybe.number,
  /** The treasury that was compared, and up to which height its chain was searched for deposits. */
  books_address: maybe.text,
  books_height: maybe.number,
}
export type CoinRecord = RecordOf<typeof coinFields>

/**
 * Of an earlier version, in which a process with another seed halted the coin: it ends by itself, once the
 * seed that the database knows is back.
 */
export type HaltKind = 'other_seed'

/** `wallet`: it cannot be opened. `work`: none can be had for our blocks. `node`: it is not fit for this. */
export const COIN_PROBLEMS = ['wallet', 'work', 'node'] as const
export type CoinProblem = (typeof COIN_PROBLEMS)[number]

export type BooksFields = Pick<CoinRecord, 'gap_raw' | 'gap_at' | 'books_address' | 'books_height'>

export type TreasuryFields = Pick<CoinRecord, 'treasury_address' | 'treasury_raw' | 'treasury_short_raw'>

const rateFields = {
  _id: textOf<Coin>(),
  /** USD per coin, decimal text. */
  usd: text,
  source: text,
  at: number,
}
export type RateRecord = RecordOf<typeof rateFields>

/** An address that the workers made ahead. */
const addressFields = {
  _id: text,
  coin: textOf<Coin>(),
  index: number,
  address: text,
  /** `retired`: may have been given out by a database that was replaced; never given out again. */
  state: textOf<'free' | 'taken' | 'retired'>(),
  /** The only process that may give it out; it remembers what it gave, whatever becomes of the database. */
  holder: maybe.text,
  unassigned: maybe.flag,
}
export type AddressRecord = RecordOf<typeof addressFields>

/** Who asks for addresses, and the highest index that it has given out, -1 if none. */
export interface AddressStock {
  holder: string
  given: number
}

/** What the operator asks a worker about a transaction, and the answer. */
const lookUpFields = {
  _id: text,
  at: number,
  claims: maybe.number,
  isAnswered: maybe.flag,
  /** Whom it pays; absent if the chain does not know it. */
  found: maybe.list(nested({ to: text, amount_raw: text, is_confirmed: flag })),
}
export type LookUpRecord = RecordOf<typeof lookUpFields>

const coinSchema = schemaOf<CoinRecord>('coins', coinFields)

const rateSchema = schemaOf<RateRecord>('rates', rateFields)

const addressSchema = schemaOf<AddressRecord>('addresses', addressFields)
const lookUpSchema = schemaOf<LookUpRecord>('look_ups', lookUpFields)

addressSchema.index({ address: 1 }, { unique: true })
addressSchema.index({ coin: 1, state: 1, index: 1 })
addressSchema.index({ coin: 1, holder: 1, index: 1 }, only({ state: 'free' }, 'stock'))
addressSchema.index({ coin: 1, index: 1 }, only({ unassigned: true }, 'unassigned'))

/** Further behind the highest that was given out nothing is given out any more. */
const REMEMBERED = 10_000

/** A process among those that give out addresses, and what it has given out of each database's coins. */
export interface AddressGiver {
  readonly id: string
  readonly given: Map<string, { indexes: Set<number>; highest: number }>
}

export const newAddressGiver = (): AddressGiver => ({ id: randomUUID(), given: new Map() })

export const thisProcess = newAddressGiver()

function givenOf({ given }: AddressGiver, place: string): { indexes: Set<number>; highest: number } {
  const known = given.get(place) ?? { indexes: new Set(), highest: -1 }
  given.set(place, known)
  return known
}

/** Of a coin that nobody has told of yet. */
const UNKNOWN = { configured: true, reachable: false, alive_at: 0, required_confirmations: 1 }

export function createCoinStore(connection: Connection, giver: AddressGiver = thisProcess) {
  const holder = giver.id
  const coins = recordsOf(connection.model<CoinRecord>('Coin', coinSchema))
  const rates = recordsOf(connection.model<RateRecord>('Rate', rateSchema))
  const addresses = recordsOf(connection.model<AddressRecord>('Address', addressSchema))
  const lookUps = recordsOf(connection.model<LookUpRecord>('LookUp', lookUpSchema))
  return {
    models: { coins: coins.model, rates: rates.model, addresses: addresses.model },
    askLookUp: (coin: Coin, tx: string, at: number) =>
      lookUps.put({ _id: `${coin}:${tx}` }, { $set: { at }, $unset: { isAnswered: 1, found: 1 } }),
    answerLookUp: (coin: Coin, tx: string, found: LookUpRecord['found']) =>
      lookUps.change({ _id: `${coin}:${tx}` }, { $set: { isAnswered: true, ...given({ found }) } }),
    /** Whoever books what a transaction brought writes here first, so that two at once conflict. */
    async claim(coin: Coin, txs: readonly string[], session: Session): Promise<void> {
      for (const tx of txs) await lookUps.put({ _id: `${coin}:${tx}` }, { $inc: { claims: 1 } }, session)
    },
    readLookUp: (coin: Coin, tx: string) => lookUps.one({ _id: `${coin}:${tx}`, isAnswered: true }),
    findCoin: (coin: Coin) => coins.one({ _id: coin }),
    listCoins: () => coins.all({}, { sort: { _id: 1 } }),
    report(
      coin: Coin,
      fields: Partial<
        Omit<
          CoinRecord,
          '_id' | 'halted' | 'problems' | 'alive_at' | 'pool_at' | keyof TreasuryFields | keyof BooksFields
        >
      >,
      nowSeconds: number,
    ): Promise<void> {
      const set = { ...fields, alive_at: nowSeconds }
      const first = Object.fromEntries(Object.entries(UNKNOWN).filter(([name]) => !(name in set)))
      return coins.put({ _id: coin }, { $set: set, $setOnInsert: first })
    },
    /** Unless it was heard of since. @returns whether that is news */
    switchOff: ({ _id, alive_at }: CoinRecord) =>
      coins.change({ _id, alive_at, configured: true }, { $set: { configured: false, reachable: false } }),
    notePool: (coin: Coin, at: number, session?: Session) =>
      coins.put({ _id: coin }, { $set: { pool_at: at }, $setOnInsert: UNKNOWN }, session),
    /** What is known of the treasury; says nothing about the watcher. */
    noteTreasury(coin: Coin, fields: TreasuryFields, session?: Session): Promise<boolean> {
      const { treasury_address: address } = fields
      return coins.change(
        { _id: coin },
        { $set: fields, ...(address === undefined ? {} : { $addToSet: { treasuries: address } }) },
        session,
      )
    },
    /** undefined: none any more. @returns whether that is news */
    async noteProblem(coin: Coin, about: CoinProblem, sentence: string | undefined): Promise<boolean> {
      const field = `problems.${about}`
      if (sentence === undefined)
        return coins.change({ _id: coin, [field]: some }, { $unset: { [field]: 1 } })
      const update = { $set: { [field]: sentence }, $setOnInsert: UNKNOWN }
      const before = await coins.model
        .findOneAndUpdate({ _id: coin }, update, { upsert: true })
        .lean<CoinRecord>()
      return before?.problems?.[about] !== sentence
    },
    noteGap: (coin: Coin, fields: BooksFields) => coins.change({ _id: coin }, { $set: fields }),
    halt: (coin: Coin, at: number, reason: string, session?: Session) =>
      coins.change({ _id: coin, halted: none }, { $set: { halted: { at, reason } } }, session),
    /** `kind`: only if it is stopped for that. */
    resume: (coin: Coin, { kind, session }: { kind?: HaltKind; session?: Session } = {}) =>
      coins.change(
        { _id: coin, ...(kind === undefined ? { halted: some } : { 'halted.kind': kind }) },
        { $unset: { halted: 1 } },
        session,
      ),
    findRate: (coin: Coin) => rates.one({ _id: coin }),
    listRates: () => rates.all({}, { sort: { _id: 1 } }),
    async saveRate({ _id, ...fields }: RateRecord): Promise<void> {
      // One that lies further ahead than a rate is fresh is of another clock.
      const isOlder = {
        $or: [{ at: { $lte: fields.at } }, { at: { $gt: fields.at + MAX_RATE_AGE_MS / SECOND_MS } }],
      }
      if (!(await rates.change({ _id, ...isOlder }, { $set: fields })))
        await rates.put({ _id }, { $setOnInsert: fields })
    },
    /** Taken for good; undefined if there is none left. */
    async takeAddress(coin: Coin): Promise<AddressRecord | undefined> {
      const given = givenOf(giver, `${connection.name} ${coin}`)
      for (;;) {
        const free = { coin, holder, state: 'free' as const, index: { $gt: given.highest - REMEMBERED } }
        const address = await addresses.model
          .findOneAndUpdate(
            free,
            { $set: { state: 'taken' } },
            { sort: { index: 1 }, returnDocument: 'after' },
          )
          .lean<AddressRecord>()
        if (address === null) return undefined
        // A database that was restored beneath this process calls free what is not.
        if (given.indexes.has(address.index) || address.index <= given.highest - REMEMBERED) continue
        given.indexes.add(address.index)
        given.highest = Math.max(given.highest, address.index)
        if (given.indexes.size > 2 * REMEMBERED)
          for (const index of given.indexes)
            if (index <= given.highest - REMEMBERED) given.indexes.delete(index)
        return address
      }
    },
    stock: (coin: Coin): AddressStock => ({
      holder,
      given: givenOf(giver, `${connection.name} ${coin}`).highest,
    }),
    async countFree(coin: Coin): Promise<Map<string, number>> {
      const found = await addresses.model.aggregate<{ _id: string | null; count: number }>([
        { $match: { coin, state: 'free' } },
        { $group: { _id: '$holder', count: { $sum: 1 } } },
      ])
      return new Map(found.map(({ _id, count }) => [_id ?? '', count]))
    },
    /** The highest index on record; -1 if there is none. */
    async highestIndex(coin: Coin): Promise<number> {
      const states = ['free', 'taken', 'retired'] as const
      const tops = await Promise.all(
        states.map((state) => addresses.one({ coin, state }, { fields: { index: 1 }, sort: { index: -1 } })),
      )
      return Math.max(-1, ...tops.map((top) => top?.index ?? -1))
    },
    /** @throws a duplicate-key error if an index or address is on record */
    addAddresses: (records: readonly AddressRecord[], session?: Session) =>
      addresses.insert(records, session),
    /** @returns how many those were */
    retireFree: (coin: Coin, session?: Session) =>
      addresses.changeAll({ coin, state: 'free' }, { $set: { state: 'retired' } }, session),
    listAddresses: (coin: Coin, indexes: readonly number[]) =>
      addresses.all({ _id: { $in: indexes.map((index) => `${coin}:${index}`) } }),
    noteUnassigned: (coin: Coin, { index, address }: Pick<AddressRecord, 'index' | 'address'>) =>
      addresses.put(
        { _id: `${coin}:${index}` },
        { $set: { unassigned: true }, $setOnInsert: { coin, index, address, state: 'retired' } },
      ),
    listUnassigned: (coin: Coin) => addresses.all({ coin, unassigned: true }, { sort: { index: 1 } }),
    findAddresses: (coin: Coin, texts: readonly string[]) =>
      addresses.all({ address: { $in: [...texts] }, coin }),
  }
}

export type CoinStore = ReturnType<typeof createCoinStore>
