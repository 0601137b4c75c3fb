import type { Context } from '../context.ts'
import type { Session } from '../servers/database.ts'
import type { PendingEntry } from '../ledger/pending.ts'
import type { MoneyFields, SettledFields } from './invoice-store.ts'
import type { InvoiceRecord, PaymentRecord } from './invoice.ts'
import type { Coin } from './coin.ts'
import type { JournalLine } from './journal.ts'
import type { PayoutState, StoredPayout, UnexplainedSend } from './payout.ts'

/** The entries are carried by what brought the change. */
export interface Outcome {
  fields?: MoneyFields
  /** Of the payment. */
  settled?: Partial<SettledFields>
  entries?: readonly PendingEntry[]
  lines?: readonly JournalLine[]
}

/** Each function with a session is called inside the transaction that makes the change. */
export interface Purpose {
  /** In turn with those that it would conflict with. */
  inTurn<T>(ctx: Context, agentId: string, transact: () => Promise<T>): Promise<T>
  /** A payment that holds its invoice open was seen for the first time, or again. */
  noted(ctx: Context, payment: PaymentRecord, session: Session): Promise<void>
  dropped(ctx: Context, payment: PaymentRecord): Promise<void>
  /**
   * `invoice` doesn't count the payment yet.
   *
   * @returns undefined if it has to wait: then nothing may change
   */
  received(
    ctx: Context,
    invoice: InvoiceRecord,
    payment: PaymentRecord,
    session: Session,
  ): Promise<Outcome | undefined>
  lost(ctx: Context, payment: PaymentRecord, session: Session): Promise<void>
  restored(ctx: Context, payment: PaymentRecord, session: Session): Promise<void>
  /** By the operator; `invoice` still counts it. @throws Refusal `wrong_state` if that can't be */
  undone(ctx: Context, invoice: InvoiceRecord, payment: PaymentRecord, session: Session): Promise<Outcome>
  expired(ctx: Context, invoice: InvoiceRecord, session: Session): Promise<Outcome>
  /**
   * Sends that nobody has accounted for may have paid for what is open, or for `orderIds`, open or not.
   *
   * @returns ids of what waits for the operator because of it
   */
  suspected(
    ctx: Context,
    coin: Coin,
    sends: readonly UnexplainedSend[],
    orderIds?: readonly string[],
  ): Promise<string[]>
  payoutMoved(ctx: Context, payout: StoredPayout, to: PayoutState, session: Session): Promise<void>
}

export interface Purposes {
  readonly pass: Purpose
  readonly order: Purpose
}

export const purposeOf = ({ purposes }: Context, { order_id: orderId }: { order_id?: string }): Purpose =>
  orderId === undefined ? purposes.pass : purposes.order

const nothing = () => Promise.resolve()

export const NOTHING_TO_DO: Omit<Purpose, 'received' | 'undone' | 'expired'> = {
  inTurn: (_ctx, _agentId, transact) => transact(),
  noted: nothing,
  dropped: nothing,
  lost: nothing,
  restored: nothing,
  suspected: () => Promise.resolve([]),
  payoutMoved: nothing,
}
