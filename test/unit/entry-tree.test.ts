import { describe, expect, it } from 'vitest'
import { buildTree } from '../../shared/crypto/merkle.ts'
import { hashLeaves } from '../support/merkle-leaves.ts'
import { createEntryTree } from '../../shared/ledger/entry-tree.ts'

const entries = Array.from({ length: 70_000 }, (_, index) => ({ id: index + 1 }))
const leaves = hashLeaves(entries)

function grow(count: number, pageSize: number) {
  const tree = createEntryTree()
  for (let start = 0; start < count; start += pageSize)
    tree.add(leaves.subarray(start * 32, Math.min(start + pageSize, count) * 32))
  return { ...tree.finish(), count: tree.count }
}

describe('a tree that grows with its entries', () => {
  it.each([1, 2, 3, 255, 256, 257, 511, 512, 513, 65_535, 65_536, 65_537, 70_000])(
    'over %i entries has the root of the whole tree, and its levels from the roots of the blocks up',
    (count) => {
      const levels = buildTree(leaves.subarray(0, count * 32))
      const upper = levels.slice(Math.min(8, levels.length - 1))
      for (const pageSize of [97, 5_000])
        expect(grow(count, pageSize)).toEqual({ count, root: levels.at(-1)?.toString('hex'), upper })
    },
  )

  it('is refused without an entry', () => {
    expect(() => createEntryTree().finish()).toThrow('a tree needs an entry')
  })
})
