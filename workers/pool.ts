import { setTimeout as sleep } from 'node:timers/promises'
import { UnrecoverableError, Worker, type Job } from 'bullmq'
import type { Redis } from 'ioredis'
import type { Context } from '../shared/context.ts'
import { isWorthRetrying, Refusal } from '../shared/errors.ts'
import { SEQUENCE_EVERY_MS, STOP_LIMIT_MS } from '../shared/limits.ts'
import {
  connectWaiting,
  jobOptions,
  QUEUES,
  queuePrefix,
  SEAL_KEY_QUEUES,
  WORKER_TIMING,
  type Payload,
  type QueueName,
} from '../shared/queues.ts'
import { HANDLERS } from './handlers.ts'

/** How long a stop waits for workers whose Redis is away. */
const AWAY_LIMIT_MS = 1_000

export interface Pool {
  /** Takes no new job, finishes those under way, lets go of the queues. */
  close(): Promise<void>
}

/** Serves the named queues until closed. A handler's error is the job's error: it is logged, and tried again where that can help. */
export function startPool(ctx: Context, names: readonly QueueName[]): Pool {
  const { redisUrl, queuePrefix: prefix } = ctx.config
  if (redisUrl === undefined) throw new TypeError('"ctx.config" expected a redisUrl')
  const connection: Redis = connectWaiting(redisUrl, ctx.log)
  const hasSealKey = ctx.config.secrets.sealKeyFile !== undefined
  const served = names.filter((name) => hasSealKey || !SEAL_KEY_QUEUES.includes(name))
  const workers = served.map((name) => startWorker(ctx, name, connection, prefix))
  const schedule = keepScheduled(ctx, served)
  return {
    async close() {
      clearInterval(schedule)
      const closing = Promise.all(workers.map((worker) => worker.close()))
      // A worker cannot take leave of a Redis that is away; its jobs are handed on all the same.
      await Promise.race([closing, sleep(connection.status === 'ready' ? STOP_LIMIT_MS : AWAY_LIMIT_MS, undefined, { ref: false })])
      connection.disconnect()
    },
  }
}

function startWorker<Name extends QueueName>(ctx: Context, name: Name, connection: Redis, prefix: string): Worker {
  const { payload, concurrency } = QUEUES[name]
  const handle = HANDLERS[name] as (ctx: Context, payload: Payload<Name>) => Promise<void>
  const worker = new Worker(
    name,
    async (job: Job) => {
      const checked = payload.safeParse(job.data)
      if (!checked.success) throw new UnrecoverableError(`the payload of job ${job.id} is not one of ${name}: ${checked.error.message}`)
      try {
        await handle(ctx, checked.data as Payload<Name>)
      } catch (error) {
        if (error instanceof Refusal && !isWorthRetrying(error.code)) throw new UnrecoverableError(`${error.code}: ${error.message}`)
        throw error
      }
    },
    { connection, prefix: queuePrefix(prefix, name), concurrency, ...WORKER_TIMING },
  )
  worker.on('failed', (job, error) =>
    ctx.log.error({ queue: name, job_id: job?.id, attempts: job?.attemptsMade, err: error }, 'a job failed'),
  )
  worker.on('error', (error) => {
    // That Redis is away is said once, by the connection, and not by each worker at each try.
    if (connection.status === 'ready') ctx.log.warn({ queue: name, err: error }, 'a worker has trouble with Redis')
  })
  return worker
}

/** The schedules live in Redis, which may be emptied: they are put back as often as the sweep should run. */
function keepScheduled(ctx: Context, served: readonly QueueName[]): NodeJS.Timeout {
  const { sweepMs } = ctx.config
  const intervals: Partial<Record<QueueName, number>> = { sweep: sweepMs, sequence: SEQUENCE_EVERY_MS }
  const schedule = async (): Promise<void> => {
    try {
      await ctx.queues.whenReady()
      for (const name of served) {
        const every = intervals[name]
        if (every !== undefined) await ctx.queues.get(name).upsertJobScheduler(name, { every }, { name, data: {}, opts: jobOptions(name) })
      }
    } catch (error) {
      ctx.log.warn({ err: error }, 'the regular jobs could not be scheduled; trying again at the next time of the sweep')
    }
  }
  void schedule()
  return setInterval(() => void schedule(), sweepMs)
}
