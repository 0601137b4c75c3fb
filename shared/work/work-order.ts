import { randomBytes } from 'node:crypto'
import type { Context } from '../context.ts'
import { newId } from '../ids.ts'
import { PREFIX_LENGTH } from '../limits.ts'
import { DAY_MS, unixSeconds } from '../time.ts'
import { workOrderTtlDays, type WorkOrderRecord } from './work.ts'

/** Makes a work order at today's difficulty and count, which are frozen with it. */
export async function orderWork(ctx: Context, agentId: string, days: number): Promise<WorkOrderRecord> {
  const nowMs = ctx.now()
  const { shareBits, sharesPerDay } = ctx.config
  const order: WorkOrderRecord = {
    _id: newId('work_order'),
    agent_id: agentId,
    at: unixSeconds(nowMs),
    days,
    shares_per_day: sharesPerDay,
    shares_required: days * sharesPerDay,
    difficulty_bits: shareBits,
    prefix: randomBytes(PREFIX_LENGTH / 2).toString('hex'),
    expires_at: unixSeconds(nowMs + workOrderTtlDays(days) * DAY_MS),
    shares_accepted: 0,
    credited_days: 0,
  }
  await ctx.work.insertOrder(order)
  return order
}
