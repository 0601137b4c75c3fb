import { setTimeout as sleep } from 'node:timers/promises'
import { UnrecoverableError, Worker, type Job } from 'bullmq'
import { isWorthRetrying, kindOfError, Refusal } from '../shared/platform/errors.ts'
import type { JobOutcome } from '../shared/platform/metrics.ts'
import {
  QUEUES,
  queuePrefix,
  queueRow,
  WORKER_TIMING,
  type Payload,
  type QueueName,
} from '../shared/platform/queue-table.ts'
import { telemetry } from '../shared/platform/queues.ts'
import type { RedisClient } from '../shared/platform/redis-connection.ts'
import { currentScope, REQUEST_ID_FORM, runInScope, type Scope } from '../shared/platform/scope.ts'
import { MINUTE_MS, SECOND_MS } from '../shared/platform/time.ts'
import { createTracker, type Tracker } from '../shared/platform/tracker.ts'
import { HANDLERS } from './handlers.ts'
import { hasDoneNothing, type JobResult } from './job-result.ts'
import type { WorkerContext } from './worker-context.ts'

export interface QueueWorker {
  /**
   * Takes no new jobs and finishes those under way, though Redis is away: then it can't note that they are
   * done, and they are given to another worker, as after the death of this one.
   */
  close(): Promise<void>
}

/** Once its jobs have ended, a worker waits so long for Redis to take note of that, if Redis is there. */
const NOTE_LIMIT_MS = 5 * SECOND_MS
/** The same if it is away: it may come back at once. */
const AWAY_LIMIT_MS = SECOND_MS

/** A job at work for so long is logged, and again each time that its age has doubled. */
const LONG_MS = 60 * SECOND_MS

/**
 * Of the regular jobs that find nothing to do, one in so much time is kept: by its finished jobs the board and
 * `operator status` know that a queue is in use. Shorter than they are kept.
 */
const EMPTY_JOB_EVERY_MS = 30 * MINUTE_MS

/** How an error of BullMQ begins that comes of a job under way, and not of looking for one. */
const LOCK_IS_LOST = 'could not renew lock'

/** When a worker counts as hanging. */
interface Watch {
  /** How often it is checked whether the worker still takes jobs, in ms. */
  everyMs: number
  /**
   * The number of checks in a row that must find a worker with room, or with jobs that Redis has lost, waiting
   * jobs, and no sign of life since the check before.
   */
  checks: number
  /** After how long a job is logged as one that takes long, in ms. */
  longMs: number
}
/**
 * Longer than BullMQ's longest wait for a job, which is 10 s and 1 s more until it gives up the connection.
 * Counted in checks, not in time, so that a process that was suspended doesn't find itself hanging.
 */
const WATCH: Watch = { everyMs: 10 * SECOND_MS, checks: 2, longMs: LONG_MS }
/** One that is full is at work, and may only be slow: it takes so many times as many checks. */
const TIMES_IF_FULL = 4

/**
 * Serves one queue until closed. A handler's error is logged, and the job is retried if that can help.
 *
 * BullMQ fetches jobs in one loop, which hangs for ever if the connection loses an answer or an event. This
 * was seen with Redis Cluster, when a node died while this process was held up for seconds. So a worker that
 * takes nothing although jobs wait is replaced by a new one: also one that hangs at jobs of which Redis knows
 * nothing any more, so that nobody else will ever take them. A job that the old one still works on may be
 * given to another, as after the death of a worker.
 */
export function startQueueWorker(
  ctx: WorkerContext,
  name: QueueName,
  connection: RedisClient,
  watch: Watch = WATCH,
): QueueWorker {
  const load: Load = { jobs: createTracker(), running: new Set(), signs: 0, keptAtMs: undefined }
  ctx.metrics.beginQueue(name)
  let worker = startWorker(ctx, name, connection, load)
  let isClosed = false
  let signsBefore = 0
  /** How many checks in a row found it stuck. */
  let stuckChecks = 0
  const isFull = (): boolean => load.jobs.size() >= QUEUES[name].concurrency
  /**
   * Checks whether jobs wait although the worker has room, or hangs at one that Redis has lost, and it gave no
   * sign of life since the last call, which it remembers.
   */
  const checkIfStuck = async (): Promise<boolean> => {
    const previousSigns = signsBefore
    signsBefore = load.signs
    if (connection.status !== 'ready' || load.signs !== previousSigns) return false
    if (!(await ctx.queues.hasWaiting(name))) return false
    if (isFull() && (await ctx.queues.hasActive(name))) return false
    return load.signs === previousSigns
  }
  const replaceIfStuck = async (): Promise<void> => {
    stuckChecks = (await checkIfStuck()) ? stuckChecks + 1 : 0
    const [times, level] = isFull() ? ([TIMES_IF_FULL, 'warn'] as const) : ([1, 'error'] as const)
    if (isClosed || stuckChecks < times * watch.checks) return
    stuckChecks = 0
    ctx.log[level](
      { queue: name, running: load.jobs.size() },
      'a worker takes no jobs although some wait; it is replaced by a new one',
    )
    // Its loop may never end, so nothing waits for it.
    worker
      .close(true)
      .catch((error: unknown) =>
        ctx.log.warn({ queue: name, err: error }, 'a worker that was replaced could not be closed'),
      )
    worker = startWorker(ctx, name, connection, load)
  }
  /** So that a handler that hangs can be told from one that has much to do: nothing else ends it or names it. */
  const logLongJobs = (): void => {
    for (const job of load.running) {
      const ageMs = performance.now() - job.startedAt
      if (ageMs < Math.max(watch.longMs, 2 * job.loggedAtMs)) continue
      job.loggedAtMs = ageMs
      ctx.log.warn({ ...job.scope, seconds: Math.floor(ageMs / SECOND_MS) }, 'a job takes long')
    }
  }
  let checking = Promise.resolve()
  const timer = setInterval(() => {
    logLongJobs()
    checking = checking.then(replaceIfStuck)
  }, watch.everyMs)
  return {
    async close() {
      isClosed = true
      clearInterval(timer)
      const closing = worker.close()
      await load.jobs.whenIdle()
      const limitMs = connection.status === 'ready' ? NOTE_LIMIT_MS : AWAY_LIMIT_MS
      await Promise.race([closing, sleep(limitMs, undefined, { ref: false })])
    },
  }
}

