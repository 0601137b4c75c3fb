import { setImmediate as nextPass, setTimeout as sleep } from 'node:timers/promises'
import type { Context } from '../context.ts'
import { findShares } from '../crypto/pow.ts'
import { change } from '../platform/change.ts'
import { isOutage, orOvertaken, Overtaken } from '../platform/database.ts'
import { Refusal } from '../platform/errors.ts'
import { createGroups, performTogether } from '../platform/group-commit.ts'
import { newId } from '../platform/ids.ts'
import type { PendingEntry } from '../ledger/pending.ts'
import { MAX_BATCH_NONCES } from '../platform/limits.ts'
import { oncePer } from '../platform/once-per.ts'
import { creditPaidDays } from './pass-service.ts'
import { isSlotTaken } from './work-store.ts'
import { DAY_MS, unixSeconds } from '../platform/time.ts'
import {
  createCountedNonceCache,
  setLastPage,
  type Counted,
  type CountedNonceCache,
} from './counted-nonces.ts'
import {
  decideRepeat,
  decideShares,
  mayBeRepeat,
  partitionNonces,
  takesShares,
  verifyBatches,
  type Verification,
} from './work-steps.ts'
import {
  decodeOutcomes,
  workStatusAt,
  type BatchRecord,
  type Rejected,
  type WorkOrderRecord,
} from './work.ts'

type WorkContext = Pick<Context, 'database' | 'queues' | 'agents' | 'work' | 'now'>

/**
 * How long a verified batch is kept so that a slow request still finds its result; the shares are kept for
 * ever.
 */
const VERIFIED_TTL_MS = DAY_MS

/**
 * Attempts to join the waiting batch or to insert a new one: each can miss if a batch is verified in
 * between.
 */
const JOIN_TRIES = 5

/** The nonces of one request, after the checks that need no other batch. */
export interface Submitted {
  order: WorkOrderRecord
  /** Nonces refused at once: malformed, not shares, or sent twice. */
  rejected: readonly Rejected[]
  /** The shares, which the workers verify in the batch `batchId`, from index `from` on. May be empty. */
  shares: readonly string[]
  /** Absent if there are no shares. */
  batchId?: string
  from: number
}

/**
 * Stores the shares among the sent nonces, for the workers to verify. They are in MongoDB before their job is
 * enqueued, so the sweep enqueues it again if it is lost. Nonces that are not shares are rejected at once and
 * not stored.
 *
 * @param values nonces as the agent sent them
 * @returns which nonces are rejected, and where the shares are stored
 * @throws Refusal `no_such_work_order`; `wrong_state` for a credited or expired order, unless every nonce
 *   counts for it already; `insufficient_work` for more than SAMPLE_NONCES nonces without a single share;
 *   `try_later` if the order's waiting batch is full
 */
export async function submitShares(
  ctx: WorkContext,
  agentId: string,
  orderId: string,
  values: readonly (string | number)[],
): Promise<Submitted> {
  const order = await ctx.work.findOrder(orderId)
  if (order === undefined || order.agent_id !== agentId)
    throw new Refusal('no_such_work_order', 'You have no work order with this id.', { field: 'order_id' })
  const status = workStatusAt(order, unixSeconds(ctx.database.now()))
  const sent = partitionNonces(values)
  const decision = takesShares(status)
    ? decideShares(sent, await verifyInSlices(order, sent.nonces))
    : decideRepeat(sent, mayBeRepeat(sent) ? await readCounted(ctx, order) : new Set())
  if (decision.kind === 'takes') {
    const { shares, rejected } = decision
    const submitted = { order, shares, rejected, from: 0 }
    return shares.length === 0 ? submitted : { ...submitted, ...(await storeShares(ctx, order, shares)) }
  }
  if (decision.because === 'status')
    throw new Refusal(
      'wrong_state',
      `This work order is ${status}; make a new one with POST /api/v1/invoice.`,
      { field: 'order_id' },
    )
  throw new Refusal(
    'insufficient_work',
    `None of these nonces reaches ${order.difficulty_bits} zero bits, so none was counted; send nonces that do.`,
    { field: 'nonces' },
  )
}

async function readCounted(ctx: WorkContext, order: WorkOrderRecord): Promise<Set<string>> {
  const pages = await ctx.work.listPages(order._id, 1, order.share_pages ?? 0)
  return new Set(pages.flatMap((page) => page.nonces))
}

/** Nonces verified before others have their turn: some 0.3 ms of work. */
const SLICE_NONCES = 1_000
let lastTurn = Promise.resolve()

/**
 * Waits for a pass of the event loop in which nobody else who waits here goes on: others have their turn, and
 * so has the renewal of the locks of all jobs under way, however slow this process is.
 */
function nextTurn(): Promise<void> {
  lastTurn = lastTurn.then(() => nextPass())
  return lastTurn
}

/** Returns the shares among the nonces. */
async function verifyInSlices(
  { prefix, difficulty_bits: bits }: WorkOrderRecord,
  nonces: readonly string[],
): Promise<string[]> {
  const shares: string[] = []
  for (let from = 0; from < nonces.length; from += SLICE_NONCES) {
    if (nonces.length > SLICE_NONCES) await nextTurn()
    shares.push(...findShares(prefix, nonces.slice(from, from + SLICE_NONCES), bits))
  }
  return shares
}

