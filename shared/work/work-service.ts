import { setTimeout as sleep } from 'node:timers/promises'
import type { Context } from '../context.ts'
import { findShares } from '../crypto/pow.ts'
import { isDuplicateKey, isOutage, Overtaken, unlessOvertaken } from '../servers/database.ts'
import { Refusal } from '../foundation/errors.ts'
import { createGroups, performEachAlone, type Outcomes } from '../servers/group-commit.ts'
import { newId } from '../foundation/ids.ts'
import { MAX_BATCH_NONCES, SAMPLE_NONCES } from '../foundation/limits.ts'
import { oncePer } from '../foundation/once-per.ts'
import { creditPaidDays } from '../passes/pass-service.ts'
import { DAY_MS, unixSeconds } from '../foundation/time.ts'
import { createCountedNonces, notePage, type Counted, type CountedNonces } from './counted-nonces.ts'
import type { VerifiedBatch, Verification } from './work-store.ts'
import {
  verifyBatches,
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

/** How long a verified batch is kept for whoever still waits for its result; the shares themselves stay. */
const VERIFIED_TTL_MS = DAY_MS

/** How often a submission looks for a batch to join, if batches are verified as fast as it looks. */
const JOIN_TRIES = 5

/** What one request has handed in. */
export interface Submitted {
  order: WorkOrderRecord
  /** Not shares, or sent twice. */
  rejected: readonly Rejected[]
  /**
   * In the batch `batchId`, from its place `from` on, until the workers have verified them; empty if nothing
   * was left to verify.
   */
  shares: readonly string[]
  batchId?: string
  from: number
}

/**
 * Stores the shares among some nonces for the workers. MongoDB has them before the job is enqueued, so the
 * sweep brings it back if the job is lost. What is not a share is refused at once and not stored.
 *
 * @throws Refusal `no_such_work_order`; `wrong_state` for a full or expired order; `insufficient_work` for
 *   many nonces without one share; `unavailable` if the order has as many waiting as one batch may have
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
  const shares = findShares(order.prefix, nonces, order.difficulty_bits)
  if (shares.length === 0 && nonces.length > SAMPLE_NONCES) {
    throw new Refusal(
      'insufficient_work',
      `Not one of these nonces reaches ${order.difficulty_bits} zero bits, and none is looked at further; send nonces that do.`,
      { field: 'nonces' },
    )
  }
  const good = new Set(shares)
  const weak = nonces
    .filter((nonce) => !good.has(nonce))
    .map((nonce) => ({ nonce, reason: 'insufficient_work' as const }))
  const submitted = { order, shares, rejected: [...rejected, ...weak], from: 0 }
  return shares.length === 0 ? submitted : { ...submitted, ...(await storeShares(ctx, order, shares)) }
}

/** Puts shares into the batch of their order that waits, or into a new one. */
async function storeShares(
  ctx: Context,
  order: WorkOrderRecord,
  shares: string[],
): Promise<{ batchId: string; from: number }> {
  for (let tries = 0; tries < JOIN_TRIES; tries++) {
    const joined = tries === 0 ? undefined : await ctx.work.joinBatch(order._id, shares)
    if (joined !== undefined) {
      // Its job may have been lost with Redis; one that is there is not doubled.
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
    // Those of an agent that has others waiting come behind the first of every other agent.
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
    `As many shares of this order wait for the workers as one batch holds (${MAX_BATCH_NONCES}); nothing was done with these, send them again.`,
    { countedAs: 'no_room' },
  )
}

/**
 * Verifies one batch, together with others that workers of this process have at the same time. Any number of
 * workers may run this for one batch or for one order, and die anywhere in it.
 *
 * In one transaction each batch turns verified, once; each order's counts move on from where they were read,
 * and with them the page of the shares that count, the pass, the referral and the entries. A death before the
 * commit leaves the batches waiting, and the sweep brings them again.
 *
 * A nonce counts once for its order: it is compared with every page that the order has, and the result is
 * stored only if the order still has these pages and no more, and the batch still waits; otherwise all of it
 * is read again. A page's number is unique, and pages never change.
 */
export const verifyBatch = (ctx: Context, batchId: string): Promise<void> => verifierOf(ctx)(batchId)

const verifierOf = oncePer((ctx: Context) => {
  const counted = createCountedNonces(ctx.work)
  return createGroups((batchIds: string[]) => verifyGroup(ctx, counted, batchIds), {
    maxItems: BATCHES_TOGETHER,
    atOnce: 2,
  })
})

/** Batches verified in one transaction, which have 10,000 nonces each at most. */
const BATCHES_TOGETHER = 32
/**
 * How often a verification is made again because another worker was faster, before the job fails and comes
 * back later.
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
      for (const [orderId, known] of made.counted) counted.giveBack(orderId, known)
      return
    }
    await sleep(RACE_PAUSE_MS * Math.random() * (tries + 1))
  }
  throw new Error(
    `${batchIds.length} batches could not be verified, because others verified batches of the same orders all the time`,
  )
}

interface Verifications {
  verifications: Verification[]
  verified: VerifiedBatch[]
  /** By order, all that counts once this is stored. */
  counted: Map<string, Counted>
}

/** @returns undefined if an order has changed meanwhile */
async function makeVerifications(
  ctx: Context,
  counted: CountedNonces,
  batches: readonly BatchRecord[],
): Promise<Verifications | undefined> {
  const made: Verifications = { verifications: [], verified: [], counted: new Map() }
  const byOrder = Map.groupBy(batches, ({ order_id: orderId }) => orderId)
  const orders = await Promise.all(Array.from(byOrder.keys(), (orderId) => ctx.work.findOrder(orderId)))
  for (const [index, [orderId, own]] of [...byOrder].entries()) {
    const order = orders[index]
    if (order === undefined) throw new Error(`batch ${own[0]?._id} has no order`)
    const known = await counted.take(order)
    if (known === undefined) return undefined
    made.counted.set(orderId, known)
    const shares = own.map(({ nonces = [] }) => findShares(order.prefix, nonces, order.difficulty_bits))
    const { results, fresh, completedDays } = verifyBatches(order, own, shares, known.nonces)
    const counting = own.filter((_, place) => (results[place]?.accepted ?? 0) > 0).map(({ _id }) => _id)
    const page: SharePage = {
      order_id: orderId,
      number: (order.share_pages ?? 0) + 1,
      batch_ids: counting,
      nonces: fresh,
    }
    if (fresh.length > 0) notePage(known, page)
    for (const [place, { _id, count, nonces = [], rejected: before = [] }] of own.entries()) {
      const { accepted, rejected } = results[place] as BatchResult
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
    if (!(await ctx.work.verifyBatches(verified, new Date(ctx.databaseNow() + VERIFIED_TTL_MS), session)))
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

export interface Submission {
  order: WorkOrderRecord
  accepted: number
  rejected: readonly Rejected[]
  passUntilMs: number | undefined
}

/**
 * The result of a submission, as far as it is verified, with the present state of its order and of the
 * agent's pass.
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
