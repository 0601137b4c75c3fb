import { setTimeout as sleep } from 'node:timers/promises'
import { UnrecoverableError, Worker, type Job } from 'bullmq'
import { isWorthRetrying, Refusal } from '../shared/errors.ts'
import { REFRESH_RATES_EVERY_MS, SEQUENCE_EVERY_MS, STOP_LIMIT_MS } from '../shared/limits.ts'
import type { JobOutcome } from '../shared/metrics.ts'
import { QUEUES, queuePrefix, WORKER_TIMING, type Payload, type QueueName } from '../shared/queues.ts'
import { connectWaiting, type RedisClient } from '../shared/redis-connection.ts'
import { REQUEST_ID_FORM, runInScope, type Scope } from '../shared/scope.ts'
import { SECOND_MS } from '../shared/time.ts'
import { HANDLERS } from './handlers.ts'
import { startNanoListener } from './nano-listener.ts'
import { openWallets, servedQueues, type WorkerContext } from './worker-context.ts'

/** How long a stop waits for workers whose Redis is away. */
const AWAY_LIMIT_MS = 1_000

export interface Pool {
  /** Takes no new job, finishes those under way, lets go of the queues. */
  close(): Promise<void>
}

/** How often a regular job is put on its queue, in ms. */
export type Intervals = Partial<Record<QueueName, number>>

/**
 * Serves the named queues until closed. A handler's error is the job's error: it is logged, and tried again where that can help.
 *
 * @param otherwise intervals other than the settings' and the limits'
 */
export function startPool(ctx: WorkerContext, names: readonly QueueName[], otherwise: Intervals = {}): Pool {
  const { redisUrl, queuePrefix: prefix } = ctx.config
  if (redisUrl === undefined) throw new TypeError('"ctx.config" expected a redisUrl')
  const connection = connectWaiting(redisUrl, ctx.log)
  const served = servedQueues(ctx.config, names)
  openWallets(ctx, served)
  const workers = served.map((name) => startWorker(ctx, name, connection, prefix))
  const stopSchedule = keepScheduled(ctx, served, otherwise)
  const nanoListener = startNanoListener(ctx, served)
  return {
    async close() {
      nanoListener?.close()
      stopSchedule()
      const closing = Promise.all(workers.map((worker) => worker.close()))
      // A worker cannot take leave of a Redis that is away; its jobs are handed on all the same.
      await Promise.race([closing, sleep(connection.status === 'ready' ? STOP_LIMIT_MS : AWAY_LIMIT_MS, undefined, { ref: false })])
      connection.disconnect()
    },
  }
}

function startWorker<Name extends QueueName>(ctx: WorkerContext, name: Name, connection: RedisClient, prefix: string): Worker {
  const { payload, concurrency } = QUEUES[name]
  const handle = HANDLERS[name] as (ctx: WorkerContext, payload: Payload<Name>) => Promise<void>
  const worker = new Worker(
    name,
    (job: Job) =>
      runInScope(scopeOf(name, job), async () => {
        const startedAt = performance.now()
        let outcome: JobOutcome = 'completed'
        try {
          const checked = payload.safeParse(job.data)
          if (!checked.success) throw new UnrecoverableError(`the payload of job ${job.id} is not one of ${name}: ${checked.error.message}`)
          await handle(ctx, checked.data as Payload<Name>)
        } catch (error) {
          const final =
            error instanceof Refusal && !isWorthRetrying(error.code) ? new UnrecoverableError(`${error.code}: ${error.message}`) : error
          outcome = final instanceof UnrecoverableError || job.attemptsMade + 1 >= (job.opts.attempts ?? 1) ? 'failed' : 'retried'
          throw final
        } finally {
          ctx.metrics.countJob(name, outcome, (performance.now() - startedAt) / SECOND_MS)
        }
      }),
    { connection, prefix: queuePrefix(prefix, name), concurrency, ...WORKER_TIMING },
  )
  worker.on('failed', (job, error) =>
    ctx.log.error(
      { ...(job === undefined ? { queue: name } : scopeOf(name, job)), attempts: job?.attemptsMade, err: error },
      'a job failed',
    ),
  )
  worker.on('stalled', () => ctx.metrics.countStalled(name))
  worker.on('error', (error) => {
    // That Redis is away is said once, by the connection, and not by each worker at each try.
    if (connection.status === 'ready') ctx.log.warn({ queue: name, err: error }, 'a worker has trouble with Redis')
  })
  return worker
}

/** A job may have been put on its queue by anything, so its request is taken for one only if it has that form. */
function scopeOf(queue: QueueName, job: Job): Scope {
  const requestId = (job.data as { request_id?: unknown } | null)?.request_id
  return {
    queue,
    ...(job.id === undefined ? {} : { job_id: job.id }),
    ...(typeof requestId === 'string' && REQUEST_ID_FORM.test(requestId) ? { request_id: requestId } : {}),
  }
}

/**
 * Puts the regular jobs on their queues. Nothing of the schedule lives in Redis, which may be emptied, and nothing of it
 * goes by a clock that may jump: each process that serves a queue has a timer, and the first to come in each turn adds
 * the job.
 */
function keepScheduled(ctx: WorkerContext, served: readonly QueueName[], otherwise: Intervals): () => void {
  const { sweepMs, paymentPollMs } = ctx.config
  const intervals: Intervals = {
    sweep: sweepMs,
    sequence: SEQUENCE_EVERY_MS,
    'refresh-rates': REFRESH_RATES_EVERY_MS,
    'watch-nano': paymentPollMs,
    'fill-nano': paymentPollMs,
    'sweep-nano': paymentPollMs,
    'send-nano': paymentPollMs,
    'watch-monero': paymentPollMs,
    'fill-monero': paymentPollMs,
    'send-monero': paymentPollMs,
    ...otherwise,
  }
  const timers = served.flatMap((name) => {
    const every = intervals[name]
    if (every === undefined) return []
    const add = (): void => void ctx.queues.enqueueRegular(name, every)
    void ctx.queues.whenReady().then(add)
    return [setInterval(add, every)]
  })
  timers.push(setInterval(() => void ctx.queues.recallStrayed(served), sweepMs))
  return () => {
    for (const timer of timers) clearInterval(timer)
  }
}
