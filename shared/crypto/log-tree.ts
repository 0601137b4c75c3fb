import { hash } from 'node:crypto'
import { HASH_BYTES, hashPairs, TILE_HEIGHT, TILE_WIDTH, type Tile, type TileAddress } from './merkle.ts'

/*
 * The log: one tree over all ledger entries, as other people's programs read it (RFC 6962 section 2.1).
 *
 *   leaf = SHA-256(00 || canonical JSON of the entry)   leafHash(), the same leaf as under a seal
 *   node = SHA-256(01 || left || right)
 *
 * Tiles are those of C2SP tlog-tiles: a tile at level L holds up to 256 roots of full subtrees of 256^L
 * leaves. So a hash of level L + 1 always stands for a full tile, and the tree grows by appending to its
 * tiles; in a seal's tree (merkle.ts) it may stand for one that is not full.
 *
 * Sizes and indexes are safe integers; hashes are 32 bytes, lists of them one buffer.
 */

/** The root of a log without entries: SHA-256 of nothing (RFC 6962 section 2.1). */
export const EMPTY_LOG_ROOT: Buffer = Buffer.from(hash('sha256', '', 'binary'), 'latin1')

/** A tree by its size and root. */
export type LogHead = { readonly size: number; readonly root: Uint8Array }

const preimage = Buffer.alloc(1 + 2 * HASH_BYTES, 1)

/**
 * The hash of a node of the log's tree, from those of its children.
 *
 * @throws TypeError unless both have 32 bytes
 */
export function logNodeHash(left: Uint8Array, right: Uint8Array): Buffer {
  assertHash('left', left)
  assertHash('right', right)
  preimage.set(left, 1)
  preimage.set(right, 1 + HASH_BYTES)
  return Buffer.from(hash('sha256', preimage, 'binary'), 'latin1')
}

/**
 * Computes the root over leaf hashes, 32 bytes each, side by side; EMPTY_LOG_ROOT over none.
 *
 * @throws TypeError if the length isn't a multiple of 32 bytes
 */
export function logRoot(hashes: Uint8Array): Buffer {
  if (!(hashes instanceof Uint8Array) || hashes.length % HASH_BYTES !== 0)
    throw new TypeError(`"hashes" expected hashes of 32 bytes each`)
  if (hashes.length === 0) return EMPTY_LOG_ROOT
  const level = Buffer.from(hashes) // a copy: it is overwritten level by level
  for (let width = level.length / HASH_BYTES; width > 1; width = Math.ceil(width / 2)) {
    const pairs = Math.floor(width / 2)
    hashPairs(level, level, pairs, NODE_PREFIX)
    if (width % 2 === 1) level.copyWithin(pairs * HASH_BYTES, (width - 1) * HASH_BYTES, width * HASH_BYTES)
  }
  return level.subarray(0, HASH_BYTES)
}

/** What stands before the two hashes below a node (RFC 6962 section 2.1). */
const NODE_PREFIX = /* @__PURE__ */ Buffer.of(1)

/** A growing log, of which only the unfinished tile of each level is kept in memory. */
export interface LogTree {
  readonly size: number
  /**
   * Appends the hashes of the next leaves.
   *
   * @returns the tiles that have become full
   * @throws TypeError if the length isn't a multiple of 32 bytes
   */
  append(leaves: Uint8Array): Tile[]
  /** The tiles at the right edge that are not full, lowest level first. */
  edge(): Tile[]
  root(): Buffer
}

/**
 * Creates the tree of a log of `size` leaves, to which more can be appended. The edge isn't verified: compare
 * root() with a known root.
 *
 * @param edge the hashes of each tile that edgeTiles(size) lists, in its order
 * @throws TypeError for an edge of another shape
 */
