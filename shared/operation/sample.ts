import { REQUEST_BUCKETS, type ProcessCounts } from '../platform/metrics.ts'

/**
 * What the whole network has counted since its first sample. It never falls: what a process counts begins at 0
 * again with each start, and goes on here.
 */
export interface Totals extends Pick<ProcessCounts, 'requests' | 'failures' | 'jobs'> {
  /** Seconds of the processor by what processes are for: see Counting. */
  cpu_seconds: Record<string, number>
}

/**
 * The network at one moment. `levels` are what stands at that moment, by name: of a pool, a coin or a role, the
 * name ends with it, as in `oldest_seconds/shares`. What could not be read is absent.
 */
export interface Sample {
  /** Unix seconds. */
  at: number
  totals: Totals
  levels: Record<string, number>
}

/** What the last sample was made of, so that the next one adds what was counted since. */
export interface Counted {
  /** Unix seconds: of the last sample. */
  at: number
  totals: Totals
  /** By process, what it had counted by then. */
  processes: Record<string, ProcessCounts>
}

/** What one process has counted since it started. */
export interface Counting {
  _id: string
  /** What the process is for: `api`, or the pools that it serves, such as `ledger+signer`. */
  role: string
  counts: ProcessCounts
}

const NOTHING_COUNTED: ProcessCounts = { requests: [], failures: 0, jobs: {}, cpu_seconds: 0, waiting: 0 }

/**
 * Adds to the totals what each process has counted since the last sample.
 *
 * @param last undefined before the first sample
 * @param now Unix seconds
 */
export function addCounts(last: Counted | undefined, seen: readonly Counting[], now: number): Counted {
  const totals: Totals = structuredClone(
    last?.totals ?? {
      requests: [...REQUEST_BUCKETS, Infinity].map(() => 0),
      failures: 0,
      jobs: {},
      cpu_seconds: {},
    },
  )
  for (const { _id, role, counts } of seen) {
    const before = last?.processes[_id] ?? NOTHING_COUNTED
    totals.requests = totals.requests.map(
      (count, index) => count + (counts.requests[index] ?? 0) - (before.requests[index] ?? 0),
    )
    totals.failures += counts.failures - before.failures
    totals.cpu_seconds[role] = (totals.cpu_seconds[role] ?? 0) + counts.cpu_seconds - before.cpu_seconds
    for (const [queue, { count, seconds }] of Object.entries(counts.jobs)) {
      const total = (totals.jobs[queue] ??= { count: 0, seconds: 0 })
      total.count += count - (before.jobs[queue]?.count ?? 0)
      total.seconds += seconds - (before.jobs[queue]?.seconds ?? 0)
    }
  }
  return { at: now, totals, processes: Object.fromEntries(seen.map(({ _id, counts }) => [_id, counts])) }
}

/** Columns over time: `at` in Unix seconds, and for each name as many values; null for what isn't known. */
export interface Series {
  at: number[]
  columns: Record<string, (number | null)[]>
}

/** A pause of so many steps between two samples is a gap. */
const GAP_STEPS = 4

/**
 * Makes columns of samples: rates and percentiles of what was counted between each two, and the levels. A gap has
 * a row without values, so that no line crosses it.
 *
 * @param samples the oldest first
 * @param stepSeconds how far they are apart
 */
export function toSeries(samples: readonly Sample[], stepSeconds: number): Series {
  const rows: { at: number; values: Record<string, number> }[] = []
  for (const [index, sample] of samples.entries()) {
    const before = samples[index - 1]
    if (before === undefined) continue
    const seconds = sample.at - before.at
    const isGap = seconds > GAP_STEPS * stepSeconds
    if (isGap) rows.push({ at: before.at + stepSeconds, values: {} })
    rows.push({ at: sample.at, values: { ...(isGap ? {} : ratesOf(before, sample)), ...sample.levels } })
  }
  const names = [...new Set(rows.flatMap(({ values }) => Object.keys(values)))].toSorted()
  return {
    at: rows.map(({ at }) => at),
    columns: Object.fromEntries(names.map((name) => [name, rows.map(({ values }) => values[name] ?? null)])),
  }
}

/** What was counted between two samples, by the second. */
export function ratesOf(before: Sample, after: Sample): Record<string, number> {
  const seconds = after.at - before.at
  const requests = after.totals.requests.map((count, index) => count - (before.totals.requests[index] ?? 0))
  const asked = requests.reduce((all, count) => all + count, 0)
  const rates: Record<string, number> = {
    requests_per_second: asked / seconds,
    failures_per_second: (after.totals.failures - before.totals.failures) / seconds,
    ...(asked === 0 ? {} : { p50_ms: quantileMs(requests, 0.5), p99_ms: quantileMs(requests, 0.99) }),
  }
  for (const [queue, { count, seconds: busy }] of Object.entries(after.totals.jobs)) {
    const former = before.totals.jobs[queue] ?? { count: 0, seconds: 0 }
    rates[`jobs_per_second/${queue}`] = (count - former.count) / seconds
    rates[`jobs_under_way/${queue}`] = (busy - former.seconds) / seconds
  }
  const [entries, entriesBefore] = [after.levels['entries'], before.levels['entries']]
  if (entries !== undefined && entriesBefore !== undefined)
    rates['entries_per_second'] = (entries - entriesBefore) / seconds
  for (const [role, used] of Object.entries(after.totals.cpu_seconds))
    rates[`cores/${role}`] = (used - (before.totals.cpu_seconds[role] ?? 0)) / seconds
  return rates
}

/**
 * The time within which this part of the requests was answered, in milliseconds, by a straight line through the
 * bucket that it falls into. Of the slowest bucket it is the lower bound.
 *
 * @param requests by bucket of REQUEST_BUCKETS, at least one in all
 */
export function quantileMs(requests: readonly number[], part: number): number {
  const wanted = part * requests.reduce((all, count) => all + count, 0)
  let passed = 0
  for (const [index, count] of requests.entries()) {
    const upper = REQUEST_BUCKETS[index]
    const lower = REQUEST_BUCKETS[index - 1] ?? 0
    if (upper === undefined) return 1_000 * lower
    if (passed + count >= wanted && count > 0)
      return 1_000 * (lower + ((upper - lower) * (wanted - passed)) / count)
    passed += count
  }
  return 1_000 * (REQUEST_BUCKETS.at(-1) ?? 0)
}
