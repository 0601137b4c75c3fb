import type { AddressSource } from './address-pool.ts'
import type { Coin } from './coin.ts'
import type { CoinRecord } from './coin-store.ts'
import type { DueGroup, GroupBounds } from './due-payouts.ts'
import type { InvoiceRecord } from './invoice.ts'
import type { Findings } from './reconcile.ts'

/**
 * A coin, as the workers see it. A driver keeps no state: database and chain know everything. Each method
 * throws NodeUnreachable if there is no news and NodeRefused if the node says no; the next round goes on from
 * there.
 */
export interface CoinDriver {
  readonly coin: Coin
  readonly confirmations: number
  /** @throws StartError if the wallet cannot be opened */
  readonly addresses: AddressSource
  /** As far as it has anything there. */
  addressesAt(indexes: readonly number[]): Promise<ReadonlyMap<number, string>>

  /** Looks at every open address, and takes in what is there. @param startedAt Unix seconds */
  look(startedAt: number): Promise<Look>
  lookAt(invoice: InvoiceRecord): Promise<void>
  /** As far as this wallet or node can tell; undefined if it does not know the transaction. */
  findTransaction(tx: string): Promise<FoundPay[] | undefined>

  /**
   * Stops the coin for a transaction of ours nobody recorded, or another wallet.
   *
   * @returns false if stopped
   */
  agrees(): Promise<boolean>
  readonly bounds: PayBounds
  /** Whether a transaction that pays somebody is on record and not confirmed. */
  isUnderWay(): Promise<boolean>
  /** Settles what is under way, then signs, stores and publishes; nothing before all of ours is confirmed. */
  pay(next: NextDue): Promise<void>

  /** The coin is stopped meanwhile. */
  reconcile(before: CoinRecord | undefined, findings: Findings): Promise<WalletState>
  /** What the chain holds now, for books.ts; undefined if it cannot be read at rest. */
  holdings(): Promise<Holdings | undefined>
}

export interface Holdings {
  readonly address: string
  /** Without what isn't counted yet; with what our own transactions moved that may not be in the chain. */
  readonly heldRaw: bigint
  /** Money that came in, for good, and is no payment of an invoice; also what is in the books already. */
  readonly deposits: readonly { source: string; account: 'operator' | 'unassigned'; amountRaw: bigint }[]
  /** Up to where the chain was looked through for those. */
  readonly height?: number
}

export interface FoundPay {
  readonly to: string
  readonly amountRaw: bigint
  readonly isConfirmed: boolean
}

export interface Look {
  /** Sentences about what was found and could not be taken in: nothing expires then. */
  readonly troubles: readonly string[]
  readonly seen: Partial<Pick<CoinRecord, 'height' | 'grown_at'>>
}

export interface Funds {
  readonly address: string
  readonly totalRaw: bigint
  readonly spendableRaw: bigint
  /** What is on its way to where it can be spent; asked for if there is too little. */
  readonly onItsWay?: () => Promise<bigint>
}

/** Their sum is at most what can be spent; a group is given once. */
export type NextDue = (funds: Funds) => Promise<DueGroup[]>

export interface PayBounds extends GroupBounds {
  maxGroups: number
  /** All groups are in one transaction, so no two have one payee; `goesAlone`: with no other beside it. */
  oneTransaction?: { goesAlone(group: DueGroup): boolean }
}

export interface WalletState {
  readonly address: string
  readonly height: number
  readonly totalRaw?: bigint
}
