import { setTimeout as sleep } from 'node:timers/promises'
import { createLog } from '../../../shared/platform/log.ts'
import { openQueues, type Queues } from '../../../shared/platform/queues.ts'
import type { World } from '../world/agent.ts'
import { listMoneyLeft, readMoney } from './money.ts'
import { listMoneroLeft } from './monero.ts'
import type { Place } from './seen.ts'
import { listJobs, readGivenUp, type SeenJob } from './service.ts'
import { readBacklog } from './stored.ts'

/**
 * If the work that is left does not become less for this long, it is stuck. There is no limit for all of it,
 * which depends on the machine.
 */
const STUCK_AFTER_MS = 120_000
/** Not more often, since each look reads all records of money and slows the workers. */
const LOOK_EVERY_MS = 2_000
const LOOKS_PER_LINE = 5

/**
 * Waits until nothing is left to do (entries numbered, sealed and signed, batches verified, queues empty,
 * money swept and paid), or until none of what is left was done for STUCK_AFTER_MS.
 *
 * @returns the work that is left, and the jobs that were given up
 */
export async function waitUntilDone(
  world: World,
  place: Place,
  say: (line: string) => void,
): Promise<{ left: string[]; givenUp: SeenJob[] }> {
  const queues = openQueues(
    place.redisUrl,
    place.env['QUEUE_PREFIX'] ?? 'agent-network',
    createLog('auditor', 'silent'),
  )
  const beganMs = Date.now()
  let least = Number.POSITIVE_INFINITY
  let lessAtMs = beganMs
  try {
    for (let looks = 0; ; looks++) {
      const left = await listWorkLeft(world, place, queues, beganMs)
      if (left.length < least) [least, lessAtMs] = [left.length, Date.now()]
      const isStuck = Date.now() - lessAtMs > STUCK_AFTER_MS
      if (left.length === 0 || isStuck) return { left, givenUp: await readGivenUp(queues) }
      if (looks % LOOKS_PER_LINE === 0) say(`${left.length} things are left to do, the first: ${left[0]}`)
      await sleep(LOOK_EVERY_MS)
    }
  } finally {
    await queues.close()
  }
}

/** The work that is left, a phrase each; of jobs only those added before `beganMs`. */
async function listWorkLeft(
  world: World,
  { mongoUrl, monero }: Place,
  queues: Queues,
  beganMs: number,
): Promise<string[]> {
  const { pending, ...counts } = await readBacklog(mongoUrl)
  const money = await readMoney(mongoUrl)
  const { calls } = world.history
  const now = { seconds: Date.now() / 1_000, ms: world.history.nowMs() }
  return [
    ...pending.map((source) => `entry ${source} has no number`),
    ...Object.entries(counts).flatMap(([name, count]) => Array.from({ length: count }, () => name)),
    ...(await listJobs(queues, beganMs)),
    ...listMoneyLeft(calls, money, now),
    ...(await listMoneroLeft(monero, money)),
  ]
}
