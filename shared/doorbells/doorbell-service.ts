import { randomBytes } from 'node:crypto'
import type { Context } from '../context.ts'
import { spendAllowance } from '../agents/allowance-service.ts'
import { EVENT_KINDS } from '../events/mark.ts'
import { Refusal } from '../platform/errors.ts'
import { newStepId } from '../platform/ids.ts'
import type { Queues } from '../platform/queues.ts'
import { unixSeconds } from '../platform/time.ts'
import { checkDoorbellUrl, type DoorbellFields, type DoorbellRecord } from './doorbell.ts'

type DoorbellContext = Pick<Context, 'config' | 'database' | 'queues' | 'doorbells' | 'agents' | 'now'>

/** @throws Refusal `no_such_route`, as of a service that knows none, unless the operator has turned doorbells on */
function requireOn({ config }: Pick<Context, 'config'>): void {
  if (!config.doorbells.isOn)
    throw new Refusal(
      'no_such_route',
      'This service rings no doorbells: its operator has not turned them on. Poll GET /events.',
    )
}

/**
 * Sets an agent's doorbell in place of an earlier one. It rings once its URL has answered a challenge, which is
 * posted at once.
 *
 * @returns it, and the secret of its proof, which is shown this once
 * @throws Refusal `no_such_route`; `invalid_field` for a URL that may not be rung; `wrong_state` if the agent has
 *   used up today's allowance
 */
export async function setDoorbell(
  ctx: DoorbellContext,
  agentId: string,
  fields: DoorbellFields,
): Promise<{ bell: DoorbellRecord; secret: string }> {
  requireOn(ctx)
  const url = checkDoorbellUrl(fields.url, ctx.config.doorbells)
  await spendAllowance(ctx, agentId, 'changes')
  const nowMs = ctx.database.now()
  const before = await ctx.doorbells.find(agentId)
  const secret = randomBytes(32).toString('hex')
  const bell: DoorbellRecord = {
    _id: agentId,
    rev: newStepId(),
    url,
    kinds: fields.kinds ?? [...EVENT_KINDS],
    ...(fields.quiet_hours === undefined ? {} : { quiet_hours: fields.quiet_hours }),
    at: unixSeconds(nowMs),
    state: 'unproven',
    secret,
    tries: 0,
    // Setting it again and again posts no more often than rings do.
    due_ms: Math.max(nowMs, (before?.tried_ms ?? 0) + ctx.config.doorbells.intervalMs),
    ...(before?.tried_ms === undefined ? {} : { tried_ms: before.tried_ms }),
  }
  await ctx.doorbells.put(bell)
  await enqueueRing(ctx, bell, nowMs)
  return { bell, secret }
}

/** Reads an agent's doorbell; undefined if it has none. @throws Refusal `no_such_route` */
export async function readDoorbell(
  ctx: Pick<Context, 'config' | 'doorbells'>,
  agentId: string,
): Promise<DoorbellRecord | undefined> {
  requireOn(ctx)
  const bell = await ctx.doorbells.find(agentId)
  return bell?.state === 'removed' ? undefined : bell
}

/** Takes an agent's doorbell away, if it has one. @throws Refusal `no_such_route` */
export async function removeDoorbell(ctx: DoorbellContext, agentId: string): Promise<void> {
  const bell = await readDoorbell(ctx, agentId)
  if (bell === undefined) return
  const { _id, at, tried_ms: triedMs } = bell
  // What remains says when it was tried last, so that another one is tried no sooner.
  await ctx.doorbells.put({
    ...{ _id, at, rev: newStepId(), url: '', kinds: [], state: 'removed', tries: 0 },
    ...(triedMs === undefined ? {} : { tried_ms: triedMs }),
  })
}

/** The queue of a doorbell's rings: those that failed or were slow last time keep no others waiting. */
export const queueOf = ({ slow }: Pick<DoorbellRecord, 'slow'>): 'doorbells' | 'slow-doorbells' =>
  slow === true ? 'slow-doorbells' : 'doorbells'

/**
 * Enqueues the ring that is due, for the time at which it is. If the job is lost, the sweep enqueues it again.
 *
 * @param bell as it is stored by now
 */
export async function enqueueRing(
  { queues }: { queues: Pick<Queues, 'enqueue'> },
  bell: Pick<DoorbellRecord, '_id' | 'due_ms' | 'slow'>,
  nowMs: number,
): Promise<void> {
  if (bell.due_ms === undefined) return
  await queues.enqueue(
    queueOf(bell),
    { agent_id: bell._id },
    { debounceId: `${bell._id}.${bell.due_ms}`, delayMs: Math.max(0, Math.ceil(bell.due_ms - nowMs)) },
  )
}
