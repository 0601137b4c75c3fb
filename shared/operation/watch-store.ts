import mongoose, { Schema, type Connection } from 'mongoose'

/*
 * What the process with the operator's port has seen of the network, so that whoever looks later knows since
 * when. Losing it loses nothing else.
 */

interface DiskSample {
  /** Unix seconds. */
  at: number
  free: number
}

export interface BackupNote {
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
  return {
    models: { watch },
    /** Since when each finding that stands has stood, by its name. */
    readSince: async (): Promise<ReadonlyMap<string, number>> =>
      new Map(Object.entries((await read('findings'))?.since ?? {})),
    async noteSince(since: ReadonlyMap<string, number>): Promise<void> {
      await raw.updateOne(
        { _id: 'findings' },
        { $set: { since: Object.fromEntries(since) } },
        { upsert: true },
      )
    },
    /** Oldest first. */
    readDiskSamples: async (): Promise<DiskSample[]> => (await read('disk'))?.samples ?? [],
    async noteDisk(sample: DiskSample): Promise<void> {
      await raw.updateOne(
        { _id: 'disk' },
        { $push: { samples: { $each: [sample], $slice: -DISK_SAMPLES } } },
        { upsert: true },
      )
    },
    readBackup: async (): Promise<BackupNote | undefined> => (await read('backup'))?.backup,
    readRedis: async (): Promise<RedisNote | undefined> => (await read('redis'))?.redis,
    /**
     * @param known what is noted; the note stays as it is if it is another one by now
     * @returns whether it was noted
     */
    async noteRedis(redis: RedisNote, known: RedisNote | undefined): Promise<boolean> {
      const isSame = known === undefined ? {} : { 'redis.mark': known.mark }
      const filter = { _id: 'redis', ...isSame } as const
      const { matchedCount, upsertedCount } = await raw.updateOne(
        filter,
        { $set: { redis } },
        { upsert: known === undefined },
      )
      return matchedCount + upsertedCount > 0
    },
    async noteBackup(backup: BackupNote): Promise<void> {
      await raw.updateOne({ _id: 'backup' }, { $set: { backup } }, { upsert: true })
    },
  }
}

export type WatchStore = ReturnType<typeof createWatchStore>
