import { Queue, type JobsOptions } from 'bullmq'
import { withDeadline } from './deadline.ts'
import type { Log } from './log.ts'
import { newStepId } from './ids.ts'
import { QUEUE_TIMEOUT_MS } from './limits.ts'
import { queuePrefix, QUEUES, type Payload, type QueueName } from './queue-table.ts'
import { connectFailingFast, type RedisClient } from './redis-connection.ts'
import { currentScope } from './scope.ts'
import { currentTracer, type Tracer } from './tracing.ts'

/** The option by which BullMQ adds to traces; none if tracing is off. */
export function telemetry(): { telemetry?: Tracer['telemetry'] } {
  const tracer = currentTracer()
  return tracer === undefined ? {} : { telemetry: tracer.telemetry }
}

/** The options of a queue's jobs: how often they are tried, with which pauses, and how long they are kept. */
export function jobOptions(name: QueueName): JobsOptions {
  return {
    attempts: QUEUES[name].attempts,
    backoff: { type: 'exponential', delay: 1_000, jitter: 0.5 },
    removeOnComplete: { age: 3_600, count: 1_000 },
    removeOnFail: { age: 7 * 86_400, count: 10_000 },
  }
}

export interface Queues {
  /**
   * Puts one job on its queue. Never throws for a Redis that is away: the record in MongoDB is the work, and
   * the sweep enqueues it again. `debounceId` keeps a second job with the same id from waiting beside the
   * first; one with a `priority` waits behind all that have none, and then for those with a lower one. The id
   * of the request that the job comes from goes with it.
   *
   * @returns whether the job is on the queue
   */
  enqueue<Name extends QueueName>(
    name: Name,
    payload: Payload<Name>,
    options?: { debounceId?: string; delayMs?: number; priority?: number },
  ): Promise<boolean>
  /**
   * Puts a job without a payload on its queue, unless one waits there, or one was put there within about
   * `everyMs` by any process. Never throws for a Redis that is away: the next turn comes.
   */
  enqueueRegular(name: QueueName, everyMs: number): Promise<void>
  /**
   * Whether jobs wait that a worker could take now; false also if the queue is paused or limited, or if Redis
   * does not say so within its deadline.
   */
  hasWaiting(name: QueueName): Promise<boolean>
  /** Whether Redis holds a job as under way in any process; true also if it does not say so in time. */
  hasActive(name: QueueName): Promise<boolean>
  /**
   * The marker in Redis by which the network sees whether Redis has lost its data; undefined if it is gone.
   */
  readMark(): Promise<string | undefined>
  setMark(mark: string): Promise<void>
  /**
   * What Redis holds in memory, how much it may (0 if nobody set a limit), and what it does when it is full.
   * Of a cluster, one node's.
   */
  readMemory(): Promise<{ usedBytes: number; maxBytes: number; policy: string }>
  /**
   * What the Redis that was reached last calls itself, anew at each of its starts; undefined if none was
   * reached yet, or if it is one of a cluster.
   */
  runId(): string | undefined
  /** The queue itself. @throws if Redis has never been reached: use whenReady() first */
  get(name: QueueName): Queue
  /** Whether Redis is reached at this moment. */
  isConnected(): boolean
  /** Resolves once Redis has been reached for the first time. */
  whenReady(): Promise<void>
  close(): Promise<void>
}

/** A field beside those of BullMQ, which go with all the rest if Redis is emptied. */
const MARK = 'network'

// A job's id is one that no other job ever has. BullMQ's own count from 1, and again from 1 once Redis was
// emptied: a worker that is still at the job 2 from before would meet a job 2 that is another one's.

/**
 * Returns a job's data: its payload, and beside it the id of the request that it comes from, if any. The
 * payload's schema takes no notice of that.
 */
function withRequest(payload: object): object {
  const { request_id } = currentScope()
  return request_id === undefined ? payload : { ...payload, request_id }
}

