import { blake2b } from '@noble/hashes/blake2.js'
import { bytesToHex, hexToBytes } from '@noble/hashes/utils.js'

// No key code here: the API checks addresses, and never has a seed.

export interface NanoAddress {
  /** In the `nano_` spelling. */
  readonly address: string
  /** 64 upper-case hex characters. */
  readonly publicKey: string
}

/** The address of 32 zero bytes. It is valid, but nobody has its key: money sent there is lost. */
export const NANO_BURN_ADDRESS = 'nano_1111111111111111111111111111111111111111111111111111hifc8npp'

const DIGITS = '13456789abcdefghijkmnopqrstuwxyz'
// 60 digits of 5 bits: 4 zero bits (so the first digit is 1 or 3), 256 bits of key, 40 bits of checksum.
const ADDRESS = /^(?:nano|xrb)_([13][13456789abcdefghijkmnopqrstuwxyz]{59})$/
const PUBLIC_KEY = /^[0-9A-F]{64}$/
const CHECKSUM_BYTES = 5
const CHECKSUM_BITS = 40n
const DIGIT_BITS = 5n

/**
 * Parses an address that begins with `nano_` or the old `xrb_`.
 *
 * @returns undefined for anything else, including a wrong checksum, upper case and surrounding blanks, all of
 *   which the node refuses too
 *
 * Source: docs.nano.org, The Basics, "Account number / identifier".
 */
export function parseNanoAddress(text: string): NanoAddress | undefined {
  const digits = ADDRESS.exec(text)?.[1]
  if (digits === undefined) return undefined
  let value = 0n
  for (const digit of digits) value = (value << DIGIT_BITS) | BigInt(DIGITS.indexOf(digit))
  const publicKey = (value >> CHECKSUM_BITS).toString(16).toUpperCase().padStart(64, '0')
  if (BigInt.asUintN(Number(CHECKSUM_BITS), value) !== checksumOf(publicKey)) return undefined
  return { address: `nano_${digits}`, publicKey }
}

/**
 * The `nano_` address of a public key: the inverse of parseNanoAddress().
 *
 * @param publicKey 64 upper-case hex characters
 * @throws TypeError for anything else
 */
export function encodeNanoAddress(publicKey: string): string {
  if (!PUBLIC_KEY.test(publicKey))
    throw new TypeError(
      `"publicKey" expected 64 upper-case hex characters, got ${publicKey.length} characters`,
    )
  let rest = (BigInt(`0x${publicKey}`) << CHECKSUM_BITS) | checksumOf(publicKey)
  let digits = ''
  for (let count = 0; count < 60; count += 1) {
    digits = DIGITS.charAt(Number(BigInt.asUintN(Number(DIGIT_BITS), rest))) + digits
    rest >>= DIGIT_BITS
  }
  return `nano_${digits}`
}

/** The checksum of a public key (64 hex characters): its Blake2b of 5 bytes, in reverse order of bytes. */
function checksumOf(publicKey: string): bigint {
  return BigInt(`0x${bytesToHex(blake2b(hexToBytes(publicKey), { dkLen: CHECKSUM_BYTES }).reverse())}`)
}
