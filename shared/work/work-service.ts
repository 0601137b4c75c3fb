import { setTimeout as sleep } from 'node:timers/promises'
import type { Context } from '../context.ts'
import { verifyShares } from '../crypto/share-verifier.ts'
import { isDuplicateKey, isOutage, Overtaken, unlessOvertaken } from '../servers/database.ts'
import { Refusal } from '../foundation/errors.ts'
import { createGroups, performEachAlone, type Outcomes } from '../servers/group-commit.ts'
import { newId } from '../foundation/ids.ts'
import { MAX_BATCH_NONCES, SAMPLE_NONCES } from '../foundation/limits.ts'
import { oncePer } from '../foundation/once-per.ts'
import { creditPaidDays } from '../passes/pass-service.ts'
import { DAY_MS, unixSeconds } from '../foundation/time.ts'
import { createCountedNonces, setLastPage, type Counted, type CountedNonces } from './counted-nonces.ts'
import type { VerifiedBatch, Verification } from './work-store.ts'
import {
  applyBatches,
  readOutcomes,
  partitionNonces,
  workStatusAt,
  writeOutcomes,
  type BatchRecord,
  type Rejected,
  type SharePage,
  type BatchResult,
  type WorkOrderRecord,
} from './work.ts'

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
  /** Refused at once: not shares, or sent twice. */
  rejected: readonly Rejected[]
  /**
   * The nonces left for the workers to verify: in the batch `batchId`, from index `from` on. May be empty.
   */
  shares: readonly string[]
  batchId?: string
  from: number
}

/**
 * Stores the shares among the sent nonces, for the workers to verify. They are in MongoDB before their job is
 * enqueued, so the sweep enqueues it again if it is lost. Nonces that are not shares are rejected at once and
 * not stored.
 *
 * @throws Refusal `no_such_work_order`; `wrong_state` for a credited or expired order; `insufficient_work`
 *   for more than SAMPLE_NONCES nonces without a single share; `unavailable` if the order's waiting batch is
 *   full
 */
export async function submitShares(
  ctx: Context,
  agentId: string,
  orderId: string,
  sent: readonly (string | number)[],
): Promise<Submitted> {
  const order = await ctx.work.findOrder(orderId)
  if (order === undefined || order.agent_id !== agentId)
    throw new Refusal('no_such_work_order', 'You have no work order with this id.', { field: 'order_id' })
  const status = workStatusAt(order, unixSeconds(ctx.databaseNow()))
  if (status !== 'open')
    throw new Refusal(
      'wrong_state',
      `This work order is ${status}; make a new one with POST /api/v1/invoice.`,
      { field: 'order_id' },
    )
  const { nonces, rejected } = partitionNonces(sent)
  const shares = verifyShares(order.prefix, nonces, order.difficulty_bits)
  if (shares.length === 0 && nonces.length > SAMPLE_NONCES) {
    throw new Refusal(
      'insufficient_work',
      `None of these nonces reaches ${order.difficulty_bits} zero bits, so none was counted; send nonces that do.`,
      { field: 'nonces' },
    )
  }
  // Both are in one order, and no nonce stands twice.
  let next = 0
  const weak: Rejected[] = []
  for (const nonce of nonces) {
    if (nonce === shares[next]) next++
    else weak.push({ nonce, reason: 'insufficient_work' })
  }
  const submitted = { order, shares, rejected: [...rejected, ...weak], from: 0 }
  return shares.length === 0 ? submitted : { ...submitted, ...(await storeShares(ctx, order, shares)) }
}

/** Adds shares to the order's waiting batch, or to a new batch if there is none. */
async function storeShares(
  ctx: Context,
  order: WorkOrderRecord,
  shares: string[],
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
      nonces: shares,
      count: shares.length,
    }
    try {
      await ctx.work.insertBatch(batch)
    } catch (error) {
      if (!isDuplicateKey(error, 'slot')) throw error
      continue
    }
    // Fairness: an agent's second waiting batch comes after every other agent's first.
    const ahead = (await ctx.work.countWaiting(order.agent_id)) - 1
    await ctx.queues.enqueue(
      'verify-shares',
      { batch_id: batch._id },
      { debounceId: batch._id, ...(ahead > 0 ? { priority: ahead } : {}) },
    )
    return { batchId: batch._id, from: 0 }
  }
  throw new Refusal(
    'unavailable',
    `This order already has as many shares waiting to be verified as one batch holds (${MAX_BATCH_NONCES}); these were not stored, so send them again.`,
    { countedAs: 'no_room' },
  )
}

/**
 * Verifies one batch, in one transaction with others that this process is asked to verify at the same time.
 * Any number of workers may run this for one batch or for one order, and may die at any point.
 *
 * The transaction marks each batch as verified, adds to each order's counts, and stores the page of counted
 * shares, the pass, the referral and the ledger entries. If the process dies before the commit, the batches
 * are still waiting, and the sweep enqueues them again.
 *
 * A nonce counts once for its order: it is compared with every page of the order, and the result is stored
 * only if the order still has exactly these pages and the batch is still waiting; otherwise everything is
 * read again. A page's number is unique, and pages never change.
 *
 * @throws Error if other workers kept verifying batches of the same orders through all retries; any error of
 *   the database
 */
export const verifyBatch = (ctx: Context, batchId: string): Promise<void> => verifierOf(ctx)(batchId)

const verifierOf = oncePer((ctx: Context) => {
  const counted = createCountedNonces(ctx.work)
  return createGroups((batchIds: string[]) => verifyGroup(ctx, counted, batchIds), {
    maxItems: BATCHES_TOGETHER,
    atOnce: 2,
  })
})

