import { hash } from 'node:crypto'
import { canonicalJson } from './canonical-json.ts'

/*
 * The tree over a seal's ledger entries:
 *
 *   leaf   SHA-256(00 || canonical JSON of the entry)
 *   node   SHA-256(left || right), the bytes of both hashes
 *
 * Its shape is that of RFC 6962 section 2.1: from the leaves up, neighbours pair, and an odd last node moves
 * up unchanged.
 *
 * RFC 6962 puts 01 before a node's bytes so that no leaf can pass for a node; the service's wire format has
 * nodes without it. Second preimages are excluded all the same:
 *   - A node passing for an entry: its 64-byte preimage would have to be 00, '{', '"' and 61 more bytes of
 *     canonical JSON, but it is two hashes, and an attacker can choose a few bytes of a hash, not all.
 *   - An entry passing for a node: an entry whose leaf preimage is exactly 64 bytes can be cut into two
 *     "children". That lengthens the path by one step. The path's length and sides follow from the index and
 *     the seal's signed count, and verifyInclusion() takes no path of another shape.
 *   - An odd leaf paired with itself (the Bitcoin tree) gives two counts the same root; here the odd one
 *     moves up unpaired, and the count is signed.
 */

/** Bytes of a leaf or node. crypto.hash is fastest with its result as 'binary', which is latin1. */
export const HASH_BYTES = 32

/** Levels of the tree that one tile spans, and the hashes it holds at most: 8 KiB. */
export const TILE_HEIGHT = 8
export const TILE_WIDTH = 2 ** TILE_HEIGHT

/** On which side of the running hash the sibling stands. */
export type Side = 'left' | 'right'

/** One step from a leaf to the root. `hash` is the sibling: 64 lower-case hex characters. */
export type PathStep = { readonly hash: string; readonly side: Side }

/**
 * The hashes of one level from `index * TILE_WIDTH` on, 32 bytes each; `level` counts tiles, so it is 8 tree
 * levels high.
 */
export type Tile = { readonly level: number; readonly index: number; readonly hashes: Buffer }

/** Which tile, and how many hashes of it: a tile at the right edge may have grown fewer than TILE_WIDTH. */
export type TileAddress = { readonly level: number; readonly index: number; readonly width: number }

export type InclusionFault = 'malformed_proof' | 'path_shape' | 'wrong_side' | 'wrong_root'
export type InclusionVerdict =
  { readonly ok: true } | { readonly ok: false; readonly reason: InclusionFault; readonly message: string }

const HEX_HASH = /^[0-9a-f]{64}$/

/**
 * The leaf of a ledger entry: SHA-256 of the byte 00 and the entry's canonical JSON, 64 lower-case hex
 * characters.
 *
 * @throws TypeError for anything but a plain object that has canonical JSON
 */
export function leafHash(entry: object): string {
  return hash('sha256', leafPreimage(leafText(entry)), 'hex')
}

/** Computes leaves, 32 bytes each, side by side, from the canonical JSON of each entry. */
export function hashLeafTexts(texts: readonly string[]): Buffer {
  const leaves = Buffer.allocUnsafe(texts.length * HASH_BYTES)
  for (const [index, text] of texts.entries())
    leaves.write(hash('sha256', leafPreimage(text), 'binary'), index * HASH_BYTES, 'latin1')
  return leaves
}

/** U+0000 is the byte 00 in UTF-8. */
const leafPreimage = (text: string): string => '\0' + text

/** The canonical JSON of an entry. @throws TypeError for anything but a plain object that has it */
function leafText(entry: object): string {
  if (typeof entry !== 'object' || entry === null || Array.isArray(entry))
    throw new TypeError('"entry" expected a plain object')
  return canonicalJson(entry)
}

/**
 * Computes every level of a tree: the leaves themselves first, the root (32 bytes) last.
 *
 * @param leaves hashes side by side, 32 bytes each
 * @throws TypeError for no leaves, or a buffer of a broken length
 */
export function buildTree(leaves: Uint8Array): Buffer[] {
  if (!(leaves instanceof Uint8Array) || leaves.length === 0 || leaves.length % HASH_BYTES !== 0)
    throw new TypeError(`"leaves" expected hashes of ${HASH_BYTES} bytes, at least one`)
  let level = Buffer.from(leaves.buffer, leaves.byteOffset, leaves.length)
  const levels = [level]
  while (level.length > HASH_BYTES) {
    const pairs = Math.floor(level.length / (2 * HASH_BYTES))
    const above = Buffer.allocUnsafe(Math.ceil(level.length / (2 * HASH_BYTES)) * HASH_BYTES)
    hashPairs(level, above, pairs)
    // An odd last node moves up unchanged.
    if (above.length > pairs * HASH_BYTES) level.copy(above, pairs * HASH_BYTES, level.length - HASH_BYTES)
    levels.push(above)
    level = above
  }
  return levels
}

/** Computes the root of a tree, 32 bytes. @throws TypeError for leaves that buildTree() refuses */
export const merkleRoot = (leaves: Uint8Array): Buffer => Buffer.from(buildTree(leaves).at(-1) ?? [])

/**
 * Hashes the first `pairs` pairs of hashes in `level` into `above`, which may be the same buffer: SHA-256(prefix ||
 * left || right).
 */