/**
 * Adds shares to the order's waiting batch, or to a new batch if there is none, and enqueues the batch's job.
 *
 * @returns the batch, and the index of the first of these shares in it
 * @throws Refusal `try_later` if the waiting batch has no room for them
 */
async function storeShares(
  ctx: WorkContext,
  order: WorkOrderRecord,
  shares: readonly string[],
): Promise<{ batchId: string; from: number }> {
  for (let tries = 0; tries < JOIN_TRIES; tries++) {
    const joined = tries === 0 ? undefined : await ctx.work.joinBatch(order._id, shares)
    if (joined !== undefined) {
      // Its job may have been lost with Redis; if it wasn't, this adds no second one.
      await ctx.queues.enqueue('verify-shares', { batch_id: joined.batchId }, { debounceId: joined.batchId })
      return joined
    }
    const batch: BatchRecord = {
      _id: newId('work_batch'),
      order_id: order._id,
      agent_id: order.agent_id,
      at_ms: ctx.now(),
      state: 'waiting',
      slot: order._id,
      nonces: [...shares],
      count: shares.length,
    }
    try {
      await ctx.work.insertBatch(batch)
    } catch (error) {
      if (!isSlotTaken(error)) throw error
      continue
    }
    // Fairness: an agent's second waiting batch comes after every other agent's first.
    const otherBatches = (await ctx.work.countWaiting(order.agent_id)) - 1
    await ctx.queues.enqueue(
      'verify-shares',
      { batch_id: batch._id },
      { debounceId: batch._id, ...(otherBatches > 0 ? { priority: otherBatches } : {}) },
    )
    return { batchId: batch._id, from: 0 }
  }
  throw new Refusal(
    'try_later',
    `This order already has as many shares waiting to be verified as one batch holds (${MAX_BATCH_NONCES}); these were not stored, so send them again.`,
  )
}

/**
 * Verifies one batch and stores its result, in one transaction with others that this process is asked to
 * verify at the same time. A batch that is verified already is left as it is. Any number of workers may run
 * this for one batch or for one order, and may die at any point.
 *
 * The transaction marks each batch as verified, adds to each order's counts, and stores the page of counted
 * shares, the pass, the referral and the ledger entries. If the process dies before the commit, the batches
 * are still waiting, and the sweep enqueues them again.
 *
 * A nonce counts once for its order: it is compared with every page of the order, and the result is stored
 * only if the order still has exactly these pages and the batch is still waiting; otherwise everything is
 * read again. A page's number is unique, and pages never change.
 *
 * @returns what this call counted
 * @throws Refusal `unavailable` if other workers kept verifying batches of the same orders for too long; any
 *   error of the database
 */
export const verifyBatch = (ctx: WorkContext, batchId: string): Promise<BatchCounts> =>
  verifierOf(ctx)(batchId)

/** How many nonces of a batch count and how many don't; none of either if it was verified before. */
export interface BatchCounts extends Readonly<Record<string, number>> {
  readonly accepted: number
  readonly rejected: number
}

/** Returns the function of a context that verifies batches in groups; it is created at the first call. */
const verifierOf = oncePer((ctx: WorkContext) => {
  const cache = createCountedNonceCache(ctx.work)
  const verify = (batchIds: readonly string[]) => verifyTogether(ctx, cache, batchIds)
  return createGroups((batchIds: string[]) => performTogether(batchIds, verify), {
    maxItems: BATCHES_TOGETHER,
    atOnce: 2,
  })
})

/** Batches verified in one transaction, of at most MAX_BATCH_NONCES nonces each. */
const BATCHES_TOGETHER = 32

/** Verifies those of the batches that are waiting, and stores the results in one transaction. */
async function verifyTogether(
  ctx: WorkContext,
  cache: CountedNonceCache,
  batchIds: readonly string[],
): Promise<BatchCounts[]> {
  const counts = new Map<string, BatchCounts>()
  await change({
    now: () => ctx.database.now(),
    read: () => readWaiting(ctx, cache, batchIds),
    decide: (waiting, nowMs) => ({
      verifications: waiting.map(({ order, batches, shares, counted }) =>
        verifyBatches(order, batches, shares, counted.nonces),
      ),
      forgetAt: new Date(nowMs + VERIFIED_TTL_MS),
    }),
    async store({ verifications, forgetAt }, waiting) {
      if (waiting.length === 0) return
      await storeVerifications(ctx, verifications, forgetAt)
      for (const [index, { order, counted }] of waiting.entries()) {
        const page = verifications[index]?.update?.page
        if (page !== undefined) setLastPage(counted, page)
        cache.putBack(order._id, counted)
      }
      for (const { _id, outcomes } of verifications.flatMap(({ batches }) => batches)) {
        const accepted = decodeOutcomes(outcomes).filter((reason) => reason === undefined).length
        counts.set(_id, { accepted, rejected: outcomes.length - accepted })
      }
    },
  })
  return batchIds.map((id) => counts.get(id) ?? { accepted: 0, rejected: 0 })
}

