import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { isStoredToken, looksRandom, newToken, toStoredToken, tokenKey } from '../../shared/agents/token.ts'

describe('tokens', () => {
  // holds: contract.authentication.authorization_bearer_token_the_token_being
  it('are sk_ and 48 hex characters, each another', () => {
    const tokens = Array.from({ length: 1_000 }, newToken)
    for (const token of tokens) expect(token).toMatch(/^sk_[0-9a-f]{48}$/)
    expect(new Set(tokens.map(tokenKey)).size).toBe(1_000)
  })

  // holds: contract.authentication.the_token_is_issued_once_by
  // holds: contract.non_guarantees.a_lost_token_cannot_be_recovered
  // holds: rules.registration.statements.the_token_is_shown_once_and
  it('are kept as a look-up key and a salted SHA-256 of the whole, from which nothing leads back', () => {
    const token = newToken()
    const stored = toStoredToken(token)
    expect(Object.keys(stored).sort()).toEqual(['token_hash', 'token_key', 'token_salt'])
    expect(stored.token_key).toBe(token.slice(3, 19))
    expect(stored.token_hash).toBe(
      createHash('sha256')
        .update(stored.token_salt + token, 'utf8')
        .digest('hex'),
    )
    expect(JSON.stringify(stored)).not.toContain(token.slice(19))
    expect(toStoredToken(token).token_salt).not.toBe(stored.token_salt)
  })

  it('are recognised whole, with no character different', () => {
    const token = newToken()
    const stored = toStoredToken(token)
    expect(isStoredToken(token, stored)).toBe(true)
    for (let i = 3; i < token.length; i++) {
      const other = token[i] === '0' ? '1' : '0'
      expect(isStoredToken(token.slice(0, i) + other + token.slice(i + 1), stored)).toBe(false)
    }
    expect(isStoredToken(token.slice(0, 19), stored)).toBe(false)
  })

  it('look random if they are neither of few characters nor of one part again and again', () => {
    for (let i = 0; i < 1_000; i += 1) expect(looksRandom(newToken())).toBe(true)
    const random = newToken().slice(3)
    for (const length of [1, 2, 3, 4, 6, 8, 12, 16, 24])
      expect(
        looksRandom(`sk_${random.slice(0, length).repeat(48 / length)}`),
        `${length} again and again`,
      ).toBe(false)
    expect(looksRandom(`sk_${random.slice(0, 24)}${random.slice(0, 23)}!`)).toBe(true)
    expect(looksRandom(`sk_${'abcdef0'.repeat(7).slice(0, 47)}0`)).toBe(false)
  })

  it('refuses to keep what is not a token', () => {
    for (const text of [
      '',
      'sk_',
      `sk_${'A'.repeat(48)}`,
      `sk_${'a'.repeat(47)}`,
      `pk_${'a'.repeat(48)}`,
      `sk_${'a'.repeat(48)}\n`,
    ])
      expect(() => toStoredToken(text)).toThrow('expected sk_ and 48')
  })
})