/** What one queue's worker in this process does. */
interface Load {
  /** Jobs under way. */
  jobs: Tracker
  running: Set<RunningJob>
  /** Signs of life, counted: jobs taken and ended, and errors met as it looked for one. */
  signs: number
  /** When this process last left a finished job in Redis, by `performance.now()`. */
  keptAtMs: number | undefined
}

interface RunningJob {
  /** What its log lines carry. */
  scope: Scope
  /** By `performance.now()`. */
  startedAt: number
  /** How old it was when it was last logged as one that takes long, in ms; 0 before. */
  loggedAtMs: number
}

/**
 * Starts a BullMQ worker. It parses each job's payload, runs the handler, counts the outcome, and keeps
 * `load` up to date. A job that can't succeed by another try fails at once. What a job did is its return value;
 * regular jobs that did nothing are hardly kept, so that the board shows those that did something.
 */
function startWorker<Name extends QueueName>(
  ctx: WorkerContext,
  name: Name,
  connection: RedisClient,
  load: Load,
): Worker {
  const { payload, concurrency } = QUEUES[name]
  const handle = HANDLERS[name] as (ctx: WorkerContext, payload: Payload<Name>) => Promise<JobResult>
  const { every, perSecond } = queueRow(name)
  const isRegular = every !== undefined
  const work = async (job: Job): Promise<JobResult> => {
    const running = { scope: currentScope(), startedAt: performance.now(), loggedAtMs: 0 }
    load.running.add(running)
    let outcome: JobOutcome = 'completed'
    try {
      const checked = payload.safeParse(job.data)
      if (!checked.success)
        throw new UnrecoverableError(
          `the payload of job ${job.id} is not one of ${name}: ${checked.error.message}`,
        )
      const result = await handle(ctx, checked.data as Payload<Name>)
      const now = performance.now()
      const isKept =
        !isRegular ||
        !hasDoneNothing(result) ||
        load.keptAtMs === undefined ||
        now - load.keptAtMs >= EMPTY_JOB_EVERY_MS
      if (isKept) load.keptAtMs = now
      else job.opts.removeOnComplete = true
      return result
    } catch (caught) {
      let error = caught
      if (error instanceof Refusal && !isWorthRetrying(error.code))
        error = new UnrecoverableError(`${error.code}: ${error.message}`)
      const isLastTry = job.attemptsMade + 1 >= (job.opts.attempts ?? 1)
      outcome = error instanceof UnrecoverableError || isLastTry ? 'failed' : 'retried'
      throw error
    } finally {
      load.running.delete(running)
      load.signs++
      ctx.metrics.countJob(name, outcome, (performance.now() - running.startedAt) / SECOND_MS)
    }
  }
  const worker = new Worker(
    name,
    (job: Job) => {
      load.signs++
      return load.jobs.track(runInScope(scopeOf(name, job), () => work(job)))
    },
    {
      connection,
      prefix: queuePrefix(ctx.config.queuePrefix, name),
      concurrency,
      ...(perSecond === undefined ? {} : { limiter: { max: perSecond, duration: SECOND_MS } }),
      ...WORKER_TIMING,
      ...telemetry(),
    },
  )
  /**
   * The kinds of trouble told of since Redis last took note of a job's end: BullMQ meets the same each second,
   * and of each of the jobs under way.
   */
  const said = new Set<string>()
  worker.on('completed', () => said.clear())
  worker.on('failed', (job, error) => {
    said.clear()
    ctx.log.error(
      {
        ...(job === undefined ? { queue: name } : scopeOf(name, job)),
        attempts: job?.attemptsMade,
        err: error,
      },
      'a job failed',
    )
  })
  worker.on('stalled', () => ctx.metrics.countStalled(name))
  worker.on('error', (error) => {
    // Said again and again of a job that hangs.
    if (!error.message.startsWith(LOCK_IS_LOST)) load.signs++
    // The connection logs once that Redis is out of reach; not every worker at every attempt.
    if (connection.status !== 'ready') return
    const kind = kindOfError(error.message)
    const level = said.has(kind) ? 'debug' : 'warn'
    ctx.log[level]({ queue: name, err: error }, 'a worker has trouble with Redis')
    said.add(kind)
  })
  return worker
}

/**
 * The ids that a job's log lines carry. Its payload isn't checked yet, so a request id of another form is
 * left out.
 */
function scopeOf(queue: QueueName, job: Job): Scope {
  const requestId = (job.data as { request_id?: unknown } | null)?.request_id
  return {
    queue,
    ...(job.id === undefined ? {} : { job_id: job.id }),
    ...(typeof requestId === 'string' && REQUEST_ID_FORM.test(requestId) ? { request_id: requestId } : {}),
  }
}
