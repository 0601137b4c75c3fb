import { z } from 'zod'
import { createKeyTree, type AgentKeys, type KeyTree } from '../crypto/key-tree.ts'
import { hex } from '../platform/schema.ts'
import { isReadable, type EntryRecord } from './entry.ts'

/*
 * The tree of agents' keys. It follows from the entries alone, so whoever reads the ledger from its beginning
 * computes the same. An entry that names no agent or no key changes nothing.
 */

/** Kinds of entries that change a key, and the field of `data` that has the key. */
const KEY_FIELDS = { dm_key_change: 'dm_key', author_key_change: 'author_key' } as const
export const KEY_CHANGES = Object.keys(KEY_FIELDS) as readonly (keyof typeof KEY_FIELDS)[]

/** Changes of keys that are read at once. */
const PAGE_CHANGES = 10_000

const HEX_KEY = /^[0-9a-f]{64}$/

/**
 * Returns the tree after an entry: the agent has the new key, or no longer the one that the entry revokes
 * (null); its version is one higher, and `entry_id` is this entry. Returns the same tree for an entry of
 * another kind, without a readable agent id and key, or that revokes a key which isn't there.
 */
export function applyKeyChange(tree: KeyTree, entry: EntryRecord): KeyTree {
  const kind = KEY_CHANGES.find((keyChange) => keyChange === entry.kind)
  if (kind === undefined || !isReadable(entry)) return tree
  const field = KEY_FIELDS[kind]
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
export const keyState = (tree: KeyTree): StatedKeys => ({
  root: tree.root.toString('hex'),
  count: tree.count,
  ...(tree.form === 1 ? {} : { v: tree.form }),
})

/**
 * Reads the tree of agents' keys after all entries up to number `toId`. It continues from the cached tree of
 * the last call, if that doesn't go beyond `toId`; with 'first' it reads all key changes again.
 */
export type ReadKeyTree = (toId: number, from?: 'first') => Promise<KeyTree>

/**
 * Creates a reader with a cache of one tree: the last that it returned.
 *
 * @param listKeyChanges the first `limit` entries above `afterId`, up to `toId`, that change an agent's keys, ascending
 */
export function createKeyTreeReader(
  listKeyChanges: (afterId: number, toId: number, limit: number) => Promise<EntryRecord[]>,
): ReadKeyTree {
  const empty = { toId: 0, tree: createKeyTree() }
  let cached = empty
  return async (toId, from) => {
    let { toId: afterId, tree } = from === 'first' || cached.toId > toId ? empty : cached
    while (afterId < toId) {
      const changes = await listKeyChanges(afterId, toId, PAGE_CHANGES)
      tree = changes.reduce(applyKeyChange, tree)
      afterId = changes.length < PAGE_CHANGES ? toId : (changes.at(-1)?._id ?? toId)
    }
    cached = { toId, tree }
    return tree
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
): Promise<KeyTree | undefined> {
  for (const from of [undefined, 'first'] as const) {
    const tree = await readKeyTree(toId, from)
    if (tree.root.toString('hex') === root && tree.count === count) return tree
  }
  return undefined
}
