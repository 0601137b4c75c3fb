import { Schema, type Connection, type Model } from 'mongoose'
import { MINUTE_MS, SECOND_MS } from '../time.ts'
import type { Coin } from './coin.ts'

/**
 * What the workers tell the API, and the operator, about a coin: the API knows no node and no wallet, and learns here
 * whether a coin can be used.
 */
export interface CoinRecord {
  _id: Coin
  /** False where the workers have no node for it; the other fields then say nothing. */
  configured: boolean
  /** Whether the last look at the chain succeeded. */
  reachable: boolean
  /** Why not. */
  unreachable?: string
  /** Nano, if there is one: whether the node's websocket brings anything. Without it payments are found by polling, later. */
  websocket?: 'listening' | 'silent'
  /** When a worker last wrote this; Unix seconds. A coin whose worker fell silent is not ready. */
  alive_at: number
  /** When the chain was last looked at successfully; Unix seconds. */
  checked_at?: number
  /** Start of the last round that looked at every open address and succeeded throughout; Unix seconds. */
  round_at?: number
  height?: number
  /** When that was last found to have grown; Unix seconds. */
  grown_at?: number
  /** What keeps the coin from being ready, apart from its chain and the halt: by what it is about, a sentence. */
  problems?: Partial<Record<CoinProblem, string>>
  required_confirmations: number
  /** Counted with the index file beside the seed (address-pool.ts). */
  pool_epoch?: number
  /** When the pool was last found to be the one of the index file; Unix seconds. */
  pool_at?: number
  /** Present while the wallet's chain and what is stored disagree: no payouts, no sweeps, no new addresses (`operator reconcile`). */
  halted?: { at: number; reason: string }
  /** Where swept money comes together and payouts go out from; Nano: account 0 of the seed. */
  treasury_address?: string
  /** Every treasury there ever was. */
  treasuries?: string[]
  /** What is confirmed there, in the smallest unit, as of the last look at it. */
  treasury_raw?: string
  /** What it lacks for the payouts that are due; '0' where they could all be sent. */
  treasury_short_raw?: string
  /** By how much the chain held more than the books said, below 0 where less, and when they were compared; Unix seconds. */
  gap_raw?: string
  gap_at?: number
  /** Of the treasury that they were compared with, and up to where its chain was looked through for deposits. */
  books_address?: string
  books_height?: number
}

/** `wallet`: it cannot be opened. `work`: none can be had for our blocks. `node`: it is not fit for this. */
export const COIN_PROBLEMS = ['wallet', 'work', 'node'] as const
export type CoinProblem = (typeof COIN_PROBLEMS)[number]

export type BooksFields = Pick<CoinRecord, 'gap_raw' | 'gap_at' | 'books_address' | 'books_height'>

export type TreasuryFields = Pick<CoinRecord, 'treasury_address' | 'treasury_raw' | 'treasury_short_raw'>

export interface RateRecord {
  _id: Coin
  /** USD per coin, decimal text. */
  usd: string
  /** The exchanges that agreed, by name. */
  source: string
  /** Unix seconds. */
  at: number
}

/** An address that the workers made ahead. */
export interface AddressRecord {
  /** `<coin>:<index>`. */
  _id: string
  coin: Coin
  index: number
  address: string
  /** `retired`: of a pool that may have been given out by a database that was replaced; never given out again. */
  state: 'free' | 'taken' | 'retired'
  /** Money came here that belongs to no invoice. */
  unassigned?: true
}

/** Clocks differ by less. A rate of a later time was written by a clock that was ahead: it prices nothing, and any other takes its place. */
export const MAX_RATE_AHEAD_MS = MINUTE_MS

/** What the operator asks a worker about a transaction, and the answer. */
export interface LookUpRecord {
  /** `<coin>:<tx>`. */
  _id: string
  /** Unix seconds. */
  at: number
  isAnswered?: boolean
  /** Whom it pays; absent if the chain does not know it. */
  found?: { to: string; amount_raw: string; is_confirmed: boolean }[]
}

const number = { type: Number, required: true } as const
const string = { type: String, required: true } as const
const boolean = { type: Boolean, required: true } as const

const coinSchema = new Schema<CoinRecord>(
  {
    _id: string,
    configured: boolean,
    reachable: boolean,
    unreachable: String,
    websocket: String,
    alive_at: number,
    checked_at: Number,
    round_at: Number,
    height: Number,
    grown_at: Number,
    problems: { type: new Schema(Object.fromEntries(COIN_PROBLEMS.map((name) => [name, String])), { _id: false }), default: undefined },
    required_confirmations: number,
    pool_epoch: Number,
    pool_at: Number,
    halted: { type: new Schema({ at: number, reason: string }, { _id: false }) },
    treasury_address: String,
    treasuries: { type: [String], default: undefined },
    treasury_raw: String,
    treasury_short_raw: String,
    gap_raw: String,
    gap_at: Number,
    books_address: String,
    books_height: Number,
  },
  { collection: 'coins', strict: 'throw', versionKey: false },
)

