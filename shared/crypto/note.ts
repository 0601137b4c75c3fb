import { hash } from 'node:crypto'
import { ed25519PublicKey, ed25519Sign, PUBLIC_KEY_BYTES, SIGNATURE_BYTES } from './ed25519.ts'
import { ed25519Verify } from './ed25519-verify.ts'
import { HASH_BYTES } from './merkle.ts'

/*
 * Signed notes (C2SP signed-note), checkpoints of a log as their text (C2SP tlog-checkpoint), and the
 * cosignatures of those who have seen it grow (C2SP tlog-cosignature, version 1, Ed25519):
 *
 *   note         text, empty line, signature lines; the text ends in a line feed and is what is signed
 *   line         — <name> base64(key id || signature), U+2014 first
 *   key id       the first 4 bytes of SHA-256(name || 0A || type || public key)
 *   vkey         <name>+<key id as hex>+base64(type || public key)
 *   checkpoint   origin, size, base64 of the root, a line each
 *   cosignature  8 bytes of Unix seconds, big-endian, and the signature of "cosignature/v1", "time <seconds>"
 *                and the text
 *
 * The key that signs seals signs notes as well. A seal's text is canonical JSON, which has no line feed, and
 * a note has at least one; so neither can pass for the other.
 */

/** The type byte of a key: `signer` writes the note, `cosigner` adds a timestamped signature. */
export const NOTE_KEY = { signer: 0x01, cosigner: 0x04 } as const
export type NoteKeyType = (typeof NOTE_KEY)[keyof typeof NOTE_KEY]

export type NoteKey = { readonly name: string; readonly type: NoteKeyType; readonly publicKey: Uint8Array }

/** A key of a type that isn't known here, as newer policies may have: nothing is ever signed by it. */
export type UnknownNoteKey = {
  readonly name: string
  readonly type: 'unknown'
  readonly publicKey: Uint8Array
}

/** A line below a note, as it stands there; `keyId` is 8 lower-case hex characters. */
export type NoteSignature = {
  readonly name: string
  readonly keyId: string
  readonly signature: Uint8Array
  readonly line: string
}

/** A note taken apart; nothing in it is verified. */
export type Note = { readonly text: string; readonly signatures: readonly NoteSignature[] }

/** Size and root of a log, and the log's name. */
export type Checkpoint = { readonly origin: string; readonly size: number; readonly root: Uint8Array }

/** Limits of a note: signature lines, and characters in all. */
const MAX_SIGNATURES = 64
const MAX_NOTE_CHARACTERS = 64 * 1024
const KEY_ID_BYTES = 4
const TIME_BYTES = 8
const NAME = /^[^\s\p{Cc}\p{Zs}+]{1,255}$/u
const DECIMAL = /^(?:0|[1-9]\d{0,15})$/

/**
 * Whether a text can be the name of a key, and so the origin of a log: no spaces, no plus, no control
 * characters.
 */
export const isNoteName = (name: string): boolean => NAME.test(name) && name.isWellFormed()

/**
 * Computes the key id of C2SP signed-note.
 *
 * @returns 8 lower-case hex characters
 * @throws TypeError for a name or key of another form
 */
export function noteKeyId({ name, type, publicKey }: NoteKey): string {
  if (!isNoteName(name))
    throw new TypeError(`"name" expected no spaces and no plus, got ${JSON.stringify(name)}`)
  if (publicKey.length !== PUBLIC_KEY_BYTES)
    throw new TypeError(`"publicKey" expected ${PUBLIC_KEY_BYTES} bytes, got ${publicKey.length}`)
  const bytes = Buffer.concat([Buffer.from(`${name}\n`, 'utf8'), Buffer.of(type), publicKey])
  return hash('sha256', bytes, 'hex').slice(0, 2 * KEY_ID_BYTES)
}

/** Writes a verifier key (C2SP signed-note). @throws TypeError as noteKeyId() does */
export function formatVkey(key: NoteKey): string {
  return `${key.name}+${noteKeyId(key)}+${Buffer.concat([Buffer.of(key.type), key.publicKey]).toString('base64')}`
}

