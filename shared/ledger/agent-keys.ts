import { createKeyTree, type KeyTree } from '../crypto/key-tree.ts'
import { isReadable, type EntryRecord } from './entry.ts'
import type { EntryStore } from './entry-store.ts'

/*
 * The tree of agents' keys, by the entries alone: whoever reads the ledger from its beginning computes the
 * same. An entry that names no agent or no key is passed over: a key that was taken off the card (null) stays
 * the agent's last, since every verifier in use passes over such an entry too.
 */

/** Kinds of entries that change a key, and the field in which the key stands. */
const KEY_FIELDS = { dm_key_change: 'dm_key', author_key_change: 'author_key' } as const
export const KEY_CHANGES = Object.keys(KEY_FIELDS) as readonly (keyof typeof KEY_FIELDS)[]

const HEX_KEY = /^[0-9a-f]{64}$/

/** The tree after an entry. */
export function applyKeyChange(tree: KeyTree, entry: EntryRecord): KeyTree {
  const kind: string = entry.kind
  const field = KEY_CHANGES.some((known) => known === kind)
    ? KEY_FIELDS[kind as keyof typeof KEY_FIELDS]
    : undefined
  if (field === undefined || !isReadable(entry)) return tree
  const { agent_id: agentId, [field]: key } = entry.data
  if (typeof agentId !== 'string' || typeof key !== 'string' || !HEX_KEY.test(key)) return tree
  const before = tree.get(agentId)
  return tree.with({
    ...before,
    agent_id: agentId,
    [field]: key,
    version: (before?.version ?? 0) + 1,
    entry_id: entry._id,
  })
}

/** What of a tree stands in a closing entry. */
export const keyState = (tree: KeyTree): { root: string; count: number } => ({
  root: tree.root.toString('hex'),
  count: tree.count,
})

/** Gives the tree after all entries up to one, from what it gave before where that is older. */
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
