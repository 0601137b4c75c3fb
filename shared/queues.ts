import { Queue, type JobsOptions } from 'bullmq'
import { Redis } from 'ioredis'
import { z } from 'zod'
import { withDeadline } from './deadline.ts'
import type { Log } from './log.ts'
import { QUEUE_TIMEOUT_MS } from './limits.ts'

/**
 * Every queue: the queue's name is its job's name, the payload holds ids only. MongoDB is the truth and Redis a to-do
 * list that may be lost at any moment: a handler reads MongoDB again, and the sweep enqueues what is due once more.
 */
export const QUEUES = {
  sweep: { payload: z.object({}), concurrency: 1, attempts: 1 },
  'verify-shares': { payload: z.object({ batch_id: z.string() }), concurrency: 16, attempts: 5 },
  sequence: { payload: z.object({}), concurrency: 1, attempts: 1 },
  'make-seal': { payload: z.object({}), concurrency: 1, attempts: 8 },
  'sign-seals': { payload: z.object({}), concurrency: 1, attempts: 8 },
  'adopt-seal': {
    payload: z.object({ seq: z.int().min(0), payload_hash: z.string().regex(/^[0-9a-f]{64}$/) }),
    concurrency: 1,
    attempts: 1,
  },
  'check-chain': { payload: z.object({}), concurrency: 1, attempts: 3 },
} as const satisfies Record<string, { payload: z.ZodObject; concurrency: number; attempts: number }>

export type QueueName = keyof typeof QUEUES
export type Payload<Name extends QueueName> = z.output<(typeof QUEUES)[Name]['payload']>
export const QUEUE_NAMES = Object.keys(QUEUES) as QueueName[]

/** Served only where SEAL_KEY_FILE is set: what needs the key waits for the process that has it. */
export const SEAL_KEY_QUEUES: readonly QueueName[] = ['sign-seals', 'adopt-seal']

/**
 * A killed worker's job is handed on after at most lock + stalled check = 10 s. A job whose worker was killed often is
 * still good work: only a failure that the handler threw uses up an attempt.
 */
export const WORKER_TIMING = { lockDuration: 5_000, stalledInterval: 5_000, maxStalledCount: 1_000 } as const

/** Keys of one queue share a hash slot of Redis Cluster, and queues spread over the slots. */
export function queuePrefix(prefix: string, name: QueueName): string {
  return `{${prefix}.${name}}`
}

export function jobOptions(name: QueueName): JobsOptions {
  return {
    attempts: QUEUES[name].attempts,
    backoff: { type: 'exponential', delay: 1_000, jitter: 0.5 },
    removeOnComplete: { age: 3_600, count: 1_000 },
    removeOnFail: { age: 7 * 86_400, count: 10_000 },
  }
}

/** Retries for ever; a command that cannot be sent now fails now, so that nothing waits on a Redis that is away. */
export function connectFailingFast(redisUrl: string, log: Log): Redis {
  const connection = new Redis(redisUrl, {
    maxRetriesPerRequest: 1,
    enableOfflineQueue: false,
    retryStrategy,
    connectTimeout: 2_000,
    commandTimeout: QUEUE_TIMEOUT_MS * 4,
  })
  return reportState(connection, log)
}

/** Retries for ever and lets commands wait: what a worker wants. */
export function connectWaiting(redisUrl: string, log: Log): Redis {
  return reportState(new Redis(redisUrl, { maxRetriesPerRequest: null, retryStrategy, connectTimeout: 2_000 }), log)
}

function retryStrategy(times: number): number {
  return Math.min(100 * 2 ** Math.min(times, 5), 2_000)
}

/** Says once that Redis went away and once that it is back, not at each try. */
function reportState(connection: Redis, log: Log): Redis {
  let away = false
  connection.on('error', (error: Error) => {
    if (!away) log.warn({ err: error }, 'Redis is out of reach; work waits in MongoDB for the sweep')
    away = true
  })
  connection.on('ready', () => {
    if (away) log.info('Redis is back')
    away = false
  })
  return connection
}

export interface Queues {
  /**
   * Puts one job on its queue. Never throws for a Redis that is away: the record in MongoDB is the work, and the sweep
   * enqueues it again. `debounceId` keeps a second job with the same id from waiting beside the first.
   *
   * @returns whether the job is on the queue
   */
  enqueue<Name extends QueueName>(name: Name, payload: Payload<Name>, options?: { debounceId?: string }): Promise<boolean>
  /** The queue itself. @throws where Redis has never been reached: use whenReady() first */
  get(name: QueueName): Queue
  /** Resolves once Redis has been reached for the first time. */
  whenReady(): Promise<void>
  close(): Promise<void>
}

/** Opens the producers' side of every queue over one connection that fails fast. */
export function openQueues(redisUrl: string, prefix: string, log: Log): Queues {
  const connection = connectFailingFast(redisUrl, log)
  const open = new Map<QueueName, Queue>()
  let wasReady = false
  const ready = new Promise<void>((resolve) => {
    connection.once('ready', () => {
      wasReady = true
      resolve()
    })
  })
  const get = (name: QueueName): Queue => {
    // A Queue made before the connection stands remembers the failure for ever.
    if (!wasReady) throw new Error('Redis has not been reached yet')
    let queue = open.get(name)
    if (queue === undefined) {
      queue = new Queue(name, {
        connection,
        prefix: queuePrefix(prefix, name),
        defaultJobOptions: jobOptions(name),
        skipWaitingForReady: true,
      })
      queue.on('error', () => {}) // the connection's own listener has said it
      open.set(name, queue)
    }
    return queue
  }
  return {
    get,
    whenReady: () => ready,
    async enqueue(name, payload, options = {}) {
      if (connection.status !== 'ready') return false
      try {
        await withDeadline(
          get(name).add(name, QUEUES[name].payload.parse(payload), {
            ...(options.debounceId === undefined ? {} : { deduplication: { id: options.debounceId } }),
          }),
          QUEUE_TIMEOUT_MS,
          () => new Error(`Redis did not answer within ${QUEUE_TIMEOUT_MS} ms`),
        )
        return true
      } catch (error) {
        log.warn({ err: error, queue: name }, 'a job was not enqueued; the sweep will find its work')
        return false
      }
    },
    async close() {
      await Promise.allSettled([...open.values()].map((queue) => queue.close()))
      connection.disconnect()
    },
  }
}
