import { omitUndefined } from '../platform/omit-undefined.ts'
import { randomUUID } from 'node:crypto'
import type { Connection } from 'mongoose'
import { MAX_RATE_AGE_MS } from '../platform/limits.ts'
import { SECOND_MS } from '../platform/time.ts'
import type { Session } from '../platform/database.ts'
import { flag, maybe, nested, none, number, only, schemaOf, some, text, textOf } from '../platform/fields.ts'
import type { RecordOf } from '../platform/fields.ts'
import { recordsOf } from '../platform/records.ts'
import type { Coin } from './coin.ts'

/** What the workers store about a coin, since the API has no node and no wallet. */
const coinFields = {
  _id: textOf<Coin>(),
  /** False once no worker has a node or wallet for it; the other fields are then as they last were. */
  configured: flag,
  reachable: flag,
  unreachable: maybe.text,
  /** Nano: whether the node's websocket delivers. Without it payments are found later, by polling. */
  websocket: maybe.textOf<'listening' | 'silent'>(),
  /** When a worker last reported; Unix seconds. A coin whose worker fell silent is not ready. */
  alive_at: number,
  checked_at: maybe.number,
  /** Up to when the last round that scanned every open address without a failure is sure; Unix seconds. */
  round_at: maybe.number,
  height: maybe.number,
  /** When `height` was last read; Unix seconds. */
  height_at: maybe.number,
  /** When `height` was last found to have grown; Unix seconds. */
  grown_at: maybe.number,
  /** Sentences that say what else keeps it from being ready; see COIN_PROBLEMS. */
  problems: maybe.nested({ wallet: maybe.text, work: maybe.text, node: maybe.text }),
  required_confirmations: number,
  /** When its address pool was last filled (address-pool.ts); Unix seconds. */
  pool_at: maybe.number,
  /** Wallet and database disagree: no payouts, no sweeps, no new addresses (`operator reconcile`). */
  halted: maybe.nested({ at: number, reason: text }),
  /** Where swept money arrives and payouts are sent from; Nano: account 0 of the seed. */
  treasury_address: maybe.text,
  treasuries: maybe.list(text),
  treasury_raw: maybe.text,
  /** What the treasury lacks for the payouts that are due; '0' if all can be sent. */
  treasury_short_raw: maybe.text,
  /** The fee for which payouts that are due were not signed, and their sum. */
  fee_high: maybe.nested({ at: number, fee_raw: text, sum_raw: text }),
  /** How much more the chain holds than the books say, and when they were compared; Unix seconds. */
  gap_raw: maybe.text,
  gap_at: maybe.number,
  /** The treasury that was compared, and up to which height its chain was searched for deposits. */
  books_address: maybe.text,
  books_height: maybe.number,
}
export type CoinRecord = RecordOf<typeof coinFields>

/** `wallet` can't be opened; no proof of `work` can be had for our blocks; the `node` can't serve us. */
export const COIN_PROBLEMS = ['wallet', 'work', 'node'] as const
export type CoinProblem = (typeof COIN_PROBLEMS)[number]

export type BooksFields = Pick<CoinRecord, 'gap_raw' | 'gap_at' | 'books_address' | 'books_height'>
export type TreasuryFields = Pick<CoinRecord, 'treasury_address' | 'treasury_raw' | 'treasury_short_raw'>
/** What a coin's watcher reports. */
type WatchFields = Omit<
  CoinRecord,
  | '_id'
  | 'halted'
  | 'problems'
  | 'fee_high'
  | 'alive_at'
  | 'pool_at'
  | keyof TreasuryFields
  | keyof BooksFields
>

const rateFields = {
  _id: textOf<Coin>(),
  /** USD per coin, decimal text. */
  usd: text,
  source: text,
  at: number,
}
export type RateRecord = RecordOf<typeof rateFields>

