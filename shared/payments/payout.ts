import type { Ledgered } from '../ledger/pending.ts'
import type { Coin } from './coin.ts'

/**
 * Terms.
 *
 * - A *payout* is one sum that the venue owes to one payee, from the moment it is owed to the moment it has arrived.
 * - A *transfer* is one signed transaction of ours: a Nano block or a Monero transaction. It is stored before it is
 *   broadcast, and the same one is broadcast again after a crash. It may carry many payouts.
 * - A payout is `withdrawn` where it was never signed, the chain took the payment behind it back, and the operator
 *   decided that somebody else has the money.
 */
export const PAYOUT_STATES = ['owed', 'signed', 'sent', 'confirmed', 'held', 'manual', 'withdrawn'] as const
export type PayoutState = (typeof PAYOUT_STATES)[number]

export interface PayoutRecord extends Ledgered {
  _id: string
  /** What it is owed for, such as `<order id>/release`: unique, so that nothing is owed twice. */
  source: string
  coin: Coin
  agent_id: string
  order_id?: string
  amount_raw: string
  /** Absent until the payee names one. */
  address?: string
  state: PayoutState
  /** Not to be sent while set: a payment behind it was taken back, or the operator looks at it. */
  frozen?: true
  transfer_id?: string
  /** The transaction that paid it. */
  tx?: string
  /** Unix seconds: owed since, and of the last change of state. */
  at: number
  changed_at: number
  /** Salt of the commitments to address and transaction in the ledger. */
  salt: string
}

export const TRANSFER_STATES = ['signed', 'sent', 'confirmed', 'held', 'replaced'] as const
export type TransferState = (typeof TRANSFER_STATES)[number]

export interface TransferRecord {
  _id: string
  coin: Coin
  /**
   * `receive` and `sweep` move Nano from an invoice's account into the treasury. `other`: a block that moves nothing, such as
   * a change of representative, found by a reconciliation.
   */
  kind: 'receive' | 'sweep' | 'payout' | 'other'
  /**
   * Nano: the account whose chain the block extends, 0 being the treasury, and its place there: the block before it. For the
   * first it is the account's public key, as the first block of another seed's account has another place; or zeros, on an
   * older record.
   */
  account_index?: number
  previous?: string
  /** Monero: present while it is under way; there is one at a time. */
  in_flight?: true
  /** Hash of the block or transaction, 64 lower-case hex characters. */
  tx: string
  /** The signed block as JSON, or Monero's tx_metadata: what is broadcast, each time the same. */
  signed: string
  amount_raw: string
  fee_raw?: string
  /** Payments that a `receive` takes in. */
  payment_ids: string[]
  payout_ids: string[]
  state: TransferState
  at: number
  changed_at: number
  /** Why it is held. */
  reason?: string
  /**
   * Where a transaction went that a reconciliation found and the database did not know: what is owed to these addresses
   * may have been paid by it, and is not sent before the operator has accounted for it.
   */
  unexplained_to?: string[]
}
