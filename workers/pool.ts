import { setTimeout as sleep } from 'node:timers/promises'
import { STOP_LIMIT_MS } from '../shared/platform/limits.ts'
import { createTracker, type Tracker } from '../shared/platform/tracker.ts'
import { COIN_FACTS } from '../shared/money/coin-facts.ts'
import { switchOffIfSilent } from '../shared/money/watch-round.ts'
import { COINS } from '../shared/money/coin.ts'
import { queueRow, type QueueName } from '../shared/platform/queue-table.ts'
import { connectWaiting, type RedisClient } from '../shared/platform/redis-connection.ts'
import { startNanoListener } from './nano-listener.ts'
import { keyOf, serveWithKey } from './keyed-queues.ts'
import { startQueueWorker } from './queue-worker.ts'
import { servedQueues, type WorkerContext } from './worker-context.ts'

export interface Pool {
  /** Takes no new jobs, finishes those under way, and disconnects from Redis. */
  close(): Promise<void>
}

/** Pauses between the regular jobs of queues, in ms. */
export type Intervals = Partial<Record<QueueName, number>>

/**
 * Serves those of the named queues that this process's settings allow, until closed; those that use a key
 * only while this process has the key's lease. Adds their regular jobs, and listens to the Nano node if
 * `watch-nano` is among them. A handler's error is logged, and the job is retried if that can help.
 *
 * @param intervals override the intervals of the settings and of queues.ts
 */
export function startPool(ctx: WorkerContext, names: readonly QueueName[], intervals: Intervals = {}): Pool {
  const { redisUrl } = ctx.config
  if (redisUrl === undefined) throw new TypeError('"ctx.config" expected a redisUrl')
  const connection = connectWaiting(redisUrl, ctx.log)
  const served = servedQueues(ctx.config, names)
  const byKey = Map.groupBy(served, keyOf)
  const workers = (byKey.get(undefined) ?? []).map((name) => startQueueWorker(ctx, name, connection))
  for (const [key, keyed] of byKey)
    if (key !== undefined)
      workers.push(serveWithKey(ctx, key, (guarded) => serveAll(ctx, guarded, keyed, connection)))
  /** Work that is done outside of jobs. */
  const aside = createTracker()
  const stopTimers = startTimers(ctx, names, served, intervals, aside)
  const nanoListener = startNanoListener(ctx, served, aside)
  return {
    async close() {
      nanoListener?.close()
      stopTimers()
      const closing = Promise.all([aside.whenIdle(), ...workers.map((worker) => worker.close())])
      // Jobs that take longer are given to others, as after the death of this process.
      await Promise.race([closing, sleep(STOP_LIMIT_MS, undefined, { ref: false })])
      connection.disconnect()
    },
  }
}

/**
 * Serves queues whose process holds their key's lease. Queues that only read the chain, `watch-…` and
 * `check-…`, get `ctx`: they use no key, so their transactions need no lease.
 *
 * @param guarded the context whose transactions abort without the lease
 */
function serveAll(
  ctx: WorkerContext,
  guarded: WorkerContext,
  names: readonly QueueName[],
  connection: RedisClient,
) {
  const workers = names.map((name) =>
    startQueueWorker(/^(watch|check)-/.test(name) ? ctx : guarded, name, connection),
  )
  return { close: () => Promise.all(workers.map((worker) => worker.close())) }
}

/** Whether a regular job would find nothing to do: checking that is cheaper than a job. */
const IDLE: Partial<Record<QueueName, (ctx: WorkerContext) => Promise<boolean>>> = {
  sequence: async ({ entries }) => !(await entries.hasPending()),
}
/** One in this many idle turns adds its job nevertheless, since the job also does other work that is due. */
const IDLE_TURNS = 5

/**
 * Returns a function, to be called every `everyMs`, that runs `addJob` unless there is nothing to do, and in
 * any case each time that {@link IDLE_TURNS} turns have passed without it.
 */
function skipIdleTurns(
  addJob: () => Promise<void>,
  isIdle: () => Promise<boolean>,
  everyMs: number,
): () => Promise<void> {
  let lastMs = performance.now()
  return async () => {
    const nowMs = performance.now()
    // If the check fails, the job is added.
    if (nowMs - lastMs < (IDLE_TURNS - 0.5) * everyMs && (await isIdle().catch(() => false))) return
    lastMs = nowMs
    await addJob()
  }
}

/**
 * Starts this process's timers: they add the regular jobs of the served queues, and end the open invoices of
 * coins that are switched off. Redis may be emptied and clocks may jump, so the schedule depends on neither: each process that serves a queue has a
 * timer, and in each interval the first of them adds the job.
 *
 * @param names the queues that the process was told to serve
 * @param served those of them that its settings allow
 * @param aside tracks the work that is done without a job
 * @returns a function that stops the timers
 */
function startTimers(
  ctx: WorkerContext,
  names: readonly QueueName[],
  served: readonly QueueName[],
  intervals: Intervals,
  aside: Tracker,
): () => void {
  const { paymentPollMs } = ctx.config
  const report = (error: unknown): void =>
    ctx.log.warn(
      { err: error },
      'the open invoices of a coin that is switched off could not be ended; the next turn tries again',
    )
  const timers = served.flatMap((name) => {
    const every = intervals[name] ?? queueRow(name).every?.(ctx.config)
    if (every === undefined) return []
    const addJob = (): Promise<void> => ctx.queues.enqueueRegular(name, every)
    const isIdle = IDLE[name]
    const turn = isIdle === undefined ? addJob : skipIdleTurns(addJob, () => isIdle(ctx), every)
    void ctx.queues.whenReady().then(addJob)
    return [setInterval(() => void turn(), every)]
  })
  for (const coin of COINS)
    if (!COIN_FACTS[coin].isSetUp(ctx.config) && names.includes(COIN_FACTS[coin].queues.watch))
      timers.push(
        setInterval(() => void aside.track(switchOffIfSilent(ctx, coin).catch(report)), paymentPollMs),
      )
  return () => {
    for (const timer of timers) clearInterval(timer)
  }
}
