/**
 * The one rule for all proof of work: a share is a nonce such that SHA-256 (FIPS 180-4 §6.2) of the UTF-8
 * bytes of `prefix + ":" + nonce` begins with at least `difficultyBits` zero bits.
 *
 *   prefix  32 lower-case hex characters, chosen by the server
 *   nonce   1 to 20 characters of 0-9 a-z, chosen by the agent
 *
 * 32 + 1 + 20 = 53 bytes at most, and 55 is the most that still fits one SHA-256 block (§5.1.1): one
 * compression a nonce.
 */
import { hash } from 'node:crypto'

export const PREFIX_LENGTH = 32
export const MAX_NONCE_LENGTH = 20
export const DIGEST_BITS = 256

const PREFIX_FORM = /^[0-9a-f]{32}$/
export const NONCE_FORM = /^[0-9a-z]{1,20}$/
const DIGEST_FORM = /^[0-9a-f]{64}$/
const DIGIT_ZERO = 48 // '0'

/**
 * Counts the zero bits at the beginning of a digest, 0 to 256.
 *
 * @param digestHex 64 lower-case hex characters
 * @throws Error for any other form
 */
export function countLeadingZeroBits(digestHex: string): number {
  if (!DIGEST_FORM.test(digestHex)) throw new Error('"digestHex" must be 64 lower-case hex characters')
  let digits = 0
  while (digits < digestHex.length && digestHex.charCodeAt(digits) === DIGIT_ZERO) digits++
  if (digits === digestHex.length) return DIGEST_BITS
  return digits * 4 + Math.clz32(parseHexDigit(digestHex, digits)) - 28 // clz32 counts 28 more above a 4-bit digit
}

/**
 * Returns the nonce in canonical form, 1 to 20 characters of 0-9 a-z, or undefined if `value` is not a nonce.
 * On the wire it may also be a non-negative safe integer, which stands for its decimal text.
 */
export function parseNonce(value: unknown): string | undefined {
  if (typeof value === 'string') return NONCE_FORM.test(value) ? value : undefined
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return String(value)
  return undefined
}

/**
 * Whether `nonce` is a share; false for too little work and for a nonce not in canonical form, see
 * parseNonce().
 *
 * @throws Error for a malformed `prefix` or `difficultyBits`: those are the server's own
 */
export function isShare(prefix: string, nonce: string, difficultyBits: number): boolean {
  assertPrefix(prefix)
  assertDifficultyBits(difficultyBits)
  return (
    NONCE_FORM.test(nonce) && hasLeadingZeroBits(hash('sha256', `${prefix}:${nonce}`, 'hex'), difficultyBits)
  )
}

/**
 * Returns those of `nonces` that are shares, in the order given, repetitions included: the same as a filter
 * by isShare(), but faster.
 *
 * @throws Error for a malformed `prefix` or `difficultyBits`
 */
export function findShares(prefix: string, nonces: readonly string[], difficultyBits: number): string[] {
  assertPrefix(prefix)
  assertDifficultyBits(difficultyBits)
  const head = `${prefix}:`
  const shares: string[] = []
  for (const nonce of nonces) {
    // The form is checked last, since hardly any nonce gets that far.
    if (nonce.length > MAX_NONCE_LENGTH) continue
    if (!hasLeadingZeroBits(hash('sha256', head + nonce, 'hex'), difficultyBits)) continue
    if (NONCE_FORM.test(nonce)) shares.push(nonce)
  }
  return shares
}

/**
 * How many hashes one share takes on average: 2^difficultyBits.
 *
 * @throws Error for anything but an integer from 0 to 256
 */
export function expectedHashes(difficultyBits: number): number {
  assertDifficultyBits(difficultyBits)
  return 2 ** difficultyBits
}

/** @throws Error unless `prefix` is 32 lower-case hex characters */
export function assertPrefix(prefix: string): void {
  if (typeof prefix !== 'string' || !PREFIX_FORM.test(prefix)) {
    throw new Error(`"prefix" must be ${PREFIX_LENGTH} lower-case hex characters`)
  }
}

/** @throws Error unless `difficultyBits` is an integer from 0 to 256 */
export function assertDifficultyBits(difficultyBits: number): void {
  if (!Number.isInteger(difficultyBits) || difficultyBits < 0 || difficultyBits > DIGEST_BITS) {
    throw new Error(
      `"difficultyBits" must be an integer from 0 to ${DIGEST_BITS}, got ${String(difficultyBits)}`,
    )
  }
}

/**
 * Whether a digest, as 64 lower-case hex digits, begins with `bits` zero bits. Reads no more digits than it
 * has to.
 */
function hasLeadingZeroBits(digestHex: string, bits: number): boolean {
  const zeroDigits = bits >> 2
  for (let i = 0; i < zeroDigits; i++) if (digestHex.charCodeAt(i) !== DIGIT_ZERO) return false
  const rest = bits & 3
  return rest === 0 || parseHexDigit(digestHex, zeroDigits) < 1 << (4 - rest)
}

/** The value, 0 to 15, of one lower-case hex digit; other characters aren't checked for. */
function parseHexDigit(hex: string, index: number): number {
  const code = hex.charCodeAt(index)
  return code <= 57 ? code - DIGIT_ZERO : code - 87 // '0'-'9' are 48-57, 'a'-'f' are 97-102
}
