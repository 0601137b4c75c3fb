import { parseNonce } from '../crypto/pow.ts'
import { SAMPLE_NONCES } from '../platform/limits.ts'
import {
  encodeOutcomes,
  WORK_STATUSES,
  type BatchRecord,
  type Rejected,
  type Rejection,
  type SharePage,
  type WorkOrderRecord,
  type WorkStatus,
} from './work.ts'

/*
 * What becomes of a work order, and of the nonces that are handed in for it: functions of the order, the nonces
 * and the time. Nothing here reads or stores.
 */

export interface WorkStepRule {
  /** The statuses in which it can be taken: see workStatusAt(). */
  from: readonly WorkStatus[]
  /** The statuses that it can lead to. */
  to: readonly WorkStatus[]
  /** Who takes it. */
  actor: 'agent' | 'service'
  text: string
}

export const WORK_STEPS = {
  handed_in: {
    from: ['open'],
    to: ['open'],
    actor: 'agent',
    text: 'Its agent hands in shares, which wait for a worker. Nonces that are no shares are refused, and nothing is taken if there are many and no share among them.',
  },
  repeated: {
    from: ['credited', 'expired'],
    to: ['credited', 'expired'],
    actor: 'agent',
    text: 'Its agent hands in nonces that all count already, and is told so of each: the first answer may have been lost. Anything else is refused.',
  },
  verified: {
    from: WORK_STATUSES,
    to: WORK_STATUSES,
    actor: 'service',
    text: 'A worker verifies what waits, even after its time: it was handed in before. A share counts if it has not counted yet and the order needs more. Each day that they complete is credited, and with its last day the order.',
  },
  expired: {
    from: ['open'],
    to: ['expired'],
    actor: 'service',
    text: 'Its expires_at has come. Nothing is stored for that.',
  },
} as const satisfies Record<string, WorkStepRule>

/** The step's row of the table, with the type of any row. */
const stepRule = (step: keyof typeof WORK_STEPS): WorkStepRule => WORK_STEPS[step]

/** What an agent has sent: distinct nonces in canonical form, and what is invalid or stands there twice. */
export interface Sent {
  nonces: readonly string[]
  rejected: readonly Rejected[]
}

/**
 * Separates the sent values into distinct nonces in canonical form, and those that are invalid or
 * duplicates.
 */
