import type { Connection } from 'mongoose'
import { MAX_COSIGNATURES_SHOWN } from '../platform/limits.ts'
import { unlessDuplicate } from '../platform/database.ts'
import { number, schemaOf, text, type RecordOf } from '../platform/fields.ts'

/** A cosigner's line below the checkpoint of a size: one for each size and key. */
const cosignatureFields = {
  /** `<size>/<vkey>`. */
  _id: text,
  size: number,
  vkey: text,
  /** As it stands below the note. */
  line: text,
  /** Unix seconds, as the cosigner states it. */
  at: number,
  /** 0: a witness from outside, whose lines come first; 1: an agent. */
  rank: number,
}
export type CosignatureRecord = RecordOf<typeof cosignatureFields>

const cosignatureSchema = schemaOf<CosignatureRecord>('cosignatures', cosignatureFields)
cosignatureSchema.index({ size: 1, rank: 1, at: 1 })

/** Creates the store of cosignatures of checkpoints, by witnesses and agents. */
export function createCosignatureStore(connection: Connection) {
  const cosignatures = connection.model<CosignatureRecord>('Cosignature', cosignatureSchema)
  return {
    models: { cosignatures },
    /** Stores a cosignature. @returns false if there is one by this key for this size already, which stays */
    insert: ({ size, vkey, line, at, rank }: Omit<CosignatureRecord, '_id'>): Promise<boolean> =>
      unlessDuplicate(
        cosignatures.insertMany([{ _id: `${size}/${vkey}`, size, vkey, line, at, rank }], { lean: true }),
      ),
    /**
     * The lines below the checkpoint of a size, as many as are shown: those of the witnesses that were asked
     * for, all of them and in that order, then those of witnesses from outside, then the oldest agents'.
     */
    async listLines(size: number, askedVkeys: readonly string[] = []): Promise<string[]> {
      const [asked, first] = await Promise.all([
        cosignatures
          .find({ _id: { $in: askedVkeys.map((vkey) => `${size}/${vkey}`) } }, { vkey: 1, line: 1 })
          .lean<Pick<CosignatureRecord, 'vkey' | 'line'>[]>(),
        cosignatures
          .find({ size }, { line: 1 })
          .sort({ rank: 1, at: 1 })
          .limit(MAX_COSIGNATURES_SHOWN)
          .lean<Pick<CosignatureRecord, 'line'>[]>(),
      ])
      const byVkey = new Map(asked.map(({ vkey, line }) => [vkey, line]))
      const askedLines = new Set(askedVkeys.flatMap((vkey) => byVkey.get(vkey) ?? []))
      const others = first.map(({ line }) => line).filter((line) => !askedLines.has(line))
      return [...askedLines, ...others.slice(0, Math.max(0, MAX_COSIGNATURES_SHOWN - askedLines.size))]
    },
    /** Returns those of these keys that have cosigned the checkpoint of this size. */
    async findCosigned(size: number, vkeys: readonly string[]): Promise<Set<string>> {
      const cosigned = await cosignatures
        .find({ _id: { $in: vkeys.map((vkey) => `${size}/${vkey}`) } }, { vkey: 1 })
        .lean<CosignatureRecord[]>()
      return new Set(cosigned.map(({ vkey }) => vkey))
    },
  }
}
