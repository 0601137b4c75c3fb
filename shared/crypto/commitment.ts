import { hash } from 'node:crypto'
import { canonicalJson, type JsonValue } from './canonical-json.ts'

/** Bytes of a commitment's salt: as long as the hash, so that guessing the content never beats guessing the salt. */
export const SALT_BYTES = 32

const HEX_HASH = /^[0-9a-f]{64}$/

/**
 * What stands in the ledger for content that may not stand there in the clear (decisions, "Ledger and seals"):
 * SHA-256 of the salt's 32 bytes followed by the UTF-8 bytes of the content's canonical JSON.
 *
 * The salt must be fresh and random for each commitment and is the caller's to make and to keep: without it the
 * commitment says nothing about the content, even where only a handful of contents are possible.
 *
 * @param salt 32 bytes
 * @returns 64 lower-case hex characters
 * @throws TypeError for a salt of another length, or content that has no canonical JSON
 */
export function commit(salt: Uint8Array, content: JsonValue): string {
  if (!(salt instanceof Uint8Array)) throw new TypeError(`"salt" expected a Uint8Array, got ${typeof salt}`)
  if (salt.length !== SALT_BYTES) throw new TypeError(`"salt" expected ${SALT_BYTES} bytes, got ${salt.length}`)
  return hash('sha256', Buffer.concat([salt, Buffer.from(canonicalJson(content), 'utf8')]), 'hex')
}

/**
 * Whether `commitment` (64 lower-case hex characters) is what salt and content commit to.
 *
 * @throws TypeError as commit() does, or for a commitment of another form: that is a malformed record, not a wrong opening
 */
export function verifyCommitment(commitment: string, salt: Uint8Array, content: JsonValue): boolean {
  if (!HEX_HASH.test(commitment))
    throw new TypeError(`"commitment" expected 64 lower-case hex characters, got ${JSON.stringify(commitment)}`)
  return commit(salt, content) === commitment
}
