import { UnrecoverableError, Worker, type Job } from 'bullmq';
import type { Redis } from 'ioredis';
import type { Context } from '../shared/context.ts';
import { isWorthRetrying, Refusal } from '../shared/errors.ts';
import { connectWaiting, jobOptions, QUEUES, queuePrefix, WORKER_TIMING, type Payload, type QueueName } from '../shared/queues.ts';
import { HANDLERS } from './handlers.ts';

export interface Pool {
  /** Takes no new job, finishes those under way, lets go of the queues. */
  close(): Promise<void>;
}

/** Serves the named queues until closed. A handler's error is the job's error: it is logged, and tried again where that can help. */
export function startPool(ctx: Context, names: readonly QueueName[]): Pool {
  const { redisUrl, queuePrefix: prefix } = ctx.config;
  if (redisUrl === undefined) throw new TypeError('"ctx.config" expected a redisUrl');
  const connection: Redis = connectWaiting(redisUrl, ctx.log);
  const workers = names.map((name) => startWorker(ctx, name, connection, prefix));
  const schedule = names.includes('sweep') ? keepSweepScheduled(ctx) : undefined;
  return {
    async close() {
      clearInterval(schedule);
      await Promise.all(workers.map((worker) => worker.close()));
      connection.disconnect();
    },
  };
}

function startWorker<Name extends QueueName>(ctx: Context, name: Name, connection: Redis, prefix: string): Worker {
  const { payload, concurrency } = QUEUES[name];
  const handle = HANDLERS[name] as (ctx: Context, payload: Payload<Name>) => Promise<void>;
  const worker = new Worker(
    name,
    async (job: Job) => {
      const checked = payload.safeParse(job.data);
      if (!checked.success) throw new UnrecoverableError(`the payload of job ${job.id} is not one of ${name}: ${checked.error.message}`);
      try {
        await handle(ctx, checked.data as Payload<Name>);
      } catch (error) {
        if (error instanceof Refusal && !isWorthRetrying(error.code)) throw new UnrecoverableError(`${error.code}: ${error.message}`);
        throw error;
      }
    },
    { connection, prefix: queuePrefix(prefix, name), concurrency, ...WORKER_TIMING },
  );
  worker.on('failed', (job, error) => ctx.log.error({ queue: name, job_id: job?.id, attempts: job?.attemptsMade, err: error }, 'a job failed'));
  worker.on('error', (error) => ctx.log.warn({ queue: name, err: error }, 'a worker has trouble with Redis'));
  return worker;
}

/** The schedule lives in Redis, which may be emptied: it is put back as often as it should fire. */
function keepSweepScheduled(ctx: Context): NodeJS.Timeout {
  const { sweepMs } = ctx.config;
  const schedule = async (): Promise<void> => {
    try {
      await ctx.queues.whenReady();
      await ctx.queues.get('sweep').upsertJobScheduler('sweep', { every: sweepMs }, { name: 'sweep', data: {}, opts: jobOptions('sweep') });
    } catch (error) {
      ctx.log.warn({ err: error }, 'the sweep could not be scheduled; trying again at its next time');
    }
  };
  void schedule();
  return setInterval(() => void schedule(), sweepMs);
}
