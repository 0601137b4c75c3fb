import { list, maybe, number, text, textOf, type RecordOf } from '../platform/fields.ts'
import type { Coin } from './coin.ts'

/*
 * A *transfer* is one signed transaction of ours. It is stored before it is broadcast, and broadcast again until the
 * chain has it. Only the transfer says how far the payouts in it are.
 */

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
  /** Addresses that it paid, of a transaction that the database did not know: see unexplained-sends.ts. */
  unexplained_to: maybe.list(text),
  /** Payouts that it carried and that were paid otherwise: found when it was confirmed all the same. */
  paid_again: maybe.list(text),
  /** The operator has accounted for it, if it is unexplained or paid something again. */
  explained: maybe.flag,
}

export type TransferRecord = RecordOf<typeof transferFields>
/** Whether a text has the form of a transaction's or block's hash. */
export const isTxHash = (text: string): boolean => /^[0-9a-f]{64}$/.test(text)

/** Whether a transfer carries its payouts: if it was replaced, they became owed in that transaction. */
export const carries = (
  transfer: TransferRecord | undefined,
): transfer is TransferRecord & { state: Exclude<TransferState, 'replaced'> } =>
  transfer !== undefined && transfer.state !== 'replaced'

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
