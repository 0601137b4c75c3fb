import { createPublicKey, verify, type KeyObject } from 'node:crypto'
import { isUsableSigningKey, PUBLIC_KEY_BYTES, requireBytes, SIGNATURE_BYTES } from './ed25519.ts'

/*
 * The runtime's own check of a signature (OpenSSL), which is thirty times as fast as one in JavaScript.
 */

/** What stands before the 32 bytes of an Ed25519 key in DER (RFC 8410 section 4). */
const SPKI_ED25519 = Buffer.from('302a300506032b6570032100', 'hex')
const MAX_KEYS = 1_000
/** By the key in hex; undefined for one of small order. */
const keyObjects = new Map<string, KeyObject | undefined>()
/** isUsableSigningKey(), which takes milliseconds, by the key in hex. */
const usable = new Map<string, boolean>()

/**
 * Whether `signature` is the key holder's on `message` (RFC 8032 section 5.1.7), by the strictest reading:
 * canonical encodings, S below the group order, no key of small order, and neither key nor R with a part of
 * small order.
 *
 * RFC 8032 lets a verifier multiply by the cofactor or not. The runtime doesn't, others do, and a key holder can
 * craft a signature that only one of them takes. Of a key without a part of small order R has none either, since the
 * runtime computes it from S, the key and the message, and compares its bytes. Then both readings are the same: what
 * passes here passes at every verifier.
 *
 * @returns false for a wrong signature, and for bytes that encode no signature or no key
 * @throws TypeError for arguments of another length
 */
export function ed25519Verify(signature: Uint8Array, message: Uint8Array, publicKey: Uint8Array): boolean {
  requireBytes('signature', signature, SIGNATURE_BYTES)
  requireBytes('message', message)
  requireBytes('publicKey', publicKey, PUBLIC_KEY_BYTES)
  return recall(usable, publicKey, isUsableSigningKey) && isSignedBy(signature, message, publicKey)
}

/**
 * Whether 64 bytes are the signature of a message by a 32-byte Ed25519 key. A key of small order signs
 * nothing: anyone can make a "signature" for it.
 */
export function isSignedBy(signature: Uint8Array, message: Uint8Array, publicKey: Uint8Array): boolean {
  const key = recall(keyObjects, publicKey, openKey)
  return key !== undefined && verify(null, message, key, signature)
}

/** @returns undefined for a key of small order */
function openKey(keyHex: string): KeyObject | undefined {
  if (isWeakKey(keyHex)) return undefined
  const der = Buffer.concat([SPKI_ED25519, Buffer.from(keyHex, 'hex')])
  return createPublicKey({ key: der, format: 'der', type: 'spki' })
}

/** Returns what is known of a key; makes it if it is asked for the first time, or after MAX_KEYS others. */
function recall<Known>(
  known: Map<string, Known>,
  publicKey: Uint8Array,
  make: (keyHex: string) => Known,
): Known {
  const keyHex = Buffer.from(publicKey).toString('hex')
  const found = known.get(keyHex)
  if (found !== undefined) return found
  const made = make(keyHex)
  if (known.size >= MAX_KEYS) known.clear()
  known.set(keyHex, made)
  return made
}

const FIELD_PRIME = 2n ** 255n - 19n
/** y of two points of order 8; the other two have its negative. */
const ORDER_8_Y = 0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd83d3d706a17c7n
const SMALL_ORDER_Y: ReadonlySet<bigint> = new Set([
  0n,
  1n,
  FIELD_PRIME - 1n,
  ORDER_8_Y,
  FIELD_PRIME - ORDER_8_Y,
])

/** Whether a key is a point of small order, in any encoding: anyone can make signatures for such a key. */
export function isSmallOrderKey(pubkey: Uint8Array): boolean {
  const bigEndian = Buffer.from(pubkey).reverse()
  bigEndian[0] = (bigEndian[0] as number) & 0x7f // the sign of x
  return SMALL_ORDER_Y.has(BigInt('0x' + bigEndian.toString('hex')) % FIELD_PRIME)
}

/** Whether anyone can sign for a key. @param pubkey 64 hex characters */
export const isWeakKey = (pubkey: string): boolean => isSmallOrderKey(Buffer.from(pubkey, 'hex'))
