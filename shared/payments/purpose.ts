import type { Context } from '../context.ts'
import type { Session } from '../database.ts'
import type { PendingEntry } from '../ledger/pending.ts'
import type { MoneyFields, SettledFields } from './invoice-store.ts'
import type { InvoiceRecord, PaymentRecord } from './invoice.ts'
import type { JournalLine } from './journal.ts'
import type { PayoutState, StoredPayout } from './payout.ts'

/** What a purpose changes of an invoice besides its own records. The entries are carried by what brought the change. */
export interface Outcome {
  fields?: MoneyFields
  /** Of the payment. */
  settled?: Partial<SettledFields>
  entries?: readonly PendingEntry[]
  lines?: readonly JournalLine[]
}

/**
 * What invoices are for, as settlement and payouts know it: days of a pass, or a market order. Each function with a
 * session is called inside the transaction that makes the change, and writes there what the change means.
 */
export interface Purpose {
  /** Runs a transaction that settles a payment of this agent or ends an invoice, in turn with those that it would conflict with. */
  inTurn<T>(ctx: Context, agentId: string, transact: () => Promise<T>): Promise<T>
  /** A payment that holds its invoice open was seen for the first time, or again. */
  noted(ctx: Context, payment: PaymentRecord, session: Session): Promise<void>
  /** A payment vanished before it was confirmed. */
  dropped(ctx: Context, payment: PaymentRecord): Promise<void>
  /** A payment is settled; `invoice` has it not counted yet. @returns undefined if it has to wait: then nothing may be changed */
  received(ctx: Context, invoice: InvoiceRecord, payment: PaymentRecord, session: Session): Promise<Outcome | undefined>
  /** The chain took a settled payment back. */
  lost(ctx: Context, payment: PaymentRecord, session: Session): Promise<void>
  /** It is there again. */
  restored(ctx: Context, payment: PaymentRecord, session: Session): Promise<void>
  /** The operator takes a settled payment back; `invoice` has it counted still. @throws Refusal `wrong_state` if that cannot be */
  undone(ctx: Context, invoice: InvoiceRecord, payment: PaymentRecord, session: Session): Promise<Outcome>
  /** The time to pay is over, and no payment is under way. */
  expired(ctx: Context, invoice: InvoiceRecord, session: Session): Promise<Outcome>
  /** A payout took a step. */
  payoutMoved(ctx: Context, payout: StoredPayout, to: PayoutState, session: Session): Promise<void>
}

export interface Purposes {
  readonly pass: Purpose
  readonly order: Purpose
}

/** The purpose of an invoice, a payment or a payout. */
export const purposeOf = ({ purposes }: Context, { order_id: orderId }: { order_id?: string }): Purpose =>
  orderId === undefined ? purposes.pass : purposes.order

const nothing = () => Promise.resolve()

/** For a purpose to name only what it has something to do with. */
export const NOTHING_TO_DO: Omit<Purpose, 'received' | 'undone' | 'expired'> = {
  inTurn: (_ctx, _agentId, transact) => transact(),
  noted: nothing,
  dropped: nothing,
  lost: nothing,
  restored: nothing,
  payoutMoved: nothing,
}
