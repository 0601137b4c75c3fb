import mongoose, { Schema, type Connection } from 'mongoose'

/*
 * What the process with the operator's port has seen of the network, so that whoever looks later knows since
 * when. Losing it loses nothing else.
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
  /** What was put into Redis, to see whether it has lost what it held. */
  mark: string
  /** Unix seconds; absent if it has lost nothing that the operator hasn't been told of. */
  emptied_at?: number
}

interface WatchRecord {
  _id: 'findings' | 'disk' | 'backup' | 'redis'
  since?: Record<string, number>
  samples?: DiskSample[]
  backup?: BackupNote
  redis?: RedisNote
}

const mixed = { type: Schema.Types.Mixed }
const watchSchema = new Schema(
  { _id: { type: String, required: true }, since: mixed, samples: mixed, backup: mixed, redis: mixed },
  { collection: 'watch', strict: 'throw', versionKey: false, minimize: false },
)

/** A day of them, half an hour apart. */
const DISK_SAMPLES = 48

export function createWatchStore(connection: Connection) {
  const watch = connection.model('Watch', watchSchema)
  const raw = watch.collection as unknown as mongoose.mongo.Collection<WatchRecord>
  const read = (id: WatchRecord['_id']) => raw.findOne({ _id: id })
  const write = async (_id: WatchRecord['_id'], update: mongoose.mongo.UpdateFilter<WatchRecord>) =>
    void (await raw.updateOne({ _id }, update, { upsert: true }))
  return {
    models: { watch },
    /** Since when each finding has stood, in Unix seconds, by the finding's key. */
    readSince: async (): Promise<ReadonlyMap<string, number>> =>
      new Map(Object.entries((await read('findings'))?.since ?? {})),
    noteSince: (since: ReadonlyMap<string, number>) =>
      write('findings', { $set: { since: Object.fromEntries(since) } }),
    /** Oldest first. */
    readDiskSamples: async (): Promise<DiskSample[]> => (await read('disk'))?.samples ?? [],
    noteDisk: (sample: DiskSample) =>
      write('disk', { $push: { samples: { $each: [sample], $slice: -DISK_SAMPLES } } }),
    readBackup: async (): Promise<BackupNote | undefined> => (await read('backup'))?.backup,
    noteBackup: (backup: BackupNote) => write('backup', { $set: { backup } }),
    readRedis: async (): Promise<RedisNote | undefined> => (await read('redis'))?.redis,
    /**
     * @param known the note as it was read; nothing is stored if it was replaced since
     * @returns whether it was stored
     */
    async noteRedis(redis: RedisNote, known: RedisNote | undefined): Promise<boolean> {
      const unchanged = known === undefined ? {} : { 'redis.mark': known.mark }
      const { matchedCount, upsertedCount } = await raw.updateOne(
        { _id: 'redis', ...unchanged } as const,
        { $set: { redis } },
        { upsert: known === undefined },
      )
      return matchedCount + upsertedCount > 0
    },
  }
}

export type WatchStore = ReturnType<typeof createWatchStore>
