import { makeData, makeRequests, storeData } from './api.ts'
import { compareWith, median, type Figure } from './figure.ts'
import { startLoad } from './load.ts'
import { startStack, type BenchProcess, type Vitals } from './processes.ts'

const MINUTE_MS = 60_000
const CONNECTIONS = 64
const PER_SECOND = 500
const WARM_UP_MS = 10_000
/** The medians of the first and the last quarter of these are compared. */
const SLICES = 12
const QUARTER = SLICES / 4
const MIB = 2 ** 20
/** The share of requests that may fail, for a machine that is busy with other things. */
const MAY_FAIL = 0.01

interface Slice {
  p50Ms: number
  p99Ms: number
  api: Vitals
  worker: Vitals
}

/**
 * Measures how latencies, memory and open handles change over `minutes` of a mixed load at a fixed rate,
 * while the workers number and seal: each in the last quarter of that time beside the first.
 */
export async function benchSoak({ minutes = 1 }: { minutes?: number } = {}): Promise<Figure[]> {
  const stack = await startStack({ SEAL_INTERVAL_SECONDS: '10' }, { isProbed: true })
  const load = startLoad()
  try {
    const data = makeData()
    await storeData(stack.mongodbUrl, data)
    const list = makeRequests(data).mixed
    const sendMixed = (durationMs: number) =>
      load.run({
        port: stack.port,
        connections: CONNECTIONS,
        durationMs,
        ratePerSecond: PER_SECOND,
        lanes: [list],
        repeat: true,
        mayFail: MAY_FAIL,
      })
    await sendMixed(WARM_UP_MS)
    // Readings of the event loop's delay begin here.
    await Promise.all([stack.api, ...stack.workers].map((one) => one.readVitals()))
    const slices: Slice[] = []
    for (let slice = 0; slice < SLICES; slice++) {
      const { p50Ms, p99Ms } = await sendMixed((minutes * MINUTE_MS) / SLICES)
      const [api, worker] = await Promise.all([
        stack.api.readVitals(),
        (stack.workers[0] as BenchProcess).readVitals(),
      ])
      slices.push({ p50Ms, p99Ms, api, worker })
    }
    const drift = (
      name: string,
      unit: string,
      goal: number | undefined,
      of: (slice: Slice) => number,
    ): Figure =>
      compareWith(
        { name: 'its first quarter', value: median(slices.slice(0, QUARTER).map(of)) },
        {
          name: `soak: ${name} in the last quarter of ${minutes} min at ${PER_SECOND} requests/s`,
          value: median(slices.slice(-QUARTER).map(of)),
          unit,
          better: 'lower',
          ...(goal === undefined ? {} : { goal }),
        },
      )
    return [
      drift('p50', 'ms', undefined, ({ p50Ms }) => p50Ms),
      drift('p99', 'ms', undefined, ({ p99Ms }) => p99Ms),
      drift('memory of the API', 'MiB', 1.2, ({ api }) => api.rssBytes / MIB),
      drift('memory of the worker', 'MiB', 1.2, ({ worker }) => worker.rssBytes / MIB),
      drift('handles of the API', 'handles', 1.2, ({ api }) => api.handles),
      drift('handles of the worker', 'handles', 1.2, ({ worker }) => worker.handles),
      drift('p99 of event-loop lag of the API', 'ms', undefined, ({ api }) => api.lagP99Ms),
      drift('p99 of event-loop lag of the worker', 'ms', undefined, ({ worker }) => worker.lagP99Ms),
    ]
  } finally {
    load.stop()
    await stack.stop()
  }
}
