import { describe, expect, it } from 'vitest'
import { newDmKeyPair } from '../../client/sealed-box.ts'
import { isUsablePublicKey, LOW_ORDER_KEYS } from '../../shared/crypto/x25519.ts'

describe('a public key to seal messages to', () => {
  it('is usable when it is the one of a fresh key pair', () => {
    for (let i = 0; i < 20; i++) expect(isUsablePublicKey(newDmKeyPair().publicKey)).toBe(true)
  })

  it.each<[string, string]>([
    ...LOW_ORDER_KEYS.map((key) => [`${key.slice(0, 8)}…, of low order`, key] as [string, string]),
    ['p itself, not canonical', `ed${'ff'.repeat(30)}7f`],
    ['the top bit set, not canonical', `09${'00'.repeat(30)}80`],
    ['63 characters', '0'.repeat(63)],
  ])('is refused when it is %s', (_, key) => {
    expect(isUsablePublicKey(key)).toBe(false)
  })
})
