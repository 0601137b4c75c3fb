import type { Telling } from '../events/mark.ts'
import type { Ledgered } from '../ledger/pending.ts'
import { list, maybe, number, text, textOf, type RecordOf } from '../platform/fields.ts'
import type { Config } from '../platform/config.ts'
import { dustThreshold, parseAmount, type Coin } from './coin.ts'

/**
 * A *payout* is one sum that the venue owes to one payee: `owed`; `in_transfer`; `manual`, paid by hand;
 * `withdrawn`, the operator gave the money to somebody else. A *transfer* is one signed transaction of ours.
 * It is stored before it is broadcast, and broadcast again until the chain has it. Only the transfer says how
 * far a payout in it is.
 */
export const PAYOUT_STATES = ['owed', 'signed', 'sent', 'confirmed', 'held', 'manual', 'withdrawn'] as const
export type PayoutState = (typeof PAYOUT_STATES)[number]

export const payoutFields = {
  _id: text,
  /** What it is owed for, such as `<order id>/release`: unique, so that nothing is owed twice. */
  source: text,
  coin: textOf<Coin>(),
  /** The payee; of what is sent back, the arrival. */
  agent_id: text,
  order_id: maybe.text,
  /** The money that came to nobody and that it sends back. */
  arrival_id: maybe.text,
  amount_raw: text,
  address: maybe.text,
  state: textOf<'owed' | 'in_transfer' | 'manual' | 'withdrawn'>(),
  /** Not to be sent while set: a payment behind it was taken back, or the operator looks at it. */
  frozen: maybe.flag,
  /**
   * The operator's decision of a dispute that owes it, or that freed it: the order's version after that, and
   * until when (Unix seconds) it isn't sent, so that the decision can be taken back.
   */
  decided: maybe.nested({ version: number, until: number }),
  /** While owed, and then it isn't sent: the unexplained transfer, or the operator's `tx`, that may have paid it. */
  held_by: maybe.text,
  /** Transfers that may have paid it and did not, as the operator said: they hold it no more. */
  cleared_of: maybe.list(text),
  /** The address was found to be the venue's own: nothing is sent there. */
  to_self: maybe.flag,
  /** Paid by hand at an address that was named with that, and goes with it. */
  named_address: maybe.flag,
  /** Once its payee was owed MIN_PAYOUT (Unix seconds): from then on it is sent however small the rest is. */
  due_at: maybe.number,
  /** When the operator asked for it to be sent, with `pay`; Unix seconds. */
  asked_at: maybe.number,
  transfer_id: maybe.text,
  /** The operator's transaction that paid it by hand. */
  tx: maybe.text,
  /** Unix seconds: owed since, and of the last change of state. */
  at: number,
  changed_at: number,
  salt: text,
}
export type StoredPayout = RecordOf<typeof payoutFields> & Ledgered & Telling

/** A payout as shown: in a transfer, it has that transfer's state, transaction and time of change. */
export type PayoutRecord = Omit<StoredPayout, 'state'> & { state: PayoutState }

/**
 * What is moved in a transaction of its own is worth at least a hundredth of the least payout: else each
 * millionth that somebody sends would cost the venue as much work as a sale.
 */
export function leastToMove(config: Pick<Config, 'minPayout'>, coin: Coin): bigint {
  const leastRaw = (parseAmount(config.minPayout[coin], coin) + 99n) / 100n
  const dustRaw = dustThreshold(coin)
  return leastRaw > dustRaw ? leastRaw : dustRaw
}

/** Payouts to one address that go out together. */
export interface DueGroup {
  address: string
  payouts: PayoutRecord[]
  sumRaw: bigint
}

/** The sum of what is due to these groups, in the smallest unit. */
export const sumDue = (groups: readonly Pick<DueGroup, 'sumRaw'>[]): bigint =>
  groups.reduce((sum, { sumRaw }) => sum + sumRaw, 0n)

/** Whether a transfer carries its payouts: if it was replaced, they became owed in that transaction. */
export const carries = (
  transfer: TransferRecord | undefined,
): transfer is TransferRecord & { state: Exclude<TransferState, 'replaced'> } =>
  transfer !== undefined && transfer.state !== 'replaced'

