import { HASH_BYTES, TILE_WIDTH, type Tile } from '../crypto/merkle.ts'

/** Tiles compared at once. */
const TILE_GROUP = 64

/** Where a stored hash is not the computed one: its level of tiles, and its position in that level. */
export interface Difference {
  level: number
  position: number
}

/**
 * Creates a comparer that collects computed tiles and compares them with the stored ones, {@link TILE_GROUP}
 * at a time. `differing` gets the first difference of each tile. The last call of `add` has to say that it is
 * the last.
 *
 * @param find reads the stored tiles, in the given order
 */
export function createTileComparer(find: (tiles: readonly Tile[]) => Promise<(Buffer | undefined)[]>) {
  const differing: Difference[] = []
  let waiting: Tile[] = []
  return {
    differing,
    async add(tiles: readonly Tile[], isLast: boolean): Promise<void> {
      waiting.push(...tiles)
      if (waiting.length < TILE_GROUP && !isLast) return
      const stored = await find(waiting)
      for (const [place, tile] of waiting.entries()) {
        const difference = findDifference(tile, stored[place])
        if (difference !== undefined) differing.push(difference)
      }
      waiting = []
    },
  }
}

/**
 * Finds the first hash of a computed tile that differs from the stored tile; undefined if the tiles are
 * equal.
 */
function findDifference({ level, index, hashes }: Tile, stored: Buffer | undefined): Difference | undefined {
  if (stored?.equals(hashes)) return undefined
  const hashAt = (tile: Buffer, place: number) => tile.subarray(place * HASH_BYTES, (place + 1) * HASH_BYTES)
  const lastPlace = hashes.length / HASH_BYTES - 1
  let place = 0
  while (stored !== undefined && place < lastPlace && hashAt(stored, place).equals(hashAt(hashes, place)))
    place++
  // Of a tile that is missing, the first hash; of one that only is too long or too short, the last.
  return { level, position: index * TILE_WIDTH + place }
}
