import { hash } from 'node:crypto'
import { canonicalJson } from './canonical-json.ts'
import { HASH_BYTES } from './merkle.ts'

/*
 * The keys of all agents under one root: a prefix tree over SHA-256 of the agent's id, the highest bit first.
 * The hash of a subtree depends on how many leaves it has:
 *
 *   none     32 zero bytes
 *   one      the leaf itself, however far up:
 *            SHA-256(00 || canonical JSON of {agent_id, author_key?, dm_key?, entry_id, version})
 *   more     SHA-256(01 || left || right), the bit 0 being left
 *
 * So the root follows from the set of leaves alone, and a path has about log2(n) + 1 steps. A proof leads to
 * where the agent's leaf would be. There it finds that leaf, or nothing, or another agent's leaf that is
 * alone in its subtree; the last two prove that the agent has no keys.
 *
 * There are two forms of the tree, which differ in what a revocation (a change of a key to null) does:
 *
 *   1   nothing: the key stays, as older versions had it
 *   2   the field is gone from the agent's leaf, and its version is one higher
 *
 * A tree without a revocation is the same in both, and then nothing names a form.
 */

/**
 * What an agent's keys are after an entry of the ledger. `version` counts the changes of any of them, from 1.
 */
export type AgentKeys = {
  readonly agent_id: string
  /** X25519, 64 lower-case hex characters; absent: none. */
  readonly dm_key?: string
  /** Ed25519, 64 lower-case hex characters; absent: none. */
  readonly author_key?: string
  readonly version: number
  /** The ledger entry with the last change. */
  readonly entry_id: number
}

export type KeyForm = 1 | 2

/** The way from an agent's place in the tree to the root. */
export type KeyProof = {
  /** What stands at the agent's place: its own keys, another agent's, or nothing. */
  readonly found: AgentKeys | null
  /** Sibling hashes from the lowest up, as hex. */
  readonly path: readonly string[]
}

/** The root of a tree without keys. */
export const EMPTY_KEY_ROOT: Buffer = Buffer.alloc(HASH_BYTES)

const ID_BITS = 8 * HASH_BYTES
const HEX_HASH = /^[0-9a-f]{64}$/

const sha256 = (bytes: Buffer | string): Buffer => Buffer.from(hash('sha256', bytes, 'binary'), 'latin1')

/**
 * Computes the hash of an agent's leaf, 32 bytes.
 *
 * @throws TypeError for fields that have no canonical JSON
 */
export function keyLeafHash({ agent_id, dm_key, author_key, version, entry_id }: AgentKeys): Buffer {
  const keys = {
    ...(dm_key === undefined ? {} : { dm_key }),
    ...(author_key === undefined ? {} : { author_key }),
  }
  return sha256('\0' + canonicalJson({ agent_id, ...keys, version, entry_id }))
}

/** An agent's place in the tree: the bits of this hash, the highest first, lead down to it from the root. */
export const placeOf = (agentId: string): Buffer => sha256(agentId)
/** Bit number `depth` of a place, the highest first. */
export const bitAt = (place: Buffer, depth: number): number =>
  ((place[depth >> 3] as number) >> (7 - (depth & 7))) & 1
/** The hash of a node with two or more leaves below it, of the hashes of its halves. */
export const keyNodeHash = (left: Uint8Array, right: Uint8Array): Buffer =>
  sha256(Buffer.concat([Buffer.of(1), left, right]))

interface Leaf {
  readonly place: Buffer
  readonly keys: AgentKeys
  hash: Buffer | undefined
}
interface Branch {
  readonly left: Part
  readonly right: Part
  hash: Buffer | undefined
}
/**
 * A part of the tree: nothing, one agent, or two parts with at least two agents between them. Its hash is computed
 * when it is first asked for, so that a tree of many agents is built with two hashes for each.
 */
type Part = Leaf | Branch | undefined

function hashOf(part: Part): Buffer {
  if (part === undefined) return EMPTY_KEY_ROOT
  part.hash ??= 'keys' in part ? keyLeafHash(part.keys) : keyNodeHash(hashOf(part.left), hashOf(part.right))
  return part.hash
}

/** The part that has these two below it. */
const join = (left: Part, right: Part): Part => ({ left, right, hash: undefined })

/** Immutable: `with` returns a new tree that shares its unchanged parts with the old one. */
export interface KeyTree {
  readonly root: Buffer
  /** Agents that have keys, or had some. */
  readonly count: number
  /** 2 once a key was revoked in it. */
  readonly form: KeyForm
  get(agentId: string): AgentKeys | undefined
  /** @param form of the new tree, this one's if absent */
  with(keys: AgentKeys, form?: KeyForm): KeyTree
  prove(agentId: string): KeyProof
}