/** Shows a payout with its transfer's state, if it is in one. @throws Error if that does not carry it */
export function showPayout(payout: StoredPayout, transfer: TransferRecord | undefined): PayoutRecord {
  const { state, ...rest } = payout
  if (state !== 'in_transfer')
    return { ...rest, state: state === 'owed' && payout.held_by !== undefined ? 'held' : state }
  if (!carries(transfer))
    throw new Error(`payout ${payout._id} is in the transfer ${payout.transfer_id}, which carries it no more`)
  const changed_at = Math.max(payout.changed_at, transfer.changed_at)
  return { ...rest, state: transfer.state, tx: transfer.tx, changed_at }
}

/**
 * `signed`: not known to be published; `sent`: the node has it. `held`: refused for long; it is still
 * offered, and `sent` when taken. `replaced`: another transaction has its place in the chain, so its payouts
 * are owed again.
 */
export const TRANSFER_STATES = ['signed', 'sent', 'confirmed', 'held', 'replaced'] as const
export type TransferState = (typeof TRANSFER_STATES)[number]

export const CARRYING = TRANSFER_STATES.filter((state) => state !== 'replaced')

/** Index of the account that swept money goes to and payouts are sent from. */
export const TREASURY_INDEX = 0

export const transferFields = {
  _id: text,
  coin: textOf<Coin>(),
  /** `receive` and `sweep` take Nano in and move it to the treasury. `other` moves nothing. */
  kind: textOf<'receive' | 'sweep' | 'payout' | 'other'>(),
  /**
   * Nano: the place in an account's chain, which is the account's index (0: the treasury) and the block
   * before. Instead of that the first block has the account's public key.
   */
  account_index: maybe.number,
  previous: maybe.text,
  /** Nano: the newest block of ours that was stored as built on this one; it may have been replaced since. */
  successor: maybe.text,
  /** Monero: present while it is under way; there is one at a time. */
  in_flight: maybe.flag,
  tx: text,
  /** The signed block as JSON, or Monero's tx_metadata: what is broadcast, each time the same. */
  signed: text,
  amount_raw: text,
  fee_raw: maybe.text,
  /** The arrivals that a `receive` takes in or a `sweep` sends on. */
  payment_ids: list(text),
  payout_ids: list(text),
  state: textOf<TransferState>(),
  at: number,
  changed_at: number,
  reason: maybe.text,
  /** While the node refuses it: times of the first refusal and of the next offer, in Unix seconds. */
  refused: maybe.nested({ at: number, count: number, next_at: number, reason: text }),
  /** Of a seed or wallet no longer in use: nobody here can complete it. */
  foreign: maybe.flag,
  /** Addresses that it paid, of a transaction that the database did not know: see suspects.ts. */
  unexplained_to: maybe.list(text),
  /** The operator has accounted for it. */
  explained: maybe.flag,
}
export type TransferRecord = RecordOf<typeof transferFields>
export type UnexplainedSend = TransferRecord & Required<Pick<TransferRecord, 'unexplained_to'>>
/** The destination of a transaction whose destination nobody knows any more. */
export const ANYWHERE = '*'

/** States of a transfer that is not known to be in the chain and may yet get there. */
export const OPEN_TRANSFERS = ['signed', 'sent', 'held'] as const satisfies readonly TransferState[]

/** A transfer is held when the node has refused it for this long. */
const HOLD_AFTER_SECONDS = 600
/** Between two offers; each pause is twice the one before. */
const FIRST_PAUSE_SECONDS = 5
const LONGEST_PAUSE_SECONDS = 300

/** Returns a transfer's `refused` after one more refusal, `at` a time in Unix seconds. */
export function countRefusal({ refused }: Pick<TransferRecord, 'refused'>, reason: string, at: number) {
  const count = (refused?.count ?? 0) + 1
  const pause = Math.min(FIRST_PAUSE_SECONDS * 2 ** Math.min(count - 1, 10), LONGEST_PAUSE_SECONDS)
  return { at: refused?.at ?? at, count, next_at: at + pause, reason }
}

/** Whether a transfer has been refused for 10 minutes. */
export const isRefusedForLong = ({ refused }: Pick<TransferRecord, 'refused'>, at: number): boolean =>
  refused !== undefined && at - refused.at >= HOLD_AFTER_SECONDS

/** Whether a transfer is to be offered now. A `next_at` further ahead than any pause is of another clock. */
export const isToBeOffered = ({ refused }: Pick<TransferRecord, 'refused'>, at: number): boolean =>
  refused === undefined || at >= refused.next_at || refused.next_at - at > LONGEST_PAUSE_SECONDS