const rateSchema = new Schema<RateRecord>(
  { _id: string, usd: string, source: string, at: number },
  { collection: 'rates', strict: 'throw', versionKey: false },
)

const addressSchema = new Schema<AddressRecord>(
  { _id: string, coin: string, index: number, address: string, state: string, unassigned: Boolean },
  { collection: 'addresses', strict: 'throw', versionKey: false },
)
const lookUpSchema = new Schema<LookUpRecord>(
  {
    _id: string,
    at: number,
    isAnswered: Boolean,
    found: { type: [new Schema({ to: string, amount_raw: string, is_confirmed: boolean }, { _id: false })], default: undefined },
  },
  { collection: 'look_ups', strict: 'throw', versionKey: false },
)

addressSchema.index({ address: 1 }, { unique: true })
addressSchema.index({ coin: 1, state: 1, index: 1 })
addressSchema.index({ coin: 1, index: 1 }, { name: 'unassigned', partialFilterExpression: { unassigned: true } })

export interface CoinStore {
  findCoin(coin: Coin): Promise<CoinRecord | undefined>
  listCoins(): Promise<CoinRecord[]>
  /** Sets the given fields and `alive_at`. */
  report(
    coin: Coin,
    fields: Partial<
      Omit<CoinRecord, '_id' | 'halted' | 'problems' | 'alive_at' | 'pool_epoch' | 'pool_at' | keyof TreasuryFields | keyof BooksFields>
    >,
    nowSeconds: number,
  ): Promise<void>
  /** The pool is the one of the index file. */
  notePool(coin: Coin, epoch: number, at: number): Promise<void>
  /** What is known of the treasury; says nothing about the watcher. */
  noteTreasury(coin: Coin, fields: TreasuryFields): Promise<void>
  /** undefined: there is none any more. @returns whether that is news */
  noteProblem(coin: Coin, about: CoinProblem, sentence: string | undefined): Promise<boolean>
  noteGap(coin: Coin, fields: BooksFields): Promise<void>
  /** One that is halted already keeps its reason. */
  halt(coin: Coin, at: number, reason: string): Promise<void>
  /** `reason`: only if that is why it is halted. */
  resume(coin: Coin, reason?: string): Promise<boolean>
  findRate(coin: Coin): Promise<RateRecord | undefined>
  listRates(): Promise<RateRecord[]>
  /** Keeps the newer of two rates, by the database's clock: one that lies ahead of that gives way to any. */
  saveRate(rate: RateRecord): Promise<void>
  /** The lowest free address, now taken for good; undefined where the pool is empty. */
  takeAddress(coin: Coin): Promise<AddressRecord | undefined>
  countFree(coin: Coin): Promise<number>
  /** The highest index on record; -1 where there is none. */
  highestIndex(coin: Coin): Promise<number>
  /** @throws a duplicate-key error where an index or address is on record */
  addAddresses(addresses: readonly AddressRecord[]): Promise<void>
  /** No free address of this coin is given out any more. @returns how many those were */
  retireFree(coin: Coin): Promise<number>
  /** Money came here that belongs to no invoice. */
  noteUnassigned(coin: Coin, address: Pick<AddressRecord, 'index' | 'address'>): Promise<void>
  listUnassigned(coin: Coin): Promise<AddressRecord[]>
  findAddresses(coin: Coin, addresses: readonly string[]): Promise<AddressRecord[]>
  /** Those with these indexes that are on record. */
  listAddresses(coin: Coin, indexes: readonly number[]): Promise<AddressRecord[]>
  /** A worker is asked anew; or, with `found`, answers. */
  askLookUp(coin: Coin, tx: string, at: number): Promise<void>
  answerLookUp(coin: Coin, tx: string, found: LookUpRecord['found']): Promise<void>
  /** @returns undefined while there is no answer */
  readLookUp(coin: Coin, tx: string): Promise<LookUpRecord | undefined>
  readonly models: { coins: Model<CoinRecord>; rates: Model<RateRecord>; addresses: Model<AddressRecord> }
}

