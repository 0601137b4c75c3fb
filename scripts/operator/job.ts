import type { Context } from '../../shared/context.ts'
import { withDeadline } from '../../shared/platform/deadline.ts'
import { Refusal } from '../../shared/platform/errors.ts'
import { SECOND_MS } from '../../shared/platform/time.ts'
import type { Payload, QueueName } from '../../shared/platform/queue-table.ts'

const REDIS_LIMIT_MS = 5 * SECOND_MS

/** Waits until Redis answers. @throws Refusal `unavailable` if it is away, or frozen */
export const whenRedisAnswers = ({ queues }: Context): Promise<void> =>
  withDeadline(
    queues.whenReady(),
    REDIS_LIMIT_MS,
    () =>
      new Refusal(
        'unavailable',
        `Redis did not answer within ${REDIS_LIMIT_MS / SECOND_MS} s; \`operator status\` says what is away.`,
      ),
  )

/**
 * Enqueues work for the worker that can do it: what needs a key is never done by the operator's command.
 *
 * @throws Refusal `unavailable` if Redis doesn't answer, or doesn't take the job
 */
export async function enqueueJob<Name extends QueueName>(
  ctx: Context,
  name: Name,
  payload: Payload<Name>,
): Promise<void> {
  await whenRedisAnswers(ctx)
  if (!(await ctx.queues.enqueue(name, payload)))
    throw new Refusal('unavailable', 'Redis did not take the job; try again.')
}
