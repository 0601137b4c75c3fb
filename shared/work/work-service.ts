import { setTimeout as sleep } from 'node:timers/promises'
import type { Context } from '../context.ts'
import { findShares } from '../crypto/pow.ts'
import { isOutage, Overtaken, unlessOvertaken } from '../database.ts'
import { Refusal } from '../errors.ts'
import { createGroups, performEachAlone, type Outcomes } from '../group-commit.ts'
import { newId } from '../ids.ts'
import { creditPaidDays } from '../passes/pass-service.ts'
import { DAY_MS, unixSeconds } from '../time.ts'
import { createCountedNonces, notePage, type Counted, type CountedNonces } from './counted-nonces.ts'
import type { Judgement } from './work-store.ts'
import { judgeBatches, sortNonces, workStatusAt, type BatchRecord, type SharePage, type Verdict, type WorkOrderRecord } from './work.ts'

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
 * Judges one batch, together with others that workers of this process have at the same time. Any number of workers may
 * run this for one batch or for one order, and die anywhere in it.
 *
 * In one transaction each batch turns judged, once; each order's counts move on from where they were read, and with them
 * the page of the shares that count, the pass, the referral and the entries. A death before the commit leaves the batches
 * waiting, and the sweep brings them again.
 *
 * A nonce counts once for its order: a judgement is made against every page that the order has, and is stored on the
 * condition that the order still has these and no more. Whoever finds another page there reads again, and so does whoever
 * finds a batch judged. A page's number is unique, and pages never change.
 */
export function judgeBatch(ctx: Context, batchId: string): Promise<void> {
  let judge = judges.get(ctx)
  if (judge === undefined) {
    const counted = createCountedNonces(ctx.work)
    judge = createGroups((batchIds: string[]) => judgeGroup(ctx, counted, batchIds), { maxItems: BATCHES_TOGETHER, atOnce: 2 })
    judges.set(ctx, judge)
  }
  return judge(batchId)
}

const judges = new WeakMap<Context, (batchId: string) => Promise<void>>()

/** Batches judged in one transaction, which have 10,000 nonces each at most. */
const BATCHES_TOGETHER = 32
/** How often a judgement is made again because another worker was faster, before the job fails and comes back later. */
const TRIES = 50
const RACE_PAUSE_MS = 5

async function judgeGroup(ctx: Context, counted: CountedNonces, batchIds: string[]): Promise<Outcomes<void>> {
  try {
    await judgeTogether(ctx, counted, batchIds)
    return batchIds.map(() => ({ status: 'fulfilled', value: undefined }))
  } catch (error) {
    if (batchIds.length === 1 || isOutage(error)) throw error
    return performEachAlone(batchIds, (batchId) => judgeTogether(ctx, counted, [batchId]))
  }
}

async function judgeTogether(ctx: Context, counted: CountedNonces, batchIds: readonly string[]): Promise<void> {
  for (let tries = 0; tries < TRIES; tries++) {
    const batches = await ctx.work.findWaiting([...new Set(batchIds)])
    if (batches.length === 0) return
    const made = await makeJudgements(ctx, counted, batches)
    if (made !== undefined && (await storeJudgements(ctx, made))) {
      for (const [orderId, known] of made.counted) counted.giveBack(orderId, known)
      return
    }
    await sleep(RACE_PAUSE_MS * Math.random() * (tries + 1))
  }
  throw new Error(`${batchIds.length} batches could not be judged, because others judged batches of the same orders all the time`)
}

interface Judgements {
  judgements: Judgement[]
  verdicts: Map<string, Verdict>
  /** By order, all that counts once this is stored. */
  counted: Map<string, Counted>
}

/** @returns undefined where an order has changed since it was read */
async function makeJudgements(ctx: Context, counted: CountedNonces, batches: readonly BatchRecord[]): Promise<Judgements | undefined> {
  const made: Judgements = { judgements: [], verdicts: new Map(), counted: new Map() }
  const byOrder = Map.groupBy(batches, ({ order_id: orderId }) => orderId)
  const orders = await Promise.all(Array.from(byOrder.keys(), (orderId) => ctx.work.findOrder(orderId)))
  for (const [index, [orderId, own]] of [...byOrder].entries()) {
    const order = orders[index]
    if (order === undefined) throw new Error(`batch ${own[0]?._id} has no order`)
    const known = await counted.take(order)
    if (known === undefined) return undefined
    made.counted.set(orderId, known)
    const shares = own.map(({ nonces = [] }) => findShares(order.prefix, nonces, order.difficulty_bits))
    const { verdicts, fresh, completedDays } = judgeBatches(order, own, shares, known.nonces)
    const counting = own.filter((_, place) => (verdicts[place]?.accepted ?? 0) > 0).map(({ _id }) => _id)
    const page: SharePage = { order_id: orderId, number: (order.share_pages ?? 0) + 1, batch_ids: counting, nonces: fresh }
    if (fresh.length > 0) notePage(known, page)
    for (const [place, { _id }] of own.entries()) made.verdicts.set(_id, verdicts[place] as Verdict)
    made.judgements.push({ before: order, ...(fresh.length === 0 ? {} : { page }), completedDays, entries: [] })
  }
  return made
}

/** @returns false where a batch or an order was not as it was read any more; then nothing is stored */
async function storeJudgements(ctx: Context, { judgements, verdicts }: Judgements): Promise<boolean> {
  const storing = ctx.database.transaction(async (session) => {
    if (!(await ctx.work.judgeBatches(verdicts, new Date(ctx.now() + JUDGED_TTL_MS), session))) throw new Overtaken()
    const credited: Judgement[] = []
    for (const judgement of judgements) {
      const { before, completedDays } = judgement
      if (completedDays === 0) {
        credited.push(judgement)
        continue
      }
      const source = `${before._id}/credit/${before.credited_days + completedDays}`
      const credit = { source, means: 'work' as const, record: { order_id: before._id } }
      credited.push({ ...judgement, entries: [await creditPaidDays(ctx, before.agent_id, completedDays, credit, session)] })
    }
    if (!(await ctx.work.countShares(credited, session))) throw new Overtaken()
  })
  return unlessOvertaken(storing)
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
