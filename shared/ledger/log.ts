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
  type ReadTile,
} from '../crypto/log-tree.ts'
import { HASH_BYTES, TILE_WIDTH, type Tile, type TileAddress } from '../crypto/merkle.ts'
import { computeLeaves } from './entry.ts'
import type { EntryStore } from './entry-store.ts'
import type { LogTileStore, TilePlace } from './log-tile-store.ts'
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
  { level, index }: TilePlace,
  { size, root }: LogState,
): Promise<Buffer | undefined> {
  const edge = edgeTiles(size)
  const above: TileAddress[] = []
  for (let [l, i] = [level, index]; tileWidth(size, l, i) > 0; [l, i] = [l + 1, Math.floor(i / TILE_WIDTH)])
    above.push({ level: l, index: i, width: tileWidth(size, l, i) })
  const addresses = [...above, ...edge]
  const stored = await tiles.find(addresses)
  const byPlace = new Map(
    addresses.map((address, place) => [
      `${address.level}/${address.index}`,
      stored[place]?.subarray(0, address.width * HASH_BYTES),
    ]),
  )
  const hashesOf = (address: TilePlace): Buffer | undefined =>
    byPlace.get(`${address.level}/${address.index}`)
  for (const address of above) {
    const hashes = hashesOf(address)
    if (hashes?.length !== address.width * HASH_BYTES) return undefined
    if (address.width < TILE_WIDTH) break
    const parent = hashesOf({ level: address.level + 1, index: Math.floor(address.index / TILE_WIDTH) })
    const at = (address.index % TILE_WIDTH) * HASH_BYTES
    if (parent?.subarray(at, at + HASH_BYTES).equals(logRoot(hashes)) !== true) return undefined
  }
  if (edge.some((address) => hashesOf(address)?.length !== address.width * HASH_BYTES)) return undefined
  return logRootFromTiles(size, hashesOf).toString('hex') === root ? hashesOf({ level, index }) : undefined
}

/** The inclusion proof (RFC 6962 section 2.1.1) of entry `id` in the log of the first `size` entries. */
export const proveInLog = (tiles: StoredTiles, id: number, size: number): Promise<Buffer[]> =>
  withTiles(tiles, tilesForInclusion(id - 1, size), (readTile) => logInclusionPath(id - 1, size, readTile))

/**
 * The consistency proof (RFC 6962 section 2.1.2) that the log of `size` entries begins with that of
 * `oldSize`.
 */
export const proveConsistency = (tiles: StoredTiles, oldSize: number, size: number): Promise<Buffer[]> =>
  withTiles(tiles, tilesForConsistency(oldSize, size), (readTile) =>
    logConsistencyPath(oldSize, size, readTile),
  )

/**
 * Reads these tiles, then runs `work` with a function that gives each by its address, undefined for a missing
 * one.
 *
 * @returns what `work` returns
 */
async function withTiles<T>(
  tiles: StoredTiles,
  addresses: TileAddress[],
  work: (readTile: ReadTile) => T,
): Promise<T> {
  const hashes = await tiles.find(addresses)
  const keyOf = ({ level, index }: TileAddress): string => `${level}/${index}`
  const byKey = new Map(addresses.map((address, place) => [keyOf(address), hashes[place]]))
  return work((address) => byKey.get(keyOf(address)))
}
