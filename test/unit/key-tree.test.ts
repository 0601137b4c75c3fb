import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import {
  createKeyTree,
  EMPTY_KEY_ROOT,
  keyLeafHash,
  verifyKeyProof,
  type AgentKeys,
} from '../../shared/crypto/key-tree.ts'
import { applyKeyChange, keyState } from '../../shared/ledger/agent-keys.ts'
import type { EntryRecord } from '../../shared/ledger/entry.ts'

const sha256 = (...parts: (Uint8Array | string)[]) =>
  createHash('sha256')
    .update(Buffer.concat(parts.map((part) => Buffer.from(part))))
    .digest()
const keysOf = (number: number, version = 1): AgentKeys => ({
  agent_id: `agt_${number}`,
  dm_key: sha256(`key ${number} ${version}`).toString('hex'),
  version,
  entry_id: number + 1000 * version,
})

const agents = Array.from({ length: 60 }, (_, number) => keysOf(number))
const bits = new Map(
  agents.map(({ agent_id }) => [
    agent_id,
    BigInt(`0x${sha256(agent_id).toString('hex')}`)
      .toString(2)
      .padStart(256, '0'),
  ]),
)

/** The tree as it is defined, over all agents at once. */
function rootByDefinition(agents: readonly AgentKeys[], depth = 0): Buffer {
  if (agents.length === 0) return Buffer.alloc(32)
  if (agents.length === 1) return keyLeafHash(agents[0] as AgentKeys)
  const bitOf = ({ agent_id }: AgentKeys) => bits.get(agent_id)?.[depth]
  const part = (bit: string) =>
    rootByDefinition(
      agents.filter((keys) => bitOf(keys) === bit),
      depth + 1,
    )
  return sha256(Buffer.of(1), part('0'), part('1'))
}

const treeOf = (agents: readonly AgentKeys[]) =>
  agents.reduce((tree, keys) => tree.with(keys), createKeyTree())

