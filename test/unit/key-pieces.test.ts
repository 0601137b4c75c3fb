import { hash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { createKeyTree, verifyKeyProof, type KeyTree } from '../../shared/crypto/key-tree.ts'
import { applyKeyChange, keyState } from '../../shared/ledger/agent-keys.ts'
import type { EntryRecord } from '../../shared/ledger/entry.ts'
import {
  createKeyPieces,
  KeyEntriesDiffer,
  packKeyChanges,
  type KeyPieces,
} from '../../shared/ledger/key-pieces.ts'
import { createKeyTreeReader, readTreeAsStated } from '../../shared/ledger/key-tree-reader.ts'
import { sampled } from '../support/full.ts'

/** Numbers that look random and are the same each time, from 0 to below `limit`. */
function numbersFrom(seed: string): (limit: number) => number {
  let count = 0
  return (limit) => Number.parseInt(hash('sha256', `${seed} ${count++}`, 'hex').slice(0, 12), 16) % limit
}

/** Changes of the keys of `agents` agents as the ledger may have them, a few of which change nothing. */
function changesOf(seed: string, agents: number, count: number): EntryRecord[] {
  const next = numbersFrom(seed)
  let id = 0
  return Array.from({ length: count }, () => {
    id += 1 + next(3)
    const kind = ['dm_key_change', 'author_key_change', 'post'][next(20) === 0 ? 2 : next(2)]
    const field = kind === 'author_key_change' ? 'author_key' : 'dm_key'
    const key = [null, 'short', 7][next(12)] ?? hash('sha256', `${seed} key ${id}`, 'hex')
    const named = next(40) === 0 ? {} : { agent_id: `agt_${seed}_${next(agents)}` }
    const data = next(10) === 0 ? { ...named, [field]: null } : { ...named, [field]: key }
    return { _id: id, source: `x/${id}`, record: 'x', at: id, kind, data } as EntryRecord
  })
}

/** A ledger in memory, and what reads its tree of keys. */
function openLedger(entries: readonly EntryRecord[]) {
  const stored = new Map(entries.map((entry) => [entry._id, entry]))
  let reads = 0
  const source = {
    async listChanges(afterId: number, toId: number, limit: number) {
      const found = [...stored.values()].filter(
        ({ _id, kind }) => _id > afterId && _id <= toId && kind !== 'post',
      )
      return found.slice(0, limit).map(({ _id, data }) => ({ _id, agentId: data['agent_id'] }))
    },
    stored: { read: async () => undefined, put: async () => {} },
    async read(ids: readonly number[]) {
      reads += ids.length
      return new Map(ids.flatMap((id) => [...[stored.get(id)]].map((entry) => [id, entry as EntryRecord])))
    },
  }
  return { stored, source, reads: () => reads }
}

/** The whole tree after so many of the entries, from none to all: a tree costs little beside the one before it. */
function wholeTrees(entries: readonly EntryRecord[]): (count: number) => KeyTree {
  const trees = [createKeyTree()]
  for (const entry of entries) trees.push(applyKeyChange(trees.at(-1) as KeyTree, entry))
  return (count) => trees[count] as KeyTree
}

async function expectSame(pieces: KeyPieces, tree: KeyTree, agentIds: readonly string[]): Promise<void> {
  expect(keyState(pieces)).toEqual(keyState(tree))
  for (const agentId of agentIds) {
    const { keys, proof } = await pieces.prove(agentId)
    expect({ keys, proof }).toEqual({ keys: tree.get(agentId) ?? null, proof: tree.prove(agentId) })
    expect(verifyKeyProof(agentId, tree.root.toString('hex'), proof)).toEqual({ ok: true, keys })
  }
}

const CASES = Array.from({ length: 400 }, (_, number) => number)

describe('the tree of keys in pieces', () => {
  it('is the whole one, in root, count, form, keys and proofs, however the changes come', async () => {
    for (const number of sampled(CASES, 60)) {
      const next = numbersFrom(`case ${number}`)
      const agents = [1, 2, 5, 33, 70, 400][next(6)] ?? 1
      const entries = changesOf(`c${number}`, agents, 1 + next(3 * agents + 5))
      const { source } = openLedger(entries)
      const whole = wholeTrees(entries)
      let pieces = createKeyPieces({ ...source, recent: new Map() })
      const asked = Array.from({ length: 6 }, () => `agt_c${number}_${next(agents + 3)}`)
      for (let at = 0; at < entries.length;) {
        const page = entries.slice(at, at + 1 + next(1 + next(entries.length)))
        at += page.length
        const listed = page.filter(({ kind }) => kind !== 'post')
        pieces = await (next(2) === 0
          ? pieces.with(page)
          : pieces.withListed(
              packKeyChanges(listed.map(({ _id, data }) => ({ _id, agentId: data['agent_id'] }))).sort(),
            ))
        if (next(3) === 0) await expectSame(pieces, whole(at), asked.slice(0, 2))
      }
      await expectSame(pieces, whole(entries.length), asked)
    }
  })

  it('is the whole one after any entry, whether the reader goes on, goes back or begins again', async () => {
    const entries = changesOf('reader', 500, 1_500)
    const { readKeyTree: readTree } = createKeyTreeReader(openLedger(entries).source)
    const whole = wholeTrees(entries)
    const next = numbersFrom('reader')
    for (let turn = 0; turn < 30; turn++) {
      const toId = next((entries.at(-1)?._id ?? 0) + 2)
      const tree = whole(entries.filter(({ _id }) => _id <= toId).length)
      const pieces = await readTree(toId, next(4) === 0 ? 'first' : undefined)
      await expectSame(pieces, tree, [`agt_reader_${next(510)}`])
    }
  })

  it('reads for a proof the entries of one piece alone, and none the next time', async () => {
    const ledger = openLedger(changesOf('many', 3_000, 9_000))
    const tree = await createKeyTreeReader(ledger.source).readKeyTree(100_000)
    const before = ledger.reads()
    await tree.prove('agt_many_5')
    expect(ledger.reads() - before).toBeGreaterThan(0)
    expect(ledger.reads() - before).toBeLessThanOrEqual(64)
    const between = ledger.reads()
    await tree.prove('agt_many_5')
    expect(ledger.reads()).toBe(between)
  })

  it('reads two entries of an agent, however often it changed its keys', async () => {
    const ledger = openLedger(changesOf('one', 1, 2_000))
    const tree = await createKeyTreeReader(ledger.source).readKeyTree(100_000)
    const before = ledger.reads()
    await tree.prove('agt_one_0')
    expect(ledger.reads() - before).toBeLessThanOrEqual(2)
  })

  it('proves nothing and changes nothing in a piece of which an entry is missing or another', async () => {
    const entries = changesOf('damaged', 300, 900)
    const damages: ((entry: EntryRecord) => EntryRecord | undefined)[] = [
      () => undefined,
      (entry) => ({
        ...entry,
        data: { ...entry.data, dm_key: 'ab'.repeat(32), author_key: 'cd'.repeat(32) },
      }),
      (entry) => ({ ...entry, data: { ...entry.data, agent_id: 'agt_other' } }),
      (entry) => ({ ...entry, data: {} }),
    ]
    const agentIds = [...new Set(entries.map(({ data }) => String(data['agent_id'])))]
    for (const damage of damages) {
      const { stored, source } = openLedger(entries)
      const { readKeyTree: readTree } = createKeyTreeReader(source)
      const tree = await readTree(10_000)
      const stated = keyState(tree)
      const { keys } = await openTree(source).then((one) => one.prove('agt_damaged_7'))
      const id = keys?.entry_id ?? 0
      const right = stored.get(id) as EntryRecord
      const wrong = damage(right)
      if (wrong === undefined) stored.delete(id)
      else stored.set(id, wrong)
      await expect(tree.prove('agt_damaged_7')).rejects.toThrow(KeyEntriesDiffer)
      const further = { ...right, _id: 10_001, data: { agent_id: 'agt_damaged_7', dm_key: 'ef'.repeat(32) } }
      await expect(tree.with([{ ...further, kind: 'dm_key_change' }])).rejects.toThrow(KeyEntriesDiffer)
      // Others' pieces are as they were.
      const others = await Promise.allSettled(agentIds.map((agentId) => tree.prove(agentId)))
      expect(others.filter(({ status }) => status === 'fulfilled').length).toBeGreaterThan(200)
      // Begun again, the entries give another tree than was stated.
      expect(await readTreeAsStated(createKeyTreeReader(source).readKeyTree, 10_000, stated)).toBeUndefined()
      stored.set(id, right)
      expect((await tree.prove('agt_damaged_7')).keys).toEqual(keys)
    }
  })
})

const openTree = (source: ReturnType<typeof openLedger>['source']) =>
  createKeyTreeReader(source).readKeyTree(10_000)
