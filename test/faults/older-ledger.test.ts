import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { listLogTiles } from '../../shared/crypto/log-tree.ts'
import { buildTree, hashLeaves, treeTiles } from '../../shared/crypto/merkle.ts'
import { sealPayloadHash } from '../../shared/crypto/seal-payload.ts'
import { readSealKey } from '../../shared/ledger/seal-key.ts'
import { NO_PAYLOAD_HASH } from '../../shared/ledger/seal.ts'
import { readReport, startPythonVerifier, verifyInNode, type Verify } from '../support/both-verifiers.ts'
import { openLedger, verifyWholeLedger, type TestLedger } from '../support/ledger.ts'
import { buildChain, leaveUnsigned, type LedgerChain } from '../support/ledger-chain.ts'
import { canRunPythonVerifier } from '../support/run-verifier.ts'

/* A ledger as versions before the log have left it: seals and their tiles, and nothing of the log. */

let ledger: TestLedger
afterEach(() => ledger.stop())

type Left = 'signed' | 'unsigned' | 'closed'

/** Seals over 600 entries; the first closes with sums alone, later ones name the seal before. @returns ids of its posts */
async function openOlder(left: Left): Promise<{ older: LedgerChain; written: string[] }> {
  ledger = await openLedger()
  const { ctx, keyFile, memoryFile } = ledger
  const secretKey = readSealKey(keyFile) as Uint8Array
  const older = buildChain([300, 257, 40, 3], 2, { secretKey, chainedFrom: 2 })
  const last = older.seals.at(-1)
  const seals = left === 'signed' || last === undefined ? older.seals : older.seals.slice(0, -1)
  const stored = left === 'unsigned' && last !== undefined ? [...seals, leaveUnsigned(last)] : seals
  const collection = (name: string) => ctx.database.connection.collection<{ _id: unknown }>(name)
  const written: string[] = []
  const entries = older.entries.map(({ id: _id, at, kind, data }) => {
    const record = String(kind === 'post' ? data['post_id'] : data['seal'])
    if (kind === 'post') written.push(record)
    return { _id, source: `${record}/${kind}`, record, at, kind, data }
  })
  await collection('entries').insertMany(entries)
  await collection('seals').insertMany(
    stored.map(({ seq: _id, signature, pubkey, algo, signed_at, ...seal }) => ({
      ...{ _id, ...seal },
      ...(seal.signed ? { signature, pubkey, algo, signed_at } : {}),
    })),
  )
  for (const { seq, from_id: from, to_id: to } of stored)
    await ctx.seals.putTiles(seq, [...treeTiles(buildTree(hashLeaves(older.entries.slice(from - 1, to))))])
  const head = seals.at(-1)
  const memory = {
    seq: head?.seq ?? 0,
    payload_hash: head === undefined ? NO_PAYLOAD_HASH : sealPayloadHash(head),
    pubkey: head?.pubkey,
  }
  fs.writeFileSync(memoryFile, `${JSON.stringify(memory)}\n`)
  return { older, written }
}

async function verifyDump(state: object, pubkey: string): Promise<void> {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-older-'))
  const python = canRunPythonVerifier() ? startPythonVerifier() : undefined
  try {
    const dump = path.join(folder, 'dump.json')
    fs.writeFileSync(dump, JSON.stringify(state))
    const verifiers: Verify[] = [verifyInNode, ...(python === undefined ? [] : [python.verify])]
    for (const verify of verifiers) {
      const report = readReport(
        await verify([dump, '--json', '--pubkey', pubkey, '--state', path.join(folder, 'state.json')]),
      )
      expect(report, report.words.join()).toMatchObject({ code: 0, verdict: 'good' })
    }
  } finally {
    python?.stop()
    fs.rmSync(folder, { recursive: true, force: true })
  }
}

describe('a ledger without a log gets one by its next seal, with all that lies before', () => {
  it.each<[string, Left]>([
    ['whose seals all have signatures', 'signed'],
    ['whose last seal has no signature yet', 'unsigned'],
    ['whose last seal was closed and not made', 'closed'],
  ])('%s', async (_, left) => {
    const { older, written } = await openOlder(left)
    const { ctx } = ledger
    for (const posts of [3, 300]) {
      written.push(...(await ledger.write(posts)))
      await ledger.seal()
    }
    const { entries, seals } = await verifyWholeLedger(ctx, written)
    expect(entries.slice(0, older.entries.length)).toEqual(older.entries)
    const stated = entries.filter(({ kind, data }) => kind === 'solvency' && data['log'] !== undefined)
    // What an older version had closed stays as it was, and each later seal states the log.
    expect(stated).toHaveLength(seals.length - 4)
    const tiles = [...listLogTiles(seals.at(-1)?.to_id ?? 0)]
    const found = await ctx.entries.tiles.find(tiles)
    expect(found.map((hashes) => (hashes?.length ?? 0) / 32)).toEqual(tiles.map(({ width }) => width))
    await verifyDump({ entries, seals }, String(seals.at(-1)?.pubkey))
  })

  it('and no seal where an entry under an older seal was altered before', async () => {
    const { older } = await openOlder('signed')
    await ledger.ctx.database.connection
      .collection<{ _id: number }>('entries')
      .updateOne({ _id: 280 }, { $set: { at: 1 } })
    await ledger.write(3)
    await ledger.seal()
    expect((await ledger.ctx.seals.lastSigned())?._id).toBe(older.seals.length)
    expect((await ledger.ctx.seals.readStatus()).fault).toContain('seal 1')
  })
})
