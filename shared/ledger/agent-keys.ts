import { createKeyTree, type KeyTree } from '../crypto/key-tree.ts'
import { isReadable, type EntryRecord } from './entry.ts'
import type { EntryStore } from './entry-store.ts'

/*
 * The tree of agents' keys. It follows from the entries alone, so whoever reads the ledger from its beginning
 * computes the same. An entry that names no agent or no key changes nothing: a key that was taken off the card
 * (null) stays in the tree, since every verifier in use skips such an entry too.
 */

/** Kinds of entries that change a key, and the field of `data` that has the key. */
const KEY_FIELDS = { dm_key_change: 'dm_key', author_key_change: 'author_key' } as const
export const KEY_CHANGES = Object.keys(KEY_FIELDS) as readonly (keyof typeof KEY_FIELDS)[]

const HEX_KEY = /^[0-9a-f]{64}$/

/** The tree after an entry. */
export function applyKeyChange(tree: KeyTree, entry: EntryRecord): KeyTree {
  const kind = KEY_CHANGES.find((known) => known === entry.kind)
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
 * Gives the tree after all entries up to `toId`. It continues from the last tree that it gave, if that is not
 * newer; with 'first' it reads all key changes again.
 */
export type ReadKeyTree = (toId: number, from?: 'first') => Promise<KeyTree>

export function createKeyTrees(entries: Pick<EntryStore, 'listKeyChanges'>): ReadKeyTree {
  let kept = { toId: 0, tree: createKeyTree() }
  return async (toId, from) => {
    const base = from === 'first' || kept.toId > toId ? { toId: 0, tree: createKeyTree() } : kept
    const changes = base.toId === toId ? [] : await entries.listKeyChanges(base.toId, toId)
    const tree = changes.reduce(applyKeyChange, base.tree)
    kept = { toId, tree }
    return tree
  }
}
