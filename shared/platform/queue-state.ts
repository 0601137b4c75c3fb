import type { Queue, QueueMeta } from 'bullmq'
import { withDeadline } from './deadline.ts'
import { QUEUE_NAMES, queueRow, type QueueName } from './queue-table.ts'
import type { Queues } from './queues.ts'
import { SECOND_MS } from './time.ts'

/** The jobs of one queue. Times in seconds. */
export interface QueueLoad {
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
  /** It is in use, so it needs a worker even if no job waits. */
  due: boolean
}

/** The jobs of one queue, and who takes them. */
export interface QueueState extends QueueLoad {
  /** Connections that take jobs from it, in all processes. */
  workers: number
  /** Stopped by somebody, on the board or over its API; workers or not, nothing of it is done. */
  paused: boolean
  /** What somebody has limited it to, in words; undefined if nobody has. */
  limit: string | undefined
}

/** Redis answers within a few milliseconds. */
const LIMIT_MS = 5 * SECOND_MS

/** Whether a queue needs a worker and has none: the operator must hear of it at once. */
export function hasNoWorker(state: QueueState): boolean {
  return state.workers === 0 && (state.waiting > 0 || state.due)
}

const countJobs = (queue: Queue) =>
  queue.getJobCounts('waiting', 'prioritized', 'active', 'delayed', 'completed', 'failed')

/** Whether a queue needs a worker: every network needs it, or it holds a job, finished ones included. */
export async function isInUse(queue: Queue): Promise<boolean> {
  if (queueRow(queue.name as QueueName).isAlwaysDue === true) return true
  const counts = await countJobs(queue)
  return Object.values(counts).some((count) => count > 0)
}

/** Reads the jobs of every queue, as readQueueStates() does. */
export const readQueueLoads = (queues: Queues, nowMs: number): Promise<QueueLoad[]> =>
  readEach(queues, (name) => readLoad(queues.get(name), nowMs))

/**
 * Reads the state of every queue, in the order of QUEUES.
 *
 * @param nowMs milliseconds since the epoch
 * @throws Error if Redis does not answer within a few seconds
 */
export const readQueueStates = (queues: Queues, nowMs: number): Promise<QueueState[]> =>
  readEach(queues, async (name) => {
    const queue = queues.get(name)
    const [load, workers, meta] = await Promise.all([
      readLoad(queue, nowMs),
      queue.getWorkersCount(),
      queue.getMeta(),
    ])
    return { ...load, workers, paused: meta.paused === true, limit: limitOf(meta) }
  })

async function readEach<State>(queues: Queues, read: (name: QueueName) => Promise<State>): Promise<State[]> {
  const readAll = async (): Promise<State[]> => {
    await queues.whenReady()
    return Promise.all(QUEUE_NAMES.map(read))
  }
  return withDeadline(
    readAll(),
    LIMIT_MS,
    () => new Error(`Redis did not answer within ${LIMIT_MS / SECOND_MS} s`),
  )
}

async function readLoad(queue: Queue, nowMs: number): Promise<QueueLoad> {
  const name = queue.name as QueueName
  const counts = await countJobs(queue)
  const { waiting = 0, prioritized = 0, active = 0, delayed = 0, completed = 0, failed = 0 } = counts
  const isEmpty = waiting + prioritized === 0
  const [oldest] = isEmpty ? [] : await queue.getJobs(['waiting', 'prioritized'], 0, 0, true)
  return {
    name,
    waiting: waiting + prioritized,
    active,
    delayed,
    failed,
    // A job's timestamp is when it was made, also if it was retried.
    oldestSeconds: oldest === undefined ? 0 : Math.max(0, (nowMs - oldest.timestamp) / SECOND_MS),
    // If a coin was given up, the operator clears its jobs on the board; then the queue is no longer due.
    due: queueRow(name).isAlwaysDue === true || completed + failed > 0,
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
