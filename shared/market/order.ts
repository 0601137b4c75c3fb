import { authorData, authorShape } from '../agents/authorship.ts'
import type { Authorship } from '../crypto/author.ts'
import { makeMark, type EventMark, type Telling } from '../events/mark.ts'
import type { Ledgered, PendingEntry } from '../ledger/pending.ts'
import { maybe, nested, number, text, textOf, type RecordOf } from '../platform/fields.ts'
import type { Coin } from '../money/coin.ts'
import { missingRaw } from '../money/invoice.ts'
import { move, payoutLine, type JournalLine } from '../money/journal.ts'
import type { PayoutRecord } from '../money/payout.ts'
import { stepRule, type OrderStatus, type OrderStep } from './order-states.ts'

/** A step of the table in order-states.ts, or a change that leaves the order's status as it is. */
type ChangeName =
  | OrderStep
  | 'extended'
  | 'payment'
  | 'payment_returned'
  | 'payout_returned'
  | 'payout_arrived'
  | 'refund_address'
  | 'suspected_more'
  | 'suspected_less'

const signatureFields = { ...authorShape, step: textOf<ChangeName | 'ordered'>(), agent_id: text }
export type StepSignature = RecordOf<typeof signatureFields>

const extensionFields = {
  deadline: textOf<'deliver_by' | 'accept_by'>(),
  was: number,
  until: number,
  outage_from: number,
  outage_to: number,
}

/**
 * Money is decimal text in the coin's smallest unit, times are Unix seconds. While an order awaits payment or
 * is disputed, the venue holds everything that was paid. From `paid` on it holds the price, and owes the
 * buyer at once whatever is paid beyond it.
 */
export const orderFields = {
  _id: text,
  offer_id: text,
  buyer_id: text,
  seller_id: text,
  at: number,
  title: text,
  coin: textOf<Coin>(),
  price_usd_cents: number,
  amount_raw: text,
  fee_raw: text,
  invoice_id: text,
  delivery_seconds: number,
  accept_seconds: number,
  payout_address: text,
  refund_address: maybe.text,
  /** Opens the commitment to the seller's address. */
  payout_salt: text,
  refund_salt: maybe.text,
  /** Refund addresses that the operator named and took back. */
  refunds_undone: maybe.list(nested({ address: text, salt: text })),

  status: textOf<OrderStatus>(),
  /** Goes up by one with each change; an update names the version that it read. */
  version: number,
  /** 0 to 19 while the order awaits payment; unique for a buyer, which bounds its unpaid orders. */
  unpaid_slot: maybe.number,
  pay_by: number,
  /** When a payment was seen; absent once one is confirmed. */
  payment_seen_at: maybe.number,
  paid_at: maybe.number,
  deliver_by: maybe.number,
  delivered_at: maybe.number,
  delivery: maybe.text,
  delivery_salt: maybe.text,
  accept_by: maybe.number,
  disputed_at: maybe.number,
  /** `chain`: a settled payment was taken back, or an unaccounted transaction may have paid a side. */
  disputed_by: maybe.textOf<'buyer' | 'chain'>(),
  /** The transactions for which alone the chain disputes it, and the status that it had before. */
  suspects: maybe.list(text),
  suspected_from: maybe.textOf<OrderStatus>(),
  dispute_reason: maybe.text,
  dispute_salt: maybe.text,
  closed_at: maybe.number,
  undelivered: maybe.flag,
  paid_out_at: maybe.number,
  /** The deadline that the service acts on next: `deliver_by` or `accept_by`. */
  due_at: maybe.number,
  extensions: maybe.list(nested(extensionFields)),
  /** How late the service acted on the last deadline, in milliseconds. */
  late_ms: maybe.number,
  fee_taken: maybe.flag,
  /** Of a split dispute: the seller has this percentage of its share, the venue of its fee, the buyer the rest. */
  split_percent: maybe.number,
  /** The version that the operator's decision of a dispute gave it; names the payouts of that decision. */
  decided_version: maybe.number,
  /** Signatures of the two sides on their steps, in the order of the steps. */
  signatures: maybe.list(nested(signatureFields)),
  /** Taken back by the chain and given up by a decision: no longer counted as received. */
  written_off_raw: text,
}
export type OrderRecord = RecordOf<typeof orderFields> & Ledgered & Telling

/** A change of an order's record, with the ledger entries that are stored in the same write. */
export interface OrderChange {
  step: ChangeName
  at: number
  set?: Partial<Omit<OrderRecord, '_id' | 'version' | 'pending' | 'tells'>>
  unset?: readonly (keyof OrderRecord)[]
  entries?: readonly PendingEntry[]
}

/** Returns a copy of the order with the change applied and the next version; writes nothing. */
export function applyChange(order: OrderRecord, { set, unset = [] }: OrderChange): OrderRecord {
  const changed = { ...order, ...set, version: order.version + 1 }
  return Object.fromEntries(
    Object.entries(changed).filter(([name]) => !unset.includes(name as keyof OrderRecord)),
  ) as typeof changed
}

/** Makes the event marks that tell both sides of a step, whoever took it. @param status the one after it */
export const orderMarks = (
  order: Pick<OrderRecord, '_id' | 'buyer_id' | 'seller_id'>,
  step: ChangeName | 'ordered',
  status: OrderStatus,
): EventMark[] =>
  [order.buyer_id, order.seller_id].map((agentId) => makeMark(agentId, 'order', order._id, { step, status }))

