import { createKeyTree, type KeyTree } from '../crypto/key-tree.ts'
import { isReadable, type EntryRecord } from './entry.ts'
import type { EntryStore } from './entry-store.ts'

/*
 * The tree of agents' keys. It follows from the entries alone, so whoever reads the ledger from its beginning
 * computes the same. An entry that names no agent or no key changes nothing: a key that was taken off the
 * card (null) stays in the tree, since every verifier in use skips such an entry too.
 */

/** Kinds of entries that change a key, and the field of `data` that has the key. */
const KEY_FIELDS = { dm_key_change: 'dm_key', author_key_change: 'author_key' } as const
export const KEY_CHANGES = Object.keys(KEY_FIELDS) as readonly (keyof typeof KEY_FIELDS)[]

const HEX_KEY = /^[0-9a-f]{64}$/

/**
 * Returns the tree after an entry: the agent has the new key, its version is one higher, and `entry_id` is
 * this entry. Returns the same tree for an entry of another kind, or without a readable agent id and key.
 */
export function applyKeyChange(tree: KeyTree, entry: EntryRecord): KeyTree {
  const kind = KEY_CHANGES.find((keyChange) => keyChange === entry.kind)
  if (kind === undefined || !isReadable(entry)) return tree
  const { agent_id: agentId, [KEY_FIELDS[kind]]: key } = entry.data
  if (typeof agentId !== 'string' || typeof key !== 'string' || !HEX_KEY.test(key)) return tree
  const before = tree.get(agentId)
  return tree.with({
    ...before,
    agent_id: agentId,
    [KEY_FIELDS[kind]]: key,
    version: (before?.version ?? 0) + 1,
    entry_id: entry._id,
  })
}

/** The tree's root, as hex, and the number of agents in it, as a closing entry states them. */
export const keyState = (tree: KeyTree): { root: string; count: number } => ({
  root: tree.root.toString('hex'),
  count: tree.count,
})

/**
 * Reads the tree of agents' keys after all entries up to number `toId`. It continues from the cached tree of
 * the last call, if that doesn't go beyond `toId`; with 'first' it reads all key changes again.
 */
export type ReadKeyTree = (toId: number, from?: 'first') => Promise<KeyTree>

/** Creates a reader with a cache of one tree: the last that it returned. */
export function createKeyTreeReader(entries: Pick<EntryStore, 'listKeyChanges'>): ReadKeyTree {
  const empty = { toId: 0, tree: createKeyTree() }
  let cached = empty
  return async (toId, from) => {
    const base = from === 'first' || cached.toId > toId ? empty : cached
    const changes = base.toId === toId ? [] : await entries.listKeyChanges(base.toId, toId)
    let { tree } = base
    for (const change of changes) tree = applyKeyChange(tree, change)
    cached = { toId, tree }
    return tree
  }
}
