import { x25519 } from '@noble/curves/ed25519.js'
import { describe, expect, it } from 'vitest'
import { newDmKeyPair } from '../../client/sealed-box.ts'
import { isUsablePublicKey, LOW_ORDER_KEYS } from '../../shared/crypto/x25519.ts'

describe('a public key to seal messages to', () => {
  it('is usable when it is the one of a fresh key pair', () => {
    for (let i = 0; i < 20; i++) expect(isUsablePublicKey(newDmKeyPair().publicKey)).toBe(true)
  })

  it.each(LOW_ORDER_KEYS)('makes every shared secret zero when it is of low order: %s', (key) => {
    expect(() => x25519.getSharedSecret(x25519.utils.randomSecretKey(), Buffer.from(key, 'hex'))).toThrow()
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
