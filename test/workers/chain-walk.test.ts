import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Context } from '../../shared/context.ts'
import { verifyWholeChain, walkOn } from '../../shared/ledger/chain-check.ts'
import { readTile } from '../../shared/ledger/log-service.ts'
import { enqueueChainCheck } from '../../shared/ledger/seal-service.ts'
import { findContentFaults } from '../../shared/operation/content-check.ts'
import { HOUR_MS } from '../../shared/platform/time.ts'
import { openLedger, type TestLedger } from '../support/ledger.ts'

/* A long chain is walked in several runs. Here each run stops after one seal. */

let ledger: TestLedger
let ctx: Context
beforeEach(async () => {
  ledger = await openLedger()
  ctx = ledger.ctx
  for (let round = 0; round < 3; round++) {
    await ledger.write(2)
    await ledger.seal()
  }
})
afterEach(() => ledger.stop())

const step = () => walkOn(ctx, 1)
/** Walks to the end. @returns the seals at which the runs stopped */
async function walk(): Promise<number[]> {
  const stops: number[] = []
  for (;;) {
    const { seq, isEnd } = await step()
    stops.push(seq)
    if (isEnd) return stops
  }
}
const change = (name: string, _id: string | number, update: object) =>
  ctx.database.connection.collection<{ _id: string | number }>(name).updateOne({ _id }, update)

describe('a walk over the chain in several runs', () => {
  it('goes on where the last run stopped, and says when it began once it is at the end', async () => {
    await verifyWholeChain(ctx)
    const { walked_at: before } = await ctx.seals.readStatus()
    expect(await step()).toMatchObject({ after: undefined, seq: 1, isEnd: false })
    expect(await ctx.seals.readStatus()).toMatchObject({
      seq: 3,
      walked_at: before,
      walk: { seq: 1, open: [] },
    })
    expect(await step()).toMatchObject({ after: { _id: 1 }, seq: 2, isEnd: false })
    await ledger.write(1)
    await ledger.seal()
    expect(await step()).toMatchObject({ seq: 3, isEnd: false })
    const { walk: place } = await ctx.seals.readStatus()
    expect(await step()).toMatchObject({ after: { _id: 3 }, seq: 4, isEnd: true, fault: undefined })
    const status = await ctx.seals.readStatus()
    expect(status).toMatchObject({ seq: 4, intact: true, walked_at: place?.began_at })
    expect(status.walk).toBeUndefined()
    expect(await walk()).toEqual([1, 2, 3, 4])
  })

  it('finds what was changed ahead of it, and behind it among the last entries at once', async () => {
    await step()
    await change('entries', 2, { $set: { kind: 'ban' } })
    expect(await step()).toMatchObject({ isEnd: true, fault: expect.stringContaining('seal 1') as string })
    expect(await ctx.seals.readStatus()).toMatchObject({ intact: false })
    await change('entries', 2, { $set: { kind: 'post' } })
    await change('entries', 5, { $set: { kind: 'ban' } })
    expect(await step()).toMatchObject({ seq: 1, isEnd: false })
    // What once did not hold is not forgotten before the walk is at the end.
    expect(await ctx.seals.readStatus()).toMatchObject({ intact: false })
    expect(await step()).toMatchObject({ isEnd: true, fault: expect.stringContaining('seal 2') as string })
    await change('entries', 5, { $set: { kind: 'post' } })
    expect(await walk()).toEqual([1, 2, 3])
    expect(await ctx.seals.readStatus()).toMatchObject({ intact: true })
  })

  const readHashes = async (_id: string): Promise<Buffer> => {
    const tiles = ctx.database.connection.collection<{ _id: string; hashes: Buffer }>('log_tiles')
    return Buffer.from((await tiles.findOne({ _id }, { promoteBuffers: true }))?.hashes ?? [])
  }
  const damage = async (_id: string) => {
    const hashes = await readHashes(_id)
    hashes[0] = (hashes[0] ?? 0) ^ 1
    await change('log_tiles', _id, { $set: { hashes } })
  }

  it('goes on beside an unfinished tile that is wrong, and mends it at the end', async () => {
    await step()
    await damage('0/0')
    expect(await step()).toMatchObject({ after: { _id: 1 }, seq: 2 })
    expect(await walk()).toEqual([3])
    const size = (await ctx.seals.lastSigned())?.to_id ?? 0
    expect(await readTile(ctx, 0, 0, size)).toHaveLength(32 * size)
  })

  it('begins anew if the full tiles do not give the log that was signed where it stands, and mends them', async () => {
    await ledger.write(600)
    await ledger.seal()
    for (let run = 0; run < 3; run++) await step()
    expect(await step()).toMatchObject({ seq: 4, isEnd: true })
    await ledger.write(1)
    await ledger.seal()
    for (let run = 0; run < 4; run++) await step()
    const right = await readHashes('0/1')
    await damage('0/1')
    expect(await walk()).toEqual([1, 2, 3, 4, 5])
    expect((await readHashes('0/1')).equals(right)).toBe(true)
  })

  it('checks the content of each seal once, by the sums, the log and the keys before it', async () => {
    const last = await ctx.seals.find(3)
    await change('entries', last?.to_id ?? 0, { $set: { 'data.owed.xno': '5' } })
    // The posts of this fixture are not what their entries commit to.
    const faultsOfSeals = async (range: Parameters<typeof findContentFaults>[1]) =>
      (await findContentFaults(ctx, range)).sentences.filter((sentence) => sentence.includes('seal'))
    const found: string[][] = []
    for (let run = 0; run < 3; run++) {
      const { after, seq, isEnd, fault } = await step()
      if (fault !== undefined) break
      const upTo = isEnd ? undefined : (await ctx.seals.find(seq))?.to_id
      found.push(await faultsOfSeals({ after, upTo }))
    }
    expect(found).toEqual([[], []])
    const second = await ctx.seals.find(2)
    expect(await faultsOfSeals({ after: second })).toContainEqual(
      expect.stringContaining('seal 3 states another "owed"'),
    )
  })

  it('is gone on with each hour', async () => {
    await step()
    const isEnqueued = async (afterMs: number): Promise<boolean> => {
      const later = { ...ctx, now: () => ctx.now() + afterMs }
      await ctx.queues.get('check-chain').obliterate({ force: true })
      await enqueueChainCheck(later)
      return (await ctx.queues.get('check-chain').count()) > 0
    }
    expect(await isEnqueued(HOUR_MS / 2)).toBe(false)
    expect(await isEnqueued(HOUR_MS + 1_000)).toBe(true)
  })
})
