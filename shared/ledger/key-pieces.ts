import {
  bitAt,
  createKeyTree,
  EMPTY_KEY_ROOT,
  keyNodeHash,
  placeOf,
  type AgentKeys,
  type KeyForm,
  type KeyProof,
  type KeyTree,
} from '../crypto/key-tree.ts'
import { applyKeyChange, keyFieldOf, type KeyField } from './agent-keys.ts'
import type { EntryRecord } from './entry.ts'
import { SealError } from './seal.ts'

/*
 * The tree of agents' keys as a process holds it: not the keys, which are in the entries. A *piece* is a part of
 * the tree with few agents. Held of it are its hash and the numbers of the entries that its leaves follow from.
 * They are read again for a proof in that piece, and for a change; if they don't give the hash, they are not what
 * they were.
 */

/** Agents in a piece at most: a proof reads up to two entries of each. */
const PIECE_AGENTS = 32
/** Entries that are read at once, about. */
const ENTRIES_AT_ONCE = 4_000

interface Held {
  /** Of this part of the tree, as hex. */
  readonly hash: string
  /** Agents in it, at least 1. */
  readonly count: number
  readonly form: KeyForm
}
export interface Piece extends Held {
  /**
   * Three numbers for each agent: its version, and the numbers of the entries that last changed its dm_key and
   * its author_key, 0 for none.
   */
  readonly leaves: readonly number[]
}
interface Fork extends Held {
  readonly left: Part
  readonly right: Part
}
type Part = Piece | Fork | undefined

/** Entries by their numbers. */
export type Entries = ReadonlyMap<number, EntryRecord>

/** An entry that changed an agent's key is missing, or is not what it was when the tree was made. */
export class KeyEntriesDiffer extends SealError {
  override name = 'KeyEntriesDiffer'
}

/**
 * Changes of keys before their entries are read, ascending: in each the first 24 bits of the agent's place, then
 * the 40 of the entry's number.
 */
export type KeyChanges = BigUint64Array
const PLACE_BITS = 24
const ID_BITS = 40

/** Packs the key changes of entries, in the order of the entries. An entry that names no agent changes no key. */
export function packKeyChanges(entries: readonly { _id: number; agentId: unknown }[]): KeyChanges {
  const named = entries.filter(({ agentId }) => typeof agentId === 'string')
  return BigUint64Array.from(named, ({ _id, agentId }) => {
    const place = placeOf(agentId as string).readUIntBE(0, PLACE_BITS / 8)
    return (BigInt(place) << BigInt(ID_BITS)) | BigInt(_id)
  })
}
const entryIdsOf = (changes: KeyChanges): number[] =>
  Array.from(changes, (change) => Number(BigInt.asUintN(ID_BITS, change)))

/** Those in the left half of a part, and those in the right. */
function halve(changes: KeyChanges, depth: number): [left: KeyChanges, right: KeyChanges] {
  const bit = 1n << BigInt(PLACE_BITS + ID_BITS - 1 - depth)
  const firstRight = changes.findIndex((change) => (change & bit) !== 0n)
  const middle = firstRight === -1 ? changes.length : firstRight
  return [changes.subarray(0, middle), changes.subarray(middle)]
}

/** Whether the changes are of more agents than a piece has. */
function needPieces(changes: KeyChanges): boolean {
  let agents = 0
  let last: bigint | undefined
  for (const change of changes) {
    const place = change >> BigInt(ID_BITS)
    if (place !== last && ++agents > PIECE_AGENTS) return true
    last = place
  }
  return false
}

const hashOf = (part: Part): string => part?.hash ?? EMPTY_KEY_ROOT.toString('hex')

/** The part that has these two below it. An agent that is alone is its own part, however far up. */
function join(left: Part, right: Part): Part {
  const count = (left?.count ?? 0) + (right?.count ?? 0)
  if (count <= 1) return left ?? right
  const hash = keyNodeHash(Buffer.from(hashOf(left), 'hex'), Buffer.from(hashOf(right), 'hex'))
  const form = left?.form === 2 || right?.form === 2 ? 2 : 1
  return { left, right, count, form, hash: hash.toString('hex') }
}

/** A piece with its keys. */
interface Unfolded {
  tree: KeyTree
  /** The entries that last changed the keys of each agent. */
  readonly sources: Map<string, { [Field in KeyField]?: EntryRecord }>
}