/** Opens the producers' side of every queue over one connection that fails fast. */
export function openQueues(redisUrl: string, prefix: string, log: Log): Queues {
  const connection = connectFailingFast(redisUrl, log)
  const ready = new Promise<void>((resolve) => connection.once('ready', resolve))
  let runId: string | undefined
  connection.on('ready', () => {
    // A failed read leaves what is known: the next connection asks again.
    if (!connection.isCluster)
      connection.info('server').then(
        (info) => (runId = /^run_id:(\w+)/m.exec(info)?.[1]),
        () => undefined,
      )
  })
  const { get, close } = createQueueOpener(connection, prefix)
  /** The regular jobs that could not be added the last time. */
  const failing = new Set<QueueName>()
  return {
    get,
    isConnected: () => connection.status === 'ready',
    whenReady: () => ready,
    async enqueue(name, payload, options = {}) {
      if (connection.status !== 'ready') return false
      try {
        await inTime(
          get(name).add(name, withRequest(QUEUES[name].payload.parse(payload)), {
            jobId: newStepId(),
            ...(options.debounceId === undefined ? {} : { deduplication: { id: options.debounceId } }),
            ...(options.delayMs === undefined ? {} : { delay: options.delayMs }),
            ...(options.priority === undefined ? {} : { priority: options.priority }),
          }),
        )
        return true
      } catch (error) {
        log.warn({ err: error, queue: name }, 'a job was not enqueued; the sweep will find its work')
        return false
      }
    },
    async enqueueRegular(name, everyMs) {
      if (connection.status !== 'ready') return
      try {
        await inTime(addRegular(get(name), name, everyMs))
        failing.delete(name)
      } catch (error) {
        // A turn that fails as the one before did is no news.
        const level = failing.has(name) ? 'debug' : 'warn'
        log[level]({ err: error }, `the regular job of ${name}: not now, with the next turn`)
        failing.add(name)
      }
    },
    async hasWaiting(name) {
      if (connection.status !== 'ready') return false
      try {
        const queue = get(name)
        const counts = await inTime(queue.getJobCounts('waiting', 'prioritized'))
        if ((counts['waiting'] ?? 0) + (counts['prioritized'] ?? 0) === 0) return false
        // What an operator has paused or limited waits as it should.
        const { paused, max, concurrency } = await inTime(queue.getMeta())
        return paused !== true && max === undefined && concurrency === undefined
      } catch {
        return false // the connection's own listener says that Redis is away
      }
    },
    async hasActive(name) {
      try {
        return (await inTime(get(name).getActiveCount())) > 0
      } catch {
        return true // the connection's own listener says that Redis is away
      }
    },
    readMark: async () => (await inTime(connection.hget(get('sweep').toKey('meta'), MARK))) ?? undefined,
    async setMark(mark) {
      await inTime(connection.hset(get('sweep').toKey('meta'), MARK, mark))
    },
    async readMemory() {
      const info = await inTime(connection.info('memory'))
      const read = (field: string): number => Number(new RegExp(`^${field}:(\\d+)`, 'm').exec(info)?.[1] ?? 0)
      const policy = /^maxmemory_policy:([\w-]+)/m.exec(info)?.[1] ?? 'unknown'
      return { usedBytes: read('used_memory'), maxBytes: read('maxmemory'), policy }
    },
    runId: () => runId,
    async close() {
      await close()
      connection.disconnect()
    },
  }
}

/** Waits for an answer of Redis. @throws Error after QUEUE_TIMEOUT_MS */
const inTime = <T>(work: Promise<T>): Promise<T> =>
  withDeadline(work, QUEUE_TIMEOUT_MS, () => new Error(`Redis did not answer within ${QUEUE_TIMEOUT_MS} ms`))

/** Adds a job without a payload, unless one waits or was added within about `everyMs`. */
async function addRegular(queue: Queue, name: QueueName, everyMs: number): Promise<void> {
  const { waiting = 0 } = await queue.getJobCounts('waiting')
  if (waiting > 0) return
  // Redis counts the time to live, so no process's clock matters; shorter than the interval, or the next turn's
  // job would be taken for this one.
  const deduplication = { id: 'regular', ttl: Math.max(1, Math.floor(everyMs * 0.9)) }
  await queue.add(name, {}, { jobId: newStepId(), deduplication })
}

/** Opens each queue when it is first asked for, once. */
function createQueueOpener(
  connection: RedisClient,
  prefix: string,
): { get(name: QueueName): Queue; close(): Promise<void> } {
  const open = new Map<QueueName, Queue>()
  let wasReady = false
  connection.once('ready', () => (wasReady = true))
  // A Queue asks Redis once who it is, and remembers for ever that it got no answer.
  const forgetUnlessReady = (name: QueueName, queue: Queue): void => {
    queue.waitUntilReady().catch(() => {
      if (open.get(name) === queue) open.delete(name)
      queue.close().catch(() => undefined) // gives up its listeners; the connection is everyone's
    })
  }
  return {
    get(name) {
      if (!wasReady) throw new Error('Redis has not been reached yet')
      const known = open.get(name)
      if (known !== undefined) return known
      const queue = new Queue(name, {
        connection,
        prefix: queuePrefix(prefix, name),
        defaultJobOptions: jobOptions(name),
        skipWaitingForReady: true,
        ...telemetry(),
      })
      queue.on('error', () => {}) // the connection's own listener has said it
      open.set(name, queue)
      forgetUnlessReady(name, queue)
      return queue
    },
    async close() {
      await Promise.allSettled([...open.values()].map((queue) => queue.close()))
    },
  }
}
