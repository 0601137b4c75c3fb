import { hash } from 'node:crypto'
import { canonicalJson, type JsonValue } from './canonical-json.ts'

/**
 * Bytes of a commitment's salt: as long as the hash, so that guessing the content never beats guessing the
 * salt.
 */
export const SALT_BYTES = 32

type Content = { readonly [key: string]: JsonValue }

const HEX_HASH = /^[0-9a-f]{64}$/

/**
 * The content that an entry commits to for a record: the record's own fields and, beside them, its id, so
 * that a commitment says which record it is of and can't be put under another id. As canonical JSON it is
 * `{…, "id": id, …}`, the keys sorted.
 *
 * Entries of earlier versions commit to the fields alone, and stay as they are: see openContent(). A verifier
 * takes an opening's content as it is shown, and asks of one that has an `id` that it is the record's.
 *
 * @param content without a field `id` of its own
 */
export function bindContent<Fields extends Content>(id: string, content: Fields): Fields & { id: string } {
  return { ...content, id }
}

/**
 * What an entry states for a record's content that may not stand there in the clear. Every new commitment is
 * made here, so none can be without its record's id.
 *
 * @param salt as hex, fresh for each record
 */
export function commitRecord(id: string, salt: string, content: Content): string {
  return commit(Buffer.from(salt, 'hex'), bindContent(id, content))
}

/**
 * The content that opens a commitment of a record: with the record's id, or without where the entry is from
 * before ids were bound. What opens in neither way is shown with it, and does not verify.
 *
 * @param commitment as the entry has it
 * @param salt as hex
 */
export function openContent(commitment: unknown, salt: string, id: string, content: Content): Content {
  return isOpenedBy(commitment, salt, content) ? content : bindContent(id, content)
}

/** Whether salt (hex) and content open a commitment; a salt of another form opens nothing. */
export function isOpenedBy(commitment: unknown, salt: unknown, content: JsonValue): boolean {
  return (
    typeof salt === 'string' &&
    HEX_HASH.test(salt) &&
    commitment === commit(Buffer.from(salt, 'hex'), content)
  )
}

/**
 * What stands in the ledger for content that may not stand there in the clear (decisions, "Ledger and
 * seals"): SHA-256 of the salt's 32 bytes followed by the UTF-8 bytes of the content's canonical JSON. The
 * content of a record has its id in it: bindContent().
 *
 * The salt must be fresh and random for each commitment and is the caller's to make and to keep: without it
 * the commitment says nothing about the content, even where only a handful of contents are possible.
 *
 * @param salt 32 bytes
 * @returns 64 lower-case hex characters
 * @throws TypeError for a salt of another length, or content that has no canonical JSON
 */
export function commit(salt: Uint8Array, content: JsonValue): string {
  if (!(salt instanceof Uint8Array)) throw new TypeError(`"salt" expected a Uint8Array, got ${typeof salt}`)
  if (salt.length !== SALT_BYTES)
    throw new TypeError(`"salt" expected ${SALT_BYTES} bytes, got ${salt.length}`)
  return hash('sha256', Buffer.concat([salt, Buffer.from(canonicalJson(content), 'utf8')]), 'hex')
}

/**
 * Whether `commitment` (64 lower-case hex characters) is what salt and content commit to.
 *
 * @throws TypeError as commit() does, or for a commitment of another form: that is a malformed record, not a
 *   wrong opening
 */
export function verifyCommitment(commitment: string, salt: Uint8Array, content: JsonValue): boolean {
  if (!HEX_HASH.test(commitment))
    throw new TypeError(
      `"commitment" expected 64 lower-case hex characters, got ${JSON.stringify(commitment)}`,
    )
  return commit(salt, content) === commitment
}