/**
 * Parses a vkey.
 *
 * @throws TypeError for anything but one of an Ed25519 key, exactly as formatVkey() writes it
 */
export function parseVkey(vkey: string): NoteKey {
  const wrong = new TypeError('"vkey" expected <name>+<key id>+<base64 of type and Ed25519 key>')
  const [name = '', , ...rest] = typeof vkey === 'string' ? vkey.split('+') : []
  const bytes = fromBase64(rest.join('+'))
  const type = Object.values(NOTE_KEY).find((value) => value === bytes?.[0])
  if (bytes?.length !== 1 + PUBLIC_KEY_BYTES || type === undefined || !isNoteName(name)) throw wrong
  const key = { name, type, publicKey: new Uint8Array(bytes.subarray(1)) }
  if (formatVkey(key) !== vkey) throw wrong
  return key
}

/**
 * Parses a vkey of a type that isn't known here, whatever the length of its key.
 *
 * @returns undefined if it isn't one
 */
export function parseUnknownVkey(vkey: string): UnknownNoteKey | undefined {
  const [name = '', id, ...rest] = vkey.split('+')
  const bytes = fromBase64(rest.join('+'))
  const isKnown = Object.values(NOTE_KEY).some((type) => type === bytes?.[0])
  if (bytes === undefined || bytes.length < 2 || isKnown || !isNoteName(name)) return undefined
  const ownId = hash('sha256', Buffer.concat([Buffer.from(`${name}\n`, 'utf8'), bytes]), 'hex')
  if (ownId.slice(0, 2 * KEY_ID_BYTES) !== id) return undefined
  return { name, type: 'unknown', publicKey: new Uint8Array(bytes.subarray(1)) }
}

/** Writes a signature line, without its line feed. */
function formatLine(key: NoteKey, signature: Uint8Array): string {
  return `— ${key.name} ${Buffer.concat([Buffer.from(noteKeyId(key), 'hex'), signature]).toString('base64')}`
}

/**
 * Writes a signed note: the text, an empty line and the signature lines.
 *
 * @param lines without their line feeds
 */
export const formatNote = (text: string, lines: readonly string[]): string =>
  `${text}\n${lines.map((line) => `${line}\n`).join('')}`

/**
 * Signs a note as its writer, and returns the signature line, without its line feed.
 *
 * @param text ends in a line feed
 * @throws TypeError for another text, name or key
 */
export function signNote(text: string, name: string, secretKey: Uint8Array): string {
  assertText(text)
  const key = { name, type: NOTE_KEY.signer, publicKey: ed25519PublicKey(secretKey) }
  return formatLine(key, ed25519Sign(Buffer.from(text, 'utf8'), secretKey))
}

/**
 * Signs a checkpoint as a cosigner, and returns the signature line, without its line feed.
 *
 * @param text the checkpoint's
 * @param at Unix seconds, signed with it
 * @throws TypeError for another text, name or key
 */
export function cosignNote(text: string, name: string, secretKey: Uint8Array, at: number): string {
  const key = { name, type: NOTE_KEY.cosigner, publicKey: ed25519PublicKey(secretKey) }
  const time = Buffer.alloc(TIME_BYTES)
  time.writeBigUInt64BE(BigInt(at))
  return formatLine(key, Buffer.concat([time, ed25519Sign(cosignedBytes(text, at), secretKey)]))
}

/** The bytes that a cosignature covers (C2SP tlog-cosignature). @param at Unix seconds */
function cosignedBytes(text: string, at: number): Buffer {
  assertText(text)
  return Buffer.from(`cosignature/v1\ntime ${at}\n${text}`, 'utf8')
}

/**
 * Splits a note into its parts; verifies nothing.
 *
 * @throws TypeError for anything that is not a signed note
 */
export function parseNote(note: string): Note {
  const { text, lines } = splitNote(note)
  return { text, signatures: lines.map(parseSignatureLine) }
}

/**
 * The same for whoever looks for lines of known keys alone: a line that is no signature is passed over, as
 * one of an unknown key is.
 *
 * @throws TypeError for anything that is not a signed note
 */
