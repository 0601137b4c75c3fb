import { HASH_BYTES, hashLeaves, merkleRoot, TILE_WIDTH, type Tile } from '../crypto/merkle.ts'

/**
 * The tree over entries that come one after the other, tile by tile: the same tiles and the same root as treeTiles() and
 * merkleRoot() give for the whole, in memory that doesn't grow with the entries.
 */
export interface EntryTree {
  /** Takes the next entries. @returns the tiles that are complete by them, lower levels first */
  add(entries: readonly object[]): Tile[]
  /** Ends the tree. @returns the tiles at its right edge, and the root as hex. @throws RangeError without an entry */
  finish(): { tiles: Tile[]; root: string }
  readonly count: number
}

interface Level {
  /** Hashes of the tile that grows. */
  hashes: Buffer[]
  /** Tiles that were completed before it. */
  tiles: number
}

export function createEntryTree(): EntryTree {
  const levels: Level[] = []
  let waiting: object[] = []
  let count = 0

  /** Puts hashes at the right edge of a level and completes its tile where they fill it. */
  function grow(level: number, hashes: Buffer, done: Tile[]): void {
    const row = (levels[level] ??= { hashes: [], tiles: 0 })
    row.hashes.push(hashes)
    if (row.hashes.reduce((sum, part) => sum + part.length, 0) === TILE_WIDTH * HASH_BYTES) complete(level, done)
  }

  function complete(level: number, done: Tile[]): void {
    const row = levels[level]
    if (row === undefined) return
    const hashes = Buffer.concat(row.hashes)
    done.push({ level, index: row.tiles, hashes })
    row.hashes = []
    row.tiles++
    grow(level + 1, merkleRoot(hashes), done)
  }

  function takeWaiting(done: Tile[]): void {
    if (waiting.length === 0) return
    grow(0, hashLeaves(waiting), done)
    waiting = []
  }

  return {
    get count() {
      return count
    },
    add(entries) {
      const done: Tile[] = []
      for (const entry of entries) {
        waiting.push(entry)
        if (waiting.length === TILE_WIDTH) takeWaiting(done)
      }
      count += entries.length
      return done
    },
    finish() {
      if (count === 0) throw new RangeError('a tree needs an entry')
      const tiles: Tile[] = []
      takeWaiting(tiles)
      for (let level = 0; ; level++) {
        const row = levels[level]
        if (row === undefined) throw new Error(`level ${level} of a tree over ${count} entries is missing`)
        const top = row.hashes[0]
        // A single hash above the tiles of one level is the root and no tile.
        if (level > 0 && row.tiles === 0 && row.hashes.length === 1 && top !== undefined) return { tiles, root: top.toString('hex') }
        if (row.hashes.length > 0) complete(level, tiles)
      }
    },
  }
}
