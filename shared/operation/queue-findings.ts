import type { Context } from '../context.ts'
import { hasNoWorker, readQueueStates, type QueueState } from '../platform/queue-state.ts'
import { queueRow, type QueueName } from '../platform/queue-table.ts'
import { withDeadline } from '../platform/deadline.ts'
import { HOUR_MS, MINUTE_MS, SECOND_MS, unixSeconds } from '../platform/time.ts'
import { OPERATOR, type Finding, type FindingReader } from './finding.ts'

type QueueFindingsContext = Pick<Context, 'database' | 'queues' | 'operation' | 'now'>

const BEHIND_SECONDS = (2 * MINUTE_MS) / SECOND_MS
/** More jobs than a burst of requests leaves waiting for a moment. */
const BEHIND_JOBS = 1_000
const MONGO_LIMIT_MS = 500
/** The part of Redis's memory from which it counts as filling. */
const FILLING = 0.8
/** A job that was given up longer ago is no finding. */
const GIVEN_UP_MS = HOUR_MS

/** What is wrong with Redis and the queues in it. */
export const queueFindings: FindingReader = {
  name: 'queues',
  needs: 'redis',
  async read(ctx) {
    const states = await readQueueStates(ctx.queues, ctx.now())
    const [emptied, memory, ...givenUp] = await Promise.all([
      findEmptied(ctx),
      ctx.queues.readMemory().then(checkMemory),
      ...states.map((state) => findGivenUp(ctx, state)),
    ])
    return [
      emptied,
      ...memory,
      ...states.flatMap((state) => checkQueue(state, ctx.now(), states)),
      ...givenUp,
    ]
  },
}

/** Finds that Redis has lost its data. No work is lost by it, because MongoDB is the truth. */
async function findEmptied(ctx: QueueFindingsContext): Promise<Finding | undefined> {
  const note = await withDeadline(
    ctx.database.whenReady().then(() => ctx.operation.watch.readRedis()),
    MONGO_LIMIT_MS,
    () => new Error('MongoDB is away'),
  ).catch(() => undefined) // another finding says that MongoDB is away
  if (note === undefined) return undefined
  const hasMark = (await ctx.queues.readMark()) === note.mark
  if (hasMark && note.emptied_at === undefined) return undefined
  return {
    kind: 'redis_emptied',
    since: note.emptied_at,
    what: 'Redis has lost what it held: the sweep brings the work back from MongoDB, failed jobs and pauses are gone',
    why: 'it was emptied, or it keeps nothing on disk (appendonly), or it evicts (maxmemory-policy is to be noeviction)',
    command: `${OPERATOR} sweep`,
  }
}

/**
 * Finds that Redis is nearly full, or throws keys away when it is: pure. A full one that keeps what it has takes
 * no job, and the sweep brings them all once it has room.
 */
export function checkMemory({
  usedBytes,
  maxBytes,
  policy,
}: Awaited<ReturnType<Context['queues']['readMemory']>>): Finding[] {
  const mb = (bytes: number): string => `${Math.round(bytes / 1e6)} MB`
  const findings: Finding[] = []
  if (maxBytes > 0 && policy !== 'noeviction')
    findings.push({
      kind: 'redis_evicts',
      what: `Redis throws keys away when it is full: its maxmemory-policy is ${policy}`,
      why: 'a queue that has lost a part of its keys does odd things; the sweep brings back only work that is gone as a whole',
      command: 'redis-cli CONFIG SET maxmemory-policy noeviction   # and in its configuration',
    })
  if (maxBytes > 0 && usedBytes > FILLING * maxBytes)
    findings.push({
      kind: 'redis_filling',
      what: `Redis holds ${mb(usedBytes)} of the ${mb(maxBytes)} that it may`,
      why: 'when it is full it takes no job, and work waits in MongoDB until it does',
      command: `${OPERATOR} status --all   # which queue is long; or give Redis more (maxmemory)`,
    })
  return findings
}

/**
 * Returns what is wrong with one queue: at most one finding, the worst.
 *
 * @param all the states of all queues
 */
