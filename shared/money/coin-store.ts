import { omitUndefined } from '../platform/omit-undefined.ts'
import type { Connection } from 'mongoose'
import { MAX_RATE_AGE_MS } from '../platform/limits.ts'
import { SECOND_MS } from '../platform/time.ts'
import type { Session } from '../platform/database.ts'
import { flag, maybe, nested, none, number, schemaOf, some, text, textOf } from '../platform/fields.ts'
import type { RecordOf } from '../platform/fields.ts'
import { recordsOf } from '../platform/records.ts'
import { createAddressStore, type AddressGiver } from './address-store.ts'
import type { Assets, MoneroAssets, NanoAssets } from '../ledger/assets.ts'
import { assetsOf } from './assets.ts'
import type { Coin } from './coin.ts'
import { createControlStore } from './control-store.ts'

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
  /** By how much the ledger's liabilities are above the books', if the hourly comparison found that they differ. */
  ledger_gaps: maybe.nested({
    orders: maybe.text,
    owed: maybe.text,
    invoices: maybe.text,
    remainders: maybe.text,
    unassigned: maybe.text,
  }),
  /** What it holds, as closing entries state it, and when that was read; Unix seconds. */
  assets: maybe.opaque<NanoAssets | MoneroAssets>(),
  assets_at: maybe.number,
  /** When the venue took out what is its own last; Unix seconds. */
  withdrawn_at: maybe.number,
  /** What the operator says he puts in, and that has not come: transactions, and amounts in the smallest unit. */
  announced: maybe.list(text),
  /** When the operator asked for proofs of control, and when making them was tried last; Unix seconds. */
  prove_asked_at: maybe.number,
  prove_tried_at: maybe.number,
  /** The treasury that was compared, and up to which height its chain was searched for deposits. */
  books_address: maybe.text,
  books_height: maybe.number,
}
export type CoinRecord = RecordOf<typeof coinFields>

/** `wallet` can't be opened; no proof of `work` can be had for our blocks; the `node` can't serve us. */
export const COIN_PROBLEMS = ['wallet', 'work', 'node'] as const
export type CoinProblem = (typeof COIN_PROBLEMS)[number]

export type BooksFields = Pick<
  CoinRecord,
  'gap_raw' | 'gap_at' | 'books_address' | 'books_height' | 'assets' | 'assets_at'
>
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

/** What the operator asks a worker about a transaction, and the answer. */
const lookUpFields = {
  _id: text,
  at: number,
  /** How often a payout was recorded as paid by it: see claimTransaction(). */
  claims: maybe.number,
  isAnswered: maybe.flag,
  /** Whom it pays how much; absent if the chain doesn't know the transaction. */
  found: maybe.list(nested({ to: text, amount_raw: text, is_confirmed: flag })),
}
export type LookUpRecord = RecordOf<typeof lookUpFields>

const coinSchema = schemaOf<CoinRecord>('coins', coinFields)
const rateSchema = schemaOf<RateRecord>('rates', rateFields)
const lookUpSchema = schemaOf<LookUpRecord>('look_ups', lookUpFields)

/** Of a coin that nobody has reported on yet. */
const UNKNOWN = { configured: true, reachable: false, alive_at: 0, required_confirmations: 1 }

/** Creates the store of coins, their rates, and what workers are asked to look up. */
export function createCoinStore(connection: Connection, addressGiver?: AddressGiver) {
  const coins = recordsOf(connection.model<CoinRecord>('Coin', coinSchema))
  const rates = recordsOf(connection.model<RateRecord>('Rate', rateSchema))
  const lookUps = recordsOf(connection.model<LookUpRecord>('LookUp', lookUpSchema))
  const controls = createControlStore(connection)
  return {
    models: { coins: coins.model, rates: rates.model },
    controls,
    addresses: createAddressStore(connection, addressGiver),
    /** The sentence that this process logged last about a subject; watch-round.ts. */
    lastLogged: new Map<string, string | undefined>(),
    /** Asks a worker whom a transaction pays; it answers with answerLookUp(). */
    askLookUp: (coin: Coin, tx: string, at: number) =>
      lookUps.put({ _id: `${coin}:${tx}` }, { $set: { at }, $unset: { isAnswered: 1, found: 1 } }),
    answerLookUp: (coin: Coin, tx: string, found: LookUpRecord['found']) =>
      lookUps.change({ _id: `${coin}:${tx}` }, { $set: { isAnswered: true, ...omitUndefined({ found }) } }),
    /** Counts that a payout is recorded as paid by a transaction: so two at once conflict. */
    claimTransaction: (coin: Coin, tx: string, session: Session) =>
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
    noteLedgerGaps: (coin: Coin, gaps: CoinRecord['ledger_gaps']) =>
      coins.change(
        { _id: coin },
        gaps === undefined ? { $unset: { ledger_gaps: 1 } } : { $set: { ledger_gaps: gaps } },
      ),
    /** What the next closing entry states of the coins that are held. @param now Unix seconds */
    async readAssets(now: number): Promise<Assets> {
      const [xno, xmr, proof] = await Promise.all([
        coins.one({ _id: 'xno' }),
        coins.one({ _id: 'xmr' }),
        controls.last('xmr'),
      ])
      return assetsOf({ xno, xmr }, proof?.signature, now)
    },
    /** Notes that the venue takes out what is its own: so two at once conflict. */
    noteWithdrawal: (coin: Coin, at: number, session: Session) =>
      coins.change({ _id: coin }, { $set: { withdrawn_at: at } }, session),
    /** @returns false if it is there already, or as many as may be, or nobody has reported on the coin */
    announce: (coin: Coin, word: string, most: number, session: Session) =>
      coins.change(
        { _id: coin, announced: { $ne: word }, [`announced.${most - 1}`]: none },
        { $push: { announced: word } },
        session,
      ),
    /** @returns whether it was there */
    dropAnnounced: (coin: Coin, word: string, session: Session) =>
      coins.change({ _id: coin, announced: word }, { $pull: { announced: word } }, session),
    askForProofs: (coin: Coin, at: number) => coins.change({ _id: coin }, { $set: { prove_asked_at: at } }),
    noteProveTried: (coin: Coin, at: number) =>
      coins.change({ _id: coin }, { $set: { prove_tried_at: at }, $unset: { prove_asked_at: 1 } }),
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
  }
}

export type CoinStore = ReturnType<typeof createCoinStore>
