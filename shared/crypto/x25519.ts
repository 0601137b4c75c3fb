const FIELD_PRIME = 2n ** 255n - 19n
/**
 * The canonical encodings of the points of low order: 0, 1, two of order 8, and p - 1 (see RFC 7748 section
 * 7).
 */
export const LOW_ORDER_KEYS: readonly string[] = [
  '0000000000000000000000000000000000000000000000000000000000000000',
  '0100000000000000000000000000000000000000000000000000000000000000',
  'e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800',
  '5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
]

/**
 * Whether 64 hex characters are an X25519 public key that a message can be sealed to: the canonical,
 * little-endian form of a u-coordinate (RFC 7748 section 5), and not a point of low order, with which every
 * shared secret would be zero (section 6.1).
 */
export function isUsablePublicKey(keyHex: string): boolean {
  if (!/^[0-9a-f]{64}$/.test(keyHex) || LOW_ORDER_KEYS.includes(keyHex)) return false
  return BigInt(`0x${Buffer.from(keyHex, 'hex').reverse().toString('hex')}`) < FIELD_PRIME
}
