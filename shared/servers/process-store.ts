import { Schema, type Connection } from 'mongoose'
import type mongoose from 'mongoose'

/** One of the network's processes, as it says of itself. Losing it loses nothing: it is said again. */
export interface ProcessRecord {
  _id: string
  host: string
  pid: number
  /** `api`, or `workers` with the queues that it serves. */
  part: string
  queues: string[]
  version: string
  commit: string
  /** How far its clock is ahead of the database's, below 0 if it is behind. */
  clock_ahead_ms: number
  /** Unix seconds. */
  started_at: number
  /** By the database's clock. */
  seen_at: Date
}

const processSchema = new Schema<ProcessRecord>(
  {
    _id: { type: String, required: true },
    host: { type: String, required: true },
    pid: { type: Number, required: true },
    part: { type: String, required: true },
    queues: { type: [String], required: true },
    version: { type: String, required: true },
    commit: { type: String, required: true },
    clock_ahead_ms: { type: Number, required: true },
    started_at: { type: Number, required: true },
    seen_at: { type: Date, required: true },
  },
  { collection: 'processes', strict: 'throw', versionKey: false },
)
processSchema.index({ seen_at: 1 }, { expireAfterSeconds: 3_600 })

/** One that has said nothing for so long is gone, or frozen. */
const GONE_MS = 75_000

export function createProcessStore(connection: Connection) {
  const processes = connection.model<ProcessRecord>('Process', processSchema)
  const raw = processes.collection as unknown as mongoose.mongo.Collection<ProcessRecord>
  return {
    models: { processes },
    async note({ _id, ...fields }: Omit<ProcessRecord, 'seen_at'>): Promise<void> {
      await raw.updateOne({ _id }, [{ $set: { ...fields, seen_at: '$$NOW' } }], { upsert: true })
    },
    /** It goes with the next round of MongoDB's own deletions: no process may remove the records of others. */
    async forget(id: string): Promise<void> {
      await raw.updateOne({ _id: id }, { $set: { seen_at: new Date(0) } })
    },
    /** Those that live, by host and part. */
    list: (): Promise<ProcessRecord[]> =>
      raw
        .find({ $expr: { $gt: ['$seen_at', { $subtract: ['$$NOW', GONE_MS] }] } })
        .sort({ host: 1, part: 1, started_at: 1 })
        .toArray(),
  }
}

export type ProcessStore = ReturnType<typeof createProcessStore>
