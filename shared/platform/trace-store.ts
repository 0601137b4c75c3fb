import type { Connection } from 'mongoose'
import type { Place } from './tracing.ts'
import { HOUR_MS, SECOND_MS } from './time.ts'
import { date, maybe, none, only, schemaOf, some, text, textOf, type RecordOf } from './fields.ts'
import { rawOf } from './records.ts'

/** A record that was made in a traced request, whose trace goes on at the record's entry and at its seal. */
const traceFields = {
  _id: text,
  place: textOf<Place>(),
  at: date,
  /** Its entry's number, once it has one. */
  entry: maybe.number,
}
export type TraceRecord = RecordOf<typeof traceFields>

/** Longer than an entry waits for its seal. */
const KEPT_SECONDS = (2 * HOUR_MS) / SECOND_MS
/** Traces that are followed of one batch of entries, or of one seal. */
const MOST = 1_000

const traceSchema = schemaOf<TraceRecord>('traces', traceFields)
traceSchema.index({ at: 1 }, { expireAfterSeconds: KEPT_SECONDS })
traceSchema.index({ entry: 1 }, only({ entry: some }))

/**
 * Creates the store of traces, which is empty unless traces are on. Nothing depends on a trace, so the
 * primary alone acknowledges these writes. On one connection it may be created again and again.
 */
export function createTraceStore(connection: Connection) {
  const traces = connection.model('Trace', traceSchema)
  const raw = () => rawOf<TraceRecord>(traces)
  const LOOSE = { writeConcern: { w: 1 } } as const
  return {
    models: { traces },
    /** Stores the place in a trace at which a record was made. */
    async put(recordId: string, place: Place): Promise<void> {
      const update = { $set: { place, at: new Date() } }
      await raw().updateOne({ _id: recordId }, update, { ...LOOSE, upsert: true })
    },
    /** Those of these records that are traced and have no entry yet, a thousand at most. */
    findUnnumbered: (recordIds: readonly string[]): Promise<TraceRecord[]> =>
      raw()
        .find({ _id: { $in: [...recordIds] }, entry: none })
        .limit(MOST)
        .toArray(),
    /** Stores the numbers of the records' entries, and the place at which the trace goes on. */
    async putEntries(numbered: readonly { _id: string; place: Place; entry: number }[]): Promise<void> {
      if (numbered.length === 0) return
      const operations = numbered.map(({ _id, place, entry }) => ({
        updateOne: { filter: { _id }, update: { $set: { place, entry } } },
      }))
      await raw().bulkWrite(operations, { ...LOOSE, ordered: false })
    },
    /** The traced records whose entry is in this range, a thousand at most. */
    findByEntry: (fromId: number, toId: number): Promise<TraceRecord[]> =>
      raw()
        .find({ entry: { $gte: fromId, $lte: toId } })
        .limit(MOST)
        .toArray(),
  }
}
