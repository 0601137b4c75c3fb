import { Schema, type Connection } from 'mongoose'
import { isDuplicateKey } from '../servers/database.ts'
import { OUTAGE_GAP_MS } from './market-terms.ts'

/*
 * When the API served: a process that serves moves one shared mark every second, from its first answered
 * request on. A pause of the mark beyond OUTAGE_GAP_MS is an outage; it lasts until the next request, which
 * records it before the mark moves on. So each past time is served, not served (in an outage) or not known
 * yet (after the mark).
 */

/** Milliseconds by the database's clock, as all times here. */
interface MarkRecord {
  _id: 'api'
  until_ms: number
}

export interface OutageRecord {
  _id: number
  /** The first request that was served after it. */
  to_ms: number
}

const number = { type: Number, required: true } as const

const markSchema = new Schema<MarkRecord>(
  { _id: { type: String, required: true }, until_ms: number },
  { collection: 'serving', strict: 'throw', versionKey: false },
)
const outageSchema = new Schema<OutageRecord>(
  { _id: number, to_ms: number },
  { collection: 'outages', strict: 'throw', versionKey: false },
)

export type ServingStore = ReturnType<typeof createServingStore>

export function createServingStore(connection: Connection) {
  const marks = connection.model<MarkRecord>('ServingMark', markSchema)
  const outages = connection.model<OutageRecord>('Outage', outageSchema)
  const beat = async (nowMs: number) =>
    (
      await marks.updateOne(
        { _id: 'api', until_ms: { $gte: nowMs - OUTAGE_GAP_MS } },
        { $max: { until_ms: nowMs } },
      )
    ).matchedCount === 1
  const servedUntil = async () => (await marks.findOne({ _id: 'api' }).lean<MarkRecord>())?.until_ms
  return {
    models: { marks, outages },
    beat,
    servedUntil,
    /** Never called but when a request is served: after a pause, its outage is written down and ends now. */
    async serve(nowMs: number): Promise<void> {
      if (await beat(nowMs)) return
      const until = await servedUntil()
      if (until === undefined) {
        await insertOnce(() => marks.insertMany([{ _id: 'api', until_ms: nowMs }], { lean: true }))
        return
      }
      // Another process may have been faster at either of the two.
      if (until >= nowMs - OUTAGE_GAP_MS) return
      // One that died between the two left an end that is too early.
      await insertOnce(() => outages.updateOne({ _id: until }, { $max: { to_ms: nowMs } }, { upsert: true }))
      await marks.updateOne({ _id: 'api', until_ms: until }, { $set: { until_ms: nowMs } })
    },
    async findOutage(timeMs: number): Promise<OutageRecord | undefined> {
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
