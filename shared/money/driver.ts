import type { Coin } from './coin.ts'
import type { CoinRecord } from './coin-store.ts'
import type { InvoiceRecord, SeenPayment } from './invoice.ts'
import type { DueGroup, TransferRecord } from './payout.ts'
import type { StrayMoney } from './reconciliation-store.ts'

/**
 * A coin, as the workers see it. A driver keeps no state: database and chain know everything. Each method
 * throws NodeUnreachable or NodeRefused if the node doesn't answer or refuses; the next round goes on from
 * there.
 */
export interface CoinDriver {
  readonly coin: Coin
  readonly confirmations: number
  /** @throws StartError if the wallet cannot be opened */
  readonly addresses: AddressSource
  /** The wallet's own addresses at these indexes, as far as it has any there. */
  addressesAt(indexes: readonly number[]): Promise<ReadonlyMap<number, string>>

  /** Scans every open address, and records the payments found. @param startedAt Unix seconds */
  scan(startedAt: number): Promise<Scan>
  scanInvoice(invoice: InvoiceRecord): Promise<void>
  /** Whom a transaction pays, as far as wallet or node can tell; undefined if they don't know it. */
  findTransaction(tx: string): Promise<FoundPay[] | undefined>

  /** Halts the coin if wallet and database disagree about our transactions or keys. @returns false then */
  checkAgreement(): Promise<boolean>
  readonly bounds: PayBounds
  /** Whether a transaction that carries payouts is on record and not confirmed. */
  isUnderWay(): Promise<boolean>
  /** Completes our open transactions; once all are confirmed, signs, stores and publishes new ones. */
  pay(next: NextDue): Promise<void>

  /** Gives `findings` all that the chain holds. The coin is halted meanwhile. */
  reconcile(before: CoinRecord | undefined, findings: Findings): Promise<WalletState>
  /** What the chain holds now, for books.ts; undefined if it cannot be read at rest. */
  holdings(): Promise<Holdings | undefined>
}

export interface Holdings {
  readonly address: string
  /** Without payments not counted yet; with what our open transactions move, in the chain or not. */
  readonly heldRaw: bigint
  /** Confirmed money that is no payment of an invoice, and not on record yet. */
  readonly unrecorded: readonly Pick<SeenPayment, 'coin' | 'tx' | 'addressIndex' | 'amountRaw'>[]
  /** The height up to which the chain was searched for deposits. */
  readonly height?: number
}

/** What a transaction pays to one address. */
export interface FoundPay {
  readonly to: string
  readonly amountRaw: bigint
  readonly isConfirmed: boolean
}

export interface Scan {
  /** Sentences about payments that could not be recorded: nothing expires then. */
  readonly troubles: readonly string[]
  readonly seen: Partial<Pick<CoinRecord, 'height' | 'height_at' | 'grown_at'>>
  /**
   * Up to when nothing that was sent can be missing, in Unix seconds: the chain has grown after that. If it is
   * absent, up to the start of the round.
   */
  readonly sureUntil?: number
}

export interface Funds {
  readonly address: string
  readonly totalRaw: bigint
  readonly spendableRaw: bigint
  /** What is on its way to where it can be spent; called if there is too little. */
  readonly onItsWay?: () => Promise<bigint>
}

/** Gives groups to be paid, each once, whose sum is at most what can be spent. */
export type NextDue = (funds: Funds) => Promise<DueGroup[]>

export interface PayBounds extends GroupBounds {
  maxGroups: number
  /** If one transaction pays all groups: no two of them have one payee, and some go without any other. */
  oneTransaction?: { goesAlone(group: DueGroup): boolean }
}

export interface WalletState {
  readonly address: string
  readonly height: number
  readonly totalRaw?: bigint
}

export interface GroupBounds {
  maxPayouts: number
  maxRaw?: bigint
}

export interface AddressSource {
  coin: Coin
  indexFile: string
  treasury(): Promise<string>
  /** An object that lives as long as this process has the wallet open. */
  session: object
  /** An index at which a run may begin that no backup knows. */
  beginRun(known: KnownIndexes): Promise<number>
  /** `count` addresses with indexes of `from` or more, each higher than the one before. */
  derive(from: number, count: number): Promise<{ index: number; address: string }[]>
}

export interface KnownIndexes {
  /** The highest index that the database, the index file or the asking process knows; -1 if there is none. */
  highest: number
  /** How long ago this venue is known to have made addresses last; 0 if it never has. */
  ageSeconds: number
}

/** A transaction of ours that the database does not know, as the chain has it. */
export interface FoundTransaction extends Pick<
  TransferRecord,
  'kind' | 'account_index' | 'previous' | 'tx' | 'signed' | 'fee_raw'
> {
  readonly amountRaw: bigint
  /** Addresses outside the wallet that it sent money to. */
  readonly to: readonly string[]
  /** How much it sent to each, if the wallet knows. */
  readonly sent?: readonly { readonly address: string; readonly amountRaw: bigint }[]
  readonly paymentIds?: readonly string[]
}

export type Sending = Pick<FoundTransaction, 'tx' | 'amountRaw' | 'to' | 'sent'>

/** Takes what a driver finds in the chain. */
export interface Findings {
  /** Stores a transaction of ours, unless it is on record. */
  adopt(found: FoundTransaction): Promise<void>
  /** Records what came to an address of ours, which counts once. @returns its id; undefined if it is our own money */
  count(arrival: SeenPayment): Promise<string | undefined>
  /** Notes money at an address of ours that belongs to no invoice. */
  stray(money: StrayMoney): void
}