/**
 * An empty tree.
 *
 * @param depth of a part of a tree: so many bits lead to it, and all places in it begin with the same ones
 */
export const createKeyTree = (depth = 0): KeyTree => keyTreeOf(undefined, 0, 1, depth)

/** The tree with this root, `top` bits below that of the whole. @param count how many agents are in it */
function keyTreeOf(root: Part, count: number, form: KeyForm, top: number): KeyTree {
  /** Walks down to an agent's place: what is there, and the siblings on the way, lowest first. */
  function find(agentId: string): { part: Part; path: Part[] } {
    const place = placeOf(agentId)
    const path: Part[] = []
    let part = root
    for (let depth = top; part !== undefined && 'left' in part; depth++) {
      const isRight = bitAt(place, depth) === 1
      path.unshift(isRight ? part.left : part.right)
      part = isRight ? part.right : part.left
    }
    return { part, path }
  }
  const keysOf = (part: Part): AgentKeys | undefined =>
    part !== undefined && 'keys' in part ? part.keys : undefined
  const get = (agentId: string): AgentKeys | undefined => {
    const keys = keysOf(find(agentId).part)
    return keys?.agent_id === agentId ? keys : undefined
  }
  return {
    get root() {
      return hashOf(root)
    },
    count,
    form,
    get,
    with: (keys, formAfter = form) =>
      keyTreeOf(
        insert(root, { place: placeOf(keys.agent_id), keys, hash: undefined }, top),
        get(keys.agent_id) === undefined ? count + 1 : count,
        formAfter,
        top,
      ),
    prove: (agentId) => {
      const { part, path } = find(agentId)
      return { found: keysOf(part) ?? null, path: path.map((sibling) => hashOf(sibling).toString('hex')) }
    },
  }
}

/**
 * Returns `part` with a leaf added, or in place of the leaf of the same agent; `part` itself stays as it was.
 *
 * @param depth how many bits lead from the root to `part`
 */
function insert(part: Part, leaf: Leaf, depth: number): Part {
  if (part === undefined) return leaf
  if ('left' in part) {
    return bitAt(leaf.place, depth) === 0
      ? join(insert(part.left, leaf, depth + 1), part.right)
      : join(part.left, insert(part.right, leaf, depth + 1))
  }
  if (part.place.equals(leaf.place)) return leaf
  // Two agents: branch at the first bit in which they differ.
  const bit = bitAt(leaf.place, depth)
  if (bit === bitAt(part.place, depth)) {
    const below = insert(part, leaf, depth + 1)
    return bit === 0 ? join(below, undefined) : join(undefined, below)
  }
  return bit === 0 ? join(leaf, part) : join(part, leaf)
}

export type KeyVerdict =
  | { readonly ok: true; readonly keys: AgentKeys | null }
  | { readonly ok: false; readonly reason: 'malformed_proof' | 'wrong_place' | 'wrong_root' }

/**
 * Verifies the proof of an agent's keys against a root (64 lower-case hex characters). Doesn't throw.
 *
 * @returns the agent's keys, null if the proof shows that it has none; or the reason why the proof doesn't
 *   hold: `malformed_proof`, `wrong_place` if another agent's leaf isn't on this path, `wrong_root`
 */
export function verifyKeyProof(agentId: string, root: string, proof: KeyProof): KeyVerdict {
  const { found, path } = proof
  let running: Buffer
  const place = placeOf(agentId)
  try {
    if (
      !Array.isArray(path) ||
      path.length > ID_BITS ||
      !path.every((step) => typeof step === 'string' && HEX_HASH.test(step))
    )
      return { ok: false, reason: 'malformed_proof' }
    if (
      found !== null &&
      (typeof found.agent_id !== 'string' ||
        !Number.isSafeInteger(found.version) ||
        !Number.isSafeInteger(found.entry_id))
    )
      return { ok: false, reason: 'malformed_proof' }
    running = found === null ? EMPTY_KEY_ROOT : keyLeafHash(found)
  } catch {
    return { ok: false, reason: 'malformed_proof' }
  }
  // Another agent's leaf proves absence only if its own path goes through this place.
  if (found !== null) {
    const other = placeOf(found.agent_id)
    for (let depth = 0; depth < path.length; depth++)
      if (bitAt(place, depth) !== bitAt(other, depth)) return { ok: false, reason: 'wrong_place' }
  }
  for (const [step, hex] of path.entries()) {
    const sibling = Buffer.from(hex, 'hex')
    running =
      bitAt(place, path.length - 1 - step) === 0
        ? keyNodeHash(running, sibling)
        : keyNodeHash(sibling, running)
  }
  if (running.toString('hex') !== root) return { ok: false, reason: 'wrong_root' }
  return { ok: true, keys: found?.agent_id === agentId ? found : null }
}
