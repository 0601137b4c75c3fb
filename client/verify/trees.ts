import { hash } from 'node:crypto'
import { createKeyTree, type AgentKeys, type KeyForm } from '../../shared/crypto/key-tree.ts'
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
 * The keys of all agents, by the entries of the ledger. In form 1 a revocation (a change of a key to null)
 * does nothing; in form 2 the key is gone from the leaf.
 */
export class LedgerKeys {
  #tree = createKeyTree()
  readonly #form: KeyForm

  constructor(form: KeyForm) {
    this.#form = form
  }

  get(agentId: string): AgentKeys | undefined {
    return this.#tree.get(agentId)
  }

  state(): KeyState {
    return { root: this.#tree.root.toString('hex'), count: this.#tree.count }
  }

  /** Does what an entry says that changes a key. */
  apply({ id, kind, data }: LedgerEntry): void {
    const field = keyFieldOf(kind)
    const agentId = data['agent_id']
    if (field === undefined || typeof agentId !== 'string') return
    const known = this.#tree.get(agentId)
    const { [field]: before, ...rest } = known ?? {}
    const key = data[field]
    const isRevoked = this.#form === 2 && key === null && before !== undefined
    if (!isRevoked && !isHexHash(key)) return
    const keys = isHexHash(key) ? { ...rest, [field]: key } : rest
    this.#tree = this.#tree.with({
      ...keys,
      agent_id: agentId,
      version: (known?.version ?? 0) + 1,
      entry_id: id,
    })
  }
}
