import { hash } from 'node:crypto'
import mongoose from 'mongoose'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createKeyTree, verifyKeyProof, type KeyProof } from '../../shared/crypto/key-tree.ts'
import { applyKeyChange, keyState } from '../../shared/ledger/agent-keys.ts'
import type { EntryRecord } from '../../shared/ledger/entry.ts'
import { createKeyPieceStore } from '../../shared/ledger/key-piece-store.ts'
import { createKeyTreeReader } from '../../shared/ledger/key-tree-reader.ts'
import { readKeys } from '../../shared/ledger/log-service.ts'
import { makeSeal } from '../../shared/ledger/sealer.ts'
import { findContentFaults } from '../../shared/operation/content-check.ts'
import { closeContext } from '../../shared/context.ts'
import {
  openLedger,
  openWorkerContext,
  verifyLedger,
  type SignerContext,
  type TestLedger,
} from '../support/ledger.ts'

/* The tree of agents' keys is stored in pieces beside the ledger, so that a process which starts needn't read all changes of keys. */

const AGENTS = 150

let ledger: TestLedger
let opened: SignerContext[]
beforeEach(async () => {
  ledger = await openLedger()
  opened = []
  for (const [round, count] of [AGENTS, AGENTS, 20, 20].entries()) await sealKeys(round, count)
})
afterEach(async () => {
  for (const ctx of opened) await closeContext(ctx)
  await ledger.stop()
})

/** Appends changes of agents' keys, and seals. */
async function sealKeys(round: number, count = 20): Promise<void> {
  const { entries } = ledger.ctx
  const highest = await entries.highestId()
  const changes = Array.from({ length: count }, (_, number): EntryRecord => {
    const agentId = `agt_${number + 40 * round}`
    const dmKey = hash('sha256', `${number} ${round}`, 'hex')
    const source = `${agentId}/dm-key/${round}`
    const data = { agent_id: agentId, dm_key: dmKey }
    return {
      _id: highest + 1 + number,
      source,
      record: agentId,
      at: 1_790_000_000,
      kind: 'dm_key_change',
      data,
    }
  })
  expect(await entries.append(changes)).toBe(true)
  await ledger.seal()
}

/** Another process on the same ledger. */
async function openProcess(): Promise<SignerContext> {
  const ctx = await openWorkerContext(ledger.env)
  opened.push(ctx)
  return ctx
}

const pieces = () =>
  ledger.ctx.database.connection.collection<{
    _id: string
    hash: string
    leaves: mongoose.mongo.Binary
    to_id?: number
  }>('key_pieces')
const storedUpTo = async () => (await pieces().findOne({ _id: 'tree' }))?.to_id ?? 0

/** The tree as it is defined, and the number of the last entry. */
async function wholeTree() {
  const all = await ledger.ctx.entries.list(1, 10_000)
  return { tree: all.reduce(applyKeyChange, createKeyTree()), toId: all.at(-1)?._id ?? 0 }
}

/** What a process reads the tree by that starts now, and the numbers after which it lists changes of keys. */
function openReader({ database, entries }: SignerContext) {
  const listedAfter: number[] = []
  const { readKeyTree } = createKeyTreeReader({
    stored: createKeyPieceStore(database.connection),
    async listChanges(afterId, toId, limit) {
      listedAfter.push(afterId)
      const changes = await entries.search(afterId + 1, toId, { kind: 'dm_key_change' }, limit)
      return changes.map(({ _id, data }) => ({ _id, agentId: data['agent_id'] }))
    },
    async read(ids) {
      const all = await entries.list(1, 10_000)
      return new Map(all.filter(({ _id }) => ids.includes(_id)).map((entry) => [entry._id, entry]))
    },
  })
  return { readKeyTree, listedAfter }
}

async function expectRightProof(ctx: SignerContext, agentId: string): Promise<void> {
  const answer = await readKeys(ctx, agentId)
  const { root } = answer.entry.data['keys'] as { root: string }
  expect(verifyKeyProof(agentId, root, answer.proof as KeyProof)).toEqual({ ok: true, keys: answer.keys })
  expect(answer.keys).toMatchObject({ agent_id: agentId })
}

