import type { Context } from '../../shared/context.ts'
import { Refusal } from '../../shared/foundation/errors.ts'
import type { Payload, QueueName } from '../../shared/servers/queues.ts'

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
  await ctx.queues.whenReady()
  if (!(await ctx.queues.enqueue(name, payload)))
    throw new Refusal('unavailable', 'Redis did not take the job; try again.')
}