/** The waiting batches of an order, with everything that decides what counts of them. */
interface Waiting {
  order: WorkOrderRecord
  batches: BatchRecord[]
  /** For each batch, those of its nonces that reach the difficulty. */
  shares: string[][]
  /** Taken out of the cache. */
  counted: Counted
}

/**
 * Reads those of the batches that are waiting, by their orders, and hashes their nonces.
 *
 * @throws Overtaken if an order has changed since it was read
 */
async function readWaiting(
  ctx: WorkContext,
  cache: CountedNonceCache,
  batchIds: readonly string[],
): Promise<Waiting[]> {
  const waiting: Waiting[] = []
  const found = await ctx.work.findWaiting([...new Set(batchIds)])
  const byOrder = Map.groupBy(found, ({ order_id: orderId }) => orderId)
  const orders = await Promise.all(Array.from(byOrder.keys(), (orderId) => ctx.work.findOrder(orderId)))
  for (const [index, [orderId, batches]] of [...byOrder].entries()) {
    const order = orders[index]
    if (order === undefined) throw new Error(`batch ${batches[0]?._id} has no order`)
    const counted = await cache.takeOut(order)
    if (counted === undefined) throw new Overtaken(`work order ${orderId} has changed since it was read`)
    const shares: string[][] = []
    for (const { nonces = [] } of batches) {
      shares.push(findShares(order.prefix, nonces, order.difficulty_bits))
      await nextTurn()
    }
    waiting.push({ order, batches, shares, counted })
  }
  return waiting
}

/**
 * Stores the results of batches, and credits the days that they complete, in one transaction.
 *
 * @throws Overtaken on a conflict with another worker; then nothing is stored
 */
async function storeVerifications(
  ctx: WorkContext,
  verifications: readonly Verification[],
  forgetAt: Date,
): Promise<void> {
  const storing = ctx.database.transaction(async (session) => {
    const batches = verifications.flatMap((verification) => verification.batches)
    await ctx.work.markVerified(batches, forgetAt, session)
    const updates = verifications.flatMap(({ update }) => (update === undefined ? [] : [update]))
    const entries = new Map<string, PendingEntry>()
    for (const { before, set, completedDays } of updates) {
      if (completedDays === 0) continue
      const source = `${before._id}/credit/${set.credited_days}`
      const credit = { source, means: 'work' as const, record: { order_id: before._id } }
      entries.set(before._id, await creditPaidDays(ctx, before.agent_id, completedDays, credit, session))
    }
    await ctx.work.addShares(updates, entries, session)
  })
  await orOvertaken(storing)
}

/** The first and the longest pause before it is asked again whether a batch is verified. */
const ASK_AFTER_MS = { first: 10, longest: 100 } as const

/**
 * Waits until a batch is verified, and reads it. MongoDB is asked, not Redis, in which its job may be lost.
 *
 * @returns undefined if it isn't verified after `limitMs`
 * @throws any error of the database but an outage, in which the batch stays stored; why the request is over
 */
export async function waitUntilVerified(
  { work }: Pick<Context, 'work'>,
  batchId: string,
  limitMs: number,
): Promise<BatchRecord | undefined> {
  const endMs = performance.now() + limitMs
  let pauseMs: number = ASK_AFTER_MS.first
  while (performance.now() + pauseMs < endMs) {
    await sleep(pauseMs)
    pauseMs = Math.min(1.5 * pauseMs, ASK_AFTER_MS.longest)
    const verified = await work.findVerified(batchId).catch((error: unknown) => {
      if (!isOutage(error)) throw error
      return undefined
    })
    if (verified !== undefined) return verified
  }
  return undefined
}

/** The result of a submission, as `POST /work/submit` answers it. */
export interface Submission {
  order: WorkOrderRecord
  /** Number of its nonces that count. */
  accepted: number
  rejected: readonly Rejected[]
  /** End of the agent's pass, in milliseconds since the epoch. */
  passUntilMs: number | undefined
}

/**
 * Returns the result of a submission, with the present state of its order and of the agent's pass.
 *
 * @param verified the submission's batch; undefined if it isn't verified yet, and then `accepted` is 0
 */
export async function readSubmission(
  ctx: WorkContext,
  agentId: string,
  submitted: Submitted,
  verified: BatchRecord | undefined,
): Promise<Submission> {
  const { shares, rejected, from } = submitted
  const [order, agent] = await Promise.all([
    ctx.work.findOrder(submitted.order._id),
    ctx.agents.find(agentId),
  ])
  if (order === undefined) throw new Error(`a submission of agent ${agentId} has no order`)
  const outcomes = decodeOutcomes(verified?.outcomes?.slice(from, from + shares.length) ?? '')
  const refused = shares.flatMap((nonce, index) => {
    const reason = outcomes[index]
    return reason === undefined ? [] : [{ nonce, reason }]
  })
  return {
    order,
    accepted: verified === undefined ? 0 : shares.length - refused.length,
    rejected: [...rejected, ...refused],
    passUntilMs: agent?.pass_until_ms,
  }
}
