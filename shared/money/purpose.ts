import type { Context } from '../context.ts'
import type { Session } from '../platform/database.ts'
import type { PendingEntry } from '../ledger/pending.ts'
import type { MoneyFields } from './invoice-store.ts'
import type { SettledFields } from './arrival-store.ts'
import type { InvoiceRecord } from './invoice.ts'
import type { PaymentRecord } from './arrival.ts'
import type { Coin } from './coin.ts'
import type { JournalLine } from './journal.ts'
import type { PayoutState, StoredPayout } from './payout.ts'
import type { UnexplainedSend } from './transfer.ts'

/** What a purpose makes of a change of money: stored in the transaction of that change. */
export interface Outcome {
  /** Changes of the invoice. */
  fields?: MoneyFields
  /** Fields of the payment, if one is settled. */
  settled?: Partial<SettledFields>
  entries?: readonly PendingEntry[]
  lines?: readonly JournalLine[]
}

/** What a confirmed payment buys; or that it waits, since there is no rate at which late money could buy. */
export type Received =
  { readonly kind: 'buys'; readonly outcome: Outcome } | { readonly kind: 'waits'; readonly for: 'rate' }

/**
 * What an invoice is paid for (pass days, an order) is told here what becomes of its money. Each function
 * with a session is called inside the transaction that makes the change.
 */
export interface Purpose {
  /** Runs a settlement or an expiry after those of this process that it would conflict with. */
  inTurn<T>(ctx: Context, agentId: string, transact: () => Promise<T>): Promise<T>
  /** A payment that keeps its invoice from expiring was seen for the first time, or again. */
  noted?(ctx: Context, payment: PaymentRecord, session: Session): Promise<void>
  /** A payment that was seen vanished before it was settled. */
  dropped?(ctx: Context, payment: PaymentRecord): Promise<void>
  /** A payment is confirmed; `invoice` doesn't count it yet. */
  received(ctx: Context, invoice: InvoiceRecord, payment: PaymentRecord, session: Session): Promise<Received>
  /** The chain took a settled payment back. */
  lost?(ctx: Context, payment: PaymentRecord, session: Session): Promise<void>
  /** The chain has such a payment again. */
  restored?(ctx: Context, payment: PaymentRecord, session: Session): Promise<void>
  /** The operator gives a payment up that never came; it counts as taken back by the chain from then on. */
  givenUp?(ctx: Context, payment: PaymentRecord, session: Session): Promise<void>
  /** The operator takes a payment back; `invoice` still counts it. @throws Refusal `wrong_state` */
  undone(ctx: Context, invoice: InvoiceRecord, payment: PaymentRecord, session: Session): Promise<Outcome>
  expired(ctx: Context, invoice: InvoiceRecord, session: Session): Promise<Outcome>
  payoutMoved?(ctx: Context, payout: StoredPayout, to: PayoutState, session: Session): Promise<void>
}

export interface OrderPurpose extends Purpose {
  /**
   * Sends that nobody has accounted for may have paid for open orders, or for `orderIds`, open or not.
   *
   * @returns ids of the orders that wait for the operator because of it
   */
  suspected(
    ctx: Context,
    coin: Coin,
    sends: readonly UnexplainedSend[],
    orderIds?: readonly string[],
  ): Promise<string[]>
  /** When these orders were placed (Unix seconds), by id. */
  placedAt(ctx: Context, orderIds: readonly string[]): Promise<ReadonlyMap<string, number>>
  /** Ids of disputed orders one of whose sides has an address that a send went to. */
  disputedAt(ctx: Context, send: UnexplainedSend): Promise<string[]>
  /** A send is accounted for: what is disputed because of it alone goes on. @returns ids of those orders */
  cleared(ctx: Context, send: UnexplainedSend): Promise<string[]>
}

export interface Purposes {
  readonly pass: Purpose
  readonly order: OrderPurpose
}

export const purposeOf = ({ purposes }: Context, { order_id: orderId }: { order_id?: string }): Purpose =>
  orderId === undefined ? purposes.pass : purposes.order
