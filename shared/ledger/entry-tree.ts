import { buildTree, HASH_BYTES, merkleRoot, TILE_WIDTH } from '../crypto/merkle.ts'

/** A block of a tree: 256 of its leaves, from the first on; the last block may have fewer. */
export const BLOCK_LEAVES = TILE_WIDTH
const BLOCK_BYTES = BLOCK_LEAVES * HASH_BYTES

/**
 * A Merkle tree over leaves that come one after the other. It gives the root that merkleRoot() gives, in 1/8 of a byte
 * of memory for each leaf.
 */
export interface EntryTree {
  /** Appends leaves: hashes of 32 bytes, side by side. */
  add(leaves: Buffer): void
  /**
   * Ends the tree; nothing may be added after that.
   *
   * @returns the root as hex, and the levels from the roots of its blocks up to it, as buildTree() gives them
   * @throws RangeError without a leaf
   */
  finish(): { root: string; upper: Buffer[] }
  readonly count: number
}

/** An empty tree. */
export function createEntryTree(): EntryTree {
  const blockRoots: Buffer[] = []
  let rest: Buffer = Buffer.alloc(0)
  let count = 0
  return {
    get count() {
      return count
    },
    add(leaves) {
      count += leaves.length / HASH_BYTES
      const waiting = Buffer.concat([rest, leaves])
      let from = 0
      for (; from + BLOCK_BYTES <= waiting.length; from += BLOCK_BYTES)
        blockRoots.push(merkleRoot(waiting.subarray(from, from + BLOCK_BYTES)))
      rest = waiting.subarray(from)
    },
    finish() {
      if (count === 0) throw new RangeError('a tree needs an entry')
      if (rest.length > 0) blockRoots.push(merkleRoot(rest))
      const upper = buildTree(Buffer.concat(blockRoots))
      return { root: upper.at(-1)?.toString('hex') ?? '', upper }
    },
  }
}
