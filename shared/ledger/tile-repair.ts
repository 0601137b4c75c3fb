import type { Context } from '../context.ts'
import { createLogTree, type LogTree } from '../crypto/log-tree.ts'
import type { Tile } from '../crypto/merkle.ts'

/*
 * Tiles follow from the entries, so a stored one that is wrong or gone (a damaged disk, a hand in the
 * database) can be built again. A walk over the whole chain reads every entry anyway: on its way it compares
 * the tiles that the entries give with the stored ones. Nothing is stored for a seal before its entries have
 * given its root, so that altered entries change no tile.
 */

/** Compares the tiles of a walk over entries with the stored ones, and replaces those that differ. */
export interface TileRepair {
  /**
   * Compares tiles of a seal's tree, and those that its next leaves complete in the log.
   *
   * @param leaves hashes of 32 bytes, side by side
   */
  compare(seq: number, sealTiles: readonly Tile[], leaves: Buffer): Promise<void>
  /** Replaces what differed, after the entries of the seal have given its root. */
  replace(seq: number): Promise<void>
  /**
   * Ends a walk.
   *
   * @param isWhole whether it came to the chain's end without a fault: then the tiles at the log's edge are compared
   * @returns how many were replaced in all
   */
  finish(isWhole: boolean): Promise<number>
}

/** Creates the repair for one walk over the chain. @param log up to where the walk begins */
export function createTileRepair(
  { seals, entries }: Pick<Context, 'seals' | 'entries'>,
  log: LogTree = createLogTree(),
): TileRepair {
  let wrongOfSeal: Tile[] = []
  let wrongOfLog: Tile[] = []
  let count = 0
  return {
    async compare(seq, sealTiles, leaves) {
      const logged = log.append(leaves)
      const [ofSeal, ofLog] = await Promise.all([seals.findTiles(seq, sealTiles), entries.tiles.find(logged)])
      wrongOfSeal.push(...sealTiles.filter((tile, place) => !holds(ofSeal[place], tile)))
      wrongOfLog.push(...logged.filter((tile, place) => !holds(ofLog[place], tile)))
    },
    async replace(seq) {
      await seals.putTiles(seq, wrongOfSeal)
      await entries.tiles.repair(wrongOfLog)
      count += wrongOfSeal.length + wrongOfLog.length
      wrongOfSeal = []
      wrongOfLog = []
    },
    async finish(isWhole) {
      if (!isWhole) return count
      const edge = log.edge()
      const stored = await entries.tiles.find(edge)
      const wrong = edge.filter((tile, place) => !holds(stored[place], tile))
      await entries.tiles.repair(wrong)
      return count + wrong.length
    },
  }
}

/** Whether a stored tile has these hashes; a tile of the log may have grown since. */
const holds = (stored: Buffer | undefined, { hashes }: Tile): boolean =>
  stored?.subarray(0, hashes.length).equals(hashes) === true
