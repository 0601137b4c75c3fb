import { describe, expect, it } from 'vitest'
import { didOfKey } from '../../shared/crypto/did-key.ts'

describe('the DID of an Ed25519 key', () => {
  // The first is an example of the did:key method's own document, the second of W3C's Verifiable Credentials.
  it.each([
    [
      '2e6fcce36701dc791488e0d0b1745cc1e33a4c1c9fcc41c63bd343dbbe0970e6',
      'did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK',
    ],
    [
      'd75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a',
      'did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw',
    ],
  ])('is that of the documents that define it: %s', (publicKey, did) => {
    expect(didOfKey(publicKey)).toBe(did)
  })
})
