import {
  createLogTree,
  edgeTiles,
  logConsistencyPath,
  logInclusionPath,
  logRoot,
  logRootFromTiles,
  tileWidth,
  tilesForConsistency,
  tilesForInclusion,
  type LogTree,
} from '../crypto/log-tree.ts'
import { HASH_BYTES, TILE_WIDTH, type Tile, type TileAddress } from '../crypto/merkle.ts'
import { computeLeaves } from './entry.ts'
import type { EntryStore } from './entry-store.ts'
import { readTiles, type LogTileStore, type TilePlace } from './log-tile-store.ts'
import { SealError } from './seal.ts'

/*
 * The log: one tree over all entries (shared/crypto/log-tree.ts), which grows by a seal's entries each time
 * one is made. The sealer stores its tiles before the seal; whoever goes on from them compares their root
 * with one that it has reason to trust, and can build them again from the entries.
 */

/** A log's size and its root, as hex. */
export interface LogState {
  size: number
  root: string
}

type StoredTiles = Pick<LogTileStore, 'find'>

/** A log's size and root, as closing entries and the seal memory state them. */
export const logState = (tree: LogTree): LogState => ({ size: tree.size, root: tree.root().toString('hex') })

/** Reads the log of the first `size` entries from its stored tiles; undefined if some are missing. */
export async function readLogFromTiles(tiles: StoredTiles, size: number): Promise<LogTree | undefined> {
  const edge = edgeTiles(size)
  // A stored tile may have grown since the log had this size.
  const stored = await tiles.find(edge)
  const hashes = edge.map(({ width }, place) => stored[place]?.subarray(0, width * HASH_BYTES))
  const isComplete = edge.every(({ width }, place) => hashes[place]?.length === width * HASH_BYTES)
  return isComplete ? createLogTree(size, hashes) : undefined
}

/**
 * Builds the log of the first `size` entries without its unfinished tiles: from the full ones, and the entries after
 * them. A walk replaces full tiles that are wrong; an unfinished one has grown since, and may be wrong still.
 *
 * @returns undefined if a full tile or an entry is missing
 */
export async function readLogFromFullTiles(
  entries: Pick<EntryStore, 'pages' | 'tiles'>,
  size: number,
): Promise<LogTree | undefined> {
  const edge: Buffer[] = []
  for (const { level, index, width } of edgeTiles(size)) {
    const from = index * TILE_WIDTH
    const hashes =
      level === 0 ? await readLeaves(entries, from, size) : await readRoots(entries, level, index, width)
    if (hashes?.length !== width * HASH_BYTES) return undefined
    edge.push(hashes)
  }
  return createLogTree(size, edge)
}

/** Reads the leaves of the entries after number `from`, up to `to`. */
async function readLeaves({ pages }: Pick<EntryStore, 'pages'>, from: number, to: number): Promise<Buffer> {
  const leaves: Buffer[] = []
  for await (const page of pages(from + 1, to)) leaves.push(computeLeaves(page).leaves)
  return Buffer.concat(leaves)
}

/** Computes the first `width` hashes of a tile, which are the roots of full tiles; undefined if one is missing. */
async function readRoots({ tiles }: { tiles: StoredTiles }, level: number, index: number, width: number) {
  const below = Array.from({ length: width }, (_, place) => ({
    level: level - 1,
    index: index * TILE_WIDTH + place,
  }))
  const stored = await tiles.find(below)
  const roots = stored.flatMap((hashes) =>
    hashes?.length === TILE_WIDTH * HASH_BYTES ? [logRoot(hashes)] : [],
  )
  return roots.length === width ? Buffer.concat(roots) : undefined
}

/**
 * Builds the log from the first `size` entries.
 *
 * @param put stores the tiles; without it they are not stored
 * @throws SealError if an entry is missing
 */
