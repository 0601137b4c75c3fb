import { ID_PREFIXES } from '../platform/ids.ts'
import { omitUndefined } from '../platform/omit-undefined.ts'
import { recordOf } from '../ledger/entry.ts'
import type { Ledgered, PendingEntry } from '../ledger/pending.ts'
import type { LiabilityName } from '../ledger/solvency.ts'
import { maybe, number, text, textOf, type RecordOf } from '../platform/fields.ts'
import type { Coin } from './coin.ts'
import type { ArrivalRecord, PaymentRecord } from './arrival.ts'
import type { StoredPayout } from './payout.ts'
import type { TransferRecord } from './transfer.ts'

/**
 * The books. Every move of money is one line, from account to account, written in the transaction that makes
 * the move, so all accounts together are always 0. docs/architecture.md, "The journal", says what each
 * account holds. Lines are whole units: what an invoice has left below one is booked as sold.
 */
export type Account = Single | `${Owner}:${string}`
type Single = 'chain' | 'sold' | 'fee' | 'paid' | 'network_fee' | 'operator' | 'unassigned' | 'lost'
type Owner = 'invoice' | 'remainder' | 'order' | 'owed'
export type AccountKind = Single | Owner

const idFields = {
  agent_id: maybe.text,
  order_id: maybe.text,
  invoice_id: maybe.text,
  payment_id: maybe.text,
  payout_id: maybe.text,
  transfer_id: maybe.text,
}
export type LineIds = RecordOf<typeof idFields>

export const lineFields = {
  /** The move, such as `<payment id>/received`: unique, so that each is made once. */
  _id: text,
  at: number,
  coin: textOf<Coin>(),
  from: textOf<Account>(),
  to: textOf<Account>(),
  /** Above 0. */
  amount_raw: text,
  ...idFields,
}
export type JournalLine = RecordOf<typeof lineFields>
/** As it is stored: with its entry, until that has a number. */
export type StoredLine = JournalLine & Ledgered

interface About {
  coin: Coin
  at: number
  ids?: LineIds
}

/** Makes the line of a move of money: none if `amountRaw` is 0, in the other direction if it is negative. */
export function move(id: string, from: Account, to: Account, amountRaw: bigint, { coin, at, ids }: About) {
  if (amountRaw === 0n) return []
  const [payer, payee] = amountRaw > 0n ? [from, to] : [to, from]
  const amount_raw = String(amountRaw > 0n ? amountRaw : -amountRaw)
  return [{ _id: id, at, coin, from: payer, to: payee, amount_raw, ...ids }]
}

/** The names of accounts in entries: what is open to all says whose money it is, and not which order's. */
const PUBLIC_NAMES = {
  chain: 'outside',
  paid: 'outside',
  network_fee: 'outside',
  invoice: 'invoices',
  remainder: 'remainders',
  unassigned: 'unassigned',
  order: 'orders',
  owed: 'owed',
  sold: 'venue',
  fee: 'venue',
  operator: 'venue',
  lost: 'venue',
} as const satisfies Record<AccountKind, string>
/** The kinds of accounts whose sums no other entries give. */
export const MOVED_KINDS = ['invoice', 'remainder', 'unassigned'] as const satisfies readonly AccountKind[]

export const kindOf = (account: Account): AccountKind => account.split(':', 1)[0] as AccountKind

/** The kinds of accounts whose sum is the venue's own. */
export const OWN_KINDS = ['operator', 'fee', 'sold', 'lost'] as const satisfies readonly AccountKind[]

/** Makes a line as it is stored: one that touches an account of MOVED_KINDS, or is a withdrawal, carries an entry. */
export function storedLine(line: JournalLine): StoredLine {
  const kinds = [kindOf(line.from), kindOf(line.to)]
  // Other payouts are owed to somebody until they are paid.
  const isWithdrawal = line.payout_id !== undefined && kinds.includes('operator') && kinds.includes('paid')
  return isWithdrawal || MOVED_KINDS.some((kind) => kinds.includes(kind))
    ? { ...line, pending: [moveEntry(line)] }
    : line
}

