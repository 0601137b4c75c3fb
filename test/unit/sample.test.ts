import { describe, expect, it } from 'vitest'
import { addCounts, quantileMs, toSeries, type Sample } from '../../shared/operation/sample.ts'
import { createMetrics, REQUEST_BUCKETS, type ProcessCounts } from '../../shared/platform/metrics.ts'
import { QUEUE_NAMES } from '../../shared/platform/queue-table.ts'
import { roleOf } from '../../workers/operator/sampler.ts'

const NOTHING: ProcessCounts = { requests: [], failures: 0, jobs: {}, cpu_seconds: 0, waiting: 0 }
const buckets = (...counts: number[]): number[] =>
  [...REQUEST_BUCKETS, Infinity].map((_, index) => counts[index] ?? 0)
const api = (_id: string, counts: Partial<ProcessCounts>) => ({
  _id,
  role: 'api',
  counts: { ...NOTHING, ...counts },
})
const sampleAt = (at: number, requests: number[], levels: Record<string, number> = {}): Sample => ({
  at,
  totals: { requests: buckets(...requests), failures: 0, jobs: {}, cpu_seconds: {} },
  levels,
})

describe('the counts of one process', () => {
  it('are sums over all labels of what its metrics say', async () => {
    const metrics = createMetrics()
    metrics.countRequest({ method: 'GET', route: '/feed', status: 200 }, 0.001)
    metrics.countRequest({ method: 'POST', route: '/post', status: 200 }, 0.003)
    metrics.countRequest({ method: 'POST', route: '/post', status: 503 }, 30)
    metrics.countFailure('unavailable')
    metrics.beginQueue('sequence')
    metrics.countJob('sequence', 'completed', 2)
    metrics.countJob('sequence', 'retried', 3)
    metrics.watchWaiting(() => 7)
    const { requests, failures, jobs, waiting } = await metrics.readCounts()
    expect(requests).toEqual([1, 1, ...buckets().slice(3), 1])
    expect({ failures, jobs, waiting }).toEqual({
      failures: 1,
      jobs: { sequence: { count: 2, seconds: 5 } },
      waiting: 7,
    })
  })
})

describe('the totals of the network', () => {
  it('go on when a process starts again and begins to count at 0', () => {
    const first = addCounts(undefined, [api('a', { requests: buckets(5), cpu_seconds: 2 })], 10)
    const second = addCounts(first, [api('a', { requests: buckets(8), cpu_seconds: 3 })], 20)
    const third = addCounts(second, [api('b', { requests: buckets(1), cpu_seconds: 0.5 })], 30)
    expect([first, second, third].map(({ totals }) => totals.requests[0])).toEqual([5, 8, 9])
    expect(third.totals.cpu_seconds).toEqual({ api: 3.5 })
  })

  it('count nothing twice of a process that was silent for a while', () => {
    const silent = api('a', { requests: buckets(5) })
    const first = addCounts(undefined, [silent], 10)
    const second = addCounts(first, [silent], 20)
    expect(addCounts(second, [api('a', { requests: buckets(6) })], 30).totals.requests[0]).toBe(6)
  })

  it('are kept apart by what a process is for', () => {
    expect(roleOf({ part: 'api', queues: [] })).toBe('api')
    expect(roleOf({ part: 'workers', queues: ['verify-shares'] })).toBe('shares')
    expect(roleOf({ part: 'workers', queues: ['sequence', 'sweep'] })).toBe('ledger+sweep')
    expect(roleOf({ part: 'workers', queues: [...QUEUE_NAMES] })).toBe('workers')
  })
})

describe('the columns of the samples', () => {
  it('are rates of what was counted between two samples, and the levels', () => {
    const { at, columns } = toSeries([sampleAt(10, [0]), sampleAt(20, [30], { entries: 4 })], 10)
    expect(at).toEqual([20])
    expect(columns['requests_per_second']).toEqual([3])
    expect(columns['entries']).toEqual([4])
  })

  it('have no value in a gap, so that no line crosses it', () => {
    const samples = [sampleAt(10, [0]), sampleAt(20, [10]), sampleAt(500, [20], { entries: 1 })]
    const { at, columns } = toSeries(samples, 10)
    expect(at).toEqual([20, 30, 500])
    expect(columns['requests_per_second']).toEqual([1, null, null])
    expect(columns['entries']).toEqual([null, null, 1])
  })

  it('say no time to answer if nobody asked', () => {
    const { columns } = toSeries([sampleAt(10, [1]), sampleAt(20, [1])], 10)
    expect(columns['requests_per_second']).toEqual([0])
    expect(columns['p99_ms']).toBeUndefined()
  })
})

describe('a percentile of the time to answer', () => {
  it('lies within its bucket, by how many of the bucket are faster', () => {
    expect(quantileMs(buckets(0, 100), 0.5)).toBeCloseTo(3.5, 9)
    expect(quantileMs(buckets(98, 0, 2), 0.99)).toBeCloseTo(7.5, 9)
  })

  it('is the lower bound of the slowest bucket, which has no upper one', () => {
    expect(quantileMs([...buckets().slice(1), 1], 0.99)).toBe(10_000)
  })
})
