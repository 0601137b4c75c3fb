import type { Ledgered } from '../ledger/pending.ts'
import type { Coin } from './coin.ts'

/**
 * Terms.
 *
 * - A *payout* is one sum that the venue owes to one payee, from the moment it is owed to the moment it has arrived.
 * - A *transfer* is one signed transaction of ours: a Nano block or a Monero transaction. It is stored before it is
 *   broadcast, and the same one is broadcast again until the chain has it. It may carry many payouts.
 *
 * A payout has four states of its own: `owed`; `in_transfer`; `manual`, paid by the operator by hand; `withdrawn`, when the
 * operator decided that somebody else has the money. How far a payout in a transfer is, the transfer says, and nobody else:
 * what is shown of it is the transfer's state.
 */
export const PAYOUT_STATES = ['owed', 'signed', 'sent', 'confirmed', 'held', 'manual', 'withdrawn'] as const
/** As it is shown. */
export type PayoutState = (typeof PAYOUT_STATES)[number]

/** As it is stored. */
export interface StoredPayout extends Ledgered {
  _id: string
  /** What it is owed for, such as `<order id>/release`: unique, so that nothing is owed twice. */
  source: string
  coin: Coin
  agent_id: string
  order_id?: string
  amount_raw: string
  /** Absent until the payee names one. */
  address?: string
  state: 'owed' | 'in_transfer' | 'manual' | 'withdrawn'
  /** Not to be sent while set: a payment behind it was taken back, or the operator looks at it. */
  frozen?: true
  /** While owed: the transfer that may have paid it and that nobody has accounted for; it isn't sent before that. */
  held_by?: string
  /** The address was found to be the venue's own: nothing is sent there. */
  to_self?: true
  /** Present once its payee was owed MIN_PAYOUT: from then on it goes out whatever is left beside it. Unix seconds. */
  due_at?: number
  /** When the operator asked for it to be sent, with `pay`; Unix seconds. */
  asked_at?: number
  /** While in a transfer. */
  transfer_id?: string
  /** The operator's transaction that paid it by hand. */
  tx?: string
  /** Unix seconds: owed since, and of the last change of state. */
  at: number
  changed_at: number
  /** Salt of the commitments to address and transaction in the ledger. */
  salt: string
}

/** As it is shown: the record, with its transfer's state, transaction and time of change while it is in one. */
export type PayoutRecord = Omit<StoredPayout, 'state'> & { state: PayoutState }

/** What is replaced carries nothing any more: its payouts are owed as of the same transaction. */
export const carries = (transfer: TransferRecord | undefined): transfer is TransferRecord & { state: Exclude<TransferState, 'replaced'> } =>
  transfer !== undefined && transfer.state !== 'replaced'

export function showPayout(payout: StoredPayout, transfer: TransferRecord | undefined): PayoutRecord {
  const { state, ...rest } = payout
  if (state !== 'in_transfer') return { ...rest, state: state === 'owed' && payout.held_by !== undefined ? 'held' : state }
  if (!carries(transfer)) throw new Error(`payout ${payout._id} is in the transfer ${payout.transfer_id}, which carries it no more`)
  return { ...rest, state: transfer.state, tx: transfer.tx, changed_at: Math.max(payout.changed_at, transfer.changed_at) }
}

/**
 * - `signed`: stored, and not known to be published; `sent`: the node or daemon has it; `confirmed`: so has the chain.
 * - `held`: refused for long since it was first refused. It is offered again all the same, with growing pauses, and the
 *   operator is told; it becomes `sent` when it is taken.
 * - `replaced`: another transaction has its place in the chain, so its payouts are owed again.
 */
export const TRANSFER_STATES = ['signed', 'sent', 'confirmed', 'held', 'replaced'] as const
export type TransferState = (typeof TRANSFER_STATES)[number]

/** Of the account that swept money comes together at, and payouts go out from. */
export const TREASURY_INDEX = 0

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
  /** Nano: the newest block of ours that was stored as built on this one; it may have been replaced since. */
  successor?: string
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
  /** Why it is held, or where it comes from. */
  reason?: string
  /** Present while the node refuses it. Unix seconds: of the first refusal, and of the next time that it is offered. */
  refused?: { at: number; count: number; next_at: number; reason: string }
  /** Of a seed or wallet that is in use no more: nobody here can see to it. */
  foreign?: true
  /**
   * Where a transaction went that a reconciliation found and the database did not know: what is owed to these addresses
   * may have been paid by it, and is not sent before the operator has accounted for it.
   */
  unexplained_to?: string[]
  /** Of one that takes in what is no payment and not from us: the account of the books that this belongs to, and whence it came. */
  brings?: 'operator' | 'unassigned'
  brought_by?: string
}

/** Not known to be in the chain. */
export const OPEN_TRANSFERS = ['signed', 'sent', 'held'] as const satisfies readonly TransferState[]

/** A transfer that is refused for so long since it was first refused is held. */
const HOLD_AFTER_SECONDS = 600
/** Between two offers; each pause is twice the one before. */
const FIRST_PAUSE_SECONDS = 5
const LONGEST_PAUSE_SECONDS = 300

/** What is noted when a node refuses a transfer at this time, in Unix seconds. */
export function refuse({ refused }: Pick<TransferRecord, 'refused'>, reason: string, at: number): Required<TransferRecord>['refused'] {
  const count = (refused?.count ?? 0) + 1
  const pause = Math.min(FIRST_PAUSE_SECONDS * 2 ** Math.min(count - 1, 10), LONGEST_PAUSE_SECONDS)
  return { at: refused?.at ?? at, count, next_at: at + pause, reason }
}

/** Whether it was refused for so long that the operator is told. */
export const isRefusedForLong = ({ refused }: Pick<TransferRecord, 'refused'>, at: number): boolean =>
  refused !== undefined && at - refused.at >= HOLD_AFTER_SECONDS

/** Whether it is time to offer it again; a time that lies further ahead than any pause was set by a wrong clock. */
export const isToBeOffered = ({ refused }: Pick<TransferRecord, 'refused'>, at: number): boolean =>
  refused === undefined || at >= refused.next_at || refused.next_at - at > LONGEST_PAUSE_SECONDS
