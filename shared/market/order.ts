import { given } from '../foundation/given.ts'
import { authorData, authorShape } from '../agents/authorship.ts'
import type { Authorship } from '../crypto/author.ts'
import { tell, type EventMark, type Telling } from '../events/mark.ts'
import type { Ledgered, PendingEntry } from '../ledger/pending.ts'
import { maybe, nested, number, text, textOf, type RecordOf } from '../servers/fields.ts'
import type { Coin } from '../payments/coin.ts'
import { missingRaw } from '../payments/invoice.ts'
import { move, payoutLine, type JournalLine } from '../payments/journal.ts'
import type { PayoutRecord } from '../payments/payout.ts'
import { stepRule, type OrderStatus, type OrderStep } from './order-states.ts'

/** A step of the table, or a change that leaves the state as it is. */
type ChangeName =
  | OrderStep
  | 'extended'
  | 'payment'
  | 'payment_returned'
  | 'payout_returned'
  | 'payout_arrived'
  | 'refund_address'

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
 * is disputed, everything that came is held. From `paid` on the price is held, and everything over it is owed
 * to the buyer at once.
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
  /** Addresses that the operator named and took back, each with its salt. */
  refunds_undone: maybe.list(nested({ address: text, salt: text })),

  status: textOf<OrderStatus>(),
  /** Counts the changes: an update names the one that it read. */
  version: number,
  /** 0 to 19 while it waits for its payment, each once for a buyer: so that no agent has more of them. */
  unpaid_slot: maybe.number,
  pay_by: number,
  /** A payment was seen and none has been confirmed since. */
  payment_seen_at: maybe.number,
  paid_at: maybe.number,
  deliver_by: maybe.number,
  delivered_at: maybe.number,
  delivery: maybe.text,
  delivery_salt: maybe.text,
  accept_by: maybe.number,
  disputed_at: maybe.number,
  /** `chain`: a settled payment was taken back. */
  disputed_by: maybe.textOf<'buyer' | 'chain'>(),
  dispute_reason: maybe.text,
  dispute_salt: maybe.text,
  closed_at: maybe.number,
  undelivered: maybe.flag,
  paid_out_at: maybe.number,
  due_at: maybe.number,
  extensions: maybe.list(nested(extensionFields)),
  late_ms: maybe.number,
  fee_taken: maybe.flag,
  /** Signatures of the two sides on steps that they took, in the order of the steps. */
  signatures: maybe.list(nested(signatureFields)),
  /** Taken back by the chain and given up by a decision: no longer counted as received. */
  written_off_raw: text,
}
export type OrderRecord = RecordOf<typeof orderFields> & Ledgered & Telling

export interface OrderChange {
  step: ChangeName
  at: number
  set: Partial<Omit<OrderRecord, '_id' | 'version' | 'pending' | 'tells'>>
  unset?: readonly (keyof OrderRecord)[]
  entries: readonly PendingEntry[]
}

/** The order as it is after the change. */
export function changeOrder(order: OrderRecord, change: OrderChange): OrderRecord {
  const changed = { ...order, ...change.set, version: order.version + 1 }
  return Object.fromEntries(
    Object.entries(changed).filter(([name]) => !change.unset?.includes(name as keyof OrderRecord)),
  ) as unknown as OrderRecord
}

/** Both sides are told of each step, by whomever it was taken. */
export const orderMarks = (
  { _id, buyer_id: buyer, seller_id: seller }: Pick<OrderRecord, '_id' | 'buyer_id' | 'seller_id'>,
  step: ChangeName | 'ordered',
  status: OrderStatus,
): EventMark[] => [buyer, seller].map((to) => tell(to, 'order', _id, { step, status }))

/** Its source carries the number of the change: an order may take a step twice. */
export function orderEntry(
  order: Pick<OrderRecord, '_id' | 'version'>,
  step: ChangeName | 'ordered',
  at: number,
  data: PendingEntry['data'] = {},
  kind: PendingEntry['kind'] = 'order',
): PendingEntry {
  return {
    source: `${order._id}/${kind}/${order.version + 1}`,
    at,
    kind,
    data: { order_id: order._id, step, ...data },
  }
}