/** Batches verified in one transaction, of at most MAX_BATCH_NONCES nonces each. */
const BATCHES_TOGETHER = 32
/**
 * Attempts at a verification that conflicts with other workers, before the job fails and is retried later.
 */
const TRIES = 50
const RACE_PAUSE_MS = 5

async function verifyGroup(
  ctx: Context,
  counted: CountedNonces,
  batchIds: string[],
): Promise<Outcomes<void>> {
  try {
    await verifyTogether(ctx, counted, batchIds)
    return batchIds.map(() => ({ status: 'fulfilled', value: undefined }))
  } catch (error) {
    if (batchIds.length === 1 || isOutage(error)) throw error
    return performEachAlone(batchIds, (batchId) => verifyTogether(ctx, counted, [batchId]))
  }
}

async function verifyTogether(
  ctx: Context,
  counted: CountedNonces,
  batchIds: readonly string[],
): Promise<void> {
  for (let tries = 0; tries < TRIES; tries++) {
    const batches = await ctx.work.findWaiting([...new Set(batchIds)])
    if (batches.length === 0) return
    const made = await makeVerifications(ctx, counted, batches)
    if (made !== undefined && (await storeVerifications(ctx, made))) {
      for (const [orderId, nonces] of made.counted) counted.giveBack(orderId, nonces)
      return
    }
    await sleep(RACE_PAUSE_MS * Math.random() * (tries + 1))
  }
  throw new Error(
    `${batchIds.length} batches could not be verified: other workers verified batches of the same orders each time`,
  )
}

interface Verifications {
  verifications: Verification[]
  verified: VerifiedBatch[]
  /** By order id, the nonces that count once this is stored. */
  counted: Map<string, Counted>
}

/** Verifies batches without storing anything. @returns undefined if an order has changed since it was read */
async function makeVerifications(
  ctx: Context,
  counted: CountedNonces,
  batches: readonly BatchRecord[],
): Promise<Verifications | undefined> {
  const made: Verifications = { verifications: [], verified: [], counted: new Map() }
  const byOrder = Map.groupBy(batches, ({ order_id: orderId }) => orderId)
  const orders = await Promise.all(Array.from(byOrder.keys(), (orderId) => ctx.work.findOrder(orderId)))
  for (const [index, [orderId, ordersBatches]] of [...byOrder].entries()) {
    const order = orders[index]
    if (order === undefined) throw new Error(`batch ${ordersBatches[0]?._id} has no order`)
    const ordersCounted = await counted.take(order)
    if (ordersCounted === undefined) return undefined
    made.counted.set(orderId, ordersCounted)
    const shares = ordersBatches.map(({ nonces = [], text }) =>
      verifyShares(order.prefix, nonces, order.difficulty_bits, text),
    )
    const { results, fresh, completedDays } = applyBatches(order, ordersBatches, shares, ordersCounted.nonces)
    const counting = ordersBatches
      .filter((_, position) => (results[position]?.accepted ?? 0) > 0)
      .map(({ _id }) => _id)
    const page: SharePage = {
      order_id: orderId,
      number: (order.share_pages ?? 0) + 1,
      batch_ids: counting,
      nonces: fresh,
    }
    if (fresh.length > 0) setLastPage(ordersCounted, page)
    for (const [position, { _id, count, nonces = [], rejected: before = [] }] of ordersBatches.entries()) {
      const { accepted, rejected } = results[position] as BatchResult
      const outcomes = writeOutcomes(nonces, rejected.slice(before.length))
      made.verified.push({ _id, ...(count === undefined ? {} : { count }), accepted, outcomes })
    }
    made.verifications.push({
      before: order,
      ...(fresh.length === 0 ? {} : { page }),
      completedDays,
      entries: [],
    })
  }
  return made
}

/** @returns false on a conflict with another worker; then nothing is stored */
async function storeVerifications(
  ctx: Context,
  { verifications, verified }: Verifications,
): Promise<boolean> {
  const storing = ctx.database.transaction(async (session) => {
    if (!(await ctx.work.markVerified(verified, new Date(ctx.databaseNow() + VERIFIED_TTL_MS), session)))
      throw new Overtaken()
    const credited: Verification[] = []
    for (const verification of verifications) {
      const { before, completedDays } = verification
      if (completedDays === 0) {
        credited.push(verification)
        continue
      }
      const source = `${before._id}/credit/${before.credited_days + completedDays}`
      const credit = { source, means: 'work' as const, record: { order_id: before._id } }
      credited.push({
        ...verification,
        entries: [await creditPaidDays(ctx, before.agent_id, completedDays, credit, session)],
      })
    }
    if (!(await ctx.work.addShares(credited, session))) throw new Overtaken()
  })
  return unlessOvertaken(storing)
}

/** The result of a submission, as `POST /work/submit` answers it. */
export interface Submission {
  order: WorkOrderRecord
  accepted: number
  rejected: readonly Rejected[]
  /** End of the agent's pass, in milliseconds since the epoch. */
  passUntilMs: number | undefined
}

/**
 * Reads the result of a submission, with the present state of its order and of the agent's pass.
 *
 * @param verified the submission's batch; undefined if it isn't verified yet, and then `accepted` is 0
 */
export async function readSubmission(
  ctx: Context,
  agentId: string,
  { order: { _id: orderId }, shares, rejected, from }: Submitted,
  verified: BatchRecord | undefined,
): Promise<Submission> {
  const [order, agent] = await Promise.all([ctx.work.findOrder(orderId), ctx.agents.find(agentId)])
  if (order === undefined) throw new Error(`a submission of agent ${agentId} has no order`)
  const outcomes = verified === undefined ? [] : readOutcomes(verified.outcomes ?? '', from, shares.length)
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
