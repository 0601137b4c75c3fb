import { z } from 'zod'
import type { AgentKeys, KeyTree } from '../crypto/key-tree.ts'
import { hex } from '../platform/schema.ts'
import { isReadable, type EntryRecord } from './entry.ts'

/*
 * The tree of agents' keys. It follows from the entries alone, so whoever reads the ledger from its beginning
 * computes the same. An entry that names no agent or no key changes nothing.
 */

/** Kinds of entries that change a key, and the field of `data` that has the key. */
const KEY_FIELDS = { dm_key_change: 'dm_key', author_key_change: 'author_key' } as const
export const KEY_CHANGES = Object.keys(KEY_FIELDS) as readonly (keyof typeof KEY_FIELDS)[]
export type KeyField = (typeof KEY_FIELDS)[keyof typeof KEY_FIELDS]

/** The field of `data` that has the key in entries of this kind; undefined if they change none. */
export function keyFieldOf(kind: string): KeyField | undefined {
  const keyChange = KEY_CHANGES.find((one) => one === kind)
  return keyChange && KEY_FIELDS[keyChange]
}

const HEX_KEY = /^[0-9a-f]{64}$/

/**
 * Returns the tree after an entry: the agent has the new key, or no longer the one that the entry revokes
 * (null); its version is one higher, and `entry_id` is this entry. Returns the same tree for an entry of
 * another kind, without a readable agent id and key, or that revokes a key which isn't there.
 */
export function applyKeyChange(tree: KeyTree, entry: EntryRecord): KeyTree {
  const field = keyFieldOf(entry.kind)
  if (field === undefined || !isReadable(entry)) return tree
  const { agent_id: agentId, [field]: key } = entry.data
  if (typeof agentId !== 'string') return tree
  const before = tree.get(agentId)
  const version = (before?.version ?? 0) + 1
  if (key === null && before?.[field] !== undefined) {
    const { [field]: _revoked, ...rest } = before
    return tree.with({ ...rest, version, entry_id: entry._id }, 2)
  }
  if (typeof key !== 'string' || !HEX_KEY.test(key)) return tree
  const keys: AgentKeys = { ...before, agent_id: agentId, [field]: key, version, entry_id: entry._id }
  return tree.with(keys)
}

/** What is stated of a tree: its root, the number of agents in it, and its form unless that is 1. */
export const statedKeys = z.object({
  root: hex(64),
  count: z.int().min(0),
  v: z.literal(2).exactOptional(),
})
export type StatedKeys = z.infer<typeof statedKeys>

/** What a closing entry states of the tree. */
export const keyState = (tree: Pick<KeyTree, 'root' | 'count' | 'form'>): StatedKeys => ({
  root: tree.root.toString('hex'),
  count: tree.count,
  ...(tree.form === 1 ? {} : { v: tree.form }),
})