/** @throws KeyEntriesDiffer */
function unfold({ hash, leaves }: Piece, depth: number, entries: Entries): Unfolded {
  const unfolded: Unfolded = { tree: createKeyTree(depth), sources: new Map() }
  for (let at = 0; at < leaves.length; at += 3) {
    const [version = 0, ...ids] = leaves.slice(at, at + 3)
    const [dm, author] = ids.map((id) => (id === 0 ? undefined : entryIn(entries, id)))
    const agentId = (dm ?? author)?.data['agent_id']
    if (typeof agentId !== 'string') break
    const [dmKey, authorKey] = [dm?.data['dm_key'], author?.data['author_key']]
    unfolded.tree = unfolded.tree.with({
      agent_id: agentId,
      ...(typeof dmKey === 'string' ? { dm_key: dmKey } : {}),
      ...(typeof authorKey === 'string' ? { author_key: authorKey } : {}),
      version,
      entry_id: Math.max(...ids),
    })
    unfolded.sources.set(agentId, { ...(dm && { dm_key: dm }), ...(author && { author_key: author }) })
  }
  if (unfolded.tree.root.toString('hex') === hash) return unfolded
  const ids = readIds(leaves)
  throw new KeyEntriesDiffer(
    `of the entries ${ids.slice(0, 10).join(', ')}${ids.length > 10 ? ` and ${ids.length - 10} more` : ''}, which changed agents' keys, at least one is not what it was`,
  )
}

/** @throws KeyEntriesDiffer */
function entryIn(entries: Entries, id: number): EntryRecord {
  const entry = entries.get(id)
  if (entry === undefined) throw new KeyEntriesDiffer(`entry ${id}, which changed an agent's key, is missing`)
  return entry
}

/** The numbers of the entries from which the leaves of a piece follow. */
const readIds = (leaves: readonly number[]): number[] => leaves.filter((id, at) => at % 3 !== 0 && id !== 0)

/** Adds changes, in the order of their numbers. */
function applyEntries(unfolded: Unfolded, entries: readonly EntryRecord[]): void {
  for (const entry of entries) {
    const after = applyKeyChange(unfolded.tree, entry)
    const field = keyFieldOf(entry.kind)
    if (after === unfolded.tree || field === undefined) continue
    unfolded.tree = after
    const agentId = String(entry.data['agent_id'])
    unfolded.sources.set(agentId, { ...unfolded.sources.get(agentId), [field]: entry })
  }
}

/** Makes one piece of it, or several if it has too many agents. */
function fold({ tree, sources }: Unfolded, depth: number, form: KeyForm = 1): Part {
  const formAfter = form === 2 ? 2 : tree.form
  if (sources.size <= PIECE_AGENTS || depth === PLACE_BITS) {
    if (sources.size === 0) return undefined
    const leaves = [...sources].flatMap(([agentId, { dm_key: dm, author_key: author }]) => [
      tree.get(agentId)?.version ?? 0,
      dm?._id ?? 0,
      author?._id ?? 0,
    ])
    return { hash: tree.root.toString('hex'), count: sources.size, form: formAfter, leaves }
  }
  const halves = [0, 1].map((bit): Unfolded => {
    const half = { tree: createKeyTree(depth + 1), sources: new Map() } satisfies Unfolded
    for (const [agentId, source] of sources) {
      const keys = tree.get(agentId)
      if (keys === undefined || bitAt(placeOf(agentId), depth) !== bit) continue
      half.tree = half.tree.with(keys)
      half.sources.set(agentId, source)
    }
    return half
  })
  const [left, right] = halves.map((half) => fold(half, depth + 1, formAfter))
  return join(left, right)
}

const isFork = (part: Part): part is Fork => part !== undefined && 'left' in part

/** The part after the changes. @param entries those changes, and those of the pieces that they are in */
function change(part: Part, changes: KeyChanges, depth: number, entries: Entries): Part {
  if (changes.length === 0) return part
  if (isFork(part) || (part === undefined && depth < PLACE_BITS && needPieces(changes))) {
    const [left, right] = halve(changes, depth)
    return join(change(part?.left, left, depth + 1, entries), change(part?.right, right, depth + 1, entries))
  }
  const unfolded =
    part === undefined ? { tree: createKeyTree(depth), sources: new Map() } : unfold(part, depth, entries)
  applyEntries(
    unfolded,
    entryIdsOf(changes)
      .sort((a, b) => a - b)
      .map((id) => entryIn(entries, id)),
  )
  return fold(unfolded, depth, part?.form)
}

/** The numbers of the entries that `change` needs. */
function idsNeeded(part: Part, changes: KeyChanges, depth: number): number[] {
  if (changes.length === 0) return []
  if (!isFork(part)) return [...readIds(part?.leaves ?? []), ...entryIdsOf(changes)]
  const [left, right] = halve(changes, depth)
  return [...idsNeeded(part.left, left, depth + 1), ...idsNeeded(part.right, right, depth + 1)]
}

