import { LRUCache } from 'lru-cache'
import { buildTree, HASH_BYTES, inclusionPath, TILE_WIDTH, type PathStep } from '../crypto/merkle.ts'
import { MAX_SEAL_TREE_BYTES } from '../platform/limits.ts'
import { runInScope } from '../platform/scope.ts'
import { BLOCK_LEAVES, createEntryTree } from './entry-tree.ts'
import { readTiles, type LogTileStore, type TilePlace } from './log-tile-store.ts'
import type { SealRecord } from './seal.ts'

/*
 * Paths from a seal's leaves to its root. A seal's leaves are those of the log, whose tiles of level 0 have 256 of them
 * each, so nothing is stored for a seal. A path needs the block of 256 leaves that its entry stands in, which is
 * in two tiles at most, and the tree above the seal's blocks. That is computed from all its leaves, once: 1 µs and a
 * quarter of a byte of memory for each.
 */

type SealRange = Pick<SealRecord, '_id' | 'from_id' | 'to_id' | 'root'>

/**
 * Reads the path of each entry, in the given order, from its leaf to the root of a seal.
 *
 * @param ids numbers of entries that the seal covers
 * @throws Error if tiles are missing, or don't give the seal's root
 */
export type ReadSealPaths = (seal: SealRange, ids: readonly number[]) => Promise<PathStep[][]>

/** Leaves read at once: 512 KiB. */
const PAGE_LEAVES = 64 * TILE_WIDTH

/** Creates a reader of paths that keeps the trees above the blocks of the seals last asked for. */
export function createSealPathReader(findTiles: LogTileStore['find']): ReadSealPaths {
  const upperTrees = new LRUCache<string, Buffer[], SealRange>({
    maxSize: MAX_SEAL_TREE_BYTES,
    sizeCalculation: (levels) => levels.reduce((sum, { length }) => sum + length, 0),
    // Not in the request's scope: if this request ends, others still wait for the tree.
    fetchMethod: (_root, _stale, { context }) => runInScope({}, () => readUpperTree(findTiles, context)),
    // What others wait for is read to its end, though something newer has taken its place meanwhile.
    ignoreFetchAbort: true,
  })
  return async (seal, ids) => {
    const { root, from_id: fromId, to_id: toId } = seal
    const blockOf = (id: number): number => Math.floor((id - fromId) / BLOCK_LEAVES)
    const rangeOf = (block: number): EntryRange => {
      const from = fromId + block * BLOCK_LEAVES
      return { from, to: Math.min(from + BLOCK_LEAVES - 1, toId) }
    }
    const blocks = [...new Set(ids.map(blockOf))]
    const tileOf = await readTiles(
      findTiles,
      blocks.flatMap((block) => tilesOf(rangeOf(block))),
    )
    const treeOf = new Map(blocks.map((block) => [block, buildTree(takeLeaves(tileOf, rangeOf(block)))]))
    // A seal of one block has nothing above it.
    const upper = blockOf(toId) === 0 ? [] : await upperTrees.forceFetch(root, { context: seal })
    return ids.map((id) => {
      const below = inclusionPath(treeOf.get(blockOf(id)) ?? [], (id - fromId) % BLOCK_LEAVES)
      return upper.length === 0 ? below : [...below, ...inclusionPath(upper, blockOf(id))]
    })
  }
}

/** Entries by their numbers, both included. */
interface EntryRange {
  from: number
  to: number
}

/**
 * Computes the levels of a seal's tree from the roots of its blocks up, from all its leaves.
 *
 * @throws Error if tiles are missing, or don't give the seal's root
 */
async function readUpperTree(
  findTiles: LogTileStore['find'],
  { _id: seq, from_id: fromId, to_id: toId, root }: SealRange,
): Promise<Buffer[]> {
  const tree = createEntryTree()
  for (let from = fromId; from <= toId; from += PAGE_LEAVES) {
    const range = { from, to: Math.min(from + PAGE_LEAVES - 1, toId) }
    tree.add(takeLeaves(await readTiles(findTiles, tilesOf(range)), range))
  }
  const computed = tree.finish()
  if (computed.root !== root) throw new Error(`the tiles of the log do not give the root of seal ${seq}`)
  return computed.upper
}

/** Lists the tiles that have the leaves of these entries; that of entry n is leaf n − 1 of the log. */
function tilesOf({ from, to }: EntryRange): TilePlace[] {
  const first = Math.floor((from - 1) / TILE_WIDTH)
  const last = Math.floor((to - 1) / TILE_WIDTH)
  return Array.from({ length: last - first + 1 }, (_, place) => ({ level: 0, index: first + place }))
}

/** Takes the leaves of these entries out of their tiles. @throws Error if one is missing */
function takeLeaves(tileOf: (place: TilePlace) => Buffer | undefined, range: EntryRange): Buffer {
  const parts = tilesOf(range).map((place) => {
    const before = place.index * TILE_WIDTH
    const start = Math.max(range.from - 1 - before, 0)
    const end = Math.min(range.to - before, TILE_WIDTH)
    const part = tileOf(place)?.subarray(start * HASH_BYTES, end * HASH_BYTES)
    if (part?.length !== (end - start) * HASH_BYTES)
      throw new Error(`tile 0/${place.index} of the log is missing, or lacks leaves`)
    return part
  })
  return Buffer.concat(parts)
}
