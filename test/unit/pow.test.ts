import fc from 'fast-check'
import { createHash } from 'node:crypto'
import { readFileSync, readdirSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import {
  countLeadingZeroBits,
  expectedHashes,
  findShares,
  isShare,
  parseNonce,
} from '../../shared/crypto/pow.ts'

type Vector = {
  prefix: string
  nonce: unknown
  difficulty_bits: number
  digest: string | null
  valid: boolean
}

function readVectors(kind: 'valid' | 'invalid'): { name: string; vector: Vector }[] {
  const folder = new URL(`../vectors/${kind}/`, import.meta.url)
  return readdirSync(folder)
    .filter((file) => file.startsWith('pow-'))
    .map((file) => ({
      name: file,
      vector: JSON.parse(readFileSync(new URL(file, folder), 'utf8')) as Vector,
    }))
}

const sha256Hex = (text: string): string => createHash('sha256').update(text).digest('hex')
const countBitsSlowly = (digestHex: string): number =>
  BigInt(`0x${digestHex}`).toString(2).padStart(256, '0').replace(/1.*/, '').length

const PREFIX = '00112233445566778899aabbccddeeff'

describe('vectors', () => {
  const vectors = [...readVectors('valid'), ...readVectors('invalid')]

  test('are there in both kinds', () => {
    expect(readVectors('valid').length).toBeGreaterThan(8)
    expect(readVectors('invalid').length).toBeGreaterThan(8)
    for (const { vector } of readVectors('valid')) expect(vector.valid).toBe(true)
    for (const { vector } of readVectors('invalid')) expect(vector.valid).toBe(false)
  })

  // holds: rules.proof_of_work.algorithm, rules.proof_of_work.preimage
  // holds: rules.proof_of_work.statements.a_share_is_a_nonce_such
  test.each(vectors)('$name is judged as it says', ({ vector }) => {
    const { prefix, nonce, difficulty_bits: bits, digest, valid } = vector
    const text = parseNonce(nonce)
    expect(text !== undefined && isShare(prefix, text, bits)).toBe(valid)
    expect(text === undefined ? [] : findShares(prefix, [text], bits)).toEqual(valid ? [text] : [])
    if (digest !== null) expect(sha256Hex(`${prefix}:${String(nonce)}`)).toBe(digest)
    if (typeof nonce === 'string') expect(isShare(prefix, nonce, bits)).toBe(valid)
    if (typeof nonce === 'string') expect(findShares(prefix, [nonce], bits)).toEqual(valid ? [nonce] : [])
  })
})

describe('countLeadingZeroBits', () => {
  test('agrees with the binary digits for every count', () => {
    for (let bits = 0; bits < 256; bits++) {
      const digest = (1n << BigInt(255 - bits)).toString(16).padStart(64, '0')
      expect(countLeadingZeroBits(digest)).toBe(bits)
    }
    expect(countLeadingZeroBits('0'.repeat(64))).toBe(256)
  })

  test('refuses anything but 64 lower-case hex characters', () => {
    for (const bad of ['', '0'.repeat(63), '0'.repeat(65), 'F'.repeat(64), `${'0'.repeat(63)}\n`]) {
      expect(() => countLeadingZeroBits(bad)).toThrow('"digestHex" must be 64 lower-case hex characters')
    }
  })
})

describe('parseNonce', () => {
  // holds: limits.work_order, rules.proof_of_work.statements.a_nonce_is_1_to_20
  test('keeps a text of 1 to 20 characters of 0-9 a-z as it is', () => {
    for (const nonce of ['0', 'z', '007', 'abcdefghij0123456789']) expect(parseNonce(nonce)).toBe(nonce)
  })

  // holds: rules.proof_of_work.statements.a_nonce_is_1_to_20
  test('takes a non-negative safe integer as its decimal text', () => {
    expect(parseNonce(0)).toBe('0')
    expect(parseNonce(-0)).toBe('0')
    expect(parseNonce(12345)).toBe('12345')
    expect(parseNonce(Number.MAX_SAFE_INTEGER)).toBe('9007199254740991')
  })

  // holds: rules.proof_of_work.statements.a_nonce_is_1_to_20
  test('refuses every other value', () => {
    const values = [
      '',
      'A',
      'a b',
      'a\n',
      'é',
      'a'.repeat(21),
      -1,
      0.5,
      2 ** 53,
      NaN,
      Infinity,
      null,
      undefined,
      true,
    ]
    for (const value of [...values, 1n, ['1'], { $ne: 1 }, new String('1')])
      expect(parseNonce(value)).toBeUndefined()
  })
})

describe('isShare and findShares', () => {
  // holds: rules.proof_of_work.statements.a_share_is_a_nonce_such
  test('agree with the digest bit by bit, at every difficulty about its own', () => {
    fc.assert(
      fc.property(
        fc.stringMatching(/^[0-9a-f]{32}$/),
        fc.stringMatching(/^[0-9a-z]{1,20}$/),
        (prefix, nonce) => {
          const bits = countBitsSlowly(sha256Hex(`${prefix}:${nonce}`))
          expect(countLeadingZeroBits(sha256Hex(`${prefix}:${nonce}`))).toBe(bits)
          for (const difficulty of [0, bits, bits + 1, bits + 2, bits + 5, 256]) {
            expect(isShare(prefix, nonce, difficulty)).toBe(difficulty <= bits)
            expect(findShares(prefix, [nonce], difficulty)).toEqual(difficulty <= bits ? [nonce] : [])
          }
        },
      ),
    )
  })

  test('findShares says of any list, of any lengths and forms, what isShare says of each', () => {
    const characters = '0123456789abcdefghijklmnopqrstuvwxyz'
    const form = fc.string({
      unit: fc.constantFrom(...characters),
      minLength: 0,
      maxLength: 22,
    })
    const malformed = fc.constantFrom(':', 'A', 'a:b', 'ab ', 'ä', '😀', '\u{130}1', 'Ā', '\0')
    const nonce = fc.oneof({ weight: 20, arbitrary: form }, malformed)
    const list = fc.oneof(
      fc.array(nonce, { maxLength: 60 }),
      fc
        .integer({ min: 1, max: 20 })
        .chain((length) =>
          fc.array(
            fc.string({ unit: fc.constantFrom(...characters), minLength: length, maxLength: length }),
            { minLength: 14, maxLength: 70 },
          ),
        ),
    )
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom(...'0123456789abcdef'), minLength: 32, maxLength: 32 }),
        list,
        fc.integer({ min: 0, max: 6 }),
        (prefix, nonces, bits) => {
          const shares = nonces.filter((one) => isShare(prefix, one, bits))
          expect(findShares(prefix, nonces, bits)).toEqual(shares)
        },
      ),
      { numRuns: 300 },
    )
  })

  test('findShares finds more than 32 zero bits only where they are, and one nonce among 10,000', () => {
    const nonces = Array.from({ length: 10_000 }, (_, i) => i.toString(36).padStart(6, '0'))
    const bits = Math.max(
      ...nonces.map((nonce) =>
        countLeadingZeroBits(createHash('sha256').update(`${PREFIX}:${nonce}`).digest('hex')),
      ),
    )
    expect(findShares(PREFIX, nonces, bits)).toEqual(nonces.filter((nonce) => isShare(PREFIX, nonce, bits)))
    expect(findShares(PREFIX, nonces, bits)).not.toHaveLength(0)
    expect(findShares(PREFIX, nonces, 33)).toEqual([])
  })

  test('findShares gives the shares in the order given, with repetitions and without malformed nonces', () => {
    const nonces = Array.from({ length: 3000 }, (_, i) => i.toString(36))
    const mixed = [
      ...nonces,
      ...nonces.toReversed(),
      ...nonces.map((nonce) => `A${nonce}`),
      '',
      'z'.repeat(21),
    ]
    const shares = findShares(PREFIX, mixed, 5)
    expect(shares.length).toBeGreaterThan(100)
    expect(shares).toEqual(mixed.filter((nonce) => isShare(PREFIX, nonce, 5)))
    expect(shares).toEqual(
      mixed.filter(
        (nonce) => /^[0-9a-z]{1,20}$/.test(nonce) && countBitsSlowly(sha256Hex(`${PREFIX}:${nonce}`)) >= 5,
      ),
    )
  })

  test('throw on a malformed prefix', () => {
    for (const prefix of ['', PREFIX.slice(1), `${PREFIX}0`, PREFIX.toUpperCase(), `${PREFIX.slice(1)}g`]) {
      expect(() => isShare(prefix, '0', 1)).toThrow('"prefix" must be 32 lower-case hex characters')
      expect(() => findShares(prefix, [], 1)).toThrow('"prefix" must be 32 lower-case hex characters')
    }
  })

  test('throw on a malformed difficulty', () => {
    for (const bits of [-1, 0.5, 257, NaN, Infinity]) {
      expect(() => isShare(PREFIX, '0', bits)).toThrow('"difficultyBits" must be an integer from 0 to 256')
      expect(() => findShares(PREFIX, [], bits)).toThrow('"difficultyBits" must be an integer from 0 to 256')
      expect(() => expectedHashes(bits)).toThrow('"difficultyBits" must be an integer from 0 to 256')
    }
  })
})

test('expectedHashes doubles with every bit', () => {
  expect(expectedHashes(0)).toBe(1)
  expect(expectedHashes(20)).toBe(1_048_576)
  expect(expectedHashes(26)).toBe(67_108_864)
})
