import type mongoose from 'mongoose'
import { Schema, type Connection } from 'mongoose'
import type { Place } from '../foundation/tracing.ts'
import { HOUR_MS, SECOND_MS } from '../foundation/time.ts'

/** Where the trace of a request goes on that made a record: at its entry, and then at its seal. */
export interface TraceRecord {
  /** The record's id. */
  _id: string
  place: Place
  at: Date
  /** Its entry's number, once it has one. */
  entry?: number
}

/** Longer than a seal takes; what has no entry goes then. */
const KEPT_SECONDS = (2 * HOUR_MS) / SECOND_MS
/** Of one batch or one seal no more are followed. */
const MOST = 1_000

const traceSchema = new Schema<TraceRecord>(
  {
    _id: { type: String, required: true },
    place: { type: String, required: true },
    at: { type: Date, required: true },
    entry: Number,
  },
  { collection: 'traces', strict: 'throw', versionKey: false },
)
traceSchema.index({ at: 1 }, { expireAfterSeconds: KEPT_SECONDS })
traceSchema.index({ entry: 1 }, { partialFilterExpression: { entry: { $exists: true } } })

/** Empty unless traces are on. A trace that is lost is lost: nobody waits for these writes. */
export function createTraceStore(connection: Connection) {
  const traces = connection.model<TraceRecord>('Trace', traceSchema)
  const raw = () => traces.collection as unknown as mongoose.mongo.Collection<TraceRecord>
  const LOOSE = { writeConcern: { w: 1 } } as const
  return {
    models: { traces },
    async put(recordId: string, place: Place): Promise<void> {
      await raw().updateOne(
        { _id: recordId },
        { $set: { place, at: new Date() } },
        { ...LOOSE, upsert: true },
      )
    },
    /** Those of these records that have no entry yet. */
    findUnnumbered: (recordIds: readonly string[]): Promise<TraceRecord[]> =>
      raw()
        .find({ _id: { $in: [...recordIds] }, entry: { $exists: false } })
        .limit(MOST)
        .toArray(),
    async putEntries(numbered: readonly { _id: string; place: Place; entry: number }[]): Promise<void> {
      if (numbered.length === 0) return
      const operations = numbered.map(({ _id, place, entry }) => ({
        updateOne: { filter: { _id }, update: { $set: { place, entry } } },
      }))
      await raw().bulkWrite(operations, { ...LOOSE, ordered: false })
    },
    findByEntry: (fromId: number, toId: number): Promise<TraceRecord[]> =>
      raw()
        .find({ entry: { $gte: fromId, $lte: toId } })
        .limit(MOST)
        .toArray(),
  }
}

export type TraceStore = ReturnType<typeof createTraceStore>