export async function buildLogFromEntries(
  entries: Pick<EntryStore, 'pages'>,
  size: number,
  put?: (tiles: Tile[]) => Promise<void>,
): Promise<LogTree> {
  const tree = createLogTree()
  if (size === 0) return tree
  let due = 1
  for await (const page of entries.pages(1, size)) {
    for (const { _id } of page) {
      if (_id !== due) throw new SealError(`entry ${due} is missing from the ledger`)
      due++
    }
    const tiles = tree.append(computeLeaves(page).leaves)
    await put?.(tiles)
  }
  if (tree.size !== size) throw new SealError(`entry ${due} is missing from the ledger`)
  await put?.(tree.edge())
  return tree
}

/**
 * Reads a tile, as wide as it is in the log of `size` entries, and checks that it leads to the log's root: by
 * the tiles above it, up to those at the log's edge.
 *
 * @throws Error if one of them is missing, or they lead elsewhere: the check of the chain builds them again
 */
export async function requireTileUnderRoot(
  tiles: StoredTiles,
  place: TilePlace,
  log: LogState,
): Promise<Buffer> {
  const hashes = await findTileUnderRoot(tiles, place, log)
  if (hashes === undefined)
    throw new Error(
      `tile ${place.level}/${place.index} of the log is missing, or does not lead to the signed root`,
    )
  return hashes
}

async function findTileUnderRoot(
  tiles: StoredTiles,
  place: TilePlace,
  { size, root }: LogState,
): Promise<Buffer | undefined> {
  const line = listTileAndThoseAbove(place, size)
  const edge = edgeTiles(size)
  const stored = await readTiles(tiles.find, [...line, ...edge])
  /** As it was in the log of this size: a stored tile may have grown since. Undefined if it is too short. */
  const hashesOf = ({ level, index }: TilePlace): Buffer | undefined => {
    const bytes = tileWidth(size, level, index) * HASH_BYTES
    const hashes = stored({ level, index })?.subarray(0, bytes)
    return hashes?.length === bytes ? hashes : undefined
  }
  for (const tile of line) {
    const hashes = hashesOf(tile)
    if (hashes === undefined) return undefined
    // What stands above a tile that isn't full is computed from the tiles at the edge, below.
    if (tile.width < TILE_WIDTH) break
    const at = (tile.index % TILE_WIDTH) * HASH_BYTES
    const hashAbove = hashesOf(placeAbove(tile))?.subarray(at, at + HASH_BYTES)
    if (hashAbove?.equals(logRoot(hashes)) !== true) return undefined
  }
  if (edge.some((tile) => hashesOf(tile) === undefined)) return undefined
  return logRootFromTiles(size, hashesOf).toString('hex') === root ? hashesOf(place) : undefined
}

/** The place of the tile that has the hash over a full tile. */
const placeAbove = ({ level, index }: TilePlace): TilePlace => ({
  level: level + 1,
  index: Math.floor(index / TILE_WIDTH),
})

/** Lists a tile of the log of `size` entries and those above it, lowest first; none if there is no such tile. */
function listTileAndThoseAbove(place: TilePlace, size: number): TileAddress[] {
  const width = tileWidth(size, place.level, place.index)
  return width === 0 ? [] : [{ ...place, width }, ...listTileAndThoseAbove(placeAbove(place), size)]
}

/**
 * The inclusion proofs (RFC 6962 section 2.1.1) of these entries in the log of the first `size`, in the given order.
 * Each tile is read once.
 */
export async function proveInLog(
  tiles: StoredTiles,
  ids: readonly number[],
  size: number,
): Promise<Buffer[][]> {
  const tileOf = await readTiles(
    tiles.find,
    ids.flatMap((id) => tilesForInclusion(id - 1, size)),
  )
  return ids.map((id) => logInclusionPath(id - 1, size, tileOf))
}

/**
 * The consistency proof (RFC 6962 section 2.1.2) that the log of `size` entries begins with that of
 * `oldSize`.
 */
export const proveConsistency = async (
  tiles: StoredTiles,
  oldSize: number,
  size: number,
): Promise<Buffer[]> =>
  logConsistencyPath(oldSize, size, await readTiles(tiles.find, tilesForConsistency(oldSize, size)))
