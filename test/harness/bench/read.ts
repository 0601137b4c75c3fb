import { waitFor } from '../../../scripts/embedded/wait.ts'
import { MINUTE_MS } from '../../../shared/platform/time.ts'
import { makeData, makeRequests, storeData } from './api.ts'
import { compareInTurns, compareWith, median, type Figure } from './figure.ts'
import { startLoad, type LoadJob } from './load.ts'
import { startBare, startStack } from './processes.ts'

const BARE = 'Express 5 that sends the same bytes from memory'
const CONNECTIONS = 64
const SAMPLE_MS = 2_000
const ROUNDS = 6
const AGENTS = 2_000
const MIXED_MS = 5_000
const MIXED_ROUNDS = 5
/** Requests a second. */
const MIXED = { few: 60, many: 600 } as const

/**
 * Compares frequent reads with Express that sends the same bytes from memory, and the p99 of a mix at two rates.
 */
export async function benchRead(): Promise<Figure[]> {
  const stack = await startStack({}, { workers: 0 })
  const bare = await startBare()
  const load = startLoad()
  try {
    const data = makeData(AGENTS)
    await storeData(stack.mongodbUrl, data)
    const requests = makeRequests(data)
    const figures: Figure[] = []
    const reads = [
      {
        path: '/me',
        list: requests.me,
        by: `${BARE}, after one token look-up in memory`,
        tokens: data.tokens,
        goal: 0.6,
      },
      { path: '/feed?limit=50', list: requests.feed, by: BARE, tokens: [], goal: 0.7 },
    ]
    for (const { path, list, by, tokens, goal } of reads) {
      await copyAnswer(stack.port, bare.port, `/api/v1${path}`, data.tokens[0] ?? '', tokens)
      const rateOf = (port: number) => async () => {
        const job = { port, connections: CONNECTIONS, durationMs: SAMPLE_MS, lanes: [list], repeat: true }
        return (await load.run(job)).perSecond
      }
      figures.push(
        await compareInTurns(
          ROUNDS,
          { name: by, sample: rateOf(bare.port) },
          {
            name: `read: GET ${path}`,
            sample: rateOf(stack.port),
            unit: 'requests/s',
            better: 'higher',
            goal,
          },
        ),
      )
    }
    figures.push(await benchMixed((job) => load.run(job), stack.port, requests.mixed))
    return figures
  } finally {
    load.stop()
    await bare.stop()
    await stack.stop()
  }
}

/**
 * Waits until the API at port `from` answers a path with 200, and stores the answer in the bare server at
 * port `to`.
 *
 * @param tokens that open it there; none if it is open to all
 */
async function copyAnswer(
  from: number,
  to: number,
  path: string,
  token: string,
  tokens: readonly string[],
): Promise<void> {
  const headers = { Authorization: `Bearer ${token}`, 'Accept-Encoding': 'identity' }
  const body = await waitFor(
    'an API that is ready',
    async () => {
      const answer = await fetch(`http://127.0.0.1:${from}${path}`, { headers })
      const text = await answer.text()
      return answer.status === 200 ? text : undefined
    },
    { limitMs: MINUTE_MS },
  )
  await fetch(`http://127.0.0.1:${to}${path}`, {
    method: 'PUT',
    body,
    ...(tokens.length === 0 ? {} : { headers: { 'X-Tokens': tokens.join(',') } }),
  })
}

/** Compares the p99 of the same mix of reads and writes at two rates, in turns after a warm-up. */
async function benchMixed(
  run: (job: LoadJob) => Promise<{ p99Ms: number }>,
  port: number,
  list: string[],
): Promise<Figure> {
  const p99s: Record<keyof typeof MIXED, number[]> = { few: [], many: [] }
  for (let round = 0; round <= MIXED_ROUNDS; round++)
    for (const rate of ['few', 'many'] as const) {
      const { p99Ms } = await run({
        port,
        connections: CONNECTIONS,
        durationMs: MIXED_MS,
        ratePerSecond: MIXED[rate],
        lanes: [list],
        repeat: true,
      })
      if (round > 0) p99s[rate].push(p99Ms)
    }
  return compareWith(
    { name: `at ${MIXED.few} requests/s`, value: median(p99s.few) },
    {
      name: `read: p99 of ${MIXED.many} requests/s, 80 % of them reads`,
      value: median(p99s.many),
      unit: 'ms',
      better: 'lower',
      goal: 3,
    },
  )
}
