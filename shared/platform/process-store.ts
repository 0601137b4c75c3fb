import type { Connection } from 'mongoose'
import { date, list, maybe, number, schemaOf, text, type RecordOf } from './fields.ts'
import type { ProcessCounts } from './metrics.ts'
import { rawOf } from './records.ts'

/** One of the network's processes, as it says of itself. Losing it loses nothing: it is said again. */
const processFields = {
  _id: text,
  host: text,
  pid: number,
  /** `api` or `workers`. */
  part: text,
  /** Those that the workers serve. */
  queues: list(text),
  version: text,
  commit: text,
  /** What the names of its queues begin with. */
  queue_prefix: maybe.text,
  /** Of the Redis that it uses, by Redis itself; absent if it isn't known, as of a cluster. */
  redis_run_id: maybe.text,
  /** By setting that processes of the same work must share, the beginning of the SHA-256 of its value. */
  settings: maybe.opaque<Record<string, string>>(),
  /** Number of jobs that were taken from a silent worker, as far as this process has heard. */
  stalled_jobs: maybe.number,
  /** When the last of them was, in Unix seconds. */
  stalled_at: maybe.number,
  /** Peers and witnesses that didn't answer it when they were asked last. */
  unreached: maybe.list(text),
  /** Why its signer signs nothing for now, and what to do, in sentences. */
  signing_waits: maybe.text,
  /** What it has counted since it started. */
  counts: maybe.opaque<ProcessCounts>(),
  /** How far its clock is ahead of the database's, below 0 if it is behind. */
  clock_ahead_ms: number,
  /** Unix seconds. */
  started_at: number,
  /** By the database's clock. */
  seen_at: date,
}
export type ProcessRecord = RecordOf<typeof processFields>

const processSchema = schemaOf<ProcessRecord>('processes', processFields)
processSchema.index({ seen_at: 1 }, { expireAfterSeconds: 3_600 })

/** A process that has said nothing for this long is gone, or frozen. */
const GONE_MS = 75_000
const HEARD_OF_SINCE = { $subtract: ['$$NOW', GONE_MS] }

/** What one process has counted. */
export type Counting = Pick<ProcessRecord, '_id' | 'part' | 'queues'> & {
  counts: ProcessCounts
  isAlive: boolean
}

/** Creates the store in which each process says that it is alive. */
export function createProcessStore(connection: Connection) {
  const processes = connection.model('Process', processSchema)
  const raw = rawOf<ProcessRecord>(processes)
  return {
    models: { processes },
    /** Stores what a process says of itself, in place of what it said before, and that it is alive now. */
    async note({ _id, ...fields }: Omit<ProcessRecord, 'seen_at'>): Promise<void> {
      const said = Object.fromEntries(
        Object.entries(fields).map(([name, value]) => [name, { $literal: value }]),
      )
      await raw.updateOne({ _id }, [{ $replaceWith: { _id, ...said, seen_at: '$$NOW' } }], { upsert: true })
    },
    /**
     * Dates the record so that MongoDB removes it: no process may delete, since it could delete others'
     * records.
     */
    async forget(id: string): Promise<void> {
      await raw.updateOne({ _id: id }, { $set: { seen_at: new Date(0) } })
    },
    /** What each process has counted, those that are gone included until their records are. */
    listCounts: () =>
      raw
        .find({ counts: { $exists: true } })
        .project<Counting>({ part: 1, queues: 1, counts: 1, isAlive: { $gt: ['$seen_at', HEARD_OF_SINCE] } })
        .toArray(),
    /** The processes that are alive, by host and part. */
    list: (): Promise<ProcessRecord[]> =>
      raw
        .find({ $expr: { $gt: ['$seen_at', HEARD_OF_SINCE] } })
        .sort({ host: 1, part: 1, started_at: 1 })
        .toArray(),
  }
}
