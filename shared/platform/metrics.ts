import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import { readBuild } from './build.ts'

/** What one process counts. No label holds an id, a token, an address or a text that somebody sent. */
export interface Metrics {
  readonly registry: Registry
  /** `route` is the route's template. `status` is 0 if the caller was gone before the answer. */
  countRequest(labels: { method: string; route: string; status: number }, seconds: number): void
  /** A request that was answered 5xx. `error` is a code of the table. */
  countFailure(error: string): void
  countJob(queue: string, outcome: JobOutcome, seconds: number): void
  /**
   * Lets the counters of a queue that this process serves begin at 0: else the first increase would be lost.
   */
  beginQueue(queue: string): void
  /** A job whose worker fell silent and that another one will take. */
  countStalled(queue: string): void
  /** How many jobs of this process's queues were handed on so, and when the last was, in Unix seconds. */
  stalledJobs(): { count: number; lastAt: number }
  /** A try to ring a doorbell. `seconds`: from when it was due until it was answered, or had failed. */
  countRing(labels: { queue: string; outcome: 'arrived' | 'failed' }, seconds: number): void
  /** Something in the ledger's collections that no step of ours writes: somebody has to look at it. */
  countAnomaly(kind: AnomalyKind): void
  /** From now on `count` says how many callers wait for news. */
  watchWaiting(count: () => number): void
  /** Sums of what this process has counted since it started. */
  readCounts(): Promise<ProcessCounts>
}

/** What a process says of itself to the others: sums over its own metrics, since it started. */
export interface ProcessCounts {
  /** How many requests took as long as REQUEST_BUCKETS says, each in one bucket; the last are the slower ones. */
  requests: number[]
  /** Those that were answered 5xx. */
  failures: number
  /** Attempts by queue, and the seconds that they took by the clock. */
  jobs: Record<string, { count: number; seconds: number }>
  /** Of the processor, in all threads of the process. */
  cpu_seconds: number
  /** Callers that wait for news at this moment. */
  waiting: number
}

/**
 * `mark`: a pending entry that isn't numbered; `entry`: an entry without a readable form or amount;
 * `content`: a record that is not what its entry says; `announcement`: one that is not signed; `clock`: a
 * clock that is wrong; `peer`, `witness`: one of the signer's that remembers another history.
 */
const ANOMALY_KINDS = ['mark', 'entry', 'content', 'announcement', 'clock', 'peer', 'witness'] as const
export type AnomalyKind = (typeof ANOMALY_KINDS)[number]

/** `retried`: it failed and is tried again; `failed`: it was given up. */
export type JobOutcome = 'completed' | 'retried' | 'failed'

export const METRIC_PREFIX = 'agent_network_'

/**
 * Around the limits of shared/platform/limits.ts: an outage answers within 2 s, a submission waits for 5 s.
 */
export const REQUEST_BUCKETS = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10]
const JOB_BUCKETS = [0.005, 0.025, 0.1, 0.5, 2, 10, 60]
const RING_BUCKETS = [0.25, 0.5, 1, 2, 5, 10, 60]

