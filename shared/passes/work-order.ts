import { randomBytes } from 'node:crypto'
import { spendAllowance } from '../agents/allowance-service.ts'
import type { Context } from '../context.ts'
import { Refusal } from '../platform/errors.ts'
import { newId } from '../platform/ids.ts'
import { MAX_OPEN_WORK_ORDERS, PREFIX_LENGTH } from '../platform/limits.ts'
import { insertInSlot } from '../platform/slots.ts'
import { DAY_MS, unixSeconds } from '../platform/time.ts'
import { workOrderTtlDays, type WorkOrderRecord } from './work.ts'

type WorkOrderContext = Pick<Context, 'config' | 'database' | 'agents' | 'work' | 'now'>

/**
 * Makes and stores a work order for `days` days. It keeps the difficulty and the shares per day that the
 * settings have now.
 *
 * @throws Refusal `wrong_state` if the agent has too many open orders, or has used up today's allowance;
 *   `unavailable` if the database's time is unknown
 */
export async function orderWork(
  ctx: WorkOrderContext,
  agentId: string,
  days: number,
): Promise<WorkOrderRecord> {
  await spendAllowance(ctx, agentId, 'changes')
  const nowMs = ctx.database.now()
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
  await insertInSlot(
    ctx,
    { owner: agentId, ownerField: 'agent_id', slots: MAX_OPEN_WORK_ORDERS },
    () => ctx.work.freeOldSlots(agentId, order.at),
    (open_slot) => ctx.work.insertOrder({ ...order, open_slot }),
    () =>
      new Refusal(
        'wrong_state',
        `You have ${MAX_OPEN_WORK_ORDERS} open work orders; finish one with POST /work/submit, or wait until one expires.`,
      ),
  )
  return order
}
