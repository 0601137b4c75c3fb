import fs from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { median } from '../bench/figure.ts'
import { readUsage } from '../bench/proc.ts'
import { createLog } from '../../../shared/platform/log.ts'
import { QUEUE_NAMES } from '../../../shared/platform/queue-table.ts'
import { openQueues } from '../../../shared/platform/queues.ts'
import type { Finding } from './finding.ts'
import type { Part } from '../testbed/part.ts'
import type { Testbed } from '../testbed/testbed.ts'
import { withDatabase } from './stored.ts'

/** What was measured at one moment, by its name, such as `memory of api-0`. What couldn't be read is absent. */
export type Sample = Record<string, number>

/** How a measured value changed over a run. */
export interface Level {
  name: string
  unit: string
  /** Of the second quarter of its samples, the median or the lowest: the first one is a start, when caches fill. */
  earlier: number
  /** The same of the last quarter. */
  later: number
  samples: number
}

const SAMPLE_EVERY_MS = 10_000
/** A server under a fault may not answer; then the sample lacks what it would have said. */
const ANSWER_WITHIN_MS = 3_000
/** Less often compared, a value says little. */
export const LEAST_SAMPLES = 40
/** A value that grows by more than this is a finding, if it also grows by more than its `slack`. */
export const MAY_GROW = 1.3
const MIB = 2 ** 20

/** Several times in a quarter of the shortest run, and so seldom that it hardly slows a process down. */
const COLLECT_EVERY_MS = 30_000

/** What is measured, by the first word of a name. */
interface Kind {
  unit: string
  /** How much a value may grow whatever its ratio. */
  slack: number
  /** What stands for the samples of a quarter. */
  of(values: readonly number[]): number
}

/** A process takes much more memory before a collection of its garbage than after it; this is what it holds. */
const lowest = (values: readonly number[]): number => Math.min(...values)

const KINDS: Readonly<Record<string, Kind>> = {
  memory: { unit: 'MiB', slack: 30, of: lowest },
  handles: { unit: 'handles', slack: 20, of: median },
  disk: { unit: 'KiB', slack: 1, of: median },
  keys: { unit: 'keys', slack: 500, of: median },
  jobs: { unit: 'jobs', slack: 50, of: median },
}

/** Takes a sample every few seconds until `isOver`; the testbed's processes must have PROBED_ENV. */
export async function sampleLevels(testbed: Testbed, isOver: () => boolean): Promise<Sample[]> {
  const redis = new Redis(testbed.redis.url, { maxRetriesPerRequest: 1, commandTimeout: ANSWER_WITHIN_MS })
  redis.on('error', () => undefined) // a fault; the sample lacks Redis
  const queues = openQueues(testbed.redis.url, 'agent-network', createLog('torture', 'silent'))
  const samples: Sample[] = []
  const firstPids = new Map([...testbed.apis, ...testbed.workers].map((part) => [part, part.child.pid()]))
  /** So that a process's memory soon is what it holds: V8 may leave a hundred MiB of garbage for an hour. */
  const collectGarbage = (): void => {
    for (const [{ child }, firstPid] of firstPids)
      // One that was started anew may not listen yet, and is not measured.
      if (firstPid !== undefined && child.pid() === firstPid) process.kill(firstPid, 'SIGUSR2')
  }
  const collecting = setInterval(collectGarbage, COLLECT_EVERY_MS)
  try {
    for (let nextMs = performance.now(); !isOver(); nextMs += SAMPLE_EVERY_MS) {
      const read = await Promise.all([
        readDatabase(testbed).catch(() => ({})),
        readRedis(redis).catch(() => ({})),
        countJobs(queues).catch(() => ({})),
      ])
      samples.push(Object.assign(readParts(firstPids), ...read))
      while (!isOver() && performance.now() < nextMs + SAMPLE_EVERY_MS) await sleep(200)
    }
    return samples
  } finally {
    clearInterval(collecting)
    redis.disconnect()
    await queues.close()
  }
}

/** Memory and handles of the processes that have lived since the beginning. */
function readParts(firstPids: ReadonlyMap<Part, number | undefined>): Sample {
  const sample: Sample = {}
  for (const [{ name, child }, firstPid] of firstPids) {
    if (firstPid === undefined || child.pid() !== firstPid) continue
    try {
      sample[`memory of ${name}`] = readUsage(firstPid).rssMib
      sample[`handles of ${name}`] = fs.readdirSync(`/proc/${firstPid}/fd`).length
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error // it has ended since
    }
  }
  return sample
}

/** What the database takes for each ledger entry: nothing is deleted, so its whole grows. */
const readDatabase = ({ mongo }: Testbed): Promise<Sample> =>
  withDatabase(
    mongo.url,
    async (db): Promise<Sample> => {
      const { dataSize, indexSize } = await db.stats()
      const entries = await db.collection('entries').estimatedDocumentCount()
      return entries === 0 ? {} : { 'disk of MongoDB an entry': (dataSize + indexSize) / 1_024 / entries }
    },
    { serverSelectionTimeoutMS: ANSWER_WITHIN_MS, socketTimeoutMS: ANSWER_WITHIN_MS },
  )

async function readRedis(redis: Redis): Promise<Sample> {
  const usedBytes = /^used_memory:(\d+)/m.exec(await redis.info('memory'))?.[1]
  return { 'memory of Redis': Number(usedBytes) / MIB, 'keys of Redis': await redis.dbsize() }
}

/** Jobs that wait, run or are planned, by queue. */
async function countJobs(queues: ReturnType<typeof openQueues>): Promise<Sample> {
  const counted = QUEUE_NAMES.map(async (name) => {
    const counts = await queues.get(name).getJobCounts('waiting', 'active', 'prioritized', 'delayed')
    return [`jobs of ${name}`, Object.values(counts).reduce((sum, count) => sum + count, 0)] as const
  })
  const timeUp = sleep(ANSWER_WITHIN_MS).then(() => [])
  return Object.fromEntries(await Promise.race([Promise.all(counted), timeUp]))
}

/** The levels of all that has enough samples, by name. */
export function compareLevels(samples: readonly Sample[]): Level[] {
  const names = [...new Set(samples.flatMap((sample) => Object.keys(sample)))].toSorted()
  return names.flatMap((name) => {
    const values = samples.flatMap((sample) => sample[name] ?? [])
    if (values.length < LEAST_SAMPLES) return []
    const quarter = Math.floor(values.length / 4)
    const { unit, of } = kindOf(name)
    return {
      name,
      unit,
      earlier: of(values.slice(quarter, 2 * quarter)),
      later: of(values.slice(-quarter)),
      samples: values.length,
    }
  })
}

const kindOf = (name: string): Kind =>
  KINDS[name.split(' ', 1)[0] ?? ''] ?? { unit: '', slack: 0, of: median }

/** A finding for each level that isn't level. */
export const checkLevels = (levels: readonly Level[]): Finding[] =>
  levels
    .filter(({ name, earlier, later }) => later > earlier * MAY_GROW && later - earlier > kindOf(name).slack)
    .map((level) => ({ what: `${describeLevel(level)}: it grows`, words: [] }))

/** Such as `memory of api-0: 141.2 MiB, then 143.0 MiB (720 samples)`. */
export const describeLevel = ({ name, unit, earlier, later, samples }: Level): string =>
  `${name}: ${earlier.toFixed(1)} ${unit}, then ${later.toFixed(1)} ${unit} (${samples} samples)`