/** Creates the counters of this process, in a registry of their own. */
export function createMetrics(): Metrics {
  const registry = new Registry()
  const build = new Gauge({
    name: `${METRIC_PREFIX}build_info`,
    help: '1, with the version and the commit of this process',
    labelNames: ['version', 'commit'] as const,
    registers: [registry],
  })
  build.set({ ...readBuild() }, 1)
  const requests = new Histogram({
    name: `${METRIC_PREFIX}request_seconds`,
    help: 'Time to answer, by route template and status; status 0 is a caller that left before the answer',
    labelNames: ['method', 'route', 'status'] as const,
    buckets: REQUEST_BUCKETS,
    registers: [registry],
  })
  const failures = new Counter({
    name: `${METRIC_PREFIX}request_failures_total`,
    help: 'Requests answered 5xx, by error code; those about a coin that is not ready are an answer to what a client chose',
    labelNames: ['error'] as const,
    registers: [registry],
  })
  for (const error of ['internal', 'unavailable']) failures.inc({ error }, 0)
  const jobs = new Histogram({
    name: `${METRIC_PREFIX}job_seconds`,
    help: 'Time that one attempt of a job took, by queue and outcome: completed, retried, failed',
    labelNames: ['queue', 'outcome'] as const,
    buckets: JOB_BUCKETS,
    registers: [registry],
  })
  const stalled = new Counter({
    name: `${METRIC_PREFIX}jobs_stalled_total`,
    help: 'Jobs handed on because their worker fell silent',
    labelNames: ['queue'] as const,
    registers: [registry],
  })
  const rings = new Histogram({
    name: `${METRIC_PREFIX}doorbell_ring_seconds`,
    help: 'Time from when a ring of a doorbell was due until it was answered or had failed, by queue and outcome: arrived, failed',
    labelNames: ['queue', 'outcome'] as const,
    buckets: RING_BUCKETS,
    registers: [registry],
  })
  const anomalies = new Counter({
    name: `${METRIC_PREFIX}ledger_anomalies_total`,
    help: 'What was met in the ledger that no step of the network writes, by kind: mark, entry, content, announcement, clock, peer, witness',
    labelNames: ['kind'] as const,
    registers: [registry],
  })
  for (const kind of ANOMALY_KINDS) anomalies.inc({ kind }, 0)
  let stalledJobs = { count: 0, lastAt: 0 }
  let countWaiting = (): number => 0
  const waiting = new Gauge({
    name: `${METRIC_PREFIX}waiting_callers`,
    help: 'Callers that wait for news (`wait` of GET /events)',
    registers: [registry],
    collect() {
      this.set(countWaiting())
    },
  })
  return {
    registry,
    countRequest: (labels, seconds) =>
      requests.observe({ ...labels, status: String(labels.status) }, seconds),
    countFailure: (error) => failures.inc({ error }),
    countJob: (queue, outcome, seconds) => jobs.observe({ queue, outcome }, seconds),
    beginQueue(queue) {
      stalled.inc({ queue }, 0)
      jobs.zero({ queue, outcome: 'failed' })
    },
    countRing: (labels, seconds) => rings.observe(labels, seconds),
    countStalled(queue) {
      stalled.inc({ queue })
      stalledJobs = { count: stalledJobs.count + 1, lastAt: Math.floor(Date.now() / 1_000) }
    },
    stalledJobs: () => stalledJobs,
    countAnomaly: (kind) => anomalies.inc({ kind }),
    watchWaiting: (count) => (countWaiting = count),
    async readCounts() {
      const [ofRequests, ofFailures, ofJobs, ofWaiting] = await Promise.all([
        requests.get(),
        failures.get(),
        jobs.get(),
        waiting.get(),
      ])
      const { user, system } = process.cpuUsage()
      return {
        requests: sumBuckets(ofRequests.values),
        failures: sum(ofFailures.values),
        jobs: sumJobs(ofJobs.values),
        cpu_seconds: (user + system) / 1e6,
        waiting: sum(ofWaiting.values),
      }
    },
  }
}

interface HistogramValue {
  value: number
  metricName?: string
  labels: Partial<Record<string, string | number>>
}

const sum = (values: readonly { value: number }[]): number =>
  values.reduce((all, { value }) => all + value, 0)

/** Of a histogram of requests, how many are in each bucket, over all its labels. */
function sumBuckets(values: readonly HistogramValue[]): number[] {
  const within = [...REQUEST_BUCKETS, Infinity].map((limit) =>
    sum(
      values.filter(
        ({ metricName, labels }) =>
          metricName?.endsWith('_bucket') === true &&
          Number(String(labels['le']).replace('+Inf', 'Infinity')) === limit,
      ),
    ),
  )
  return within.map((count, index) => count - (within[index - 1] ?? 0))
}

/** Of a histogram of jobs, how many ended and the seconds that they took, by queue. */
function sumJobs(values: readonly HistogramValue[]): ProcessCounts['jobs'] {
  const byQueue: ProcessCounts['jobs'] = {}
  for (const { value, metricName, labels } of values) {
    const ofQueue = (byQueue[String(labels['queue'])] ??= { count: 0, seconds: 0 })
    if (metricName?.endsWith('_count') === true) ofQueue.count += value
    if (metricName?.endsWith('_sum') === true) ofQueue.seconds += value
  }
  return byQueue
}

const withProcess = new WeakSet<Registry>()

/**
 * Adds the metrics of this process to the registry: memory, CPU, event-loop lag, open files, garbage
 * collection. Does nothing if they are there already.
 */
export function collectProcessMetrics({ registry }: Metrics): void {
  if (withProcess.has(registry)) return
  withProcess.add(registry)
  // The event loop's delay is sampled every 50 ms; the default, every 10 ms, costs 0.24 % of a core.
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 50 })
}
