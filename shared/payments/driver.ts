import type { AddressSource } from './address-pool.ts'
import type { Holdings } from './books.ts'
import type { Coin } from './coin.ts'
import type { CoinRecord } from './coin-store.ts'
import type { DueGroup, GroupBounds } from './due-payouts.ts'
import type { InvoiceRecord } from './invoice.ts'
import type { Findings } from './reconcile.ts'
import type { LapsedWatch } from './settlement.ts'

/**
 * A coin, as the rounds of the workers see it: coin-round.ts (watching), address-pool.ts, payout-round.ts and reconcile.ts are
 * written once, over this. The folder of a coin has all that is its own.
 *
 * A driver is made for a job or a test and keeps nothing: the database and the chain know everything. Each method throws
 * NodeUnreachable if there is no news and NodeRefused if the node says no; the next round goes on from there.
 */
export interface CoinDriver {
  readonly coin: Coin
  /** What the coin asks for, by itself or by its setting; COIN_FACTS has what an invoice then needs. */
  readonly confirmations: number
  /** @throws StartError if the wallet cannot be opened */
  readonly addresses: AddressSource

  /** Looks at every open address, and takes in what is there. `isAhead`: this machine's clock is, and nothing is put off by it. */
  look(round: { startedAt: number; isAhead: boolean }): Promise<Look>
  /** A look at one invoice, because its owner asked. */
  lookAt(invoice: InvoiceRecord): Promise<void>
  /** Whom a transaction pays, as far as this wallet or node can tell; undefined if it does not know the transaction. */
  findTransaction(tx: string): Promise<FoundPay[] | undefined>
  /** How a lapsed invoice is watched on. */
  watchLapsed(): LapsedWatch

  /**
   * Compares the wallet's chain with what is on record. What the operator has recorded is adopted; the coin is halted because
   * of anything else that the database does not know, and because of another wallet.
   *
   * @returns false if the coin is halted, by this or before
   */
  agrees(): Promise<boolean>
  readonly bounds: PayBounds
  /** Whether a transaction that pays somebody is on record and not confirmed. */
  isUnderWay(): Promise<boolean>
  /**
   * Settles what is under way, then signs, stores and publishes what `next` gives, until it gives nothing or the round's time
   * is over. The recovery rule: the chain as read decides. Each transaction on record is in it, or superseded by what has
   * its place, or published again, whatever it was called before; nothing is signed before all of ours is confirmed.
   */
  pay(next: NextDue): Promise<void>

  /** What the chain holds for the venue, for books.ts. @returns undefined if it cannot be read at rest now */
  holdings(): Promise<Holdings | undefined>

  /**
   * Reads all that the wallet's chain holds and the database does not know, and tells `findings`; settles what is under way
   * by the recovery rule. The coin is halted meanwhile.
   */
  reconcile(before: CoinRecord | undefined, findings: Findings): Promise<WalletState>
}

/** What a transaction pays to one address. */
export interface FoundPay {
  readonly to: string
  readonly amountRaw: bigint
  readonly isConfirmed: boolean
}

/** What became of a look. */
export interface Look {
  /** Sentences about what was found and could not be taken in: nothing lapses then. */
  readonly troubles: readonly string[]
  /** What is reported of the coin. */
  readonly seen: Partial<Pick<CoinRecord, 'height' | 'grown_at'>>
}

/** What a wallet can spend now, and what it holds altogether. */
export interface Funds {
  readonly address: string
  readonly totalRaw: bigint
  readonly spendableRaw: bigint
  /** What is on its way to where it can be spent; asked for if there is too little. */
  readonly onItsWay?: () => Promise<bigint>
}

/**
 * The groups to be paid next, whose sum is at most what can be spent; none if there is no more to do. A group is given once.
 * What the treasury holds, and what it lacks for all that is due, is put on record.
 */
export type NextDue = (funds: Funds) => Promise<DueGroup[]>

/** What is paid at once. */
export interface PayBounds extends GroupBounds {
  maxGroups: number
  /** All groups are in one transaction, so no two of them have one payee, and `goesAlone` says which one has no other beside it. */
  oneTransaction?: { goesAlone(group: DueGroup): boolean }
}

export interface WalletState {
  /** Of the treasury. */
  readonly address: string
  readonly height: number
  readonly totalRaw?: bigint
}