/** Makes the entry of a move of money. */
function moveEntry({ _id, at, coin, from, to, amount_raw, ...ids }: JournalLine): PendingEntry {
  const { invoice_id, agent_id, payment_id, payout_id } = ids
  const record = recordOf(_id)
  const isOfPayment = record.startsWith(`${ID_PREFIXES.payment}_`)
  const data = {
    ...{ coin, from: PUBLIC_NAMES[kindOf(from)], to: PUBLIC_NAMES[kindOf(to)], amount_raw },
    // What a payment buys names the payment.
    ...omitUndefined({ invoice_id, agent_id, payout_id, payment_id: isOfPayment ? record : payment_id }),
  }
  // Not under the payment's or invoice's id: a receipt of that is of what was paid and what it bought.
  return { source: `move:${_id}`, at, kind: 'money_move', data }
}

/** Makes the line that reverses one. @param step is appended to the line's id */
export function reverse(line: JournalLine, step: string, at: number): JournalLine {
  return { ...line, _id: `${line._id}/${step}`, at, from: line.to, to: line.from }
}

type Received = Pick<
  PaymentRecord,
  '_id' | 'coin' | 'amount_raw' | 'agent_id' | 'order_id' | 'invoice_id' | 'came_to'
>

/** Makes the line of money that no invoice counts: it came, or was found to be our own. */
export function arrivalLine(
  { _id: payment_id, coin, amount_raw: raw, came_to: account = 'unassigned' }: ArrivalRecord,
  step: 'arrived' | 'own',
  at: number,
): JournalLine[] {
  const [from, to] = step === 'arrived' ? (['chain', account] as const) : ([account, 'chain'] as const)
  return move(`${payment_id}/${step}`, from, to, BigInt(raw), { coin, at, ids: { payment_id } })
}

/** Makes the line of money that came to nobody and that the operator keeps, or keeps no more. */
export function keptLine(
  { _id: payment_id, coin, amount_raw: raw }: ArrivalRecord,
  step: 'kept' | 'kept_undone',
  stepId: string,
  at: number,
): JournalLine[] {
  const [from, to] =
    step === 'kept' ? (['unassigned', 'operator'] as const) : (['operator', 'unassigned'] as const)
  return move(`${payment_id}/kept/${stepId}`, from, to, BigInt(raw), { coin, at, ids: { payment_id } })
}

/** `lost` and `restored`, which may happen again, end in an id. */
type PaymentLineStep = 'received' | 'undone' | `${'lost' | 'restored'}/${string}`

/** Makes the line of a payment's step. */
export function paymentLine(payment: Received, step: PaymentLineStep, at: number): JournalLine[] {
  const { _id: payment_id, agent_id, order_id, invoice_id, coin } = payment
  const [from, to] = paymentWay(payment, step)
  const ids = omitUndefined({ agent_id, invoice_id, payment_id, order_id })
  return move(`${payment_id}/${step}`, from, to, BigInt(payment.amount_raw), { coin, at, ids })
}

/**
 * The accounts that a payment's step moves money between. What the chain took back stays with whoever it bought
 * for: the venue's `lost` bears it.
 */
function paymentWay(payment: Received, step: PaymentLineStep): [from: Account, to: Account] {
  const { came_to: payer = 'chain', order_id: orderId, invoice_id: invoiceId } = payment
  const payee: Account = orderId === undefined ? `invoice:${invoiceId}` : `order:${orderId}`
  if (step === 'received') return [payer, payee]
  if (step === 'undone') return [payee, payer]
  return step.startsWith('lost/') ? ['lost', 'chain'] : ['chain', 'lost']
}

type Owed = Pick<
  StoredPayout,
  '_id' | 'coin' | 'agent_id' | 'order_id' | 'arrival_id' | 'withdraws' | 'amount_raw'
>
/** `manual/…`: paid by hand; `unpaid/…`: not paid after all; `paid/<transfer>`: the chain has it. */
type PayoutLineStep = 'owed' | 'withdrawn' | `${'manual' | 'unpaid' | 'paid'}/${string}`

