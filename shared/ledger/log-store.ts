import mongoose, { Schema, type Connection } from 'mongoose'
import { edgeTiles, logRootFromTiles } from '../crypto/log-tree.ts'
import type { Tile } from '../crypto/merkle.ts'

/** A tile of the log, as wide as it has grown. */
interface LogTileRecord {
  /** `<level>/<index>`. */
  _id: string
  /** Hashes in it. */
  width: number
  /** They themselves, side by side. */
  hashes: Buffer
}

const number = { type: Number, required: true } as const
const string = { type: String, required: true } as const

const tileSchema = new Schema<LogTileRecord>(
  { _id: string, width: number, hashes: { type: Buffer, required: true } },
  { collection: 'log_tiles', strict: 'throw', versionKey: false },
)

const DUPLICATE_KEY = 11_000

/** Nothing is signed or published that an election can still take back. */
const MAJORITY = { readConcern: { level: 'majority' } } as const

export function createLogStore(connection: Connection) {
  const tiles = connection.model<LogTileRecord>('LogTile', tileSchema)
  const rawTiles = () => tiles.collection as unknown as mongoose.mongo.Collection<LogTileRecord>

  const findTiles = async (
    addresses: readonly Pick<Tile, 'level' | 'index'>[],
  ): Promise<(Buffer | undefined)[]> => {
    const ids = addresses.map(({ level, index }) => tileId(level, index))
    const found = await rawTiles()
      .find({ _id: { $in: ids } }, { ...MAJORITY, promoteBuffers: true, batchSize: ids.length + 1 })
      .toArray()
    const byId = new Map(found.map(({ _id, hashes }) => [_id, hashes]))
    return ids.map((id) => byId.get(id))
  }

  return {
    models: { tiles },
    /**
     * Stores tiles that are wider than what is stored of them. So no late writer takes back what another
     * added.
     */
    async putTiles(given: readonly Tile[]): Promise<void> {
      if (given.length === 0) return
      const writes = given.map(({ level, index, hashes }) => {
        const width = hashes.length / 32
        // One that is as wide already has its `_id`, which the upsert meets.
        return {
          updateOne: {
            filter: { _id: tileId(level, index), width: { $lt: width } },
            update: { $set: { width, hashes } },
            upsert: true,
          },
        }
      })
      try {
        await rawTiles().bulkWrite(writes, { ordered: false })
      } catch (error) {
        if (!(error instanceof mongoose.mongo.MongoBulkWriteError)) throw error
        const failed = [error.writeErrors].flat()
        if (failed.length === 0 || !failed.every(({ code }) => code === DUPLICATE_KEY)) throw error
      }
    },
    /**
     * Hashes side by side, at least as many as asked for, by the same index as the addresses; undefined if
     * there is no such tile.
     */
    findTiles,
    /** The root of the log's first `size` entries. @throws TypeError if a tile is missing */
    async readRoot(size: number): Promise<Buffer> {
      const edge = edgeTiles(size)
      const found = await findTiles(edge)
      const byPlace = new Map(edge.map(({ level, index }, place) => [tileId(level, index), found[place]]))
      return logRootFromTiles(size, ({ level, index }) => byPlace.get(tileId(level, index)))
    },
  }
}

export type LogStore = ReturnType<typeof createLogStore>

const tileId = (level: number, index: number): string => `${level}/${index}`