/** A step of the table as a change: the state that it leads to, and its entry, which is the first. */
export function stepChange(
  order: OrderRecord,
  step: OrderStep,
  at: number,
  change: {
    set?: OrderChange['set']
    unset?: OrderChange['unset']
    data?: PendingEntry['data']
    kind?: PendingEntry['kind']
    entries?: PendingEntry[]
  } = {},
): OrderChange {
  const { to } = stepRule(step)
  return {
    step,
    at,
    set: { status: to, ...change.set },
    ...given({ unset: change.unset }),
    entries: [
      orderEntry(order, step, at, { status: to, ...change.data }, change.kind),
      ...(change.entries ?? []),
    ],
  }
}

/** The change, signed by the side that makes it; its first entry carries the signature's hash. */
export function signedChange(
  order: Pick<OrderRecord, 'signatures'>,
  change: OrderChange,
  agentId: string,
  author?: Authorship,
): OrderChange {
  const [own, ...others] = change.entries
  if (author === undefined || own === undefined) return change
  const signatures = [...(order.signatures ?? []), { ...author, step: change.step, agent_id: agentId }]
  return {
    ...change,
    set: { ...change.set, signatures },
    entries: [{ ...own, data: { ...own.data, ...authorData(author) } }, ...others],
  }
}

/** Below dust the venue bears what is missing, out of its fee. @returns undefined if more is missing */
export function atReceived(order: OrderRecord, receivedRaw: bigint): OrderRecord | undefined {
  const amount = BigInt(order.amount_raw)
  if (receivedRaw >= amount) return order
  if (missingRaw(order.coin, amount, receivedRaw) > 0n) return undefined
  const fee = BigInt(order.fee_raw) - (amount - receivedRaw)
  return { ...order, amount_raw: String(receivedRaw), fee_raw: String(fee > 0n ? fee : 0n) }
}

export const priceOf = ({ amount_raw, fee_raw }: OrderRecord) => ({ amount_raw, fee_raw })

/** The price without the fee, in the smallest unit. */
export const sellerShare = (order: Pick<OrderRecord, 'amount_raw' | 'fee_raw'>): bigint =>
  BigInt(order.amount_raw) - BigInt(order.fee_raw)

/** `returned`: a fee that was taken is given back, because the order is refunded after all. */
export function feeEntry(order: OrderRecord, at: number, step: 'taken' | 'returned'): PendingEntry {
  return {
    source: `${order._id}/fee/${order.version + 1}`,
    at,
    kind: 'fee',
    data: { order_id: order._id, step, coin: order.coin, amount_raw: order.fee_raw },
  }
}

/** What a change moves: what it owes, the fee and what it writes off; to be written in its transaction. */
export function moveLines(
  before: OrderRecord,
  { at, set, unset = [] }: OrderChange,
  payouts: readonly PayoutRecord[] = [],
): JournalLine[] {
  const own = `order:${before._id}` as const
  const about = { coin: before.coin, at, ids: { order_id: before._id } }
  const wasTaken = before.fee_taken === true
  const isTaken = set.fee_taken === true || (wasTaken && !unset.includes('fee_taken'))
  const fee =
    (isTaken ? BigInt(set.fee_raw ?? before.fee_raw) : 0n) - (wasTaken ? BigInt(before.fee_raw) : 0n)
  const writtenOff = BigInt(set.written_off_raw ?? before.written_off_raw) - BigInt(before.written_off_raw)
  const nth = before.version + 1
  return [
    ...payouts.flatMap((payout) => payoutLine(payout, 'owed', at)),
    ...move(`${before._id}/fee/${nth}`, own, 'fee', fee, about),
    ...move(`${before._id}/written_off/${nth}`, own, 'lost', writtenOff, about),
  ]
}

export const sum = (of: readonly { amount_raw: string }[]): bigint =>
  of.reduce((total, { amount_raw: amount }) => total + BigInt(amount), 0n)
