import { withDeadline } from './deadline.ts'
import { QUEUE_NAMES, type QueueName, type Queues } from './queues.ts'
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
  /** How long the first of the waiting jobs has waited; 0 where none waits. */
  oldestSeconds: number
  /** Connections that take jobs from it, in all processes. */
  workers: number
  /** Work falls due on it by time alone, so that it needs a worker also where no job waits. */
  due: boolean
}

/**
 * Queues whose regular jobs are put on them by the processes that serve them: where those are gone, nothing waits either.
 * Every network needs these.
 */
const ALWAYS_DUE = ['sweep', 'sequence'] as const satisfies readonly QueueName[]
/**
 * And these where a coin is in use. Which, only the processes know that have its node, wallet or seed: a queue of which
 * jobs were done is one that somebody has served. Once the operator has cleared those of a coin that was given up, on the
 * board, it is due no more.
 */
const DUE_ONCE_SERVED = [
  'refresh-rates',
  'watch-nano',
  'fill-nano',
  'sweep-nano',
  'send-nano',
  'watch-monero',
  'fill-monero',
  'send-monero',
] as const satisfies readonly QueueName[]

/** Queues with regular jobs, each of which is in one of the two lists. */
export type RegularQueue = (typeof ALWAYS_DUE)[number] | (typeof DUE_ONCE_SERVED)[number]

const isIn = (list: readonly QueueName[], name: QueueName): boolean => list.includes(name)

/** Redis answers all of it in a few milliseconds. */
const LIMIT_MS = 5 * SECOND_MS

/** True where there is work that nobody will do: what an operator must hear of at once. */
export function hasNoWorker(state: QueueState): boolean {
  return state.workers === 0 && (state.waiting > 0 || state.due)
}

/**
 * The state of every queue, in the table's order.
 *
 * @throws Error where Redis does not answer within a few seconds
 */
export async function readQueueStates(queues: Queues, nowMs: number): Promise<QueueState[]> {
  const read = async (): Promise<QueueState[]> => {
    await queues.whenReady()
    return Promise.all(QUEUE_NAMES.map((name) => readState(queues, name, nowMs)))
  }
  return withDeadline(read(), LIMIT_MS, () => new Error(`Redis did not answer within ${LIMIT_MS / SECOND_MS} s`))
}

async function readState(queues: Queues, name: QueueName, nowMs: number): Promise<QueueState> {
  const queue = queues.get(name)
  const [counts, [oldest], workers] = await Promise.all([
    queue.getJobCounts('waiting', 'active', 'delayed', 'completed', 'failed'),
    queue.getJobs(['waiting'], 0, 0, true),
    queue.getWorkersCount(),
  ])
  const { waiting = 0, active = 0, delayed = 0, completed = 0, failed = 0 } = counts
  return {
    name,
    waiting,
    active,
    delayed,
    failed,
    // A job that was retried waits since its delay was over; its timestamp is when it was made, which is what matters here.
    oldestSeconds: oldest === undefined ? 0 : Math.max(0, (nowMs - oldest.timestamp) / SECOND_MS),
    workers,
    due: isIn(ALWAYS_DUE, name) || (isIn(DUE_ONCE_SERVED, name) && completed + failed > 0),
  }
}