/** An address of the pool (address-pool.ts), or one that money came to without an invoice. */
const addressFields = {
  _id: text,
  coin: textOf<Coin>(),
  index: number,
  /** The first index of the run that it is of (address-pool.ts); absent on older records. */
  run: maybe.number,
  address: text,
  /** `retired`: may have been given out by a database that was replaced; never given out again. */
  state: textOf<'free' | 'taken' | 'retired'>(),
  /** The AddressGiver that alone may give it out. */
  holder: maybe.text,
  /** Money that belongs to no invoice was found there. */
  unassigned: maybe.flag,
  /** Of an invoice that the database may have forgotten: when to scan it next, and until when; Unix seconds. */
  forgotten: maybe.nested({ look_after: number, until: number }),
}
export type AddressRecord = RecordOf<typeof addressFields>

/** An AddressGiver's id, and the highest index that it has given out, -1 before the first. */
export interface AddressStock {
  holder: string
  given: number
}

/** What the operator asks a worker about a transaction, and the answer. */
const lookUpFields = {
  _id: text,
  at: number,
  /** How often a payout was recorded as paid by it: see claim(). */
  claims: maybe.number,
  isAnswered: maybe.flag,
  /** Whom it pays how much; absent if the chain doesn't know the transaction. */
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
addressSchema.index({ coin: 1, 'forgotten.look_after': 1 }, only({ forgotten: some }, 'forgotten'))

/** A process remembers the last 10,000 indexes given out of a run, and gives out none that lies further back. */
const REMEMBERED = 10_000

/** A process that gives out addresses, and what it has given out, by database, coin and run. */
export interface AddressGiver {
  readonly id: string
  readonly given: Map<string, { indexes: Set<number>; highest: number }>
}

/** Makes a giver that has given out nothing. */
export const newAddressGiver = (): AddressGiver => ({ id: randomUUID(), given: new Map() })

/** It outlives every store: a process must not forget what it gave out when it connects anew. */
export const thisProcess = newAddressGiver()

/** Of a coin that nobody has reported on yet. */
const UNKNOWN = { configured: true, reachable: false, alive_at: 0, required_confirmations: 1 }

/** Creates the store of coins, their rates and addresses, and of what workers are asked to look up. */
export function createCoinStore(connection: Connection, giver: AddressGiver = thisProcess) {
  const holder = giver.id
  const placesOf = (coin: Coin) => `${connection.name} ${coin} `
  const givenOf = (coin: Coin, run = 0) => {
    const place = `${placesOf(coin)}${run}`
    const given = giver.given.get(place) ?? { indexes: new Set<number>(), highest: -1 }
    giver.given.set(place, given)
    return given
  }
  const coins = recordsOf(connection.model<CoinRecord>('Coin', coinSchema))
  const rates = recordsOf(connection.model<RateRecord>('Rate', rateSchema))
  const addresses = recordsOf(connection.model<AddressRecord>('Address', addressSchema))
  const lookUps = recordsOf(connection.model<LookUpRecord>('LookUp', lookUpSchema))
  return {
    models: { coins: coins.model, rates: rates.model, addresses: addresses.model },
    /** The sentence that this process logged last about a subject; watch-round.ts. */
    lastLogged: new Map<string, string | undefined>(),
    /** Asks a worker whom a transaction pays; it answers with answerLookUp(). */
    askLookUp: (coin: Coin, tx: string, at: number) =>
      lookUps.put({ _id: `${coin}:${tx}` }, { $set: { at }, $unset: { isAnswered: 1, found: 1 } }),
    answerLookUp: (coin: Coin, tx: string, found: LookUpRecord['found']) =>
      lookUps.change({ _id: `${coin}:${tx}` }, { $set: { isAnswered: true, ...omitUndefined({ found }) } }),
    /** Counts that a payout is recorded as paid by a transaction: so two at once conflict. */
    claim: (coin: Coin, tx: string, session: Session) =>
      lookUps.put({ _id: `${coin}:${tx}` }, { $inc: { claims: 1 } }, session),
    readLookUp: (coin: Coin, tx: string) => lookUps.one({ _id: `${coin}:${tx}`, isAnswered: true }),
    findCoin: (coin: Coin) => coins.one({ _id: coin }),
    listCoins: () => coins.all({}, { sort: { _id: 1 } }),
    /** Stores what a worker found, and that it is alive. */
    report(coin: Coin, fields: Partial<WatchFields>, nowSeconds: number): Promise<void> {
      const set = { ...fields, alive_at: nowSeconds }
      const first = Object.fromEntries(Object.entries(UNKNOWN).filter(([name]) => !(name in set)))
      return coins.put({ _id: coin }, { $set: set, $setOnInsert: first })
    },
    /** @returns false if a worker has reported since, or it was switched off before */
    switchOff: ({ _id, alive_at }: CoinRecord) =>
      coins.change({ _id, alive_at, configured: true }, { $set: { configured: false, reachable: false } }),
    notePool: (coin: Coin, at: number, session?: Session) =>
      coins.put({ _id: coin }, { $set: { pool_at: at }, $setOnInsert: UNKNOWN }, session),
    /** Stores what is known of the treasury; its address joins those that the coin has had. */
    noteTreasury(coin: Coin, fields: TreasuryFields, session?: Session): Promise<boolean> {
      const { treasury_address: address } = fields
      const added = address === undefined ? {} : { $addToSet: { treasuries: address } }
      return coins.change({ _id: coin }, { $set: fields, ...added }, session)
    },
    /** Stores a problem, or with undefined its end. @returns whether that changed anything */
    async noteProblem(coin: Coin, about: CoinProblem, sentence: string | undefined): Promise<boolean> {
      const field = `problems.${about}`
      if (sentence === undefined)
        return coins.change({ _id: coin, [field]: some }, { $unset: { [field]: 1 } })
      const update = { $set: { [field]: sentence }, $setOnInsert: UNKNOWN }
      const stored = coins.model.findOneAndUpdate({ _id: coin }, update, { upsert: true })
      const before = await stored.lean<CoinRecord>()
      return before?.problems?.[about] !== sentence
    },
    /** @returns whether a fee that was too high is stored now, and none was before */
    async noteHighFee(coin: Coin, fee: CoinRecord['fee_high']): Promise<boolean> {
      if (fee !== undefined) return coins.change({ _id: coin, fee_high: none }, { $set: { fee_high: fee } })
      await coins.change({ _id: coin, fee_high: some }, { $unset: { fee_high: 1 } })
      return false
    },
    noteGap: (coin: Coin, fields: BooksFields) => coins.change({ _id: coin }, { $set: fields }),
    halt: (coin: Coin, at: number, reason: string, session?: Session) =>
      coins.change({ _id: coin, halted: none }, { $set: { halted: { at, reason } } }, session),
    resume: (coin: Coin, session?: Session) =>
      coins.change({ _id: coin, halted: some }, { $unset: { halted: 1 } }, session),
    findRate: (coin: Coin) => rates.one({ _id: coin }),
    listRates: () => rates.all({}, { sort: { _id: 1 } }),
    /** Stores a rate, unless a newer one is stored. */
    async saveRate({ _id, ...fields }: RateRecord): Promise<void> {
      // A stored rate that lies further ahead than a rate stays fresh is of another clock.
      const before = [{ at: { $lte: fields.at } }, { at: { $gt: fields.at + MAX_RATE_AGE_MS / SECOND_MS } }]
      if (!(await rates.change({ _id, $or: before }, { $set: fields })))
        await rates.put({ _id }, { $setOnInsert: fields })
    },
    /** Takes an address of this process's stock, for good; undefined if there is none left. */
    async takeAddress(coin: Coin): Promise<AddressRecord | undefined> {
      for (;;) {
        const free = { coin, holder, state: 'free' as const }
        const options = { sort: { index: 1 }, returnDocument: 'after' } as const
        const taken = addresses.model.findOneAndUpdate(free, { $set: { state: 'taken' } }, options)
        const address = await taken.lean<AddressRecord>()
        if (address === null) return undefined
        const given = givenOf(coin, address.run)
        // A database that was restored beneath this process may call an address free that was given out.
        if (given.indexes.has(address.index) || address.index <= given.highest - REMEMBERED) continue
        given.indexes.add(address.index)
        given.highest = Math.max(given.highest, address.index)
        if (given.indexes.size > 2 * REMEMBERED)
          for (const index of given.indexes)
            if (index <= given.highest - REMEMBERED) given.indexes.delete(index)
        return address
      }
    },
    /** This process's holder id, and the highest index that it has given out. */
    stock(coin: Coin): AddressStock {
      const places = [...giver.given].filter(([place]) => place.startsWith(placesOf(coin)))
      return { holder, given: Math.max(-1, ...places.map(([, { highest }]) => highest)) }
    },
    /** How many free addresses each holder has. */
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
      const reading = { fields: { index: 1 }, sort: { index: -1 } } as const
      const tops = await Promise.all(states.map((state) => addresses.one({ coin, state }, reading)))
      return Math.max(-1, ...tops.map((top) => top?.index ?? -1))
    },
    /** Whether there is an address on record with an index from `from` to `to`. */
    async hasAddressIn(coin: Coin, from: number, to: number): Promise<boolean> {
      const states = ['free', 'taken', 'retired'] as const
      const filter = { coin, state: { $in: [...states] }, index: { $gte: from, $lte: to } }
      return (await addresses.model.exists(filter)) !== null
    },
    /** Indexes on record in a state above `after`, in their order. */
    async listIndexes(coin: Coin, state: AddressRecord['state'], after: number, limit: number) {
      const filter = { coin, state, index: { $gt: after } }
      const found = await addresses.all(filter, { fields: { index: 1 }, sort: { index: 1 }, limit })
      return found.map(({ index }) => index)
    },
    /** @throws a duplicate-key error if an index or address is on record */
    addAddresses: (records: readonly AddressRecord[], session?: Session) =>
      addresses.insert(records, session),
    /** Retires all free addresses, so that none of them is ever given out. */
    retireFree: (coin: Coin, session?: Session) =>
      addresses.changeAll({ coin, state: 'free' }, { $set: { state: 'retired' } }, session),
    listAddresses: (coin: Coin, indexes: readonly number[]) =>
      addresses.all({ _id: { $in: indexes.map((index) => `${coin}:${index}`) } }),
    /** Marks an address as one where money that belongs to no invoice was found. */
    noteUnassigned: (coin: Coin, { index, address }: Pick<AddressRecord, 'index' | 'address'>) =>
      addresses.put(
        { _id: `${coin}:${index}` },
        { $set: { unassigned: true }, $setOnInsert: { coin, index, address, state: 'retired' } },
      ),
    /** Marks addresses of invoices that may be forgotten, so that they are scanned until then. */
    async noteForgotten(
      coin: Coin,
      found: readonly Pick<AddressRecord, 'index' | 'address'>[],
      until: number,
    ) {
      const writes = found.map(({ index, address }) => ({
        updateOne: {
          filter: { _id: `${coin}:${index}` },
          update: {
            $set: { forgotten: { look_after: 0, until } },
            $setOnInsert: { coin, index, address, state: 'retired' as const },
          },
          upsert: true,
        },
      }))
      if (writes.length > 0) await addresses.model.bulkWrite(writes)
    },
    /** Those of them that are to be scanned now. */
    listForgottenDue: (coin: Coin, now: number, limit: number) =>
      addresses.all(
        { coin, 'forgotten.look_after': { $lte: now } },
        { sort: { 'forgotten.look_after': 1 }, limit },
      ),
    /** Puts their next scan off; those whose time is over are scanned no more. */
    async postponeForgotten(found: readonly AddressRecord[], now: number, scanAfter: number): Promise<void> {
      const among = { _id: { $in: found.map(({ _id }) => _id) } }
      await addresses.changeAll(
        { ...among, 'forgotten.until': { $gt: now } },
        { $set: { 'forgotten.look_after': scanAfter } },
      )
      await addresses.changeAll({ ...among, 'forgotten.until': { $lte: now } }, { $unset: { forgotten: 1 } })
    },
    listUnassigned: (coin: Coin) => addresses.all({ coin, unassigned: true }, { sort: { index: 1 } }),
    findAddresses: (coin: Coin, texts: readonly string[]) =>
      addresses.all({ address: { $in: [...texts] }, coin }),
  }
}

export type CoinStore = ReturnType<typeof createCoinStore>