export function createCoinStore(connection: Connection): CoinStore {
  const coins = connection.model<CoinRecord>('Coin', coinSchema)
  const rates = connection.model<RateRecord>('Rate', rateSchema)
  const addresses = connection.model<AddressRecord>('Address', addressSchema)
  const lookUps = connection.model<LookUpRecord>('LookUp', lookUpSchema)
  return {
    models: { coins, rates, addresses },
    async askLookUp(coin, tx, at) {
      await lookUps.updateOne({ _id: `${coin}:${tx}` }, { $set: { at }, $unset: { isAnswered: 1, found: 1 } }, { upsert: true })
    },
    async answerLookUp(coin, tx, found) {
      const answer = { isAnswered: true, ...(found === undefined ? {} : { found }) }
      await lookUps.updateOne({ _id: `${coin}:${tx}` }, { $set: answer })
    },
    async readLookUp(coin, tx) {
      return (await lookUps.findOne({ _id: `${coin}:${tx}`, isAnswered: true }).lean<LookUpRecord>()) ?? undefined
    },
    async findCoin(coin) {
      return (await coins.findOne({ _id: coin }).lean<CoinRecord>()) ?? undefined
    },
    async listCoins() {
      return coins.find({}).sort({ _id: 1 }).lean<CoinRecord[]>()
    },
    async report(coin, fields, nowSeconds) {
      const first = { configured: true, reachable: false, required_confirmations: 1 }
      const set = { ...fields, alive_at: nowSeconds }
      const onInsert = Object.fromEntries(Object.entries(first).filter(([name]) => !(name in set)))
      await coins.updateOne({ _id: coin }, { $set: set, $setOnInsert: onInsert }, { upsert: true })
    },
    async notePool(coin, epoch, at) {
      const first = { configured: true, reachable: false, alive_at: 0, required_confirmations: 1 }
      await coins.updateOne({ _id: coin }, { $set: { pool_epoch: epoch, pool_at: at }, $setOnInsert: first }, { upsert: true })
    },
    async noteTreasury(coin, fields) {
      const { treasury_address: address } = fields
      await coins.updateOne({ _id: coin }, { $set: fields, ...(address === undefined ? {} : { $addToSet: { treasuries: address } }) })
    },
    async noteProblem(coin, about, sentence) {
      const field = `problems.${about}`
      const first = { configured: true, reachable: false, alive_at: 0, required_confirmations: 1 }
      if (sentence === undefined)
        return (await coins.updateOne({ _id: coin, [field]: { $exists: true } }, { $unset: { [field]: 1 } })).matchedCount === 1
      const before = await coins
        .findOneAndUpdate({ _id: coin }, { $set: { [field]: sentence }, $setOnInsert: first }, { upsert: true })
        .lean<CoinRecord>()
      return before?.problems?.[about] !== sentence
    },
    async noteGap(coin, fields) {
      await coins.updateOne({ _id: coin }, { $set: fields })
    },
    async halt(coin, at, reason) {
      await coins.updateOne({ _id: coin, halted: { $exists: false } }, { $set: { halted: { at, reason } } })
    },
    async resume(coin, reason) {
      const halted = reason === undefined ? { halted: { $exists: true } } : { 'halted.reason': reason }
      return (await coins.updateOne({ _id: coin, ...halted }, { $unset: { halted: 1 } })).matchedCount === 1
    },
    async findRate(coin) {
      return (await rates.findOne({ _id: coin }).lean<RateRecord>()) ?? undefined
    },
    async listRates() {
      return rates.find({}).sort({ _id: 1 }).lean<RateRecord[]>()
    },
    async saveRate({ _id, ...fields }) {
      const isAhead = { $expr: { $gt: [{ $multiply: ['$at', SECOND_MS] }, { $add: [{ $toLong: '$$NOW' }, MAX_RATE_AHEAD_MS] }] } }
      const known = await rates.updateOne({ _id, $or: [{ at: { $lte: fields.at } }, isAhead] }, { $set: fields })
      if (known.matchedCount === 0) await rates.updateOne({ _id }, { $setOnInsert: fields }, { upsert: true })
    },
    async takeAddress(coin) {
      return (
        (await addresses
          .findOneAndUpdate({ coin, state: 'free' }, { $set: { state: 'taken' } }, { sort: { index: 1 }, returnDocument: 'after' })
          .lean<AddressRecord>()) ?? undefined
      )
    },
    async countFree(coin) {
      return addresses.countDocuments({ coin, state: 'free' })
    },
    async highestIndex(coin) {
      const tops = await Promise.all(
        (['free', 'taken', 'retired'] as const).map((state) =>
          addresses.findOne({ coin, state }, { index: 1 }).sort({ index: -1 }).lean<Pick<AddressRecord, 'index'>>(),
        ),
      )
      return Math.max(-1, ...tops.map((top) => top?.index ?? -1))
    },
    async addAddresses(records) {
      await addresses.insertMany([...records], { lean: true })
    },
    async retireFree(coin) {
      return (await addresses.updateMany({ coin, state: 'free' }, { $set: { state: 'retired' } })).modifiedCount
    },
    async listAddresses(coin, indexes) {
      return addresses.find({ _id: { $in: indexes.map((index) => `${coin}:${index}`) } }).lean<AddressRecord[]>()
    },
    async noteUnassigned(coin, { index, address }) {
      const first = { coin, index, address, state: 'retired' as const }
      await addresses.updateOne({ _id: `${coin}:${index}` }, { $set: { unassigned: true }, $setOnInsert: first }, { upsert: true })
    },
    async listUnassigned(coin) {
      return addresses.find({ coin, unassigned: true }).sort({ index: 1 }).lean<AddressRecord[]>()
    },
    async findAddresses(coin, texts) {
      return addresses.find({ address: { $in: [...texts] }, coin }).lean<AddressRecord[]>()
    },
  }
}