describe('the tree of keys', () => {
  it('has the leaf of the definition', () => {
    const text = '{"agent_id":"agt_1","author_key":"bb","dm_key":"aa","entry_id":7,"version":2}'
    expect(
      keyLeafHash({ agent_id: 'agt_1', dm_key: 'aa', author_key: 'bb', version: 2, entry_id: 7 }),
    ).toEqual(sha256(Buffer.of(0), text))
    expect(keyLeafHash({ agent_id: 'agt_1', version: 3, entry_id: 8 })).toEqual(
      sha256(Buffer.of(0), '{"agent_id":"agt_1","entry_id":8,"version":3}'),
    )
  })

  const [dm_key, author_key] = ['aa'.repeat(32), 'bb'.repeat(32)]
  const entry = (_id: number, data: object, kind = 'dm_key_change') =>
    ({ _id, at: 1, kind, data: { agent_id: 'agt_1', ...data } }) as unknown as EntryRecord
  const both = [entry(1, { dm_key }), entry(2, { author_key }, 'author_key_change')]

  it('has a key no more once an entry revokes it, and then states its form', () => {
    const before = both.reduce(applyKeyChange, createKeyTree())
    const without = applyKeyChange(before, entry(3, { dm_key: null }))
    expect(without.get('agt_1')).toEqual({ agent_id: 'agt_1', author_key, version: 3, entry_id: 3 })
    expect([keyState(before), keyState(without)]).toEqual([
      { root: before.root.toString('hex'), count: 1 },
      { root: without.root.toString('hex'), count: 1, v: 2 },
    ])
    expect(verifyKeyProof('agt_1', without.root.toString('hex'), without.prove('agt_1'))).toEqual({
      ok: true,
      keys: without.get('agt_1'),
    })
    const none = applyKeyChange(without, entry(4, { author_key: null }, 'author_key_change'))
    expect(none.get('agt_1')).toEqual({ agent_id: 'agt_1', version: 4, entry_id: 4 })
    const again = applyKeyChange(none, entry(5, { dm_key }))
    expect(again.get('agt_1')).toEqual({ agent_id: 'agt_1', dm_key, version: 5, entry_id: 5 })
    expect(keyState(again).v).toBe(2)
  })

  it('is left as it was by an entry that names no key, or revokes one that is not there', () => {
    const after = (...entries: EntryRecord[]) => entries.reduce(applyKeyChange, createKeyTree()).get('agt_1')
    for (const none of [{}, { dm_key: 'aa' }, { dm_key: 1 }])
      expect(after(...both, entry(3, none))).toEqual({
        agent_id: 'agt_1',
        dm_key,
        author_key,
        version: 2,
        entry_id: 2,
      })
    expect(after(entry(1, { dm_key: null }))).toBeUndefined()
  })

  it('has the root of the definition at every step, whatever the order', () => {
    expect(createKeyTree().root).toEqual(EMPTY_KEY_ROOT)
    let tree = createKeyTree()
    for (const [at, keys] of agents.entries()) {
      tree = tree.with(keys)
      expect(tree.root).toEqual(rootByDefinition(agents.slice(0, at + 1)))
      expect(tree.count).toBe(at + 1)
    }
    expect(treeOf(agents.toReversed()).root).toEqual(tree.root)
    const changed = tree.with(keysOf(7, 2))
    expect(changed.root).toEqual(rootByDefinition(agents.with(7, keysOf(7, 2))))
    expect(changed.count).toBe(60)
    expect(tree.get('agt_7')).toEqual(keysOf(7))
    expect(changed.get('agt_7')).toEqual(keysOf(7, 2))
  })

  it('proves what keys an agent has, and that another has none', () => {
    for (const size of [0, 1, 2, 3, 40, 60]) {
      const tree = treeOf(agents.slice(0, size))
      const root = tree.root.toString('hex')
      for (const [at, keys] of agents.entries())
        expect(verifyKeyProof(keys.agent_id, root, tree.prove(keys.agent_id))).toEqual({
          ok: true,
          keys: at < size ? keys : null,
        })
    }
  })

  it('takes no other keys, root, path or agent', () => {
    const tree = treeOf(agents)
    const root = tree.root.toString('hex')
    const wrong = '00'.repeat(31) + '01'
    for (const { agent_id } of agents.slice(0, 40)) {
      const good = tree.prove(agent_id)
      const refused = [
        { ...good, found: { ...keysOf(1, 2), agent_id } },
        { ...good, found: null },
        { ...good, path: good.path.slice(1) },
        { ...good, path: [...good.path, wrong] },
        ...good.path.map((_, at) => ({ ...good, path: good.path.with(at, wrong) })),
      ]
      for (const proof of refused) expect(verifyKeyProof(agent_id, root, proof).ok).toBe(false)
      expect(verifyKeyProof(agent_id, wrong, good)).toEqual({ ok: false, reason: 'wrong_root' })
    }
  })

  it('takes nobody for absent by the leaf of an agent that belongs elsewhere', () => {
    const tree = treeOf(agents)
    const [one, other] = [tree.prove('agt_1'), tree.prove('agt_2')]
    expect(verifyKeyProof('agt_1', tree.root.toString('hex'), { ...one, found: other.found })).toMatchObject({
      ok: false,
    })
    expect(verifyKeyProof('agt_1', tree.root.toString('hex'), other)).toEqual({
      ok: false,
      reason: 'wrong_place',
    })
  })

  it('refuses a proof of another form', () => {
    const tree = treeOf(agents.slice(0, 3))
    const good = tree.prove('agt_1')
    const malformed: unknown[] = [
      { ...good, path: undefined },
      { ...good, path: ['A'.repeat(64)] },
      { ...good, path: Array.from({ length: 257 }, () => '0'.repeat(64)) },
      { ...good, found: { ...keysOf(1), version: 1.5 } },
      { ...good, found: { ...keysOf(1), agent_id: 1 } },
      { ...good, found: { ...keysOf(1), dm_key: '\ud800' } },
    ]
    for (const proof of malformed)
      expect(verifyKeyProof('agt_1', tree.root.toString('hex'), proof as never)).toEqual({
        ok: false,
        reason: 'malformed_proof',
      })
  })
})
