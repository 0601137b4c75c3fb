import { describe, expect, it } from 'vitest'
import { buildTree, type Tile } from '../../shared/crypto/merkle.ts'
import { hashLeaves, treeTiles } from '../support/merkle-tiles.ts'
import { createEntryTree } from '../../shared/ledger/entry-tree.ts'

const entries = Array.from({ length: 70_000 }, (_, index) => ({ id: index + 1 }))
const leaves = hashLeaves(entries)

const describeTiles = (tiles: readonly Tile[]) =>
  tiles.map(({ level, index, hashes }) => `${level}/${index}:${hashes.toString('hex')}`).sort()

function grow(count: number, pageSize: number) {
  const tree = createEntryTree()
  const tiles: Tile[] = []
  for (let start = 0; start < count; start += pageSize)
    tiles.push(...tree.add(leaves.subarray(start * 32, Math.min(start + pageSize, count) * 32)))
  const end = tree.finish()
  return { tiles: [...tiles, ...end.tiles], root: end.root, count: tree.count }
}

describe('a tree that grows with its entries', () => {
  it.each([1, 2, 3, 255, 256, 257, 511, 512, 513, 65_535, 65_536, 65_537, 70_000])(
    'over %i entries has the tiles and the root of the whole tree',
    (count) => {
      const levels = buildTree(leaves.subarray(0, count * 32))
      for (const pageSize of [97, 5_000]) {
        const grown = grow(count, pageSize)
        expect(grown.count).toBe(count)
        expect(grown.root).toBe(levels.at(-1)?.toString('hex'))
        expect(describeTiles(grown.tiles)).toEqual(describeTiles([...treeTiles(levels)]))
      }
    },
  )

  it('is refused without an entry', () => {
    expect(() => createEntryTree().finish()).toThrow('a tree needs an entry')
  })
})
