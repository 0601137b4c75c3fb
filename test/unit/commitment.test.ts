import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { canonicalJson, type JsonValue } from '../../shared/crypto/canonical-json.ts'
import { commit, isOpenedBy, SALT_BYTES } from '../../shared/crypto/commitment.ts'

const salt = fc.uint8Array({ minLength: SALT_BYTES, maxLength: SALT_BYTES })
const toHex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')
const json = fc.jsonValue({ stringUnit: 'grapheme' }).map((value) => value as JsonValue)

describe('a commitment', () => {
  // holds: rules.ledger.statements.no_free_text_handle_address_or
  it('is SHA-256 of the salt and the UTF-8 bytes of the canonical JSON', () => {
    const ownSalt = new Uint8Array(32).map((_, index) => index)
    const expected = createHash('sha256').update(ownSalt).update('{"a":"\u20ac","b":1}', 'utf8').digest('hex')
    expect(commit(ownSalt, { b: 1, a: '\u20ac' })).toBe(expected)
  })

  it('opens with its own salt and content', () => {
    fc.assert(
      fc.property(salt, json, (ownSalt, content) => {
        expect(isOpenedBy(commit(ownSalt, content), toHex(ownSalt), content)).toBe(true)
      }),
    )
  })

  it('does not open with another salt', () => {
    fc.assert(
      fc.property(salt, fc.nat(SALT_BYTES * 8 - 1), json, (ownSalt, bit, content) => {
        const other = ownSalt.slice()
        other[bit >> 3] = (other[bit >> 3] as number) ^ (1 << (bit & 7))
        expect(isOpenedBy(commit(ownSalt, content), toHex(other), content)).toBe(false)
      }),
    )
  })

  it('does not open with other content', () => {
    fc.assert(
      fc.property(salt, json, json, (ownSalt, content, other) => {
        expect(isOpenedBy(commit(ownSalt, content), toHex(ownSalt), other)).toBe(
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

  it('does not open if commitment or salt has another form', () => {
    const salt32 = new Uint8Array(32)
    const own = commit(salt32, 'x')
    expect(isOpenedBy(own.toUpperCase(), toHex(salt32), 'x')).toBe(false)
    expect(isOpenedBy(own + '0', toHex(salt32), 'x')).toBe(false)
    expect(isOpenedBy(own, toHex(salt32).slice(2), 'x')).toBe(false)
    expect(isOpenedBy(own, undefined, 'x')).toBe(false)
  })

  it('refuses content that has no canonical JSON', () => {
    expect(() => commit(new Uint8Array(32), '\ud800')).toThrow(/lone surrogate/)
  })
})
