import type { Connection } from 'mongoose'
import { isDuplicateKey } from '../servers/database.ts'
import { number, schemaOf, textOf, type RecordOf } from '../servers/fields.ts'
import { recordsOf } from '../servers/records.ts'
import { OUTAGE_GAP_MS } from './market-terms.ts'

/*
 * When the API served, in milliseconds by the database's clock: every second, each process that serves moves
 * one shared mark, from its first answered request on. A pause of the mark beyond OUTAGE_GAP_MS is an outage.
 * It lasts until the next request, which records it before the mark moves on. So each past time is served, not
 * served (in an outage) or not known yet (after the mark).
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

export type ServingStore = ReturnType<typeof createServingStore>

export function createServingStore(connection: Connection) {
  const marks = recordsOf(connection.model<MarkRecord>('ServingMark', markSchema))
  const outages = recordsOf(connection.model<OutageRecord>('Outage', outageSchema))
  /** @returns false, with nothing written, if the mark has paused for too long */
  const moveMark = (nowMs: number): Promise<boolean> =>
    marks.change({ _id: 'api', until_ms: { $gte: nowMs - OUTAGE_GAP_MS } }, { $max: { until_ms: nowMs } })
  const servedUntil = async () => (await marks.one({ _id: 'api' }))?.until_ms
  return {
    models: { marks: marks.model, outages: outages.model },
    moveMark,
    servedUntil,
    /** Call it only when a request is served: if the mark has paused for too long, its outage ends now. */
    async recordRequest(nowMs: number): Promise<void> {
      if (await moveMark(nowMs)) return
      const until = await servedUntil()
      if (until === undefined) return unlessMade(marks.insert([{ _id: 'api', until_ms: nowMs }]))
      // Another process may have been faster at either of the two.
      if (until >= nowMs - OUTAGE_GAP_MS) return
      // A process that died between these two writes left an end that is too early.
      await unlessMade(outages.put({ _id: until }, { $max: { to_ms: nowMs } }))
      await marks.change({ _id: 'api', until_ms: until }, { $set: { until_ms: nowMs } })
    },
    /** The outage that covers a time. */
    async findOutage(timeMs: number): Promise<OutageRecord | undefined> {
      // Outages do not overlap, so only the last one that began before the time can cover it.
      const last = await outages.one({ _id: { $lt: timeMs } }, { sort: { _id: -1 } })
      return last !== undefined && last.to_ms >= timeMs ? last : undefined
    },
  }
}

/** Waits for an insert that another process may have made first. */
async function unlessMade(insert: Promise<void>): Promise<void> {
  try {
    await insert
  } catch (error) {
    if (!isDuplicateKey(error)) throw error
  }
}
