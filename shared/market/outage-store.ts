import type { Connection } from 'mongoose'
import { unlessDuplicate } from '../platform/database.ts'
import { number, schemaOf, textOf, type RecordOf } from '../platform/fields.ts'
import { recordsOf } from '../platform/records.ts'
import { OUTAGE_GAP_MS } from './market-terms.ts'

/*
 * When the API served, in milliseconds by the database's clock: every second, each API process moves one
 * shared mark, from its first answered request on. A pause of the mark beyond OUTAGE_GAP_MS is an outage. It
 * lasts until the next request, which records it before the mark moves on. So at each past time the API
 * served or had an outage; what it does after the mark is not known yet.
 */

const markFields = { _id: textOf<'api'>(), until_ms: number }
type MarkRecord = RecordOf<typeof markFields>

const outageFields = {
  /** When it began. */
  _id: number,
  /** When the first request after it was served. */
  to_ms: number,
}
export type OutageRecord = RecordOf<typeof outageFields>

const markSchema = schemaOf<MarkRecord>('serving', markFields)
const outageSchema = schemaOf<OutageRecord>('outages', outageFields)

/** Creates the store of when the API served last, and of its outages. */
export function createOutageStore(connection: Connection) {
  const marks = recordsOf(connection.model<MarkRecord>('ServingMark', markSchema))
  const outages = recordsOf(connection.model<OutageRecord>('Outage', outageSchema))
  /** Moves the mark on. @returns false, with nothing written, if the mark has paused for too long */
  const moveMark = (nowMs: number): Promise<boolean> =>
    marks.change({ _id: 'api', until_ms: { $gte: nowMs - OUTAGE_GAP_MS } }, { $max: { until_ms: nowMs } })
  /** Reads the mark: the last time of which it is known that the API served; undefined before the first. */
  const readServedUntil = async () => (await marks.one({ _id: 'api' }))?.until_ms
  return {
    models: { marks: marks.model, outages: outages.model },
    moveMark,
    readServedUntil,
    /**
     * Records that a request is being served: moves the mark on and, if it has paused for too long, stores
     * the outage that ends now.
     */
    async recordRequest(nowMs: number): Promise<void> {
      if (await moveMark(nowMs)) return
      const untilMs = await readServedUntil()
      // Another process may be faster at each of these writes.
      if (untilMs === undefined) {
        await unlessDuplicate(marks.insert([{ _id: 'api', until_ms: nowMs }]))
        return
      }
      if (untilMs >= nowMs - OUTAGE_GAP_MS) return
      // $max, since a process that died between these two writes left an end that is too early.
      await unlessDuplicate(outages.put({ _id: untilMs }, { $max: { to_ms: nowMs } }))
      await marks.change({ _id: 'api', until_ms: untilMs }, { $set: { until_ms: nowMs } })
    },
    /** Finds the outage that covers a time; undefined if none does. */
    async find(timeMs: number): Promise<OutageRecord | undefined> {
      // Outages do not overlap, so only the last one that began before the time can cover it.
      const last = await outages.one({ _id: { $lt: timeMs } }, { sort: { _id: -1 } })
      return last !== undefined && last.to_ms >= timeMs ? last : undefined
    },
  }
}