export function partitionNonces(sent: readonly (string | number)[]): Sent {
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

/** What comes of what an agent has sent. */
export type SubmissionDecision =
  /** The shares wait for a worker; there may be none. */
  | { kind: 'takes'; shares: readonly string[]; rejected: readonly Rejected[] }
  /** `no_share`: so many nonces without a single share are no work. */
  | { kind: 'refused'; because: 'status' | 'no_share' }

/** Whether an order of this status takes shares: decideShares() says which. Else decideRepeat() decides. */
export const takesShares = (status: WorkStatus): boolean => stepRule('handed_in').from.includes(status)

/**
 * Decides what an order takes that takes shares.
 *
 * @param shares those of the nonces that reach the difficulty
 */
export function decideShares({ nonces, rejected }: Sent, shares: readonly string[]): SubmissionDecision {
  if (shares.length === 0 && nonces.length > SAMPLE_NONCES) return { kind: 'refused', because: 'no_share' }
  const areShares = new Set(shares)
  const others = nonces
    .filter((nonce) => !areShares.has(nonce))
    .map((nonce) => ({ nonce, reason: 'insufficient_work' }) as const)
  return { kind: 'takes', shares, rejected: [...rejected, ...others] }
}

/** Whether all that was sent may count already, as far as can be said without what counts. */
export const mayBeRepeat = ({ nonces, rejected }: Sent): boolean =>
  nonces.length > 0 && rejected.every(({ reason }) => reason === 'duplicate')

/**
 * Decides what comes of what is sent for an order that takes no more shares.
 *
 * @param counted the nonces that count for it; not looked at unless mayBeRepeat()
 */
export function decideRepeat(sent: Sent, counted: ReadonlySet<string>): SubmissionDecision {
  const { nonces, rejected } = sent
  if (!mayBeRepeat(sent) || !nonces.every((nonce) => counted.has(nonce)))
    return { kind: 'refused', because: 'status' }
  const repeated = nonces.map((nonce) => ({ nonce, reason: 'duplicate' }) as const)
  return { kind: 'takes', shares: [], rejected: [...rejected, ...repeated] }
}

/**
 * Decides which nonces of an order's batches count, batch after batch: a nonce counts if it is a share, has
 * not counted before, and the order has room for it.
 *
 * @param order as it is stored
 * @param shares for each batch, those of its nonces that reach the difficulty
 * @param counted the nonces that counted before; those that count now are added to it
 * @returns for each batch the outcomes of its nonces, undefined for one that counts; and the nonces that count now
 */
export function applyBatches(
  order: Pick<WorkOrderRecord, 'shares_accepted' | 'shares_required'>,
  batches: readonly Pick<BatchRecord, 'nonces'>[],
  shares: readonly (readonly string[])[],
  counted: Set<string>,
): { outcomes: (Rejection | undefined)[][]; newlyCounted: string[] } {
  const room = order.shares_required - order.shares_accepted
  const newlyCounted: string[] = []
  const outcomes = batches.map(({ nonces = [] }, index) => {
    const areShares = new Set(shares[index])
    return nonces.map((nonce) => {
      if (!areShares.has(nonce)) return 'insufficient_work'
      if (counted.has(nonce)) return 'duplicate'
      if (newlyCounted.length >= room) return 'order_full'
      counted.add(nonce)
      newlyCounted.push(nonce)
      return undefined
    })
  })
  return { outcomes, newlyCounted }
}

/** What is stored of a batch that is verified; `count` is the number of its nonces as it was read. */
export interface VerifiedBatch extends Pick<BatchRecord, '_id' | 'count'> {
  /** By encodeOutcomes(). */
  outcomes: string
}

/** What is stored of an order for which shares count now, if it is still as it was read. */
export interface WorkUpdate {
  before: WorkOrderRecord
  set: Required<Pick<WorkOrderRecord, 'shares_accepted' | 'credited_days' | 'share_pages' | 'last_batch'>>
  page: SharePage
  /** Days that these shares complete; may be 0. */
  completedDays: number
}

/** What the verification of an order's waiting batches comes to. */
export interface Verification {
  batches: VerifiedBatch[]
  /** Absent if no nonce counts. */
  update?: WorkUpdate
}

/**
 * Decides what becomes of an order and of its waiting batches, as applyBatches() does.
 *
 * @param order as it was read
 * @param shares for each batch, those of its nonces that reach the difficulty
 * @param counted the nonces that counted before; those that count now are added to it
 */
export function verifyBatches(
  order: WorkOrderRecord,
  batches: readonly BatchRecord[],
  shares: readonly (readonly string[])[],
  counted: Set<string>,
): Verification {
  const { outcomes, newlyCounted } = applyBatches(order, batches, shares, counted)
  const verified = batches.map(({ _id, count }, index) => ({
    _id,
    count,
    outcomes: encodeOutcomes(outcomes[index] ?? []),
  }))
  if (newlyCounted.length === 0) return { batches: verified }
  const batchIds = batches.filter((_, index) => outcomes[index]?.includes(undefined)).map(({ _id }) => _id)
  const pageNumber = (order.share_pages ?? 0) + 1
  const sharesAccepted = order.shares_accepted + newlyCounted.length
  const creditedDays = Math.floor(sharesAccepted / order.shares_per_day)
  const update = {
    before: order,
    set: {
      shares_accepted: sharesAccepted,
      credited_days: creditedDays,
      share_pages: pageNumber,
      last_batch: batchIds.at(-1) ?? '',
    },
    page: { order_id: order._id, number: pageNumber, batch_ids: batchIds, nonces: newlyCounted },
    completedDays: creditedDays - order.credited_days,
  }
  return { batches: verified, update }
}