export function parseNoteOfAnyLines(note: string): Note {
  const { text, lines } = splitNote(note)
  const signatures: NoteSignature[] = []
  for (const line of lines) {
    try {
      signatures.push(parseSignatureLine(line))
    } catch {
      // nobody's
    }
  }
  return { text, signatures }
}

/** @throws TypeError for anything that is not a signed note */
function splitNote(note: string): { text: string; lines: string[] } {
  if (typeof note !== 'string' || note.length > MAX_NOTE_CHARACTERS)
    throw new TypeError('"note" expected a signed note')
  const end = note.lastIndexOf('\n\n')
  if (end < 0 || !note.endsWith('\n') || !note.isWellFormed())
    throw new TypeError('"note" expected a text, an empty line and signature lines')
  const text = note.slice(0, end + 1)
  assertText(text)
  const lines = note.slice(end + 2, -1).split('\n')
  if (lines.length > MAX_SIGNATURES)
    throw new TypeError(`"note" expected at most ${MAX_SIGNATURES} signature lines`)
  return { text, lines }
}

/**
 * Takes a signature line apart; verifies nothing.
 *
 * @param line without its line feed
 * @throws TypeError for anything but a signature line
 */
export function parseSignatureLine(line: string): NoteSignature {
  const [dash, name = '', encoded = '', ...rest] = typeof line === 'string' ? line.split(' ') : []
  const bytes = fromBase64(encoded)
  if (
    dash !== '—' ||
    rest.length > 0 ||
    !isNoteName(name) ||
    bytes === undefined ||
    bytes.length <= KEY_ID_BYTES
  )
    throw new TypeError('"line" expected — <name> <base64 of key id and signature>')
  return {
    name,
    keyId: bytes.toString('hex', 0, KEY_ID_BYTES),
    signature: new Uint8Array(bytes.subarray(KEY_ID_BYTES)),
    line,
  }
}

/** Whether a line claims to be by a key: it has the key's name and id. */
const isLineOf = ({ name, keyId }: NoteSignature, key: NoteKey): boolean =>
  name === key.name && keyId === noteKeyId(key)

/** Whether a signature (64 bytes) is a key's (32 bytes) over a message. */
export type VerifySignature = (signature: Uint8Array, message: Uint8Array, publicKey: Uint8Array) => boolean

/**
 * Whether a note has a valid signature of `key` (type signer). Lines of other keys are ignored; one invalid
 * line of this key makes the result false, even beside a valid one (C2SP signed-note, "Signatures").
 */
export const verifyNote = (note: Note, key: NoteKey): boolean => verifyNoteBy(ed25519Verify, note, key)

/** As verifyNote(), with the caller's own check of a signature. */
export function verifyNoteBy(verify: VerifySignature, note: Note, key: NoteKey): boolean {
  const lines = note.signatures.filter((signature) => isLineOf(signature, key))
  const isGood = ({ signature }: NoteSignature): boolean =>
    key.type === NOTE_KEY.signer &&
    signature.length === SIGNATURE_BYTES &&
    verify(signature, Buffer.from(note.text, 'utf8'), key.publicKey)
  return lines.length > 0 && lines.every(isGood)
}

/**
 * Verifies that a signature line is a cosignature of the text by `key` (type cosigner).
 *
 * @returns the time that it states, in Unix seconds; undefined if it isn't one
 */
export const verifyCosignature = (text: string, line: NoteSignature, key: NoteKey): number | undefined =>
  verifyCosignatureBy(ed25519Verify, text, line, key)

/** As verifyCosignature(), with the caller's own check of a signature. */
export function verifyCosignatureBy(
  verify: VerifySignature,
  text: string,
  line: NoteSignature,
  key: NoteKey,
): number | undefined {
  if (
    key.type !== NOTE_KEY.cosigner ||
    !isLineOf(line, key) ||
    line.signature.length !== TIME_BYTES + SIGNATURE_BYTES
  )
    return undefined
  const at = Number(Buffer.from(line.signature.subarray(0, TIME_BYTES)).readBigUInt64BE())
  if (!Number.isSafeInteger(at)) return undefined
  return verify(line.signature.subarray(TIME_BYTES), cosignedBytes(text, at), key.publicKey) ? at : undefined
}

