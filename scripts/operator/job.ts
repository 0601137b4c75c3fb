import type { Context } from '../../shared/context.ts'
import { withDeadline } from '../../shared/foundation/deadline.ts'
import { Refusal } from '../../shared/foundation/errors.ts'
import { SECOND_MS } from '../../shared/foundation/time.ts'
import type { Payload, QueueName } from '../../shared/servers/queues.ts'

const REDIS_LIMIT_MS = 5 * SECOND_MS

/** @throws Refusal `unavailable` if Redis is away, or frozen */
export const whenRedisIsReached = ({ queues }: Context): Promise<void> =>
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
 * Leaves work to the worker that can do it: what needs a key is enqueued, never done here.
 *
 * @throws Refusal `unavailable`
 */
export async function enqueueJob<Name extends QueueName>(
  ctx: Context,
  name: Name,
  payload: Payload<Name>,
): Promise<void> {
  await whenRedisIsReached(ctx)
  if (!(await ctx.queues.enqueue(name, payload)))
    throw new Refusal('unavailable', 'Redis did not take the job; try again.')
}
