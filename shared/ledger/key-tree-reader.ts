import { LRUCache } from 'lru-cache'
import type { KeyTree } from '../crypto/key-tree.ts'
import { runInScope } from '../platform/scope.ts'
import { createSerializer } from '../platform/serializer.ts'
import type { StatedKeys } from './agent-keys.ts'
import type { KeyPieceStore, TreeAt } from './key-piece-store.ts'
import {
  createKeyPieces,
  KeyEntriesDiffer,
  packKeyChanges,
  type KeyChanges,
  type KeyEntries,
  type KeyPieces,
  type Piece,
} from './key-pieces.ts'

/**
 * Reads the tree of agents' keys after all entries up to number `toId`. It continues from a cached tree that doesn't
 * go beyond; with 'first' it reads all key changes again. Who waits no more does not stop it: the next who asks
 * finds the tree.
 *
 * @throws KeyEntriesDiffer if entries that the cached tree follows from are missing, or others than they were
 */
export type ReadKeyTree = (
  toId: number,
  from?: 'first',
  /** Whether to keep the tree in the cache; if absent, one that was read from the first change on is not kept. */
  isKept?: (tree: KeyPieces) => boolean,
) => Promise<KeyPieces>

/** Changes of keys that are listed at once. */
const PAGE_CHANGES = 20_000
/** Trees that are kept: of the last seals, and where the check of the chain stands. They share most of their pieces. */
const KEPT_TREES = 4
/** Pieces with their keys that are kept, 30 KB each at most. */
const KEPT_PIECES = 300

/** What the ledger has for it. */
interface Source extends Pick<KeyEntries, 'read'> {
  stored: Pick<KeyPieceStore, 'read' | 'put'>
  /** The first `limit` entries above `afterId`, up to `toId`, that change an agent's keys, ascending. */
  listChanges(
    afterId: number,
    toId: number,
    limit: number,
  ): Promise<readonly { _id: number; agentId: unknown }[]>
}

/**
 * Creates a reader with a cache of a few trees, which begins with the stored one; and what stores a tree of the cache for
 * processes that start: that after entry `toId`, if it is there.
 */
export function createKeyTreeReader({ listChanges, read, stored }: Source) {
  const trees = new LRUCache<number, KeyPieces>({ max: KEPT_TREES })
  const source: KeyEntries = { read, recent: new LRUCache<Piece, KeyTree>({ max: KEPT_PIECES }) }
  const empty = createKeyPieces(source)
  const serialize = createSerializer()

  async function listAll(afterId: number, toId: number): Promise<KeyChanges> {
    const pages: KeyChanges[] = []
    for (let from = afterId; from < toId;) {
      const page = await listChanges(from, toId, PAGE_CHANGES)
      pages.push(packKeyChanges(page))
      from = page.length < PAGE_CHANGES ? toId : (page.at(-1)?._id ?? toId)
    }
    const all = new BigUint64Array(pages.reduce((length, page) => length + page.length, 0))
    let length = 0
    for (const page of pages) {
      all.set(page, length)
      length += page.length
    }
    return all.sort()
  }
  /** The tree from which to go on to that after entry `toId`. */
  async function findBase(toId: number): Promise<TreeAt> {
    const ids = [...trees.keys()].filter((id) => id <= toId)
    const baseId = Math.max(0, ...ids)
    const cached = trees.get(baseId)
    if (cached !== undefined) return { toId: baseId, tree: cached }
    const kept = toId > 0 ? await stored.read((pieces) => createKeyPieces(source, pieces)) : undefined
    return kept !== undefined && kept.toId <= toId ? kept : { toId: 0, tree: empty }
  }
  async function readTree(
    toId: number,
    from: 'first' | undefined,
    isKept: ((tree: KeyPieces) => boolean) | undefined,
  ): Promise<KeyPieces> {
    const base = from === 'first' ? { toId: 0, tree: empty } : await findBase(toId)
    const changes = await listAll(base.toId, toId)
    // Many changes are in all pieces, and each would be read twice.
    const isMore = base.toId > 0 && changes.length > base.tree.count
    const tree = await (isMore ? empty.withListed(await listAll(0, toId)) : base.tree.withListed(changes))
    if (isKept?.(tree) ?? from === undefined) trees.set(toId, tree)
    return tree
  }
  const readKeyTree: ReadKeyTree = (toId, from, isKept) =>
    runInScope({}, () => serialize(`${from} ${toId}`, () => readTree(toId, from, isKept)))
  return {
    readKeyTree,
    async keepKeyTree(toId: number): Promise<void> {
      const tree = trees.peek(toId)
      if (tree !== undefined) await stored.put({ toId, tree })
    },
  }
}

/**
 * Reads the tree up to `toId` that was stated; by all key changes again if the cached one has another root.
 *
 * @returns undefined if the entries give another tree
 */
export async function readTreeAsStated(
  readKeyTree: ReadKeyTree,
  toId: number,
  { root, count }: StatedKeys,
): Promise<KeyPieces | undefined> {
  const isStated = (tree: KeyPieces): boolean => tree.root.toString('hex') === root && tree.count === count
  try {
    const tree = await readKeyTree(toId)
    if (isStated(tree)) return tree
  } catch (error) {
    if (!(error instanceof KeyEntriesDiffer)) throw error
  }
  const again = await readKeyTree(toId, 'first', isStated)
  return isStated(again) ? again : undefined
}