/** The keys of all agents after some entry. Immutable. */
export interface KeyPieces {
  readonly root: Buffer
  readonly count: number
  readonly form: KeyForm
  list(): PieceAt[]
  /**
   * The tree after further entries, of which most may change no key.
   *
   * @throws KeyEntriesDiffer
   */
  with(entries: readonly EntryRecord[]): Promise<KeyPieces>
  /** The same after changes whose entries are read. @throws KeyEntriesDiffer */
  withListed(changes: KeyChanges): Promise<KeyPieces>
  /**
   * An agent's keys, null if it has none, and their proof.
   *
   * @throws KeyEntriesDiffer
   */
  prove(agentId: string): Promise<{ keys: AgentKeys | null; proof: KeyProof }>
}

/** What trees are read from. */
export interface KeyEntries {
  /** Those of the entries that are there. */
  read(ids: readonly number[]): Promise<Entries>
  /** Pieces that were proved from lately. */
  readonly recent: {
    get(piece: Piece): KeyTree | undefined
    set(piece: Piece, tree: KeyTree): unknown
  }
}

/** A piece, and the bits that lead to it from the root: '0' is the left half, '01' the right half of that. */
export interface PieceAt {
  readonly path: string
  readonly piece: Piece
}

function listPieces(part: Part, path: string): PieceAt[] {
  if (part === undefined) return []
  if (!isFork(part)) return [{ path, piece: part }]
  return [...listPieces(part.left, `${path}0`), ...listPieces(part.right, `${path}1`)]
}

/** The part at a depth that these pieces make. */
function assemble(pieces: readonly PieceAt[], depth: number): Part {
  const own = pieces.find(({ path }) => path.length === depth)
  if (own !== undefined || pieces.length === 0) return own?.piece
  const half = (bit: string) => pieces.filter(({ path }) => path[depth] === bit)
  return join(assemble(half('0'), depth + 1), assemble(half('1'), depth + 1))
}

/** The tree of these pieces; the one without keys if there are none. */
export const createKeyPieces = (source: KeyEntries, pieces: readonly PieceAt[] = []): KeyPieces =>
  keyPiecesOf(source, assemble(pieces, 0))

function keyPiecesOf(source: KeyEntries, top: Part): KeyPieces {
  /** Changes part by part, so that few entries are in memory at a time. */
  async function changeIn(part: Part, changes: KeyChanges, depth: number, given: Entries): Promise<Part> {
    if (changes.length === 0) return part
    const eachReads = part === undefined ? 1 : PIECE_AGENTS
    const isSmall = changes.length * eachReads <= ENTRIES_AT_ONCE
    if (isSmall || !(isFork(part) || (part === undefined && depth < PLACE_BITS))) {
      const ids = idsNeeded(part, changes, depth).filter((id) => !given.has(id))
      const read = ids.length === 0 ? given : new Map([...(await source.read(ids)), ...given])
      return change(part, changes, depth, read)
    }
    const [left, right] = halve(changes, depth)
    return join(
      await changeIn(part?.left, left, depth + 1, given),
      await changeIn(part?.right, right, depth + 1, given),
    )
  }
  async function open(piece: Piece, depth: number): Promise<KeyTree> {
    const recent = source.recent.get(piece)
    if (recent !== undefined) return recent
    const { tree } = unfold(piece, depth, await source.read(readIds(piece.leaves)))
    source.recent.set(piece, tree)
    return tree
  }
  return {
    root: Buffer.from(hashOf(top), 'hex'),
    count: top?.count ?? 0,
    form: top?.form ?? 1,
    list: () => listPieces(top, ''),
    async with(entries) {
      const changing = entries.filter(({ kind }) => keyFieldOf(kind) !== undefined)
      const changes = packKeyChanges(changing.map(({ _id, data }) => ({ _id, agentId: data?.['agent_id'] })))
      const given = new Map(changing.map((entry) => [entry._id, entry]))
      return keyPiecesOf(source, await changeIn(top, changes.sort(), 0, given))
    },
    withListed: async (changes) => keyPiecesOf(source, await changeIn(top, changes, 0, new Map())),
    async prove(agentId) {
      const place = placeOf(agentId)
      const above: string[] = []
      let part = top
      let depth = 0
      for (; isFork(part); depth++) {
        const isRight = bitAt(place, depth) === 1
        above.unshift(hashOf(isRight ? part.left : part.right))
        part = isRight ? part.right : part.left
      }
      const tree = part === undefined ? createKeyTree(depth) : await open(part, depth)
      const { found, path } = tree.prove(agentId)
      return { keys: tree.get(agentId) ?? null, proof: { found, path: [...path, ...above] } }
    },
  }
}
