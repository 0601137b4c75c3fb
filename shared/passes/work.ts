import { z } from 'zod'
import { MAX_BATCH_NONCES, WORK_ORDER_BASE_DAYS } from '../platform/limits.ts'
import type { Ledgered } from '../ledger/pending.ts'
import { maybe, number, text as stored, textOf, type RecordOf } from '../platform/fields.ts'
import { hex, idField, idView, isoTimeView, text, unixTime } from '../platform/schema.ts'

/**
 * Terms.
 *
 * - A *work order* is an agent's offer to buy days by proof of work; its difficulty and counts never change.
 * - A *share* is a nonce that reaches the order's difficulty; it counts once for its order.
 * - A *batch* holds the shares of one or more `POST /work/submit` on one order, concatenated, for the workers
 *   to verify. An order has at most one waiting batch.
 * - A *page* holds the shares of an order that one verification counted; it never changes. An order's pages
 *   are numbered from 1 without a gap and the order stores how many there are, so a verification that has
 *   read that many has seen every counted share.
 */
export const WORK_STATUSES = ['open', 'credited', 'expired'] as const
export type WorkStatus = (typeof WORK_STATUSES)[number]

export const REJECTIONS = ['invalid_nonce', 'insufficient_work', 'duplicate', 'order_full'] as const
export type Rejection = (typeof REJECTIONS)[number]

/** An order of work that pays for a pass. Times are Unix seconds. */
export const workOrderFields = {
  _id: stored,
  agent_id: stored,
  at: number,
  days: number,
  shares_per_day: number,
  shares_required: number,
  difficulty_bits: number,
  prefix: stored,
  expires_at: number,
  shares_accepted: number,
  credited_days: number,
  /** Number of pages of counted shares; 0 if absent. */
  share_pages: maybe.number,
  /** Id of the last batch of the last page. */
  last_batch: maybe.text,
  /** The order's place among the agent's open orders, which bounds their number: see insertInSlot(). */
  open_slot: maybe.number,
}
export type WorkOrderRecord = RecordOf<typeof workOrderFields> & Ledgered

export interface Rejected {
  nonce: string | number
  reason: Rejection
}

export const batchFields = {
  _id: stored,
  order_id: stored,
  /** When it was sent, in milliseconds since the epoch. */
  at_ms: number,
  state: textOf<'waiting' | 'verified'>(),
  /** The order's id while the batch is waiting; a unique index makes it the order's only one. */
  slot: maybe.text,
  agent_id: stored,
  /** Number of its nonces. A result is stored only if it is still the number that was read. */
  count: number,
  /** The outcome of each nonce, in order: see encodeOutcomes(). Set when verified. */
  outcomes: maybe.text,
  /** MongoDB deletes the batch after this time. */
  forget_at: maybe.date,
}
/** `nonces` in canonical form; removed when the batch is verified. */
export type BatchRecord = RecordOf<typeof batchFields> & { nonces?: string[] }

export interface SharePage {
  order_id: string
  /** 1, 2, 3, … */
  number: number
  /** The batches with at least one nonce that counted here. */
  batch_ids: string[]
  nonces: string[]
}

/** An order's lifetime in days: 30, and one for each day it buys. */
export const workOrderTtlDays = (days: number): number => WORK_ORDER_BASE_DAYS + days

/**
 * Returns an order's status at a time: `credited` once all its days are, else `expired` after its time, else
 * `open`.
 */
export function workStatusAt(
  order: Pick<WorkOrderRecord, 'credited_days' | 'days' | 'expires_at'>,
  nowSeconds: number,
): WorkStatus {
  if (order.credited_days >= order.days) return 'credited'
  return order.expires_at <= nowSeconds ? 'expired' : 'open'
}

/** By letter, the outcome of a nonce that it stands for; undefined: the nonce counts. */
const LETTERS = { a: undefined, i: 'insufficient_work', d: 'duplicate', f: 'order_full' } as const
const LETTER_OF: ReadonlyMap<Rejection | undefined, string> = new Map(
  Object.entries(LETTERS).map(([letter, reason]) => [reason, letter]),
)

/** Writes outcomes as one text with a letter for each, in their order. decodeOutcomes() reads it. */
export const encodeOutcomes = (outcomes: readonly (Rejection | undefined)[]): string =>
  outcomes.map((outcome) => LETTER_OF.get(outcome)).join('')

/** For each letter of what encodeOutcomes() has written, why that nonce doesn't count; undefined if it counts. */
export const decodeOutcomes = (text: string): (Rejection | undefined)[] =>
  Array.from(text, (letter) => LETTERS[letter as keyof typeof LETTERS])

export const submitBody = z.object({
  order_id: idField('work_order'),
  nonces: z
    .array(
      z.union(
        [text({ max: 64 }), z.number()],
        'expected nonces: strings of 1 to 20 characters of 0-9 and a-z, or non-negative safe integers',
      ),
      'expected a list of nonces',
    )
    .min(1, 'expected at least one nonce')
    .max(MAX_BATCH_NONCES, `expected at most ${MAX_BATCH_NONCES} nonces; send the rest in another batch`),
})

export const workOrderView = z
  .object({
    order_id: idView('work_order'),
    currency: z.literal('pow'),
    days: z.int().min(1),
    shares_required: z.int().min(1),
    difficulty_bits: z.int().max(256),
    prefix: hex(32),
    preimage: z.literal('prefix:nonce'),
    status: z.enum(WORK_STATUSES),
    shares_accepted: z.int(),
    credited_days: z.int(),
    expires_at: unixTime(),
  })
  .meta({ id: 'WorkOrder' })

/** The answer to making an order: the order's fields, and the same order under `order`. */
export const madeWorkOrderView = workOrderView.extend({ order: workOrderView })

export const submissionView = z.object({
  order_id: idView('work_order'),
  status: z.enum([...WORK_STATUSES, 'verifying']),
  accepted: z.int().describe('shares of this batch that count'),
  rejected: z.array(
    z.object({
      nonce: z.union([z.string().describe('as it was sent'), z.number()]),
      reason: z.enum(REJECTIONS),
    }),
  ),
  shares_accepted: z.int(),
  shares_required: z.int(),
  credited_days: z.int(),
  pass_until: isoTimeView().nullable(),
})

/** Returns an order as answers show it, with its status at `nowSeconds`. */
export function viewWorkOrder(order: WorkOrderRecord, nowSeconds: number): z.input<typeof workOrderView> {
  return {
    order_id: order._id,
    currency: 'pow',
    days: order.days,
    shares_required: order.shares_required,
    difficulty_bits: order.difficulty_bits,
    prefix: order.prefix,
    preimage: 'prefix:nonce',
    status: workStatusAt(order, nowSeconds),
    shares_accepted: order.shares_accepted,
    credited_days: order.credited_days,
    expires_at: order.expires_at,
  }
}
