import type { Context } from '../../shared/context.ts'
import { addCounts } from '../../shared/operation/sample.ts'
import { RINGS } from '../../shared/operation/sample-store.ts'
import type { Counting } from '../../shared/platform/process-store.ts'
import { POOLS, QUEUE_NAMES, queueRow } from '../../shared/platform/queue-table.ts'
import { SECOND_MS, unixSeconds } from '../../shared/platform/time.ts'
import type { NetworkReading, NetworkSeries } from './network-metrics.ts'

const { stepSeconds } = RINGS.hour

/**
 * Takes a sample of the network every 10 s until it is closed. Each process with the operator's port does this,
 * and what one of them has stored the others find done.
 */
export function keepSampling(ctx: Context, readNetwork: () => Promise<NetworkReading>): { close(): void } {
  let isRunning = false
  const turn = (): void => {
    if (isRunning || !ctx.database.isReady()) return
    isRunning = true
    takeSample(ctx, readNetwork)
      .catch((error: unknown) => ctx.log.debug({ err: error }, 'no sample of the network could be taken'))
      .finally(() => (isRunning = false))
  }
  const timer = setInterval(turn, stepSeconds * SECOND_MS)
  return { close: () => clearInterval(timer) }
}

/**
 * Stores a sample of the network, unless there is one of the last 10 s.
 *
 * @returns false if nothing was stored
 */
export async function takeSample(ctx: Context, readNetwork: () => Promise<NetworkReading>): Promise<boolean> {
  const now = unixSeconds(ctx.database.now())
  const at = now - (now % stepSeconds)
  const last = await ctx.operation.samples.readCounted()
  // A clock that was set back by more than the ring is long begins anew.
  if (last !== undefined && at <= last.at && last.at - at < stepSeconds * RINGS.hour.places) return false
  const [{ series }, processes] = await Promise.all([readNetwork(), ctx.operation.processes.listCounts()])
  const seen = processes.map((one) => ({ ...one, role: roleOf(one) }))
  const levels = { ...levelsOf(series), ...levelsOfProcesses(seen) }
  return ctx.operation.samples.store(addCounts(last, seen, at), levels, last)
}

/**
 * Names what a process is for: `api`, or the pools that its queues belong to, such as `ledger+signer`; `workers`
 * if it serves all of them.
 */
export function roleOf({ part, queues }: Pick<Counting, 'part' | 'queues'>): string {
  if (part === 'api') return 'api'
  const served = new Set(
    QUEUE_NAMES.filter((name) => queues.includes(name)).map((name) => queueRow(name).pool),
  )
  const pools = POOLS.filter((pool) => served.has(pool))
  return pools.length === POOLS.length ? 'workers' : pools.join('+') || 'idle'
}

const isQueue = (name: string | number | undefined) => QUEUE_NAMES.find((known) => known === name)

/** How a gauge of the network becomes levels of a sample. */
const LEVELS: Readonly<
  Record<string, { as: string; by?: 'pool' | 'coin'; join: 'sum' | 'max'; state?: string }>
> = {
  queue_jobs: { as: 'waiting', by: 'pool', join: 'sum', state: 'waiting' },
  queue_oldest_seconds: { as: 'oldest_seconds', by: 'pool', join: 'max' },
  entries: { as: 'entries', join: 'max' },
  seal_age_seconds: { as: 'seal_age_seconds', join: 'max' },
  unsealed_seconds: { as: 'unsealed_seconds', join: 'max' },
  unsigned_seals: { as: 'unsigned_seals', join: 'max' },
  treasury_coins: { as: 'treasury', by: 'coin', join: 'max' },
  unpaid_coins: { as: 'unpaid', by: 'coin', join: 'max' },
  payout_due_seconds: { as: 'payout_due_seconds', by: 'coin', join: 'max' },
  disk_free_bytes: { as: 'disk_free_bytes', join: 'max' },
  disk_mark_bytes: { as: 'disk_mark_bytes', join: 'max' },
  database_bytes: { as: 'database_bytes', join: 'max' },
  redis_used_bytes: { as: 'redis_used_bytes', join: 'max' },
  redis_max_bytes: { as: 'redis_max_bytes', join: 'max' },
}

/** The levels that the page shows of the network's gauges, those of queues by pool. */
function levelsOf(series: readonly NetworkSeries[]): Record<string, number> {
  const levels: Record<string, number> = {}
  for (const { name, labels, value } of series) {
    const level = LEVELS[name]
    if (level === undefined || (level.state !== undefined && labels['state'] !== level.state)) continue
    const queue = isQueue(labels['queue'])
    const owner = level.by === 'pool' ? queue && queueRow(queue).pool : level.by && labels[level.by]
    const key = owner === undefined ? level.as : `${level.as}/${owner}`
    const before = levels[key] ?? 0
    levels[key] = level.join === 'sum' ? before + value : Math.max(before, value)
  }
  return levels
}

/** The levels that processes tell of: how many of each role run, and how many callers wait at the APIs. */
function levelsOfProcesses(seen: readonly (Counting & { role: string })[]): Record<string, number> {
  const levels: Record<string, number> = { waiting_callers: 0 }
  for (const one of seen.filter(({ isAlive }) => isAlive)) {
    const key = `processes/${one.role}`
    levels[key] = (levels[key] ?? 0) + 1
    levels['waiting_callers'] = (levels['waiting_callers'] ?? 0) + one.counts.waiting
  }
  return levels
}