describe('the stored pieces of the tree of keys', () => {
  it('are all that a process which starts needs, with the changes after them', async () => {
    const upTo = await storedUpTo()
    expect(upTo).toBeGreaterThan(AGENTS)
    const { readKeyTree, listedAfter } = openReader(ledger.ctx)
    const { tree, toId } = await wholeTree()
    expect(keyState(await readKeyTree(toId))).toEqual(keyState(tree))
    expect(listedAfter).toEqual([upTo])
    await expectRightProof(await openProcess(), 'agt_3')
  })

  it('follow the ledger: those that were split or changed are replaced', async () => {
    const before = await pieces().countDocuments()
    for (let round = 4; round < 7; round++) await sealKeys(round, AGENTS)
    for (let round = 7; round < 9; round++) await sealKeys(round)
    expect(await pieces().countDocuments()).toBeGreaterThan(before)
    const { readKeyTree, listedAfter } = openReader(ledger.ctx)
    const { tree, toId } = await wholeTree()
    expect(keyState(await readKeyTree(toId))).toEqual(keyState(tree))
    expect(listedAfter).toEqual([await storedUpTo()])
  })

  it.each([
    ['are gone', async () => void (await pieces().deleteMany({}))],
    [
      'are gone in part',
      async () => void (await pieces().deleteOne({ _id: { $ne: 'tree' }, hash: { $ne: '' } })),
    ],
    [
      'have another root',
      async () => void (await pieces().updateOne({ _id: 'tree' }, { $set: { hash: 'ab'.repeat(32) } })),
    ],
    [
      'have another hash',
      async () =>
        void (await pieces().updateOne(
          { _id: { $ne: 'tree' }, hash: { $ne: '' } },
          { $set: { hash: 'ab'.repeat(32) } },
        )),
    ],
    [
      'name entries beyond those asked for',
      async () => void (await pieces().updateOne({ _id: 'tree' }, { $set: { to_id: 1_000_000 } })),
    ],
  ])('are not believed if they %s: the entries are read', async (_how, damage) => {
    await damage()
    await expectRightProof(await openProcess(), 'agt_3')
    const sealer = await openProcess()
    await sealKeys(4)
    await makeSeal(sealer, { useLease: false })
    await sealKeys(5)
    await verifyLedger(ledger.ctx)
    const { tree, toId } = await wholeTree()
    expect(keyState(await (await openProcess()).entries.readKeyTree(toId))).toEqual(keyState(tree))
  })

  it('prove nothing where they do not fit their entries', async () => {
    // Nothing changed since they were stored.
    for (let round = 0; round < 2; round++) {
      await ledger.write(1)
      await ledger.seal()
    }
    for (const { _id, leaves } of await pieces()
      .find({ hash: { $ne: '' } })
      .toArray())
      if (_id !== 'tree')
        await pieces().updateOne(
          { _id },
          { $set: { leaves: new mongoose.mongo.Binary(Buffer.alloc(leaves.length())) } },
        )
    await expect(readKeys(await openProcess(), 'agt_3')).rejects.toThrow(/changed agents' keys/)
    await pieces().deleteMany({})
    await expectRightProof(await openProcess(), 'agt_3')
  })

  it('show an entry that was changed: the check reports it, and nothing is sealed until it is as it was', async () => {
    const { ctx } = ledger
    const entries = ctx.database.connection.collection<{ _id: number }>('entries')
    // Before the last seal the keys of agents 120 to 139 were those of the second round.
    const changed = await entries.findOne({ source: 'agt_125/dm-key/1' } as object)
    const setKey = (key: unknown) =>
      entries.updateOne({ _id: changed?._id ?? 0 }, { $set: { 'data.dm_key': key } })
    await setKey('ab'.repeat(32))
    const { sentences } = await findContentFaults(ctx, { after: await ctx.seals.find(3) })
    expect(sentences).toContainEqual(
      expect.stringMatching(/changed agents' keys, at least one is not what it was/),
    )
    const { length } = await ctx.seals.listAfter(0, 10)
    await ledger.write(1)
    await expect(ledger.seal()).rejects.toThrow(/changed agents' keys|another root/)
    expect(await ctx.seals.listAfter(0, 10)).toHaveLength(length)
    await setKey((changed as unknown as EntryRecord).data['dm_key'])
    await ledger.seal()
    await verifyLedger(ctx)
    expect(await ctx.seals.listAfter(0, 10)).toHaveLength(length + 1)
  })
})
