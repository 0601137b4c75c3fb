import { hash } from 'node:crypto'
import { createKeyTree, type AgentKeys, type KeyForm, type KeyTree } from '../../shared/crypto/key-tree.ts'
import { EMPTY_LOG_ROOT, logNodeHash } from '../../shared/crypto/log-tree.ts'
import type { LedgerEntry } from '../../shared/crypto/receipt.ts'
import { keyFieldOf } from './entries.ts'
import type { LogHead } from './light.ts'
import { isHexHash } from './values.ts'

/** The hash of a node in a seal's tree, whose leaves are its entries. */
export const sealNodeHash = (left: Uint8Array, right: Uint8Array): Buffer =>
  Buffer.from(hash('sha256', Buffer.concat([left, right]), 'binary'), 'latin1')

/**
 * A Merkle tree (RFC 6962 section 2.1) whose leaves are added one by one. It keeps the roots of its complete
 * subtrees alone, one for each bit of the count.
 */
export class GrowingTree {
  count: number
  /** The largest first. */
  readonly frontier: Uint8Array[]
  readonly #join: typeof logNodeHash

  /** A log that can grow, of what is remembered of it. */
  static ofLog({ size, frontier }: ReturnType<GrowingTree['state']>): GrowingTree {
    return new GrowingTree(undefined, size, frontier)
  }

  /** @param frontier 64 hex characters each */
  constructor(join = logNodeHash, count = 0, frontier: readonly string[] = []) {
    this.#join = join
    this.count = count
    this.frontier = frontier.map((root) => Buffer.from(root, 'hex'))
  }

  /** @param leaf 64 hex characters */
  add(leaf: string): void {
    let node: Uint8Array = Buffer.from(leaf, 'hex')
    for (let rest = this.count; rest % 2 === 1; rest = Math.floor(rest / 2))
      node = this.#join(this.frontier.pop() ?? node, node)
    this.frontier.push(node)
    this.count++
  }

  head(): LogHead {
    const root =
      this.count === 0 ? EMPTY_LOG_ROOT : this.frontier.reduceRight((right, left) => this.#join(left, right))
    return { size: this.count, root: Buffer.from(root).toString('hex') }
  }

  /** As it is remembered. */
  state(): { readonly size: number; readonly frontier: readonly string[] } {
    return { size: this.count, frontier: this.frontier.map((root) => Buffer.from(root).toString('hex')) }
  }
}

/** Root and count of the agents' keys, as closing entries state them. */
export type KeyState = { readonly root: string; readonly count: number }

/**
 * The keys of all agents, by the entries of the ledger, in both forms of their tree. In form 1 a revocation (a change of a
 * key to null) does nothing; in form 2 the key is gone from the leaf.
 */
export class LedgerKeys {
  /** Form 1 goes once closing entries state form 2. Undefined: not all entries were read. */
  #trees: { 1: KeyTree | undefined; 2: KeyTree } | undefined = { 1: createKeyTree(), 2: createKeyTree() }
  #form: KeyForm = 1
  /** What was stated in that form, if no entry has changed a key since. */
  #stated: KeyState | undefined
  #isChanged = false

  /** Goes on from what was stated. */
  static from({ keys, key_form: form = 1 }: { keys: KeyState | null; key_form?: KeyForm }): LedgerKeys {
    const from = new LedgerKeys()
    from.lose()
    from.#form = form
    from.#stated = keys ?? undefined
    return from
  }

  /** The form that closing entries state by now. */
  get form(): KeyForm {
    return this.#form
  }

  /** Whether all entries were read. */
  get isComputed(): boolean {
    return this.#trees !== undefined
  }

  get(agentId: string): AgentKeys | undefined {
    return this.#trees?.[2].get(agentId)
  }

  /** Root and count; undefined: unknown. */
  state(form: KeyForm = this.#form): KeyState | undefined {
    const tree = this.#trees?.[form]
    if (tree !== undefined) return { root: tree.root.toString('hex'), count: tree.count }
    return this.isComputed || form !== this.#form ? undefined : this.#stated
  }

  /** Forgets what follows from all entries, once some of them aren't there. */
  lose(): void {
    this.#trees = this.#stated = undefined
  }

  beginSeal(): void {
    this.#isChanged = false
  }

  /** Takes what a seal's closing entry states. @param form that of an earlier one, or a later one */
  takeStated(form: KeyForm, stated: KeyState): void {
    this.#form = form
    if (form === 2 && this.#trees !== undefined) this.#trees[1] = undefined
    if (!this.#isChanged) this.#stated = stated
  }

  /** Does what an entry says that changes a key of an agent. */
  apply(entry: LedgerEntry): void {
    this.#isChanged = true
    this.#stated = undefined
    if (this.#trees === undefined) return
    const { 1: older, 2: newer } = this.#trees
    const isRevoked = entry.data[keyFieldOf(entry.kind) ?? ''] === null
    this.#trees = { 1: older && (isRevoked ? older : withKey(older, entry)), 2: withKey(newer, entry) }
  }
}

/** The tree after the change of a key; a revocation of a key that isn't there changes nothing. */
function withKey(tree: KeyTree, { id, kind, data }: LedgerEntry): KeyTree {
  const field = keyFieldOf(kind)
  const agentId = data['agent_id']
  if (field === undefined || typeof agentId !== 'string') return tree
  const known = tree.get(agentId)
  const { [field]: before, ...rest } = known ?? {}
  const key = data[field]
  if (!isHexHash(key) && !(key === null && before !== undefined)) return tree
  const keys = isHexHash(key) ? { ...rest, [field]: key } : rest
  return tree.with({ ...keys, agent_id: agentId, version: (known?.version ?? 0) + 1, entry_id: id })
}
