import { hash, randomBytes, timingSafeEqual } from 'node:crypto'
import { TOKEN_KEY_LENGTH, TOKEN_PATTERN } from '../platform/limits.ts'

/**
 * The stored form of a token: the key that finds its agent, and a salted SHA-256 of the whole token.
 */
export interface StoredToken {
  token_key: string
  token_salt: string
  token_hash: string
}

/** A new token: `sk_` and 24 random bytes as hex. */
export function newToken(): string {
  return `sk_${randomBytes(24).toString('hex')}`
}

/** Different characters expected at least; 48 random ones have fewer once in 10^15 times. */
const MIN_DIFFERENT = 8

/**
 * Whether a chosen token looks as if drawn at random. False for one of few different characters or one that
 * repeats a part: these are easy to guess.
 */
export function looksRandom(token: string): boolean {
  const secret = token.slice(3)
  // A text that consists of repetitions is found in its own doubling before the second half.
  return new Set(secret).size >= MIN_DIFFERENT && (secret + secret).indexOf(secret, 1) === secret.length
}

/** Returns a token's look-up key: its first 16 hex characters, which are no secret; the rest is. */
export function tokenKey(token: string): string {
  return token.slice(3, 3 + TOKEN_KEY_LENGTH)
}

/**
 * Returns the form of a token in which it is stored, with a fresh salt.
 *
 * @throws TypeError if `token` isn't in the form of a token
 */
export function toStoredToken(token: string): StoredToken {
  if (!TOKEN_PATTERN.test(token)) throw new TypeError('"token" expected sk_ and 48 lower-case hex characters')
  const salt = randomBytes(16).toString('hex')
  return { token_key: tokenKey(token), token_salt: salt, token_hash: hashToken(salt, token) }
}

/** Whether `token` is the one that is stored, compared in constant time. */
export function isStoredToken(token: string, stored: StoredToken): boolean {
  return timingSafeEqual(Buffer.from(hashToken(stored.token_salt, token)), Buffer.from(stored.token_hash))
}

/** Returns SHA-256 of the salt's text and the token, as 64 lower-case hex characters. */
function hashToken(salt: string, token: string): string {
  return hash('sha256', `${salt}${token}`, 'hex')
}
