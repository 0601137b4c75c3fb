import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { canonicalJson, type JsonValue } from '../../shared/crypto/canonical-json.ts'
import { commit, SALT_BYTES, verifyCommitment } from '../../shared/crypto/commitment.ts'

const salt = fc.uint8Array({ minLength: SALT_BYTES, maxLength: SALT_BYTES })
const json = fc.jsonValue({ stringUnit: 'grapheme' }).map((value) => value as JsonValue)

describe('a commitment', () => {
  it('is SHA-256 of the salt and the UTF-8 bytes of the canonical JSON', () => {
    const ownSalt = new Uint8Array(32).map((_, index) => index)
    const expected = createHash('sha256').update(ownSalt).update('{"a":"\u20ac","b":1}', 'utf8').digest('hex')
    expect(commit(ownSalt, { b: 1, a: '\u20ac' })).toBe(expected)
  })

  it('opens with its own salt and content', () => {
    fc.assert(
      fc.property(salt, json, (ownSalt, content) => {
        expect(verifyCommitment(commit(ownSalt, content), ownSalt, content)).toBe(true)
      }),
    )
  })

  it('does not open with another salt', () => {
    fc.assert(
      fc.property(salt, fc.nat(SALT_BYTES * 8 - 1), json, (ownSalt, bit, content) => {
        const other = ownSalt.slice()
        other[bit >> 3] = (other[bit >> 3] as number) ^ (1 << (bit & 7))
        expect(verifyCommitment(commit(ownSalt, content), other, content)).toBe(false)
      }),
    )
  })

  it('does not open with other content', () => {
    fc.assert(
      fc.property(salt, json, json, (ownSalt, content, other) => {
        expect(verifyCommitment(commit(ownSalt, content), ownSalt, other)).toBe(
          canonicalJson(content) === canonicalJson(other),
        )
      }),
    )
  })

  it('refuses a salt of another length', () => {
    expect(() => commit(new Uint8Array(31), 'x')).toThrow('"salt" expected 32 bytes, got 31')
    expect(() => commit('0'.repeat(32) as unknown as Uint8Array, 'x')).toThrow(
      '"salt" expected a Uint8Array, got string',
    )
  })

  it('refuses to compare with something that is no commitment', () => {
    const own = commit(new Uint8Array(32), 'x')
    expect(() => verifyCommitment(own.toUpperCase(), new Uint8Array(32), 'x')).toThrow(/64 lower-case hex/)
    expect(() => verifyCommitment(own + '0', new Uint8Array(32), 'x')).toThrow(/64 lower-case hex/)
  })

  it('refuses content that has no canonical JSON', () => {
    expect(() => commit(new Uint8Array(32), '\ud800')).toThrow(/lone surrogate/)
  })
})
