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
 * Returns the content that a record's entry commits to: the record's fields and its id, so that the
 * commitment can't be passed off as another record's.
 *
 * @param content without a field `id`
 */
export function bindContent<Fields extends Content>(id: string, content: Fields): Fields & { id: string } {
  return { ...content, id }
}

/**
 * Makes the commitment that an entry carries in place of a record's content: commit() over the content and
 * the record's id. Every new commitment is made here, so that each contains its record's id.
 *
 * @param salt 64 hex characters, fresh for each record
 * @returns 64 lower-case hex characters
 */
export function commitRecord(id: string, salt: string, content: Content): string {
  return commit(Buffer.from(salt, 'hex'), bindContent(id, content))
}

/**
 * Whether a commitment, as an entry has it, is the one that commitRecord() makes of a record; false if the salt
 * isn't 64 hex characters.
 */
export const isRecordCommitted = (
  commitment: unknown,
  id: string,
  salt: string | undefined,
  content: Content,
): boolean => isOpenedBy(commitment, salt, bindContent(id, content))

/** Whether salt and content open a commitment; false if the salt isn't 64 hex characters. */
export function isOpenedBy(commitment: unknown, salt: unknown, content: JsonValue): boolean {
  return (
    typeof salt === 'string' &&
    HEX_HASH.test(salt) &&
    commitment === commit(Buffer.from(salt, 'hex'), content)
  )
}

/**
 * Makes a hiding commitment: SHA-256 of the salt's 32 bytes followed by the UTF-8 bytes of the content's
 * canonical JSON. The content of a record includes its id: bindContent().
 *
 * The caller makes and keeps the salt, fresh and random for each commitment. Without the salt, a commitment
 * reveals nothing about the content, even if only a handful of contents are possible.
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
