import mongoose, { type Connection, type Model } from 'mongoose'
import { edgeTiles, logRootFromTiles } from '../crypto/log-tree.ts'
import { HASH_BYTES, type Tile } from '../crypto/merkle.ts'
import { DUPLICATE_KEY, MAJORITY, unavailable } from '../platform/database.ts'
import { bytes, number, schemaOf, text, type RecordOf } from '../platform/fields.ts'
import { rawOf } from '../platform/records.ts'

export type TilePlace = Pick<Tile, 'level' | 'index'>

/** A tile of the log, as wide as it has grown. */
const tileFields = {
  /** `<level>/<index>`. */
  _id: text,
  /** Hashes in it. */
  width: number,
  /** The hashes, one after the other. */
  hashes: bytes,
}
type LogTileRecord = RecordOf<typeof tileFields>

const tileSchema = schemaOf<LogTileRecord>('log_tiles', tileFields)

/** Creates the store of the tiles of the log's tree. */
export function createLogTileStore(connection: Connection) {
  const tiles = connection.model<LogTileRecord>('LogTile', tileSchema)
  const rawTiles = () => rawOf<LogTileRecord>(tiles)

  const find = (addresses: readonly TilePlace[]): Promise<(Buffer | undefined)[]> =>
    findHashes(tiles, addresses.map(tileId))
  /**
   * Stores each given tile unless the stored one is as wide or wider, so that a late writer doesn't take
   * back what another has added.
   *
   * @throws Refusal `unavailable` if another has just stored one of them and no majority has it yet
   */
  async function put(given: readonly Tile[]): Promise<void> {
    if (given.length === 0) return
    const writes = given.map((tile) => {
      const width = widthOf(tile)
      // If the stored tile is as wide, the upsert fails with a duplicate `_id`.
      return {
        updateOne: {
          filter: { _id: tileId(tile), width: { $lt: width } },
          update: { $set: { width, hashes: tile.hashes } },
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
      // Who stored it may not have heard yet whether a majority has it: an election could take it back.
      const lasting = await rawTiles()
        .find({ _id: { $in: given.map(tileId) } }, { ...MAJORITY, projection: { width: 1 } })
        .toArray()
      const widths = new Map(lasting.map(({ _id, width }) => [_id, width]))
      if (given.some((tile) => (widths.get(tileId(tile)) ?? 0) < widthOf(tile))) throw unavailable(error)
    }
  }

  return {
    models: { tiles },
    put,
    /**
     * Stores tiles that were built from the entries, also in place of stored ones that hold something else,
     * however wide those are.
     */
    async repair(given: readonly Tile[]): Promise<void> {
      if (given.length === 0) return
      const stored = await find(given)
      const repairs = given.flatMap(({ level, index, hashes }, place) => {
        const found = stored[place]
        // One that is too short may say that it is wide: then put() would leave it.
        if (found === undefined || found.subarray(0, hashes.length).equals(hashes)) return []
        return {
          updateOne: {
            filter: { _id: tileId({ level, index }), hashes: found },
            update: { $set: { width: widthOf({ hashes }), hashes } },
          },
        }
      })
      if (repairs.length > 0) await rawTiles().bulkWrite(repairs, { ordered: false })
      await put(given)
    },
    /**
     * For each address the tile's hashes, one after the other, as many as are stored; undefined if none are.
     */
    find,
    /**
     * The root of the log's first `size` entries, by its stored tiles.
     *
     * @throws TypeError if a tile is missing
     */
    readRoot: async (size: number): Promise<Buffer> =>
      logRootFromTiles(size, await readTiles(find, edgeTiles(size))),
  }
}

export type LogTileStore = ReturnType<typeof createLogTileStore>

const tileId = ({ level, index }: TilePlace): string => `${level}/${index}`
/** How many hashes it has. */
const widthOf = ({ hashes }: Pick<Tile, 'hashes'>): number => hashes.length / HASH_BYTES

/**
 * Reads tiles at once.
 *
 * @param find gives the hashes of each of these tiles, in their order
 * @returns a function of a tile's place that gives its hashes, one after the other; undefined for one that is
 *   missing or was not read
 */
export async function readTiles(
  find: (places: readonly TilePlace[]) => Promise<readonly (Buffer | undefined)[]>,
  places: readonly TilePlace[],
): Promise<(place: TilePlace) => Buffer | undefined> {
  const byId = new Map(places.map((place) => [tileId(place), place]))
  const found = await find([...byId.values()])
  const hashesById = new Map([...byId.keys()].map((id, index) => [id, found[index]]))
  return (place) => hashesById.get(tileId(place))
}

/**
 * Reads tiles by their ids: for each id, in the given order, the tile's hashes side by side; undefined for a
 * tile that a majority doesn't have.
 */
export async function findHashes(
  model: Pick<Model<unknown>, 'collection'>,
  ids: readonly string[],
): Promise<(Buffer | undefined)[]> {
  if (ids.length === 0) return []
  const stored = await rawOf<Pick<LogTileRecord, '_id' | 'hashes'>>(model)
    .find({ _id: { $in: [...ids] } }, { ...MAJORITY, promoteBuffers: true, batchSize: ids.length + 1 })
    .toArray()
  const byId = new Map(stored.map(({ _id, hashes }) => [_id, hashes]))
  return ids.map((id) => byId.get(id))
}
