import type { Assets, MoneroAssets, NanoAssets } from '../ledger/assets.ts'
import type { Coin } from './coin.ts'
import type { ControlProof } from './control-store.ts'
import type { CoinProblem, CoinRecord } from './coin-store.ts'
import type { AddressRecord } from './address-store.ts'
import type { ArrivalRecord, PaymentRecord, SeenPayment } from './arrival.ts'
import type { InvoiceRecord } from './invoice.ts'
import type { NodeUnreachable } from './node-errors.ts'
import type { DueGroup } from './payout.ts'
import type { TransferRecord } from './transfer.ts'
import type { StrayMoney } from './reconciliation-store.ts'

/**
 * A coin, as the workers see it. A driver returns what it saw, and the round that asked it puts that on record. It
 * keeps no state: database and chain know everything. Each method
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

  /** Scans every open address. @param startedAt Unix seconds */
  scan(startedAt: number): Scan
  /** Scans one invoice's address; absent if a scan reads all addresses at once anyway. */
  scanInvoice?(invoice: InvoiceRecord): Scan
  /** Present without scanInvoice(): whoever asks before a scan begins shares it. */
  shareScan?(scan: () => Promise<RecordedScan>): Promise<RecordedScan>
  /** Whom a transaction pays, as far as wallet or node can tell; undefined if they don't know it. */
  findTransaction(tx: string): Promise<FoundPay[] | undefined>

  /** Compares wallet and database: our transactions and keys. */
  checkAgreement(): Promise<Agreement>
  readonly bounds: PayBounds
  /** Whether a transaction that carries payouts is on record and not confirmed. */
  isUnderWay(): Promise<boolean>
  /**
   * Completes our open transactions; once all are confirmed, signs, stores and publishes new ones.
   *
   * @returns what came of comparing wallet and database before that: it pays only as long as they agree
   */
  pay(next: NextDue): Promise<Agreement>
  /**
   * Brings the money of invoices' addresses to the treasury, and pays like pay() meanwhile. Absent if the coin's
   * wallet has one balance.
   */
  sweep?(round: SweepRound): Promise<void>

  /** Gives `findings` all that the chain holds. The coin is halted meanwhile. */
  reconcile(before: CoinRecord | undefined, findings: Findings): Promise<WalletState>
  /** What the chain holds now, for books.ts; undefined if it cannot be read at rest. */
  holdings(): Promise<Holdings | undefined>
  /**
   * Makes proofs that the wallet controls what a seal states: a signature for each of its accounts that is the
   * wallet's, or one proof of all of the wallet; none if it holds nothing.
   */
  proveControl(seal: ControlledSeal): Promise<MadeProof[]>
}

/** What a proof of control is about: a seal, and what it states. */
export interface ControlledSeal {
  readonly seq: number
  /** SHA-256 of its canonical payload, as hex. */
  readonly hash: string
  readonly assets: Assets
}

/** What a wallet has made for one account. */
export type MadeProof = Pick<ControlProof, 'account' | 'message' | 'signature' | 'total_raw'>

export interface Holdings {
  readonly address: string
  /** Without payments not counted yet; with what our open transactions move, in the chain or not. */
  readonly heldRaw: bigint
  /** Confirmed money that is no payment of an invoice, and not on record yet. */
  readonly unrecorded: readonly Pick<SeenPayment, 'coin' | 'tx' | 'addressIndex' | 'amountRaw'>[]
  /** The same as closing entries state it. */
  readonly assets: NanoAssets | MoneroAssets
  /** The height up to which the chain was searched for deposits. */
  readonly height?: number
}

/** What a transaction pays to one address. */
export interface FoundPay {
  readonly to: string
  readonly amountRaw: bigint
  readonly isConfirmed: boolean
}

/** Yields what is seen, in the order in which it has to go on record; goes on once that is done. */
export type Scan = AsyncGenerator<Sighting, ScanEnd>

