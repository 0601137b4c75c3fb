import type { Context } from '../../shared/context.ts'
import { hasNoWorker, readQueueStates } from '../../shared/servers/queue-state.ts'
import { SECOND_MS } from '../../shared/foundation/time.ts'

const LOOK_EVERY_MS = 15 * SECOND_MS

/** Says in the log when a queue has work and no worker, once, and when it has one again. */
export function watchQueues(ctx: Context, everyMs = LOOK_EVERY_MS): { close(): void } {
  let starved: readonly string[] = []
  let isLooking = false
  const look = async (): Promise<void> => {
    if (isLooking || !ctx.queues.isConnected()) return
    isLooking = true
    try {
      const states = (await readQueueStates(ctx.queues, ctx.now())).filter(hasNoWorker)
      for (const { name, waiting } of states)
        if (!starved.includes(name)) ctx.log.error({ queue: name, waiting }, 'a queue has work and no worker')
      for (const name of starved)
        if (!states.some((state) => state.name === name))
          ctx.log.info({ queue: name }, 'the queue has a worker again')
      starved = states.map(({ name }) => name)
    } catch (error) {
      ctx.log.warn({ err: error }, 'the queues could not be looked at')
    } finally {
      isLooking = false
    }
  }
  const timer = setInterval(() => void look(), everyMs)
  return { close: () => clearInterval(timer) }
}
