import { HASH_BYTES, TILE_WIDTH, type Tile } from '../crypto/merkle.ts'

/** Where a stored hash is not the computed one: its level of tiles, and its position in that level. */
export interface Difference {
  level: number
  position: number
}

/**
 * Compares computed tiles with the stored ones, and returns the first difference of each tile that differs.
 *
 * @param stored in the order of the tiles; undefined for one that is missing
 */
export const findDifferences = (
  tiles: readonly Tile[],
  stored: readonly (Buffer | undefined)[],
): Difference[] => tiles.flatMap((tile, place) => findDifference(tile, stored[place]) ?? [])

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