/** Wallet or chain and the database disagree about our transactions or keys: the coin has to be halted. */
export interface Difference {
  readonly kind: 'differs'
  readonly why: string
  /** What makes the difference smaller, and would hide it if the coin weren't halted before. */
  readonly onceHalted?: () => Promise<void>
}

/** What came of comparing wallet or chain with the database. Nothing is signed unless they agree. */
export type Agreement =
  | { readonly kind: 'agrees' }
  | Difference
  /** The coin is halted, the wallet is another than the database knows, or no round has looked at the chain yet. */
  | { readonly kind: 'not compared' }

export const AGREES = { kind: 'agrees' } as const satisfies Agreement
export const NOT_COMPARED = { kind: 'not compared' } as const satisfies Agreement

export type Sighting =
  /** Payments to addresses of ours, and sentences about what may be payments and can't be told now. */
  | {
      readonly kind: 'payments'
      readonly found: readonly SeenPayment[]
      readonly troubles: readonly string[]
      /** Ids of expired invoices: all that their addresses have is among these payments. */
      readonly expired?: readonly string[]
    }
  /** Payments on record that the chain lacks. */
  | { readonly kind: 'lost'; readonly payments: readonly PaymentRecord[] }
  /** Payments on record that aren't shown from this height on, and not long enough to be lost; or are again. */
  | {
      readonly kind: 'missing'
      readonly paymentIds: readonly string[]
      readonly since: number | undefined
    }
  /** Scanned addresses of invoices that the database may have forgotten, and those where money was found now. */
  | {
      readonly kind: 'forgotten'
      readonly scanned: readonly AddressRecord[]
      readonly holding: readonly AddressRecord[]
    }
  /** Final transactions of ours that the operator has recorded as payouts by hand. */
  | { readonly kind: 'recorded by hand'; readonly transactions: readonly FoundTransaction[] }
  | { readonly kind: 'treasury'; readonly address: string }
  /** A problem of the coin that begins; without a sentence it is over. */
  | { readonly kind: 'problem'; readonly about: CoinProblem; readonly sentence: string | undefined }
  | Difference

export interface ScanEnd {
  /** What the coin's record says of its node from now on. */
  readonly seen: Partial<Pick<CoinRecord, 'height' | 'height_at' | 'grown_at'>>
  /** Up to where wallet and database agree: the height on record, if all that was seen is on record. */
  readonly agreedHeight?: number
  /**
   * Up to when nothing that was sent can be missing, in Unix seconds: the chain has grown after that. If it is
   * absent, up to the start of the round.
   */
  readonly sureUntil?: number
  /** Why the node may be cut off or behind: what it doesn't show says nothing. */
  readonly doubt?: NodeUnreachable
}

/** A scan that is on record. */
export interface RecordedScan<End = ScanEnd> {
  readonly end: End
  /** Sentences about payments that could not be recorded: nothing expires then. */
  readonly troubles: readonly string[]
  /** How many payments it met, those that are on record already included. */
  readonly seen: number
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
  /** The highest index that the database, the index file or the asking process knows; -1 if none knows any. */
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

/** Takes what a sweep sees, which has to be on record before it goes on. */
export interface SweepRound extends Pick<Findings, 'recordArrival'> {
  readonly nextDue: NextDue
  /** Halts the coin at once: other accounts are being worked on. */
  halt(difference: Difference): Promise<void>
  /** Notes that the chain shows an arrival on record. */
  noteShown(arrival: ArrivalRecord): Promise<void>
}

/** Takes what a driver finds in the chain. */
export interface Findings {
  /** Stores a transaction of ours, unless it is on record. */
  adoptTransaction(found: FoundTransaction): Promise<void>
  /** Records what came to an address of ours, which counts once. @returns its id; undefined if it is our own money */
  recordArrival(arrival: SeenPayment): Promise<string | undefined>
  /** Notes money at an address of ours that belongs to no invoice. */
  noteStray(money: StrayMoney): void
}
