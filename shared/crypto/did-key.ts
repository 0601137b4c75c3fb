/** The bitcoin alphabet of base58. */
const ALPHABET = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'
/** The varint 0xed of Multicodec's table, ed25519-pub, which begins with no zero byte. */
const ED25519_PUB = 'ed01'

/**
 * Returns the DID of an Ed25519 public key (did:key method, section 3.1): `did:key:z6Mk…`.
 *
 * @param publicKey 64 lower-case hex characters
 */
export function didOfKey(publicKey: string): string {
  let text = ''
  for (let rest = BigInt(`0x${ED25519_PUB}${publicKey}`); rest > 0n; rest /= 58n)
    text = ALPHABET.charAt(Number(rest % 58n)) + text
  return `did:key:z${text}`
}