/**
 * Writes the text of a checkpoint (C2SP tlog-checkpoint).
 *
 * @throws TypeError for an origin, size or root of another form
 */
export function formatCheckpoint({ origin, size, root }: Checkpoint): string {
  if (!isNoteName(origin))
    throw new TypeError(`"origin" expected no spaces and no plus, got ${JSON.stringify(origin)}`)
  if (!Number.isSafeInteger(size) || size < 0)
    throw new TypeError(`"size" expected a whole number from 0, got ${size}`)
  if (root.length !== HASH_BYTES)
    throw new TypeError(`"root" expected ${HASH_BYTES} bytes, got ${root.length}`)
  return `${origin}\n${size}\n${Buffer.from(root).toString('base64')}\n`
}

/**
 * Parses the text of a checkpoint.
 *
 * @throws TypeError for a text that is not a checkpoint; extension lines after the third are refused, since
 *   nobody audits them
 */
export function parseCheckpoint(text: string): Checkpoint {
  const [origin = '', size = '', encoded = '', end, ...rest] = text.split('\n')
  const root = fromBase64(encoded)
  if (
    end !== '' ||
    rest.length > 0 ||
    !isNoteName(origin) ||
    !DECIMAL.test(size) ||
    !Number.isSafeInteger(Number(size)) ||
    root?.length !== HASH_BYTES
  )
    throw new TypeError('"text" expected a checkpoint: origin, size and base64 root, a line each')
  return { origin, size: Number(size), root: new Uint8Array(root) }
}

const PROOF_HEADER = 'c2sp.org/tlog-proof@v1'

/** An entry's index in a log, the hashes from it to the root, and the signed checkpoint with that root. */
export type LogProof = {
  readonly index: number
  readonly path: readonly Uint8Array[]
  readonly checkpoint: string
}

/** Writes a proof as the text of C2SP tlog-proof. */
export function formatLogProof({ index, path, checkpoint }: LogProof): string {
  const hashes = path.map((step) => `${Buffer.from(step).toString('base64')}\n`).join('')
  return `${PROOF_HEADER}\nindex ${index}\n${hashes}\n${checkpoint}`
}

/**
 * Parses the text of C2SP tlog-proof. An `extra` line is ignored, and the checkpoint isn't parsed.
 *
 * @throws TypeError for any other text
 */
export function parseLogProof(proof: string): LogProof {
  const wrong = new TypeError('"proof" expected the text of a tlog-proof')
  const end = typeof proof === 'string' ? proof.indexOf('\n\n') : -1
  if (end < 0 || proof.length > MAX_NOTE_CHARACTERS) throw wrong
  const [header, ...lines] = proof.slice(0, end).split('\n')
  if (lines[0]?.startsWith('extra ')) lines.shift()
  const [, index = ''] = /^index (.*)$/.exec(lines.shift() ?? '') ?? []
  const path = lines.map(fromBase64)
  if (header !== PROOF_HEADER || !DECIMAL.test(index) || !path.every((step) => step?.length === HASH_BYTES))
    throw wrong
  return { index: Number(index), path: path as Buffer[], checkpoint: proof.slice(end + 2) }
}

/** Decodes base64 (RFC 4648 section 4); undefined for anything but the one canonical text of its bytes. */
function fromBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64')
  return bytes.toString('base64') === text ? bytes : undefined
}

/**
 * @throws TypeError unless `text` can be that of a note: lines without control characters, each with a line
 *   feed
 */
function assertText(text: string): void {
  // The line feed is the only ASCII control character that a note may have.
  if (
    typeof text !== 'string' ||
    !text.endsWith('\n') ||
    /[^\P{Cc}\n\u007f-\u009f]/u.test(text) ||
    !text.isWellFormed()
  )
    throw new TypeError('"text" expected lines of text, each with a line feed')
}
