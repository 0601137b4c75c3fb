import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { listLogTiles } from '../../shared/crypto/log-tree.ts'
import { exportLog } from '../../shared/ledger/log-export.ts'
import { readTile } from '../../shared/ledger/log-service.ts'
import { readProof } from '../../shared/ledger/proofs.ts'
import { HANDLERS } from '../../workers/handlers.ts'
import { openLedger, verifyWholeLedger, type TestLedger } from '../support/ledger.ts'

/* Tiles are derived from the entries: whatever happened to a stored one, it can be built again. */

let ledger: TestLedger
afterEach(() => ledger.stop())

type TileRecord = { _id: string; width?: number; hashes: Buffer }
const tiles = () => ledger.ctx.database.connection.collection<TileRecord>('log_tiles')

/** Stores a tile with its byte number `at` changed. */
async function damage(_id: string, at: number): Promise<void> {
  const tile = await tiles().findOne({ _id }, { promoteBuffers: true })
  if (tile === null) throw new Error(`there is no tile ${_id}`)
  const hashes = Buffer.from(tile.hashes)
  hashes[at] = (hashes[at] ?? 0) ^ 1
  await tiles().updateOne({ _id }, { $set: { hashes } })
}

/** Three seals over 600 entries and more: two full tiles and the edge, with one tile above them. */
async function openSealed(): Promise<string[]> {
  ledger = await openLedger()
  const written: string[] = []
  for (const count of [3, 590, 20]) {
    written.push(...(await ledger.write(count)))
    await ledger.seal()
  }
  return written
}

describe('the check of the chain', () => {
  it('builds each stored tile of the log again that is wrong, wherever it stands', async () => {
    const written = await openSealed()
    const { ctx } = ledger
    const size = (await ctx.seals.lastSigned())?.to_id ?? 0
    for (const { level, index, width } of listLogTiles(size))
      for (const at of [0, Math.floor(width / 2) * 32 + 7, width * 32 - 1]) {
        await damage(`${level}/${index}`, at)
        await expect(readTile(ctx, level, index, width)).rejects.toThrow('does not lead to the signed root')
        await HANDLERS['check-chain'](ctx, {})
        expect(await readTile(ctx, level, index, width)).toHaveLength(32 * width)
      }
    await verifyWholeLedger(ctx, written)
  })

  it('builds tiles of the log again that are gone, too short, or all of them wrong', async () => {
    const written = await openSealed()
    const { ctx } = ledger
    await tiles().deleteOne({ _id: '0/0' })
    await tiles().updateOne({ _id: '0/1' }, { $set: { hashes: Buffer.alloc(64, 1) } })
    await HANDLERS['check-chain'](ctx, {})
    await verifyWholeLedger(ctx, written)
    await tiles().updateMany({}, { $set: { hashes: Buffer.alloc(256 * 32, 7), width: 256 } })
    await HANDLERS['check-chain'](ctx, {})
    await verifyWholeLedger(ctx, written)
    await tiles().deleteMany({})
    await HANDLERS['check-chain'](ctx, {})
    written.push(...(await ledger.write(1)))
    await ledger.seal()
    await verifyWholeLedger(ctx, written)
  })

  it('gives no path to a root from tiles that are wrong, and gives it once they are mended', async () => {
    await openSealed()
    const { ctx } = ledger
    await damage('0/1', 33)
    await expect(readProof(ctx, 2, 300)).rejects.toThrow('root')
    await HANDLERS['check-chain'](ctx, {})
    await readProof(ctx, 2, 300)
  })

  it('builds no tile from entries that are not those of their seal', async () => {
    await openSealed()
    const { ctx } = ledger
    const all = () => tiles().find().sort({ _id: 1 }).toArray()
    const before = await all()
    await ctx.database.connection
      .collection<{ _id: number }>('entries')
      .updateOne({ _id: 300 }, { $set: { at: 1 } })
    await HANDLERS['check-chain'](ctx, {})
    expect(await ctx.seals.readStatus()).toMatchObject({ intact: false })
    expect(await all()).toEqual(before)
  })
})

describe('the export of the log', () => {
  it('writes no tile that does not lead to the signed root', async () => {
    await openSealed()
    const { ctx } = ledger
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tile-repair-'))
    await damage('0/1', 5)
    await expect(exportLog(ctx, folder)).rejects.toThrow('does not lead to the signed root')
    expect(fs.existsSync(path.join(folder, 'tile/0/001'))).toBe(false)
    await HANDLERS['check-chain'](ctx, {})
    await exportLog(ctx, folder)
    expect(fs.readFileSync(path.join(folder, 'tile/0/001'))).toEqual(await readTile(ctx, 0, 1, 256))
    fs.rmSync(folder, { recursive: true })
  })
})
