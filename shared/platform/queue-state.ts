import type { Queue, QueueMeta } from 'bullmq'
import { withDeadline } from './deadline.ts'
import { QUEUE_NAMES, queueRow, type QueueName } from './queue-table.ts'
import type { Queues } from './queues.ts'
import { SECOND_MS } from './time.ts'

/** What one queue holds. Times in seconds. */
export interface QueueState {
  name: QueueName
  /** Ready to be taken. */
  waiting: number
  /** Being worked on. */
  active: number
  /** Due later: a retry that pauses, or the next turn of a schedule. */
  delayed: number
  /** Given up, and kept for a week. */
  failed: number
  /** How long the first of the waiting jobs has waited; 0 if none waits. */
  oldestSeconds: number
  /** Connections that take jobs from it, in all processes. */
  workers: number
  /** Stopped by somebody, on the board or over its API; workers or not, nothing of it is done. */
  paused: boolean
  /** What somebody has limited it to, in words; undefined if nobody has. */
  limit: string | undefined
  /** It is in use, so it needs a worker even if no job waits. */
  due: boolean
}

/** Redis answers within a few milliseconds. */
const LIMIT_MS = 5 * SECOND_MS

/** Whether a queue needs a worker and has none: the operator must hear of it at once. */
export function hasNoWorker(state: QueueState): boolean {
  return state.workers === 0 && (state.waiting > 0 || state.due)
}

/** Whether a queue needs a worker: every network needs it, or it holds a job, finished ones included. */
export async function isInUse(queue: Queue): Promise<boolean> {
  if (queueRow(queue.name as QueueName).isAlwaysDue === true) return true
  const counts = await queue.getJobCounts(
    'waiting',
    'prioritized',
    'active',
    'delayed',
    'completed',
    'failed',
  )
  return Object.values(counts).some((count) => count > 0)
}

/**
 * Reads the state of every queue, in the order of QUEUES.
 *
 * @throws Error if Redis does not answer within a few seconds
 */
export async function readQueueStates(queues: Queues, nowMs: number): Promise<QueueState[]> {
  const read = async (): Promise<QueueState[]> => {
    await queues.whenReady()
    return Promise.all(QUEUE_NAMES.map((name) => readState(queues, name, nowMs)))
  }
  return withDeadline(
    read(),
    LIMIT_MS,
    () => new Error(`Redis did not answer within ${LIMIT_MS / SECOND_MS} s`),
  )
}

/** Reads the state of one queue from Redis. @param nowMs milliseconds since the epoch */
async function readState(queues: Queues, name: QueueName, nowMs: number): Promise<QueueState> {
  const queue = queues.get(name)
  const row = queueRow(name)
  const [counts, [oldest], workers, meta] = await Promise.all([
    queue.getJobCounts('waiting', 'prioritized', 'active', 'delayed', 'completed', 'failed'),
    queue.getJobs(['waiting', 'prioritized'], 0, 0, true),
    queue.getWorkersCount(),
    queue.getMeta(),
  ])
  const { waiting = 0, prioritized = 0, active = 0, delayed = 0, completed = 0, failed = 0 } = counts
  return {
    name,
    waiting: waiting + prioritized,
    active,
    delayed,
    failed,
    // A job's timestamp is when it was made, also if it was retried.
    oldestSeconds: oldest === undefined ? 0 : Math.max(0, (nowMs - oldest.timestamp) / SECOND_MS),
    workers,
    paused: meta.paused === true,
    limit: limitOf(meta),
    // If a coin was given up, the operator clears its jobs on the board; then the queue is no longer due.
    due: row.isAlwaysDue === true || completed + failed > 0,
  }
}

/**
 * Describes the limits that an operator has set on a queue, such as `2 at once`; undefined if there are none.
 */
export function limitOf({ max, duration, concurrency }: QueueMeta): string | undefined {
  const parts = [
    ...(max === undefined || duration === undefined ? [] : [`${max} jobs in ${duration / SECOND_MS} s`]),
    ...(concurrency === undefined ? [] : [`${concurrency} at once`]),
  ]
  return parts.length === 0 ? undefined : parts.join(' and ')
}