function checkQueue(state: QueueState, nowMs: number, all: readonly QueueState[]): Finding[] {
  const { name, waiting, oldestSeconds, paused, limit } = state
  const { needs, concurrency } = queueRow(name)
  const base = { about: name, since: waiting === 0 ? undefined : unixSeconds(nowMs) - oldestSeconds }
  if (paused)
    return [
      {
        ...base,
        kind: 'queue_paused',
        what: `The queue ${name} is paused: none of its work is done`,
        why: 'somebody paused it, on the board or over its API; it survives every restart',
        command: `${OPERATOR} resume ${name}`,
      },
    ]
  if (hasNoWorker(state))
    return [
      {
        ...base,
        kind: 'queue_without_worker',
        what: waiting === 0 ? `The queue ${name} has no worker` : `The queue ${name} has work and no worker`,
        why: needs === undefined ? undefined : `a worker of it needs a ${needs}`,
        command: `npm run workers -- --queues ${listStarved(name, all).join(',')}`,
      },
    ]
  if (limit !== undefined)
    return [
      {
        ...base,
        kind: 'queue_limited',
        what: `The queue ${name} is limited to ${limit}`,
        why: 'somebody set that on the board or over its API; it survives every restart',
        command: `${OPERATOR} resume ${name}`,
      },
    ]
  if (oldestSeconds <= BEHIND_SECONDS && waiting <= BEHIND_JOBS) return []
  return [
    {
      ...base,
      kind: 'queue_behind',
      what: `${waiting} jobs wait on the queue ${name}, the first for ${Math.round(oldestSeconds)} s`,
      ...(concurrency === 1
        ? {
            why: 'its jobs run one at a time: the one under way is slow, or what it asks is',
            command: `${OPERATOR} status --all`,
          }
        : {
            why: 'its workers are too few or too slow',
            command: `npm run workers -- --queues ${name}`,
          }),
    },
  ]
}

/**
 * Lists the queues of the same pool that have no worker, also those on which nothing waits yet: the process
 * that is gone has served them too.
 */
const listStarved = (name: QueueName, all: readonly QueueState[]): QueueName[] =>
  all
    .filter((other) => other.workers === 0 && queueRow(other.name).pool === queueRow(name).pool)
    .map((other) => other.name)

/**
 * Finds the last job of a queue that was given up lately. Not of regular jobs, whose next turn does the work.
 */
async function findGivenUp(
  ctx: QueueFindingsContext,
  { name, failed }: QueueState,
): Promise<Finding | undefined> {
  if (failed === 0 || queueRow(name).every !== undefined) return undefined
  const [last] = await ctx.queues.get(name).getFailed(0, 0)
  const at = last?.finishedOn ?? 0
  if (last === undefined || ctx.now() - at > GIVEN_UP_MS) return undefined
  return {
    kind: 'jobs_given_up',
    about: name,
    since: unixSeconds(at),
    what: `A job of ${name} was given up`,
    why: shorten(last.failedReason),
    // So the stack begins if the handler has said that no other try can help.
    command: last.stacktrace?.some((stack) => stack.startsWith('UnrecoverableError'))
      ? `${OPERATOR} remove-job ${name} ${last.id ?? ''}   # it can't succeed; its work is in MongoDB`
      : `${OPERATOR} retry ${name}   # what failed: ${OPERATOR} show ${last.id ?? name}`,
  }
}

/** A message on one line, cut after 1,000 characters. */
export const shorten = (text: string): string => {
  const line = text.replaceAll(/\s+/g, ' ').trim()
  return line.length > 1_000 ? `${line.slice(0, 999)}…` : line
}

/**
 * Whether Redis is ready within `limitMs`; waits, since a command that has just begun isn't connected yet.
 */
export async function isRedisReady({ queues }: QueueFindingsContext, limitMs: number): Promise<boolean> {
  const becomesReady = queues.whenReady().then(() => true)
  return withDeadline(becomesReady, limitMs, () => new Error('Redis is away')).catch(() => false)
}