export function createLogTree(size = 0, edge: readonly (Uint8Array | undefined)[] = []): LogTree {
  const levels: { hashes: Buffer; width: number }[] = []
  const levelAt = (level: number) =>
    (levels[level] ??= { hashes: Buffer.alloc(TILE_WIDTH * HASH_BYTES), width: 0 })
  for (const [place, { level, index, width }] of edgeTiles(size).entries()) {
    const hashes = edge[place]
    if (hashes?.length !== width * HASH_BYTES)
      throw new TypeError(`tile ${level}/${index} expected ${width} hashes`)
    levelAt(level).hashes.set(hashes)
    levelAt(level).width = width
  }

  /**
   * Appends hashes to a level; each tile that they fill is added to `done`, and its root to the next level.
   */
  function grow(level: number, hashes: Uint8Array, done: Tile[]): void {
    for (let from = 0; from < hashes.length;) {
      const row = levelAt(level)
      const part = hashes.subarray(from, from + (TILE_WIDTH - row.width) * HASH_BYTES)
      row.hashes.set(part, row.width * HASH_BYTES)
      row.width += part.length / HASH_BYTES
      from += part.length
      if (level === 0) size += part.length / HASH_BYTES
      if (row.width < TILE_WIDTH) continue
      done.push({ level, index: tileIndex(size, level, -1), hashes: Buffer.from(row.hashes) })
      row.width = 0
      grow(level + 1, logRoot(row.hashes), done)
    }
  }

  const edgeOf = (): Tile[] =>
    edgeTiles(size).map(({ level, index, width }) => ({
      level,
      index,
      hashes: Buffer.from(levelAt(level).hashes.subarray(0, width * HASH_BYTES)),
    }))

  return {
    get size() {
      return size
    },
    append(leaves) {
      if (leaves.length % HASH_BYTES !== 0) throw new TypeError('"leaves" expected hashes of 32 bytes each')
      const done: Tile[] = []
      grow(0, leaves, done)
      return done
    },
    edge: edgeOf,
    root: () => {
      const tiles = new Map(edgeOf().map((tile) => [placeOf(tile), tile.hashes]))
      return rangeHash({ from: 0, to: size }, (address) => tiles.get(placeOf(address)), size)
    },
  }
}

/**
 * The index of the unfinished tile of `level` in a log of `size` leaves; with `offset` -1, of the last full
 * one.
 */
const tileIndex = (size: number, level: number, offset = 0): number =>
  Math.floor(size / TILE_WIDTH ** (level + 1)) + offset

/**
 * Lists the tiles at the right edge of a log of `size` leaves that are not full, lowest level first (C2SP
 * tlog-tiles, "Partial Tiles").
 *
 * @throws RangeError unless `size` is a safe integer from 0
 */
export function edgeTiles(size: number): TileAddress[] {
  assertSize('size', size)
  const addresses: TileAddress[] = []
  for (let level = 0; TILE_WIDTH ** level <= size; level++) {
    const width = Math.floor(size / TILE_WIDTH ** level) % TILE_WIDTH
    if (width > 0) addresses.push({ level, index: tileIndex(size, level), width })
  }
  return addresses
}

/** Yields the address of every tile of a log of `size` leaves, full or at the edge, level by level. */
export function* listLogTiles(size: number): Generator<TileAddress> {
  assertSize('size', size)
  for (let level = 0; TILE_WIDTH ** level <= size; level++) {
    const hashes = Math.floor(size / TILE_WIDTH ** level)
    for (let index = 0; index * TILE_WIDTH < hashes; index++)
      yield { level, index, width: tileWidth(size, level, index) }
  }
}

/** How many hashes the tile has in a log of `size` leaves; 0 if it has no such tile. */
export function tileWidth(size: number, level: number, index: number): number {
  return Math.max(0, Math.min(TILE_WIDTH, Math.floor(size / TILE_WIDTH ** level) - index * TILE_WIDTH))
}

/** Gives a tile's hashes in one buffer, at least `width` of them: a tile that has grown since will do. */
export type ReadTile = (address: TileAddress) => Uint8Array | undefined

