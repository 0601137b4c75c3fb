import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { buildTree, inclusionPath, TILE_WIDTH } from '../../shared/crypto/merkle.ts'
import { createSealPathReader } from '../../shared/ledger/seal-paths.ts'
import { hashLeaves } from '../support/merkle-leaves.ts'

/* A log of 70,000 entries, and a seal somewhere in it. */

const SIZE = 70_000
const leaves = hashLeaves(Array.from({ length: SIZE }, (_, index) => ({ id: index + 1 })))
const TILE_BYTES = 32 * TILE_WIDTH

/** Finds tiles of the log's leaves; `change` may alter one, or take it away. */
function openTiles(change: (tile: Buffer, index: number) => Buffer | undefined = (tile) => tile) {
  const asked: number[] = []
  const read = createSealPathReader((places) => {
    asked.push(...places.map(({ index }) => index))
    return Promise.resolve(
      places.map(({ level, index }) => {
        expect(level).toBe(0)
        return change(Buffer.from(leaves.subarray(index * TILE_BYTES, (index + 1) * TILE_BYTES)), index)
      }),
    )
  })
  return { read, asked }
}

function sealOver(fromId: number, count: number) {
  const levels = buildTree(leaves.subarray((fromId - 1) * 32, (fromId - 1 + count) * 32))
  const root = levels.at(-1)?.toString('hex') ?? ''
  return { levels, seal: { _id: 7, from_id: fromId, to_id: fromId + count - 1, root } }
}

const counts = fc.oneof(
  fc.integer({ min: 1, max: 3 * TILE_WIDTH }),
  fc.constantFrom(255, 256, 257, 512, 16_384, 16_385, 65_536, 65_537),
)

describe('paths to the root of a seal', () => {
  it('are those of the whole tree over its entries, wherever the seal stands in the log', async () => {
    const place = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
    await fc.assert(
      fc.asyncProperty(counts, place, fc.array(place, { maxLength: 5 }), async (count, start, places) => {
        const { seal, levels } = sealOver(1 + Math.floor(start * (SIZE - count)), count)
        const indexes = [0, count - 1, ...places.map((at) => Math.floor(at * count))]
        const paths = await openTiles().read(
          seal,
          indexes.map((index) => seal.from_id + index),
        )
        expect(paths).toEqual(indexes.map((index) => inclusionPath(levels, index)))
      }),
      { numRuns: 40 },
    )
  })

  it('read all leaves of a seal once, and then the tiles of the entry alone', async () => {
    const { seal } = sealOver(100, 60_000)
    const { read, asked } = openTiles()
    await Promise.all([read(seal, [100]), read(seal, [30_000])])
    expect(asked.length).toBeLessThan(2 * 2 + 60_000 / 256 + 10)
    asked.length = 0
    await read(seal, [45_000])
    expect(asked).toEqual([175, 176])
  })

  it.each([
    ['one is missing', (_: Buffer, index: number) => (index === 3 ? undefined : _)],
    ['one is too short', (tile: Buffer, index: number) => (index === 3 ? tile.subarray(0, 320) : tile)],
  ])('are refused if a tile is needed and %s', async (_, change) => {
    const { read } = openTiles(change)
    const { seal } = sealOver(100, 2_000)
    await expect(read(seal, [100])).rejects.toThrow('tile 0/3 of the log is missing, or lacks leaves')
  })

  it('are refused for tiles that give another root, until they are mended', async () => {
    let isDamaged = true
    const { read } = openTiles((tile, index) => (isDamaged && index === 3 ? tile.fill(7) : tile))
    const { seal, levels } = sealOver(100, 2_000)
    await expect(read(seal, [100])).rejects.toThrow('the tiles of the log do not give the root of seal 7')
    isDamaged = false
    expect(await read(seal, [100])).toEqual([inclusionPath(levels, 0)])
  })

  it('are those of the new seal after another one had its number', async () => {
    const { read } = openTiles()
    await read(sealOver(100, 2_000).seal, [100])
    const { seal, levels } = sealOver(150, 3_000)
    expect(await read(seal, [2_000])).toEqual([inclusionPath(levels, 1_850)])
  })
})