/**
 * Makes the ledger entry of a change that `order` is about to get. Its source ends in the change's version,
 * since an order may take a step twice.
 */
export function orderEntry(
  order: Pick<OrderRecord, '_id' | 'version'>,
  step: ChangeName | 'ordered' | 'taken' | 'returned',
  at: number,
  data: PendingEntry['data'] = {},
  kind: PendingEntry['kind'] = 'order',
): PendingEntry {
  const source = `${order._id}/${kind}/${order.version + 1}`
  return { source, at, kind, data: { order_id: order._id, step, ...data } }
}

/** Makes the change for a step of the table. `more` sets and unsets other fields, and adds to the entries. */
export function stepChange(
  order: OrderRecord,
  step: OrderStep,
  at: number,
  more: Pick<OrderChange, 'set' | 'unset' | 'entries'> & Partial<Pick<PendingEntry, 'data' | 'kind'>> = {},
): OrderChange {
  const { set, unset = [], entries = [], data, kind } = more
  const status = stepRule(step).to
  const stepEntry = orderEntry(order, step, at, { status, ...data }, kind)
  return { step, at, set: { status, ...set }, unset, entries: [stepEntry, ...entries] }
}

/** Adds an agent's signature, if there is one, to a change, and its hash to the first ledger entry. */
export function addSignature(
  order: Pick<OrderRecord, 'signatures'>,
  change: OrderChange,
  agentId: string,
  author?: Authorship,
): OrderChange {
  const [stepEntry, ...others] = change.entries ?? []
  if (author === undefined || stepEntry === undefined) return change
  const signatures = [...(order.signatures ?? []), { ...author, step: change.step, agent_id: agentId }]
  return {
    ...change,
    set: { ...change.set, signatures },
    entries: [{ ...stepEntry, data: { ...stepEntry.data, ...authorData(author) } }, ...others],
  }
}

/**
 * Lowers an order's price to what was received if only dust is missing; the venue bears it out of its fee.
 *
 * @returns `order` itself if its price is covered, or a copy with the lower price and fee; undefined if more
 *   than dust is missing
 */
export function forgiveDust(order: OrderRecord, receivedRaw: bigint): OrderRecord | undefined {
  const amount = BigInt(order.amount_raw)
  if (receivedRaw >= amount) return order
  if (missingRaw(order.coin, amount, receivedRaw) > 0n) return undefined
  const fee = BigInt(order.fee_raw) - (amount - receivedRaw)
  return { ...order, amount_raw: String(receivedRaw), fee_raw: String(fee > 0n ? fee : 0n) }
}

/** The fields that forgiveDust() may lower. */
export const priceFields = ({ amount_raw, fee_raw }: OrderRecord) => ({ amount_raw, fee_raw })

type Price = Pick<OrderRecord, 'amount_raw' | 'fee_raw' | 'split_percent'>

/** A split rounds down for the seller and for the venue, so that the buyer has the rest to the last unit. */
const partOf = (raw: bigint, { split_percent: percent = 100 }: Price): bigint =>
  (raw * BigInt(percent)) / 100n

/** What the seller has of the price of a released order, in the smallest unit: all without the fee, or its part. */
export const sellerShare = (order: Price): bigint =>
  partOf(BigInt(order.amount_raw) - BigInt(order.fee_raw), order)

/** What the venue has of the price of a released order, in the smallest unit. */
export const feeShare = (order: Price): bigint => partOf(BigInt(order.fee_raw), order)

/**
 * Makes the ledger entry of a fee that is taken, or returned by another decision.
 *
 * @param raw what the venue has more than before, in the smallest unit; if it has less, that is returned
 * @returns no entry for 0
 */
export function feeEntries(order: OrderRecord, at: number, raw: bigint): PendingEntry[] {
  if (raw === 0n) return []
  const [step, amountRaw] = raw > 0n ? (['taken', raw] as const) : (['returned', -raw] as const)
  return [orderEntry(order, step, at, { coin: order.coin, amount_raw: String(amountRaw) }, 'fee')]
}

/** What the venue has taken of an order, in the smallest unit. */
export const takenFee = (order: OrderRecord): bigint => (order.fee_taken === true ? feeShare(order) : 0n)

/** Makes the journal lines of a change of `before`: new payouts, the fee, what is written off. */
export function journalLinesOf(
  before: OrderRecord,
  change: OrderChange,
  payouts: readonly PayoutRecord[] = [],
): JournalLine[] {
  const { at } = change
  const after = applyChange(before, change)
  const account = `order:${before._id}` as const
  const about = { coin: before.coin, at, ids: { order_id: before._id } }
  const writtenOff = BigInt(after.written_off_raw) - BigInt(before.written_off_raw)
  const version = before.version + 1
  return [
    ...payouts.flatMap((payout) => payoutLine(payout, 'owed', at)),
    ...move(`${before._id}/fee/${version}`, account, 'fee', takenFee(after) - takenFee(before), about),
    ...move(`${before._id}/written_off/${version}`, account, 'lost', writtenOff, about),
  ]
}

/** The sum of the records' amounts, in the coin's smallest unit. */
export const sumAmounts = (records: readonly { amount_raw: string }[]): bigint =>
  records.reduce((sum, { amount_raw: raw }) => sum + BigInt(raw), 0n)
