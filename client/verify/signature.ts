import { createPublicKey, verify, type KeyObject } from 'node:crypto'
import { isSmallOrderKey } from '../../shared/crypto/seal-payload.ts'

/** What stands before the 32 bytes of an Ed25519 key in DER (RFC 8410 section 4). */
const SPKI_ED25519 = Buffer.from('302a300506032b6570032100', 'hex')
const MAX_KEY_OBJECTS = 1_000
const keyObjects = new Map<string, KeyObject>()

/**
 * Whether 64 bytes are the signature of a message by a 32-byte Ed25519 key. A key of small order signs
 * nothing: anyone can make a "signature" for it.
 *
 * The runtime's own check, which a file with ten thousand signatures needs: it is twenty times as fast as
 * ed25519Verify(). What that one accepts, this one accepts.
 */
export function isSignedBy(signature: Uint8Array, message: Uint8Array, publicKey: Uint8Array): boolean {
  if (isSmallOrderKey(publicKey)) return false
  const hex = Buffer.from(publicKey).toString('hex')
  let key = keyObjects.get(hex)
  if (key === undefined) {
    if (keyObjects.size === MAX_KEY_OBJECTS) keyObjects.clear()
    const der = Buffer.concat([SPKI_ED25519, publicKey])
    key = createPublicKey({ key: der, format: 'der', type: 'spki' })
    keyObjects.set(hex, key)
  }
  return verify(null, message, key, signature)
}

/** Whether anyone can sign for a key. @param pubkey 64 hex characters */
export const isWeakKey = (pubkey: string): boolean => isSmallOrderKey(Buffer.from(pubkey, 'hex'))