/** Makes the line of a payout's step; none if the step leaves the money on its account. */
export function payoutLine(payout: Owed, step: PayoutLineStep, at: number): JournalLine[] {
  const [from, to] = payoutWay(payout, step)
  if (from === to) return []
  const { _id: payout_id, agent_id, order_id, arrival_id: payment_id, coin } = payout
  // What is sent back to nobody in particular has no agent.
  const noAgent = payment_id === undefined ? {} : { payment_id }
  const payee = payment_id === undefined && payout.withdraws === undefined ? { agent_id } : noAgent
  const ids = { ...payee, payout_id, ...omitUndefined({ order_id }) }
  return move(`${payout_id}/${step}`, from, to, BigInt(payout.amount_raw), { coin, at, ids })
}

/**
 * The account that a payout's money is owed from, and the one that it is on until it is paid. What came to nobody
 * stays that until it has been sent back. What the venue takes out is the operator's until
 * it has left. Another payout for no order is the operator's.
 */
export function payoutAccounts({
  agent_id,
  order_id,
  arrival_id,
  withdraws,
}: Pick<Owed, 'agent_id' | 'order_id' | 'arrival_id' | 'withdraws'>): { payer: Account; owed: Account } {
  if (withdraws === true) return { payer: 'operator', owed: 'operator' }
  if (arrival_id !== undefined) return { payer: 'unassigned', owed: 'unassigned' }
  return { payer: order_id === undefined ? 'operator' : `order:${order_id}`, owed: `owed:${agent_id}` }
}

/** The accounts that a payout's step moves money between. */
function payoutWay(payout: Owed, step: PayoutLineStep): [from: Account, to: Account] {
  const { payer, owed } = payoutAccounts(payout)
  if (step === 'owed') return [payer, owed]
  if (step === 'withdrawn') return [owed, payer]
  if (step.startsWith('manual/')) return [owed, 'operator']
  if (step.startsWith('unpaid/')) return ['operator', owed]
  return [owed, 'paid']
}

/**
 * Makes the lines of a transfer in the chain: those of its payouts, what a payout's transfer sends beyond
 * them, and its fee. What is sent beyond the payouts, and the fee, is the operator's.
 *
 * @param step is appended to the lines' names, if they were written and reversed before
 */
export function transferLines(
  transfer: Pick<TransferRecord, '_id' | 'coin' | 'kind' | 'amount_raw' | 'fee_raw'>,
  payouts: readonly Owed[],
  at: number,
  step = '',
): JournalLine[] {
  const { _id: transfer_id, coin, kind } = transfer
  const about = { coin, at, ids: { transfer_id } }
  const carried = payouts.reduce((sum, { amount_raw: raw }) => sum + BigInt(raw), 0n)
  const end = step === '' ? '' : `/${step}`
  return [
    ...payouts.flatMap((payout) =>
      payoutLine(payout, `paid/${transfer_id}${end}`, at).map((line) => ({ ...line, transfer_id })),
    ),
    ...(kind === 'payout'
      ? move(`${transfer_id}/sent${end}`, 'operator', 'paid', BigInt(transfer.amount_raw) - carried, about)
      : []),
    ...move(`${transfer_id}/fee${end}`, 'operator', 'network_fee', BigInt(transfer.fee_raw ?? '0'), about),
  ]
}

export type Balances = ReadonlyMap<Account, bigint>

/** The accounts outside the venue. */
export const OUTSIDE = ['chain', 'paid', 'network_fee'] as const

/** What the venue holds by the books: what came in and has not left. */
export const heldRaw = (balances: ReadonlyMap<AccountKind | Account, bigint>): bigint =>
  -OUTSIDE.reduce((sum, account) => sum + (balances.get(account) ?? 0n), 0n)

/** What isn't the venue's own, by what the kinds of accounts hold. */
export const liabilitiesOf = (
  totals: ReadonlyMap<AccountKind, bigint>,
): Readonly<Record<LiabilityName, bigint>> => ({
  orders: totals.get('order') ?? 0n,
  owed: totals.get('owed') ?? 0n,
  invoices: totals.get('invoice') ?? 0n,
  remainders: totals.get('remainder') ?? 0n,
  unassigned: totals.get('unassigned') ?? 0n,
})
