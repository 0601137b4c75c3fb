import type { Connection } from 'mongoose'
import { isDuplicateKey } from '../platform/database.ts'
import { maybe, number, schemaOf, text, type RecordOf } from '../platform/fields.ts'
import type { ProcessCounts } from '../platform/metrics.ts'
import { rawOf } from '../platform/records.ts'
import type { Counted, Sample, Totals } from './sample.ts'

/*
 * Samples of the network for the operator's page and for `operator capacity`, in two rings whose oldest sample is
 * overwritten by the next, so that the collection stops growing after a day. Losing it loses nothing else.
 *
 * `counted` is written first, on condition that it is what was read: so of the processes that take a sample one
 * stores it. If that one ends before it has stored the sample, the next sample has what was counted all the same.
 */

const sampleFields = {
  /** `counted`, or a ring and a place in it: `hour/7`. */
  _id: text,
  /** Unix seconds. */
  at: number,
  totals: maybe.opaque<Totals>(),
  levels: maybe.opaque<Record<string, number>>(),
  processes: maybe.opaque<Record<string, ProcessCounts>>(),
}
type SampleRecord = RecordOf<typeof sampleFields>

const sampleSchema = schemaOf<SampleRecord>('samples', sampleFields)

/** How far the samples of a ring are apart, in seconds, and how many it holds. */
export const RINGS = {
  hour: { stepSeconds: 10, places: 360 },
  day: { stepSeconds: 60, places: 1_440 },
} as const
export type RingName = keyof typeof RINGS
export const RING_NAMES = Object.keys(RINGS) as RingName[]

const COUNTED = 'counted'

/** Creates the store of the network's samples. */
export function createSampleStore(connection: Connection) {
  const model = connection.model<SampleRecord>('Sample', sampleSchema)
  const raw = rawOf<SampleRecord>(model)

  /** @returns false if another process has stored the next one by now */
  async function putCounted(counted: Counted, known: Counted | undefined): Promise<boolean> {
    if (known !== undefined)
      return (await raw.updateOne({ _id: COUNTED, at: known.at }, { $set: counted })).matchedCount === 1
    try {
      await raw.insertOne({ _id: COUNTED, ...counted })
      return true
    } catch (error) {
      if (isDuplicateKey(error)) return false
      throw error
    }
  }

  return {
    models: { samples: model },
    /** What the last sample was made of; undefined before the first. */
    async readCounted(): Promise<Counted | undefined> {
      const { at, totals, processes } = (await raw.findOne({ _id: COUNTED })) ?? {}
      return at === undefined || totals === undefined ? undefined : { at, totals, processes: processes ?? {} }
    },
    /**
     * Stores a sample in each ring whose last one is a step or more behind.
     *
     * @param known what readCounted() gave, which `counted` adds to
     * @returns false, with nothing stored, if another process has taken a sample since
     */
    async store(
      counted: Counted,
      levels: Record<string, number>,
      known: Counted | undefined,
    ): Promise<boolean> {
      if (!(await putCounted(counted, known))) return false
      const { at, totals } = counted
      for (const name of RING_NAMES) {
        const { stepSeconds, places } = RINGS[name]
        const step = Math.floor(at / stepSeconds)
        if (known !== undefined && step === Math.floor(known.at / stepSeconds)) continue
        await raw.replaceOne({ _id: `${name}/${step % places}` }, { at, totals, levels }, { upsert: true })
      }
      return true
    },
    /** The samples of a ring that are not older than it is long, the oldest first. @param now Unix seconds */
    async list(ring: RingName, now: number): Promise<Sample[]> {
      const { stepSeconds, places } = RINGS[ring]
      const records = await raw
        .find({
          _id: { $gte: `${ring}/`, $lt: `${ring}0` },
          at: { $gt: now - stepSeconds * places, $lte: now },
        })
        .sort({ at: 1 })
        .toArray()
      return records.flatMap(({ at, totals, levels }) =>
        totals === undefined || levels === undefined ? [] : [{ at, totals, levels }],
      )
    },
  }
}
