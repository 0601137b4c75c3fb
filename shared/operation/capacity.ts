import { quantileMs, ratesOf, type Sample } from './sample.ts'

/** What the last day says of how much more the network can take. Sizes in bytes, processor in cores. */
export interface Capacity {
  /** What was looked at, in Unix seconds. */
  from: number
  to: number
  /** On average, and in the busiest five minutes with the p99 of that time; null if nobody asked. */
  requests: { perSecond: number; most: number; p99Ms: number | null }
  /** By what processes are for, those with least room first. */
  roles: RoleCapacity[]
  disk: DiskCapacity | undefined
  entriesPerDay: number | undefined
  redis: { usedBytes: number; maxBytes: number } | undefined
}

export interface RoleCapacity {
  role: string
  processes: number
  /** Of one process, in its busiest five minutes. */
  mostCores: number
  /** How many times that work its processes can take, at FULL_CORES each. */
  room: number
  /** Whether a second process takes work off the first. */
  isShared: boolean
}

export interface DiskCapacity {
  databaseBytes: number
  /** Above the mark below which the API takes no writes; undefined if it is not known. */
  freeBytes: number | undefined
  bytesPerDay: number
  /** Until the mark; undefined if the database doesn't grow, or the free space is not known. */
  daysLeft: number | undefined
}

/**
 * A process has one thread for its work: beyond this part of a core, what comes waits ever longer. It is an
 * assumption, as the delay in a queue with one server is five times the service at 0.8.
 */
export const FULL_CORES = 0.8
/** The work of the other pools is under a lease or a key, one process at a time. */
const SHARED_ROLES: ReadonlySet<string> = new Set(['api', 'shares'])
const WINDOW_SECONDS = 300
/** Less than an hour tells nothing of a day. */
const LEAST_SECONDS = 3_600
const DAY_SECONDS = 86_400

/**
 * Works out what the samples of a day say of the network's room.
 *
 * @param samples a minute apart, the oldest first
 * @returns undefined if they are of less than an hour
 */
export function measureCapacity(samples: readonly Sample[]): Capacity | undefined {
  const [first, last] = [samples[0], samples.at(-1)]
  if (first === undefined || last === undefined || last.at - first.at < LEAST_SECONDS) return undefined
  const windows = windowsOf(samples).map(([before, after]) => ({
    after,
    requests: after.totals.requests.map((count, index) => count - (before.totals.requests[index] ?? 0)),
    rates: ratesOf(before, after),
  }))
  const busiest = windows.reduce<(typeof windows)[number] | undefined>(
    (most, one) => (rate(one.rates) > (most === undefined ? -1 : rate(most.rates)) ? one : most),
    undefined,
  )
  const hasAsked = busiest !== undefined && rate(busiest.rates) > 0
  const { entries } = last.levels
  const entriesBefore = first.levels['entries']
  const { redis_used_bytes: usedBytes, redis_max_bytes: maxBytes } = last.levels
  return {
    from: first.at,
    to: last.at,
    requests: {
      perSecond: rate(ratesOf(first, last)),
      most: hasAsked ? rate(busiest.rates) : 0,
      p99Ms: hasAsked ? quantileMs(busiest.requests, 0.99) : null,
    },
    roles: Object.keys(last.totals.cpu_seconds)
      .flatMap((role) => {
        const processes = last.levels[`processes/${role}`] ?? 0
        if (processes === 0) return []
        const mostCores = Math.max(
          0,
          ...windows.map(
            ({ rates, after }) =>
              (rates[`cores/${role}`] ?? 0) / Math.max(1, after.levels[`processes/${role}`] ?? 1),
          ),
        )
        return [
          { role, processes, mostCores, room: FULL_CORES / mostCores, isShared: SHARED_ROLES.has(role) },
        ]
      })
      .toSorted((a, b) => a.room - b.room),
    disk: measureDisk(first, last),
    entriesPerDay:
      entries === undefined || entriesBefore === undefined
        ? undefined
        : ((entries - entriesBefore) * DAY_SECONDS) / (last.at - first.at),
    redis: usedBytes === undefined || maxBytes === undefined ? undefined : { usedBytes, maxBytes },
  }
}

const rate = (rates: Readonly<Record<string, number>>): number => rates['requests_per_second'] ?? 0

/** Pairs of samples that are about WINDOW_SECONDS apart, one behind the other. */
function windowsOf(samples: readonly Sample[]): [Sample, Sample][] {
  const windows: [Sample, Sample][] = []
  let begin = samples[0]
  for (const sample of samples) {
    if (begin === undefined || sample.at - begin.at < WINDOW_SECONDS) continue
    windows.push([begin, sample])
    begin = sample
  }
  return windows
}

function measureDisk(first: Sample, last: Sample): DiskCapacity | undefined {
  const { database_bytes: databaseBytes, disk_free_bytes: free, disk_mark_bytes: mark = 0 } = last.levels
  const before = first.levels['database_bytes']
  if (databaseBytes === undefined || before === undefined) return undefined
  const bytesPerDay = ((databaseBytes - before) * DAY_SECONDS) / (last.at - first.at)
  const freeBytes = free === undefined ? undefined : Math.max(0, free - mark)
  return {
    databaseBytes,
    freeBytes,
    bytesPerDay,
    daysLeft: freeBytes === undefined || bytesPerDay <= 0 ? undefined : freeBytes / bytesPerDay,
  }
}
