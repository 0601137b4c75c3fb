import { z } from 'zod'
import { createKeyTree, type AgentKeys, type KeyForm, type KeyTree } from '../crypto/key-tree.ts'
import { hex } from '../platform/schema.ts'
import { isReadable, type EntryRecord } from './entry.ts'

/*
 * The tree of agents' keys. It follows from the entries and the tree's form alone, so whoever reads the
 * ledger from its beginning computes the same. An entry that names no agent or no key changes nothing.
 *
 * Closing entries of older versions state a tree of form 1, in which a revocation does nothing. From the
 * first closing entry on that states form 2 (`keys.v`), all revocations count, those before it too, and no
 * later one states form 1 again: else a key that was revoked could be shown anew.
 */

/** Kinds of entries that change a key, and the field of `data` that has the key. */
const KEY_FIELDS = { dm_key_change: 'dm_key', author_key_change: 'author_key' } as const
export const KEY_CHANGES = Object.keys(KEY_FIELDS) as readonly (keyof typeof KEY_FIELDS)[]

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

/** As applyKeyChange(), in a tree of form 1. */
export function applyKeyChangeInForm1(tree: KeyTree, entry: EntryRecord): KeyTree {
  const after = applyKeyChange(tree, entry)
  return after.form === 1 ? after : tree
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
 * What a closing entry states of the keys.
 *
 * @returns undefined if it states none, or those of a form that this version doesn't know
 */
export function readStatedKeys({ data }: EntryRecord): StatedKeys | undefined {
  return statedKeys.safeParse(data['keys']).data
}

/**
 * Reads the tree of agents' keys after all entries up to number `toId`. It continues from the cached tree of
 * the last call, if that doesn't go beyond `toId`; with 'first' it reads all key changes again.
 *
 * @param form 1 for the tree as a closing entry of an older version states it
 */
export type ReadKeyTree = (toId: number, from?: 'first', form?: KeyForm) => Promise<KeyTree>

/**
 * Creates a reader with a cache of one tree of each form: the last that it returned.
 *
 * @param listKeyChanges the entries above `afterId`, up to `toId`, that change an agent's keys, ascending
 */
export function createKeyTreeReader(
  listKeyChanges: (afterId: number, toId: number) => Promise<EntryRecord[]>,
): ReadKeyTree {
  const empty = { toId: 0, tree: createKeyTree() }
  const cached = new Map<KeyForm, typeof empty>()
  return async (toId, from, form: KeyForm = 2) => {
    const known = cached.get(form)
    const base = from === 'first' || known === undefined || known.toId > toId ? empty : known
    const changes = base.toId === toId ? [] : await listKeyChanges(base.toId, toId)
    const tree = changes.reduce(
      (before, change) => (form === 1 ? applyKeyChangeInForm1 : applyKeyChange)(before, change),
      base.tree,
    )
    cached.set(form, { toId, tree })
    return tree
  }
}

/**
 * Reads the tree up to `toId` that was stated: of its form, and by all key changes again if the cached one has
 * another root.
 *
 * @returns undefined if the entries give another tree
 */
export async function readTreeAsStated(
  readKeyTree: ReadKeyTree,
  toId: number,
  { root, count, v }: StatedKeys,
): Promise<KeyTree | undefined> {
  const form: KeyForm = v ?? 1
  for (const from of [undefined, 'first'] as const) {
    const tree = await readKeyTree(toId, from, form)
    if (tree.root.toString('hex') === root && tree.count === count) return tree
  }
  return undefined
}
