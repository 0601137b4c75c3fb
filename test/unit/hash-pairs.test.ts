import { createHash, randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import {
  createSimdHashNodes,
  createSimdHashPairs,
  hashNodes,
  hashNodesPlainly,
  hashPairs,
  hashPairsPlainly,
} from '../../shared/crypto/hash-pairs.ts'

describe.each([
  ['with vectors', createSimdHashPairs(), ''],
  ['plainly', hashPairsPlainly, ''],
  ['as it is chosen', hashPairs, ''],
  ['behind 01 with vectors', createSimdHashNodes(), '\u0001'],
  ['behind 01 plainly', hashNodesPlainly, '\u0001'],
  ['behind 01 as it is chosen', hashNodes, '\u0001'],
])('pairs of hashes, hashed %s', (_, hashAll, prefix) => {
  it.each([1, 2, 3, 4, 5, 7, 8, 9, 31, 1_023, 1_024, 1_025, 2_500])(
    'are what SHA-256 is, %i of them, and nothing else is written',
    (pairs) => {
      const level = randomBytes(pairs * 64)
      const above = Buffer.alloc((pairs + 4) * 32, 0xaa)
      hashAll(level, above, pairs)
      const expected = Array.from({ length: pairs }, (_, pair) =>
        createHash('sha256')
          .update(prefix)
          .update(level.subarray(pair * 64, (pair + 1) * 64))
          .digest('hex'),
      )
      expect(above.toString('hex')).toBe(expected.join('') + 'aa'.repeat(4 * 32))
    },
  )

  it('may be written over what was read, and need not begin at a boundary', () => {
    const room = randomBytes(2_000 * 64 + 3)
    const level = room.subarray(3)
    const expected = Buffer.alloc(2_000 * 32)
    const plainly = prefix === '' ? hashPairsPlainly : hashNodesPlainly
    plainly(Buffer.from(level), expected, 2_000)
    hashAll(level, level, 2_000)
    expect(level.subarray(0, 2_000 * 32).equals(expected)).toBe(true)
  })
})

describe('pairs of hashes', () => {
  it.each([
    ['bare', hashPairs, hashPairsPlainly],
    ['behind 01', hashNodes, hashNodesPlainly],
  ])('%s: of all zero and of all one bits are hashed like any other', (_, hashAll, plainly) => {
    for (const byte of [0, 0xff]) {
      const level = Buffer.alloc(64 * 16, byte)
      const [found, expected] = [Buffer.alloc(32 * 16), Buffer.alloc(32 * 16)]
      hashAll(level, found, 16)
      plainly(level, expected, 16)
      expect(found.equals(expected)).toBe(true)
    }
  })
})
