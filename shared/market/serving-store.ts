import { Schema, type Model } from 'mongoose'
import { isDuplicateKey, type Database } from '../database.ts'
import { MAX_CLOCK_OFF_MS } from '../limits.ts'
import { OUTAGE_GAP_MS } from './market-terms.ts'

/*
 * When the API served. An API process that serves says so every second, from the first request that it answered on, in
 * one mark that all of them share: while any one of them serves the API does, and it is down when none of them does, for
 * whatever reason. A process without its MongoDB serves nothing, and cannot write its mark either.
 *
 * A pause of the mark beyond OUTAGE_GAP_MS is an outage. It lasts until the next request that is served, which writes
 * it down before the mark moves on: after a death between the two the outage goes on until the next one. So at any moment
 * each past time is told: the API served then (a mark or an outage's end came after it, and no outage covers it), it did
 * not (an outage covers it), or nobody knows yet (it lies after the mark).
 *
 * A clock that is ahead of the database's tells of an outage that never was, and would put off every deadline in it: by
 * such a clock nothing is written.
 */

/** The time up to which the API is known to have served, but for the outages. Milliseconds since the epoch, as all times here. */
interface MarkRecord {
  _id: 'api'
  until_ms: number
}

export interface OutageRecord {
  /** When the API was last known to serve. */
  _id: number
  /** The first request that was served after it. */
  to_ms: number
}

const number = { type: Number, required: true } as const

const markSchema = new Schema<MarkRecord>(
  { _id: { type: String, required: true }, until_ms: number },
  { collection: 'serving', strict: 'throw', versionKey: false },
)
const outageSchema = new Schema<OutageRecord>({ _id: number, to_ms: number }, { collection: 'outages', strict: 'throw', versionKey: false })

export interface ServingStore {
  /** Moves the mark on. @returns false where the pause since the last one is an outage, or there is no mark: nothing is written */
  beat(nowMs: number): Promise<boolean>
  /**
   * A request is served: after a pause, its outage is written down and ends now. Never called but where requests are served.
   *
   * @returns false where this machine's clock is ahead of the database's: nothing is written
   */
  serve(nowMs: number): Promise<boolean>
  /** Up to when the API is known to have served; undefined where it never did. */
  servedUntil(): Promise<number | undefined>
  /** The outage that a time fell into. */
  findOutage(timeMs: number): Promise<OutageRecord | undefined>
  readonly models: { marks: Model<MarkRecord>; outages: Model<OutageRecord> }
}

export function createServingStore({ connection, clockAheadMs }: Pick<Database, 'connection' | 'clockAheadMs'>): ServingStore {
  const marks = connection.model<MarkRecord>('ServingMark', markSchema)
  const outages = connection.model<OutageRecord>('Outage', outageSchema)
  const beat = async (nowMs: number) =>
    (await marks.updateOne({ _id: 'api', until_ms: { $gte: nowMs - OUTAGE_GAP_MS } }, { $max: { until_ms: nowMs } })).matchedCount === 1
  const servedUntil = async () => (await marks.findOne({ _id: 'api' }).lean<MarkRecord>())?.until_ms
  return {
    models: { marks, outages },
    beat,
    servedUntil,
    async serve(nowMs) {
      if (await beat(nowMs)) return true
      if ((await clockAheadMs()) > MAX_CLOCK_OFF_MS) return false
      const until = await servedUntil()
      if (until === undefined) {
        await insertOnce(() => marks.insertMany([{ _id: 'api', until_ms: nowMs }], { lean: true }))
        return true
      }
      // Another process may have been faster at either of the two.
      if (until >= nowMs - OUTAGE_GAP_MS) return true
      // One that died between the two left an end that is too early.
      await insertOnce(() => outages.updateOne({ _id: until }, { $max: { to_ms: nowMs } }, { upsert: true }))
      await marks.updateOne({ _id: 'api', until_ms: until }, { $set: { until_ms: nowMs } })
      return true
    },
    async findOutage(timeMs) {
      // Outages do not overlap: the last that began before the time is the only one that can cover it.
      const last = await outages
        .findOne({ _id: { $lt: timeMs } })
        .sort({ _id: -1 })
        .lean<OutageRecord>()
      return last !== null && last.to_ms >= timeMs ? last : undefined
    },
  }
}

async function insertOnce(insert: () => Promise<unknown>): Promise<void> {
  try {
    await insert()
  } catch (error) {
    if (!isDuplicateKey(error)) throw error
  }
}