/** The leaves from `from` to before `to` that make up one subtree, full or at the right edge. */
type Range = { readonly from: number; readonly to: number }

/**
 * Lists the subtrees whose hashes prove that leaf `index` is in the log of `size`, lowest first (RFC 6962
 * section 2.1.1).
 *
 * @throws RangeError for an index outside the log
 */
function inclusionRanges(index: number, size: number): Range[] {
  assertSize('size', size)
  if (!Number.isSafeInteger(index) || index < 0 || index >= size)
    throw new RangeError(`"index" expected a whole number from 0 to ${size - 1}, got ${index}`)
  const ranges: Range[] = []
  let [from, to] = [0, size]
  while (to - from > 1) {
    const middle = from + powerBelow(to - from)
    if (index < middle) {
      ranges.unshift({ from: middle, to })
      to = middle
    } else {
      ranges.unshift({ from, to: middle })
      from = middle
    }
  }
  return ranges
}

/**
 * Lists the subtrees whose hashes prove that the log of `size` begins with that of `oldSize`, lowest first
 * (RFC 6962 section 2.1.2).
 *
 * @throws RangeError if `oldSize` is more than `size`
 */
function consistencyRanges(oldSize: number, size: number): Range[] {
  assertSize('size', size)
  if (!Number.isSafeInteger(oldSize) || oldSize < 0 || oldSize > size)
    throw new RangeError(`"oldSize" expected a whole number from 0 to ${size}, got ${oldSize}`)
  if (oldSize === 0) return []
  const ranges: Range[] = []
  let [from, to] = [0, size]
  while (to !== oldSize) {
    const middle = from + powerBelow(to - from)
    if (oldSize <= middle) {
      ranges.unshift({ from: middle, to })
      to = middle
    } else {
      ranges.unshift({ from, to: middle })
      from = middle
    }
  }
  // A range from leaf 0 is the older log itself, whose root the reader has.
  if (from > 0) ranges.unshift({ from, to })
  return ranges
}

/** The largest power of two below `width`, which is at least 2. */
function powerBelow(width: number): number {
  let power = 1
  while (2 * power < width) power *= 2
  return power
}

/**
 * Splits a range into full subtrees, from the left: the tree level of each one's root, and its index there.
 */
function fullSubtrees({ from, to }: Range): { level: number; index: number }[] {
  const subtrees: { level: number; index: number }[] = []
  while (from < to) {
    let level = 0
    while (2 ** (level + 1) <= to - from) level++
    subtrees.push({ level, index: from / 2 ** level })
    from += 2 ** level
  }
  return subtrees
}

/**
 * Finds the tile from which a full subtree's hash is computed.
 *
 * @returns its address in a log of `size`, and the hashes below the subtree's root: the first, and how many
 */
function locateInTile(
  { level, index }: { level: number; index: number },
  size: number,
): { tile: TileAddress; first: number; count: number } {
  const tileLevel = Math.floor(level / TILE_HEIGHT)
  const count = 2 ** (level % TILE_HEIGHT)
  const tile = Math.floor((index * count) / TILE_WIDTH)
  return {
    tile: { level: tileLevel, index: tile, width: tileWidth(size, tileLevel, tile) },
    first: (index * count) % TILE_WIDTH,
    count,
  }
}

/**
 * Computes the hash of a range's subtree from tiles.
 *
 * @throws TypeError for a tile that is missing or too short
 */
function rangeHash(range: Range, readTile: ReadTile, size: number): Buffer {
  if (range.from === range.to) return EMPTY_LOG_ROOT
  const subtreeHashes = fullSubtrees(range).map((subtree) => {
    const { tile, first, count } = locateInTile(subtree, size)
    const hashes = readTile(tile)
    if (hashes === undefined) throw new TypeError(`tile ${placeOf(tile)} is missing`)
    if (hashes.length < tile.width * HASH_BYTES)
      throw new TypeError(`tile ${placeOf(tile)} expected ${tile.width} hashes`)
    return logRoot(hashes.subarray(first * HASH_BYTES, (first + count) * HASH_BYTES))
  })
  return subtreeHashes.reduceRight((right, left) => logNodeHash(left, right))
}

