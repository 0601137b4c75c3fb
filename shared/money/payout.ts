import type { Telling } from '../events/mark.ts'
import type { Ledgered } from '../ledger/pending.ts'
import { maybe, number, text, textOf, type RecordOf } from '../platform/fields.ts'
import type { Config } from '../platform/config.ts'
import { dustThreshold, parseAmount, type Coin } from './coin.ts'
import { carries, type TransferRecord } from './transfer.ts'

/**
 * A *payout* is one sum that the venue owes to one payee: `owed`; `in_transfer`; `manual`, paid by hand;
 * `withdrawn`, the operator gave the money to somebody else. How far one in a transfer is, only the transfer says
 * (transfer.ts).
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
  /** It takes out what is the venue's own: its payee is nobody on record. */
  withdraws: maybe.flag,
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
  /**
   * While owed, and then it isn't sent: the unexplained transfer, or the operator's `tx`, that may have paid it;
   * `operator` if the operator is about to pay it by hand.
   */
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

/** Whether a payout is in this transfer still: it leaves it when it is owed again, or paid by hand. */
export const isIn = (
  { _id }: Pick<TransferRecord, '_id'>,
  { state, transfer_id: id }: StoredPayout,
): boolean => state === 'in_transfer' && id === _id

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
