import { canonicalJson } from '../../shared/crypto/canonical-json.ts'
import { hashLeafTexts, HASH_BYTES, TILE_HEIGHT, TILE_WIDTH, type Tile } from '../../shared/crypto/merkle.ts'

/** The leaves of entries: 32 bytes each, side by side. */
export const hashLeaves = (entries: readonly object[]): Buffer => hashLeafTexts(entries.map(canonicalJson))

/** Cuts a whole tree, as buildTree() gives it, into its tiles, level by level from the leaves up. */
export function* treeTiles(levels: readonly Buffer[]): Generator<Tile> {
  const tileBytes = TILE_WIDTH * HASH_BYTES
  for (let level = 0; ; level++) {
    const hashes = levels[level * TILE_HEIGHT] as Buffer
    for (let start = 0, index = 0; start < hashes.length; start += tileBytes, index++)
      yield { level, index, hashes: hashes.subarray(start, start + tileBytes) }
    if (hashes.length <= tileBytes) return
  }
}