const placeOf = ({ level, index }: Pick<TileAddress, 'level' | 'index'>): string => `${level}/${index}`

/** Lists the tiles that the hashes of these ranges are computed from, each once. */
function tilesOf(ranges: readonly Range[], size: number): TileAddress[] {
  const tiles = ranges.flatMap(fullSubtrees).map((subtree) => locateInTile(subtree, size).tile)
  return [...new Map(tiles.map((tile) => [placeOf(tile), tile])).values()]
}

/**
 * The tiles that logInclusionPath() reads.
 *
 * @throws RangeError for an index outside the log
 */
export const tilesForInclusion = (index: number, size: number): TileAddress[] =>
  tilesOf(inclusionRanges(index, size), size)

/**
 * The tiles that logConsistencyPath() reads.
 *
 * @throws RangeError if `oldSize` is more than `size`
 */
export const tilesForConsistency = (oldSize: number, size: number): TileAddress[] =>
  tilesOf(consistencyRanges(oldSize, size), size)

/**
 * The hashes that prove leaf `index` (from 0) in a log of `size` leaves, from the leaf up.
 *
 * @throws RangeError for an index outside the log
 * @throws TypeError for a tile that is missing or too short
 */
export const logInclusionPath = (index: number, size: number, readTile: ReadTile): Buffer[] =>
  inclusionRanges(index, size).map((range) => rangeHash(range, readTile, size))

/**
 * The hashes that prove that a log of `size` leaves begins with the one of `oldSize`; none if `oldSize` is 0
 * or `size`.
 *
 * @throws RangeError if `oldSize` is more than `size`
 * @throws TypeError for a tile that is missing or too short
 */
export const logConsistencyPath = (oldSize: number, size: number, readTile: ReadTile): Buffer[] =>
  consistencyRanges(oldSize, size).map((range) => rangeHash(range, readTile, size))

/**
 * Computes the root of a log of `size` leaves from the tiles that edgeTiles() lists.
 *
 * @throws TypeError for a tile that is missing or too short
 */
export const logRootFromTiles = (size: number, readTile: ReadTile): Buffer =>
  rangeHash({ from: 0, to: size }, readTile, size)

/**
 * Whether `leaf` is number `index` (from 0) in the log of this size and root (RFC 9162 section 2.1.3.2, whose
 * fn and sn are `place` and `last`). Doesn't throw.
 *
 * @param proof `path` as logInclusionPath() gives it
 */
export function verifyLogInclusion(
  proof: { leaf: Uint8Array; index: number; path: readonly Uint8Array[] } & LogHead,
): boolean {
  const { leaf, index, size, path, root } = proof
  if (!isSize(size) || !isSize(index) || index >= size || ![leaf, root, ...path].every(isHash)) return false
  let [place, last] = [index, size - 1]
  let running = leaf
  for (const sibling of path) {
    if (last === 0) return false
    if (place % 2 === 1 || place === last) {
      running = logNodeHash(sibling, running)
      while (place % 2 === 0 && place !== 0) [place, last] = [place / 2, Math.floor(last / 2)]
    } else running = logNodeHash(running, sibling)
    ;[place, last] = [Math.floor(place / 2), Math.floor(last / 2)]
  }
  return last === 0 && Buffer.compare(running, root) === 0
}

/**
 * Whether the log `to` begins with the log `from` (RFC 9162 section 2.1.4.2, whose fn and sn are `place` and
 * `last`). Every log begins with the empty one. Doesn't throw.
 *
 * @param path as logConsistencyPath() gives it; nothing may be left over
 */
