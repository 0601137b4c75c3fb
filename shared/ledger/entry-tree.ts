import { HASH_BYTES, merkleRoot, TILE_WIDTH, type Tile } from '../crypto/merkle.ts'

/**
 * A Merkle tree over leaves that come one after the other. It gives the root that merkleRoot() gives, and the
 * tiles of the whole tree, in memory that doesn't grow with the leaves.
 */
export interface EntryTree {
  /**
   * Appends leaves: hashes of 32 bytes, side by side.
   *
   * @returns the tiles that they complete
   */
  add(leaves: Buffer): Tile[]
  /**
   * Ends the tree; nothing may be added after that.
   *
   * @returns the tiles at its right edge that weren't full, lower levels first, and the root as hex
   * @throws RangeError without a leaf
   */
  finish(): { tiles: Tile[]; root: string }
  readonly count: number
}

interface Level {
  /** Hashes of the tile that grows. */
  hashes: Buffer[]
  /** Bytes of them. */
  length: number
  /** Tiles that were completed before it. */
  tiles: number
}

const TILE_BYTES = TILE_WIDTH * HASH_BYTES

/** An empty tree. */
export function createEntryTree(): EntryTree {
  const levels: Level[] = []
  let count = 0

  /** Appends hashes to a level, and completes each tile that they fill; these are added to `done`. */
  function grow(level: number, hashes: Buffer, done: Tile[]): void {
    const row = (levels[level] ??= { hashes: [], length: 0, tiles: 0 })
    for (let from = 0; from < hashes.length;) {
      const part = hashes.subarray(from, from + TILE_BYTES - row.length)
      row.hashes.push(part)
      row.length += part.length
      from += part.length
      if (row.length === TILE_BYTES) complete(level, done)
    }
  }

  /** Completes the growing tile of a level: it is added to `done`, and its root to the level above. */
  function complete(level: number, done: Tile[]): void {
    const row = levels[level]
    if (row === undefined) return
    const hashes = Buffer.concat(row.hashes)
    done.push({ level, index: row.tiles, hashes })
    row.hashes = []
    row.length = 0
    row.tiles++
    grow(level + 1, merkleRoot(hashes), done)
  }

  return {
    get count() {
      return count
    },
    add(leaves) {
      const done: Tile[] = []
      grow(0, leaves, done)
      count += leaves.length / HASH_BYTES
      return done
    },
    finish() {
      if (count === 0) throw new RangeError('a tree needs an entry')
      const tiles: Tile[] = []
      for (let level = 0; ; level++) {
        const row = levels[level]
        if (row === undefined) throw new Error(`level ${level} of a tree over ${count} entries is missing`)
        const top = row.hashes[0]
        // A single hash above the tiles of one level is the root and no tile.
        if (level > 0 && row.tiles === 0 && row.length === HASH_BYTES && top !== undefined)
          return { tiles, root: top.toString('hex') }
        if (row.length > 0) complete(level, tiles)
      }
    },
  }
}
