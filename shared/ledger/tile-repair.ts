import { createLogTree, type LogTree } from '../crypto/log-tree.ts'
import type { Tile } from '../crypto/merkle.ts'
import type { EntryStore } from './entry-store.ts'

/*
 * Tiles follow from the entries, so a stored one that is wrong or gone (a damaged disk, a hand in the
 * database) can be built again. A walk over the whole chain reads every entry anyway: on its way it compares
 * the tiles that the entries give with the stored ones. Nothing is stored for a seal before its entries have
 * given its root, so that altered entries change no tile.
 */

/** Compares the tiles of a walk over entries with the stored ones, and replaces those that differ. */
export interface TileRepair {
  /**
   * Compares the tiles that the next leaves complete.
   *
   * @param leaves hashes of 32 bytes, side by side
   */
  compare(leaves: Buffer): Promise<void>
  /** Replaces what differed, after the entries of the seal have given its root. */
  replace(): Promise<void>
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
  { entries: { tiles } }: { entries: Pick<EntryStore, 'tiles'> },
  log: LogTree = createLogTree(),
): TileRepair {
  let wrong: Tile[] = []
  let count = 0
  const compareTiles = async (given: readonly Tile[]): Promise<void> => {
    const stored = await tiles.find(given)
    wrong.push(...given.filter((tile, place) => !holds(stored[place], tile)))
  }
  const replace = async (): Promise<void> => {
    await tiles.repair(wrong)
    count += wrong.length
    wrong = []
  }
  return {
    compare: (leaves) => compareTiles(log.append(leaves)),
    replace,
    async finish(isWhole) {
      if (isWhole) {
        await compareTiles(log.edge())
        await replace()
      }
      return count
    },
  }
}

/** Whether a stored tile has these hashes; it may have grown since. */
const holds = (stored: Buffer | undefined, { hashes }: Tile): boolean =>
  stored?.subarray(0, hashes.length).equals(hashes) === true
