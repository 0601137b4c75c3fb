import { z } from 'zod'
import { MAX_BATCH_NONCES, WORK_ORDER_BASE_DAYS } from '../limits.ts'
import type { Ledgered } from '../ledger/pending.ts'
import type { NonceTable } from './nonce-table.ts'
import { hex, idField, idView, isoTimeView, text, unixTime } from '../schema.ts'
import { parseNonce } from '../crypto/pow.ts'

/**
 * Terms.
 *
 * - A *work order* is an agent's offer to buy days by proof of work; its difficulty and counts never change.
 * - A *share* is a nonce that reaches the order's difficulty; it counts once for its order.
 * - A *batch* is what one `POST /work/submit` brought, stored until workers have judged it.
 * - A *page* holds the shares of an order that one judgement counted, for ever and unchanged. Pages of an order are
 *   numbered from 1 without a gap, and the order says how many it has; so whoever counts more has seen them all.
 */
export const WORK_STATUSES = ['open', 'credited', 'expired'] as const
export type WorkStatus = (typeof WORK_STATUSES)[number]

export const REJECTIONS = ['invalid_nonce', 'insufficient_work', 'duplicate', 'order_full'] as const
export type Rejection = (typeof REJECTIONS)[number]

export interface WorkOrderRecord extends Ledgered {
  _id: string
  agent_id: string
  at: number
  days: number
  shares_per_day: number
  shares_required: number
  difficulty_bits: number
  prefix: string
  /** Unix seconds. */
  expires_at: number
  shares_accepted: number
  credited_days: number
  /** Pages of counted shares; none where absent. */
  share_pages?: number
  /** The last batch of the last page. */
  last_batch?: string
}

export interface Rejected {
  nonce: string | number
  reason: Rejection
}

export interface BatchRecord {
  _id: string
  order_id: string
  at_ms: number
  state: 'waiting' | 'judged'
  /** In canonical form, each once; dropped when judged. */
  nonces?: string[]
  /** What was refused on arrival, and once judged what the workers refused too. */
  rejected: Rejected[]
  /** Shares that count through this batch; set when judged. */
  accepted?: number
  forget_at?: Date
}

export interface SharePage {
  order_id: string
  /** 1, 2, 3, … */
  number: number
  /** The batches that they came in, as far as any of theirs counted. */
  batch_ids: string[]
  nonces: string[]
}

/** An order's lifetime in days: 30, and one for each day it buys. */
export const workOrderTtlDays = (days: number): number => WORK_ORDER_BASE_DAYS + days

export function workStatusAt(order: Pick<WorkOrderRecord, 'credited_days' | 'days' | 'expires_at'>, nowSeconds: number): WorkStatus {
  if (order.credited_days >= order.days) return 'credited'
  return order.expires_at <= nowSeconds ? 'expired' : 'open'
}

/** How many of `fresh` new shares count, and how many days they complete, on an order as it stands. */
export function applyShares(
  order: Pick<WorkOrderRecord, 'shares_accepted' | 'shares_required' | 'shares_per_day' | 'credited_days'>,
  fresh: number,
): { counted: number; completedDays: number } {
  const counted = Math.min(fresh, order.shares_required - order.shares_accepted)
  return { counted, completedDays: Math.floor((order.shares_accepted + counted) / order.shares_per_day) - order.credited_days }
}

/** What a batch comes to. */
export interface Verdict {
  accepted: number
  rejected: Rejected[]
}

/**
 * Judges batches of one order, one after the other: a nonce counts if it is a share, did not count before, and the order
 * has room for it.
 *
 * @param shares of each batch's nonces those that reach the difficulty, in their order
 * @param counted the nonces that counted before; those that count now are added
 * @returns a verdict for each batch, the nonces that count now, and the days that they complete
 */
export function judgeBatches(
  order: Pick<WorkOrderRecord, 'shares_accepted' | 'shares_required' | 'shares_per_day' | 'credited_days'>,
  batches: readonly Pick<BatchRecord, 'nonces' | 'rejected'>[],
  shares: readonly (readonly string[])[],
  counted: NonceTable,
): { verdicts: Verdict[]; fresh: string[]; completedDays: number } {
  const room = order.shares_required - order.shares_accepted
  const fresh: string[] = []
  const verdicts = batches.map(({ nonces = [], rejected }, index) => {
    const before = fresh.length
    const refused: Rejected[] = []
    const good = shares[index] ?? []
    let next = 0
    for (const nonce of nonces) {
      if (nonce !== good[next]) {
        refused.push({ nonce, reason: 'insufficient_work' })
        continue
      }
      next++
      if (fresh.length >= room) refused.push({ nonce, reason: counted.has(nonce) ? 'duplicate' : 'order_full' })
      else if (counted.add(nonce)) fresh.push(nonce)
      else refused.push({ nonce, reason: 'duplicate' })
    }
    return { accepted: fresh.length - before, rejected: refused.length === 0 ? rejected : [...rejected, ...refused] }
  })
  const { completedDays } = applyShares(order, fresh.length)
  return { verdicts, fresh, completedDays }
}

/** Sorts what was sent into canonical nonces, each once, and what cannot count. */
export function sortNonces(sent: readonly (string | number)[]): { nonces: string[]; rejected: Rejected[] } {
  const nonces = new Set<string>()
  const rejected: Rejected[] = []
  for (const value of sent) {
    const nonce = parseNonce(value)
    if (nonce === undefined) rejected.push({ nonce: value, reason: 'invalid_nonce' })
    else if (nonces.has(nonce)) rejected.push({ nonce: value, reason: 'duplicate' })
    else nonces.add(nonce)
  }
  return { nonces: [...nonces], rejected }
}

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
    days: z.int(),
    shares_required: z.int(),
    difficulty_bits: z.int(),
    prefix: hex(32),
    preimage: z.literal('prefix:nonce'),
    status: z.enum(WORK_STATUSES),
    shares_accepted: z.int(),
    credited_days: z.int(),
    expires_at: unixTime(),
  })
  .meta({ id: 'WorkOrder' })

/** As it is answered when it is made: the fields themselves, and the record under its name. */
export const madeWorkOrderView = workOrderView.extend({ order: workOrderView })

export const submissionView = z.object({
  order_id: idView('work_order'),
  status: z.enum([...WORK_STATUSES, 'verifying']),
  accepted: z.int().describe('shares of this batch that count'),
  rejected: z.array(z.object({ nonce: z.union([z.string(), z.number()]), reason: z.enum(REJECTIONS) })),
  shares_accepted: z.int(),
  shares_required: z.int(),
  credited_days: z.int(),
  pass_until: isoTimeView().nullable(),
})

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