export function verifyLogConsistency(from: LogHead, to: LogHead, path: readonly Uint8Array[]): boolean {
  if (
    !isSize(from.size) ||
    !isSize(to.size) ||
    from.size > to.size ||
    ![from.root, to.root, ...path].every(isHash)
  )
    return false
  const hasWrongEmptyRoot = (head: LogHead): boolean =>
    head.size === 0 && Buffer.compare(head.root, EMPTY_LOG_ROOT) !== 0
  if (hasWrongEmptyRoot(from) || hasWrongEmptyRoot(to)) return false
  if (from.size === to.size) return path.length === 0 && Buffer.compare(from.root, to.root) === 0
  if (from.size === 0) return path.length === 0
  let [place, last] = [from.size - 1, to.size - 1]
  while (place % 2 === 1) [place, last] = [(place - 1) / 2, Math.floor(last / 2)]
  // If the older size is a power of two, the older root itself is the first hash, and the path omits it.
  const hashes = place === 0 ? [from.root, ...path] : path
  const [first, ...siblings] = hashes
  if (first === undefined) return false
  let [older, newer] = [first, first]
  for (const sibling of siblings) {
    if (last === 0) return false
    if (place % 2 === 1 || place === last) {
      older = logNodeHash(sibling, older)
      newer = logNodeHash(sibling, newer)
      while (place % 2 === 0 && place !== 0) [place, last] = [place / 2, Math.floor(last / 2)]
    } else newer = logNodeHash(newer, sibling)
    ;[place, last] = [Math.floor(place / 2), Math.floor(last / 2)]
  }
  return last === 0 && Buffer.compare(older, from.root) === 0 && Buffer.compare(newer, to.root) === 0
}

/**
 * The URL path of a tile below the log's prefix (C2SP tlog-tiles), such as `tile/0/x001/234.p/5`.
 *
 * @param level `entries` for the entries themselves, in bundles of the size of a tile
 */
export function tilePath({
  level,
  index,
  width,
}: {
  level: number | 'entries'
  index: number
  width: number
}): string {
  const groups: string[] = []
  for (let rest = index; groups.length === 0 || rest > 0; rest = Math.floor(rest / 1000))
    groups.unshift(String(rest % 1000).padStart(3, '0'))
  const place = groups.map((group, at) => (at === groups.length - 1 ? group : `x${group}`)).join('/')
  return `tile/${level}/${place}${width === TILE_WIDTH ? '' : `.p/${width}`}`
}

const TILE_INDEX = /^(?:x\d{3}\/){0,4}\d{3}$/

/**
 * Parses the part of a tile's URL path after `tile/<L>/`, such as `x001/234.p/5`.
 *
 * @returns undefined for anything that tilePath() doesn't write
 */
export function parseTilePlace(place: string): { index: number; width: number } | undefined {
  const [path = '', width, ...rest] = place.split('.p/')
  if (rest.length > 0 || !TILE_INDEX.test(path)) return undefined
  if (width !== undefined && !/^[1-9]\d{0,2}$/.test(width)) return undefined
  const parsed = {
    index: Number(path.replaceAll(/[x/]/g, '')),
    width: width === undefined ? TILE_WIDTH : Number(width),
  }
  return tilePath({ level: 0, ...parsed }) === `tile/0/${place}` ? parsed : undefined
}

const isSize = (size: number): boolean => Number.isSafeInteger(size) && size >= 0
const isHash = (value: unknown): value is Uint8Array =>
  value instanceof Uint8Array && value.length === HASH_BYTES

function assertSize(name: string, size: number): void {
  if (!isSize(size)) throw new RangeError(`"${name}" expected a whole number from 0, got ${size}`)
}

function assertHash(name: string, value: Uint8Array): void {
  if (!isHash(value)) throw new TypeError(`"${name}" expected 32 bytes`)
}
