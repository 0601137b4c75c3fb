import type { Context } from '../context.ts'
import { findShares } from '../crypto/pow.ts'
import { isDuplicateKey, type Session } from '../database.ts'
import { Refusal } from '../errors.ts'
import { newId } from '../ids.ts'
import { creditPaidDays } from '../passes/pass-service.ts'
import { DAY_MS, unixSeconds } from '../time.ts'
import { applyShares, sortNonces, workStatusAt, type BatchRecord, type Rejected, type WorkOrderRecord } from './work.ts'

/** How long a judged batch is kept for whoever still waits for its verdict; the shares themselves stay. */
const JUDGED_TTL_MS = DAY_MS

/**
 * Stores a batch for the workers. MongoDB has it before the job is enqueued, so the sweep brings it back if the job is
 * lost.
 *
 * @throws Refusal `no_such_work_order`; `wrong_state` for a full or expired order
 */
export async function submitShares(
  ctx: Context,
  agentId: string,
  orderId: string,
  sent: readonly (string | number)[],
): Promise<BatchRecord> {
  const order = await ctx.work.findOrder(orderId)
  if (order === undefined || order.agent_id !== agentId)
    throw new Refusal('no_such_work_order', 'You have no work order with this id.', { field: 'order_id' })
  const nowMs = ctx.now()
  const status = workStatusAt(order, unixSeconds(nowMs))
  if (status !== 'open')
    throw new Refusal('wrong_state', `This work order is ${status}; make a new one with POST /api/v1/invoice.`, { field: 'order_id' })
  const { nonces, rejected } = sortNonces(sent)
  const batch: BatchRecord = { _id: newId('work_batch'), order_id: orderId, at_ms: nowMs, state: 'waiting', nonces, rejected }
  await ctx.work.insertBatch(batch)
  await ctx.queues.enqueue('verify-shares', { batch_id: batch._id })
  return batch
}

/**
 * Judges one batch. Any number of workers may run this for one batch or for one order, and die anywhere in it.
 *
 * In one transaction the shares are claimed, one document each, whose unique id lets a nonce belong to one batch of its
 * order for ever; the batch turns judged, once; and the order's counts, the pass, the referral and the entries move. A
 * death before the commit leaves the batch waiting, and the sweep brings it again.
 *
 * A nonce that was claimed before makes the transaction fail as a whole. Then the claims are made first, outside of it,
 * each for itself: a second run of the same batch finds those that it made its own.
 */
export async function judgeBatch(ctx: Context, batchId: string): Promise<void> {
  const batch = await ctx.work.findBatch(batchId)
  if (batch === undefined || batch.state === 'judged') return
  const order = await ctx.work.findOrder(batch.order_id)
  if (order === undefined) throw new Error(`batch ${batchId} has no order`)
  const nonces = batch.nonces ?? []
  const shares = findShares(order.prefix, nonces, order.difficulty_bits)
  try {
    await ctx.database.transaction(async (session) => {
      await ctx.work.claimFreshNonces(order._id, batchId, shares, session)
      await settleBatch(ctx, batch, nonces, new Set(shares), shares, session)
    })
  } catch (error) {
    if (!isDuplicateKey(error)) throw error
    const own = await ctx.work.claimNonces(order._id, batchId, shares)
    await ctx.database.transaction((session) => settleBatch(ctx, batch, nonces, new Set(shares), own, session))
  }
}

async function settleBatch(
  ctx: Context,
  batch: BatchRecord,
  nonces: readonly string[],
  shares: ReadonlySet<string>,
  own: readonly string[],
  session: Session,
): Promise<void> {
  const order = await ctx.work.findOrder(batch.order_id, session)
  if (order === undefined) throw new Error(`batch ${batch._id} has no order`)
  const { counted, completedDays } = applyShares(order, own.length)
  const counting = new Set(own.slice(0, counted))
  const owned = new Set(own)
  const refused: Rejected[] = []
  for (const nonce of nonces) {
    if (counting.has(nonce)) continue
    refused.push({ nonce, reason: owned.has(nonce) ? 'order_full' : shares.has(nonce) ? 'duplicate' : 'insufficient_work' })
  }
  const nowMs = ctx.now()
  if (!(await ctx.work.judgeBatch(batch._id, counted, [...batch.rejected, ...refused], new Date(nowMs + JUDGED_TTL_MS), session))) return
  if (counted === 0) return
  const day = order.credited_days + completedDays
  const entries =
    completedDays === 0
      ? []
      : [
          await creditPaidDays(
            ctx,
            order.agent_id,
            completedDays,
            { source: `${order._id}/credit/${day}`, means: 'work', record: { order_id: order._id } },
            session,
          ),
        ]
  if (!(await ctx.work.countShares(order, counted, completedDays, entries, session)))
    throw new Error(`work order ${order._id} changed inside its own transaction`)
}

export interface Submission {
  batch: BatchRecord
  order: WorkOrderRecord
  passUntilMs: number | undefined
}

/** Where a batch's order and the agent's pass stand now. */
export async function readSubmission(ctx: Context, agentId: string, batch: BatchRecord): Promise<Submission> {
  const [order, agent] = await Promise.all([ctx.work.findOrder(batch.order_id), ctx.agents.find(agentId)])
  if (order === undefined) throw new Error(`batch ${batch._id} has no order`)
  return { batch, order, passUntilMs: agent?.pass_until_ms }
}