export function hashPairs(level: Buffer, above: Buffer, pairs: number, prefix = NO_PREFIX): void {
  const message = Buffer.alloc(prefix.length + 2 * HASH_BYTES)
  message.set(prefix)
  for (let pair = 0; pair < pairs; pair++) {
    level.copy(message, prefix.length, 2 * pair * HASH_BYTES, 2 * (pair + 1) * HASH_BYTES)
    above.write(hash('sha256', message, 'binary'), pair * HASH_BYTES, 'latin1')
  }
}

const NO_PREFIX = /* @__PURE__ */ Buffer.of()

/**
 * Lists the siblings on the way from leaf `index` (from 0) to the root, lowest first.
 *
 * @param levels as buildTree() gives them
 * @throws RangeError for an index outside the tree
 */
export function inclusionPath(levels: readonly Uint8Array[], index: number): PathStep[] {
  assertIndex(index, (levels[0]?.length ?? 0) / HASH_BYTES)
  const path: PathStep[] = []
  let position = index
  for (const level of levels) {
    const sibling = position % 2 === 0 ? position + 1 : position - 1
    if (sibling < level.length / HASH_BYTES)
      path.push({ hash: hexAt(level, sibling), side: sibling < position ? 'left' : 'right' })
    position = Math.floor(position / 2)
  }
  return path
}

/**
 * Computes the root that a leaf and its path lead to, 64 lower-case hex characters. That alone proves nothing
 * about the leaf's position: use verifyInclusion() for that.
 *
 * @throws TypeError for a hash that isn't 64 lower-case hex characters, or a side that isn't `left` or
 *   `right`
 */
export function foldPath(leaf: string, path: readonly PathStep[]): string {
  assertHexHash('leaf', leaf)
  let running = leaf
  for (const [step, { hash: sibling, side }] of path.entries()) {
    assertHexHash(`path[${step}].hash`, sibling)
    if (side !== 'left' && side !== 'right')
      throw new TypeError(`"path[${step}].side" expected "left" or "right", got ${JSON.stringify(side)}`)
    running = hash(
      'sha256',
      Buffer.from(side === 'left' ? sibling + running : running + sibling, 'hex'),
      'hex',
    )
  }
  return running
}

/**
 * Lists the side of each sibling on the path of leaf `index` in a tree of `count` leaves, lowest first. It is
 * the only shape that such a path can have (RFC 6962 section 2.1.1).
 *
 * @throws RangeError for an index outside the tree
 */
export function pathShape(count: number, index: number): Side[] {
  assertIndex(index, count)
  const sides: Side[] = []
  let position = index
  for (let width = count; width > 1; width = Math.ceil(width / 2)) {
    if (position % 2 === 1) sides.push('left')
    else if (position + 1 < width) sides.push('right')
    position = Math.floor(position / 2)
  }
  return sides
}

/**
 * Whether `leaf` is number `index` (from 0) of the `count` leaves under `root`.
 *
 * `index` and `count` come from the reader and the signed seal, never from the path. A path with one step too
 * many, a wrong side, a 64-byte entry posing as a node or an odd leaf paired with itself has another shape,
 * or another root.
 *
 * Doesn't throw.
 *
 * @returns `ok: true`, or the reason: `malformed_proof` if a part has the wrong form, `path_shape` for the
 *   wrong number of steps, `wrong_side` for a sibling on the wrong side, `wrong_root` if the path leads to
 *   another root
 */
export function verifyInclusion(proof: {
  leaf: string
  path: readonly PathStep[]
  root: string
  index: number
  count: number
}): InclusionVerdict {
  const { leaf, path, root, index, count } = proof
  if (!Array.isArray(path)) return fault('malformed_proof', '"path" is not a list')
  let shape: Side[]
  let reached: string
  try {
    assertHexHash('root', root)
    shape = pathShape(count, index)
    reached = foldPath(leaf, path)
  } catch (error) {
    return fault('malformed_proof', error instanceof Error ? error.message : String(error))
  }
  if (path.length !== shape.length)
    return fault(
      'path_shape',
      `index ${index} of ${count} takes ${shape.length} steps, the path has ${path.length}`,
    )
  for (const [step, side] of shape.entries()) {
    if (path[step]?.side !== side)
      return fault('wrong_side', `index ${index} of ${count} has its sibling on the ${side} at step ${step}`)
  }
  if (reached !== root) return fault('wrong_root', `the path leads to ${reached}, not to ${root}`)
  return { ok: true }
}

function fault(reason: InclusionFault, message: string): InclusionVerdict {
  return { ok: false, reason, message }
}

/** Hash number `index` of a level, as hex. */
function hexAt(level: Uint8Array, index: number): string {
  return Buffer.from(level.buffer, level.byteOffset + index * HASH_BYTES, HASH_BYTES).toString('hex')
}

function assertIndex(index: number, count: number): void {
  if (!Number.isSafeInteger(count) || count < 1)
    throw new RangeError(`"count" expected a whole number from 1, got ${count}`)
  if (!Number.isSafeInteger(index) || index < 0 || index >= count)
    throw new RangeError(`"index" expected a whole number from 0 to ${count - 1}, got ${index}`)
}

function assertHexHash(name: string, value: unknown): void {
  if (typeof value !== 'string' || !HEX_HASH.test(value))
    throw new TypeError(`"${name}" expected 64 lower-case hex characters, got ${JSON.stringify(value)}`)
}
