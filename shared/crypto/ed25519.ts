import { getPublicKey, hashes, Point, sign } from '@noble/ed25519'
import { sha512 } from '@noble/hashes/sha2.js'

// The synchronous API of the library has no SHA-512 until it is given one.
hashes.sha512 = sha512

export const SECRET_KEY_BYTES = 32
export const PUBLIC_KEY_BYTES = 32
export const SIGNATURE_BYTES = 64

const HEX = /^[0-9a-f]*$/
const BASE64 = /^[A-Za-z0-9+/]{86}==$/ // 64 bytes with padding

/**
 * The public key of a secret key (RFC 8032 section 5.1.5), 32 bytes.
 *
 * @param secretKey the 32-byte seed of RFC 8032, not a 64-byte expanded key
 * @throws TypeError for another length
 */
export function ed25519PublicKey(secretKey: Uint8Array): Uint8Array {
  requireBytes('secretKey', secretKey, SECRET_KEY_BYTES)
  return getPublicKey(secretKey)
}

/**
 * The signature of `message` (RFC 8032 section 5.1.6, deterministic), 64 bytes.
 *
 * @throws TypeError for a key of another length
 */
export function ed25519Sign(message: Uint8Array, secretKey: Uint8Array): Uint8Array {
  requireBytes('message', message)
  requireBytes('secretKey', secretKey, SECRET_KEY_BYTES)
  return sign(message, secretKey)
}

/**
 * Whether 64 hex characters are a key for which every verifier accepts the same signatures: see
 * ed25519Verify().
 */
export function isUsableSigningKey(keyHex: string): boolean {
  try {
    const point = Point.fromHex(keyHex)
    return point.isTorsionFree() && !point.is0()
  } catch {
    return false // not the canonical form of a point
  }
}

/**
 * A key as 64 lower-case hex characters.
 *
 * @throws TypeError for another length than 32 bytes
 */
export function keyToHex(key: Uint8Array): string {
  requireBytes('key', key, PUBLIC_KEY_BYTES)
  return Buffer.from(key).toString('hex')
}

/**
 * The 32 bytes of a key.
 *
 * @throws TypeError for anything but 64 lower-case hex characters; the value isn't repeated, it may be secret
 */
export function keyFromHex(hex: string): Uint8Array {
  if (typeof hex !== 'string' || !HEX.test(hex))
    throw new TypeError('"hex" expected lower-case hex characters')
  if (hex.length !== 2 * PUBLIC_KEY_BYTES)
    throw new TypeError(`"hex" expected ${2 * PUBLIC_KEY_BYTES} characters, got ${hex.length}`)
  return new Uint8Array(Buffer.from(hex, 'hex'))
}

/**
 * A signature as base64 with padding, 88 characters (RFC 4648 section 4).
 *
 * @throws TypeError for another length than 64 bytes
 */
export function signatureToBase64(signature: Uint8Array): string {
  requireBytes('signature', signature, SIGNATURE_BYTES)
  return Buffer.from(signature).toString('base64')
}

/**
 * The 64 bytes of a signature in base64.
 *
 * @throws TypeError for anything but the one base64 text of 64 bytes: padding missing, other alphabet, bits
 *   left over
 */
export function signatureFromBase64(base64: string): Uint8Array {
  if (typeof base64 !== 'string' || !BASE64.test(base64))
    throw new TypeError('"base64" expected 88 characters of base64 with padding')
  const signature = Buffer.from(base64, 'base64')
  if (signature.toString('base64') !== base64)
    throw new TypeError('"base64" has bits left over after its 64 bytes')
  return new Uint8Array(signature)
}

/** @throws TypeError unless `value` is a Uint8Array, of `length` bytes if that is given */
export function requireBytes(name: string, value: Uint8Array, length?: number): void {
  if (!(value instanceof Uint8Array))
    throw new TypeError(`"${name}" expected a Uint8Array, got ${typeof value}`)
  if (length !== undefined && value.length !== length)
    throw new TypeError(`"${name}" expected ${length} bytes, got ${value.length}`)
}
