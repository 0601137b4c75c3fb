import type mongoose from 'mongoose'
import type { Connection } from 'mongoose'
import { maybe, schemaOf, textOf, type RecordOf } from '../platform/fields.ts'
import { rawOf } from '../platform/records.ts'

/*
 * What the process with the operator's port has seen of the network, so that a later look can say since when.
 * Losing it loses nothing else.
 */

interface DiskSample {
  /** Unix seconds. */
  at: number
  /** Bytes. */
  free: number
}

export interface BackupNote {
  /** Unix seconds. */
  at: number
  by: string
  entries?: number
}

export interface RedisNote {
  /** A value that was put into Redis: if it is gone, Redis has lost what it held. */
  mark: string
  /**
   * When Redis was found emptied, in Unix seconds; absent if it never was, or the operator dealt with it
   * since.
   */
  emptied_at?: number
}

/** When events were last looked at for doorbells to ring, in milliseconds by the database's clock. */
export interface RingsNote {
  looked_ms: number
  /** The same of a look that went back far. */
  far_ms: number
}

const watchFields = {
  _id: textOf<'findings' | 'disk' | 'backup' | 'redis' | 'rings'>(),
  since: maybe.opaque<Record<string, number>>(),
  samples: maybe.opaque<DiskSample[]>(),
  backup: maybe.opaque<BackupNote>(),
  redis: maybe.opaque<RedisNote>(),
  rings: maybe.opaque<RingsNote>(),
}
type WatchRecord = RecordOf<typeof watchFields>

const watchSchema = schemaOf<WatchRecord>('watch', watchFields)

/** How many are kept: a day of them, half an hour apart. */
const DISK_SAMPLES = 48

/**
 * Creates the store of what `operator status` compares with: disk samples, the last backup, what Redis had.
 */
export function createWatchStore(connection: Connection) {
  const watch = connection.model<WatchRecord>('Watch', watchSchema)
  const raw = rawOf<WatchRecord>(watch)
  const read = (id: WatchRecord['_id']) => raw.findOne({ _id: id })
  const write = async (_id: WatchRecord['_id'], update: mongoose.mongo.UpdateFilter<WatchRecord>) =>
    void (await raw.updateOne({ _id }, update, { upsert: true }))
  return {
    models: { watch },
    /** Reads since when each finding has stood, in Unix seconds, by the finding's key. */
    readSince: async (): Promise<ReadonlyMap<string, number>> =>
      new Map(Object.entries((await read('findings'))?.since ?? {})),
    noteSince: (since: ReadonlyMap<string, number>) =>
      write('findings', { $set: { since: Object.fromEntries(since) } }),
    /** The kept samples, the oldest first. */
    readDiskSamples: async (): Promise<DiskSample[]> => (await read('disk'))?.samples ?? [],
    noteDisk: (sample: DiskSample) =>
      write('disk', { $push: { samples: { $each: [sample], $slice: -DISK_SAMPLES } } }),
    readBackup: async (): Promise<BackupNote | undefined> => (await read('backup'))?.backup,
    noteBackup: (backup: BackupNote) => write('backup', { $set: { backup } }),
    readRings: async (): Promise<RingsNote | undefined> => (await read('rings'))?.rings,
    noteRings: (rings: RingsNote) => write('rings', { $set: { rings } }),
    readRedis: async (): Promise<RedisNote | undefined> => (await read('redis'))?.redis,
    /**
     * Stores a note about Redis in place of the one that was read.
     *
     * @param known the note as it was read; undefined if there was none
     * @returns false, with nothing stored, if another was stored since
     */
    async noteRedis(redis: RedisNote, known: RedisNote | undefined): Promise<boolean> {
      const isFirst = known === undefined
      const { modifiedCount, upsertedCount } = await raw.updateOne(
        { _id: 'redis', ...(isFirst ? {} : { 'redis.mark': known.mark }) },
        isFirst ? { $setOnInsert: { redis } } : { $set: { redis } },
        { upsert: isFirst },
      )
      return modifiedCount + upsertedCount > 0
    },
  }
}
