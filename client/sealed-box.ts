import { xchacha20poly1305 } from '@noble/ciphers/chacha.js'
import { x25519 } from '@noble/curves/ed25519.js'
import { hkdf } from '@noble/hashes/hkdf.js'
import { hmac } from '@noble/hashes/hmac.js'
import { sha256 } from '@noble/hashes/sha2.js'
import { bytesToHex, concatBytes, hexToBytes, randomBytes, utf8ToBytes } from '@noble/hashes/utils.js'
import { CodedError } from './errors.ts'

// The format, its reasons and what it does not protect: sealed-box.md beside this file.

const FORMS = {
  1: { prefix: 'box1.', salt: utf8ToBytes('agent-network sealed box v1') },
  2: { prefix: 'box2.', salt: utf8ToBytes('agent-network sealed box v2') },
} as const
const PREFIX_CHARACTERS = 5
const KEY_BYTES = 32
const NONCE_BYTES = 24
const TAG_BYTES = 16
const LENGTH_BYTES = 2
/** Stands before the length of a note that follows the message. */
const NOTE_MARK = 1
const NOTE_HEADER_BYTES = 1 + LENGTH_BYTES
/** A checkpoint with the log's own signature has some 250 bytes. */
const MAX_NOTE_BYTES = 1_024
const HEADER_BYTES = 1 + KEY_BYTES + NONCE_BYTES
const MAX_ID_BYTES = 255
const FIELD_PRIME = 2n ** 255n - 19n

/** The contract's bound on `box`, 64 KiB; a box is ASCII, so characters are bytes. */
const MAX_BOX_CHARACTERS = 65_536
/**
 * 49,075: what the base64url characters after the prefix can carry, less header and tag; that box has 65,536
 * characters.
 */
const MAX_PADDED_BYTES =
  Math.floor(((MAX_BOX_CHARACTERS - PREFIX_CHARACTERS) * 3) / 4) - HEADER_BYTES - TAG_BYTES
const SIZE_CLASSES = [256, 512, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768, MAX_PADDED_BYTES]

/** The longest message that fits a box of 64 KiB: 49,073 bytes. */
export const MAX_PLAINTEXT_BYTES = MAX_PADDED_BYTES - LENGTH_BYTES

/** 32 bytes, or the 64 hex characters in which a card carries its `dm_key`. */
export type DmKey = Uint8Array | string

/**
 * What a box is for. It is bound into the key, so a box of one purpose, or of one order, opens as no other's.
 * `orderId`: 1 to 255 bytes of UTF-8.
 */
export type Purpose = { kind: 'message' } | { kind: 'delivery'; orderId: string }

/**
 * - `not_a_box`: not the text form, or no size that a box can have (cut short, for example)
 * - `unknown_version`: a box of a later form, or of the second form if no purpose is named
 * - `cannot_open`: another key, another pair of agents, another purpose, or altered on the way; these can't
 *   be told apart
 * - `bad_padding`: authentic, but the sender's software laid it out wrongly
 * - `too_long`: over {@link MAX_PLAINTEXT_BYTES} when sealing, over 64 KiB when opening
 * - `bad_key`: a public key of low order, with which every shared secret would be zero, or not in canonical
 *   form
 */
export type SealedBoxErrorCode =
  'not_a_box' | 'unknown_version' | 'cannot_open' | 'bad_padding' | 'too_long' | 'bad_key'

/** A refusal of {@link sealBox} or {@link openBox}. */
export class SealedBoxError extends CodedError<SealedBoxErrorCode> {
  override readonly name = 'SealedBoxError'
}

/** What both sides must agree on, byte for byte, for a box to open. */
type Parties = {
  ephemeralPublicKey: Uint8Array
  senderPublicKey: Uint8Array
  recipientPublicKey: Uint8Array
  senderId: string
  recipientId: string
  /** Of the second form; the first has none. */
  purpose: Purpose | undefined
}

/** Which form of box a text claims to be, by its prefix; undefined if neither. Form 1 doesn't name a purpose. */
export function formOf(box: string): 1 | 2 | undefined {
  if (box.startsWith(FORMS[1].prefix)) return 1
  return box.startsWith(FORMS[2].prefix) ? 2 : undefined
}

/** A fresh X25519 key pair, each half as 64 lower-case hex characters; `publicKey` goes on the card as `dm_key`. */
export function newDmKeyPair(): { secretKey: string; publicKey: string } {
  const { secretKey, publicKey } = x25519.keygen()
  return { secretKey: bytesToHex(secretKey), publicKey: bytesToHex(publicKey) }
}

/**
 * Encrypts a message so that only the recipient reads it and knows that the holder of the sender's key wrote
 * it.
 *
 * @param purpose what the box is for; the first form, which names none, is opened but never made
 * @param note a signed checkpoint that goes with it, at most 1,024 bytes; it is left out if the largest box
 *   has no room for it
 * @param plaintext at most {@link MAX_PLAINTEXT_BYTES} bytes; a string is sent as UTF-8
 * @param random `length` unpredictable bytes; called for 32 (the ephemeral key), then for 24 (the nonce).
 *   Only test vectors have a reason to replace it.
 * @returns the text for the `box` field of `POST /dm`, 444 to 65,536 ASCII characters. The sender can't open
 *   it again.
 * @throws SealedBoxError `too_long`, `bad_key`; Error if an argument has the wrong form
 * Source: sealed-box.md; after the authenticated mode of RFC 9180, section 4.1.
 */
export function sealBox({
  plaintext,
  senderSecretKey,
  senderId,
  recipientPublicKey,
  recipientId,
  purpose,
  note,
  random = randomBytes,
}: {
  plaintext: Uint8Array | string
  note?: string | undefined
  senderSecretKey: DmKey
  senderId: string
  recipientPublicKey: DmKey
  recipientId: string
  purpose: Purpose
  random?: (length: number) => Uint8Array
}): string {
  const given: unknown = purpose
  if (given === undefined)
    throw new Error(
      '"purpose" expected what the box is for: { kind: "message" }, or a delivery with its orderId',
    )
  const message = readPlaintext(plaintext)
  const senderSecret = readKey('senderSecretKey', senderSecretKey)
  const recipientPublic = readPublicKey('recipientPublicKey', recipientPublicKey)
  const padded = pad(message, note === undefined ? undefined : utf8ToBytes(note))

  const ephemeralSecret = readRandom(random, KEY_BYTES)
  const ephemeralPublicKey = x25519.getPublicKey(ephemeralSecret)
  const agree = (secret: Uint8Array) =>
    orRefuse('bad_key', '"recipientPublicKey" is not a usable X25519 key: a point of low order', () =>
      x25519.getSharedSecret(secret, recipientPublic),
    )
  const { key, nonceKey } = deriveKeys(agree(ephemeralSecret), agree(senderSecret), {
    ephemeralPublicKey,
    senderPublicKey: x25519.getPublicKey(senderSecret),
    recipientPublicKey: recipientPublic,
    senderId,
    recipientId,
    purpose,
  })
  // The message goes into the nonce: if a copied machine draws the same random bytes twice, two different
  // messages still get two nonces, and no key stream is used twice.
  const nonce = hmac(sha256, nonceKey, concatBytes(readRandom(random, NONCE_BYTES), padded)).subarray(
    0,
    NONCE_BYTES,
  )
  const header = concatBytes(Uint8Array.of(2), ephemeralPublicKey, nonce)
  const ciphertext = xchacha20poly1305(key, nonce, header).encrypt(padded)
  for (const secret of [ephemeralSecret, key, nonceKey, padded]) secret.fill(0)
  return FORMS[2].prefix + Buffer.from(concatBytes(header, ciphertext)).toString('base64url')
}

/**
 * Opens a box of either form. A box of the first form opens whatever the purpose, since it names none;
 * {@link formOf} tells the form.
 *
 * @param purpose what the box was handed over as; without it only the first form is opened
 * @param senderId, senderPublicKey who is said to have sent it: `from` of the message, and the `dm_key` on
 *   that agent's card
 * @returns the message's bytes, exactly as sealed
 * @throws SealedBoxError `not_a_box`, `unknown_version`, `cannot_open`, `bad_padding`, `too_long`, `bad_key`;
 *   Error if an argument other than the box has the wrong form
 * Source: sealed-box.md; after the authenticated mode of RFC 9180, section 4.1.
 */
export function openBox(options: Parameters<typeof openBoxWithNote>[0]): Uint8Array {
  return openBoxWithNote(options).message
}

/**
 * Opens a box, as openBox() does.
 *
 * @returns the message, and as `note` the checkpoint that the sender put into the box, if one is in it;
 *   whoever uses that must verify its signature
 * @throws the errors of openBox()
 */
export function openBoxWithNote({
  box,
  recipientSecretKey,
  recipientId,
  senderPublicKey,
  senderId,
  purpose,
}: {
  box: string
  recipientSecretKey: DmKey
  recipientId: string
  senderPublicKey: DmKey
  senderId: string
  purpose?: Purpose | undefined
}): { message: Uint8Array; note?: string } {
  const recipientSecret = readKey('recipientSecretKey', recipientSecretKey)
  const senderPublic = readPublicKey('senderPublicKey', senderPublicKey)
  const { form, bytes } = decodeBox(box, purpose === undefined ? 1 : 2)
  const header = bytes.subarray(0, HEADER_BYTES)
  const ephemeralPublicKey = header.subarray(1, 1 + KEY_BYTES)
  const nonce = header.subarray(1 + KEY_BYTES)

  const { key } = deriveKeys(
    orRefuse('cannot_open', 'the box was altered: its ephemeral key is a point of low order', () =>
      x25519.getSharedSecret(recipientSecret, ephemeralPublicKey),
    ),
    orRefuse('bad_key', '"senderPublicKey" is not a usable X25519 key: a point of low order', () =>
      x25519.getSharedSecret(recipientSecret, senderPublic),
    ),
    {
      ephemeralPublicKey,
      senderPublicKey: senderPublic,
      recipientPublicKey: x25519.getPublicKey(recipientSecret),
      senderId,
      recipientId,
      purpose: form === 1 ? undefined : purpose,
    },
  )
  const padded = orRefuse(
    'cannot_open',
    'the box does not open: it is for another key, another agent or another purpose, not from this sender, or it was altered',
    () => xchacha20poly1305(key, nonce, header).decrypt(bytes.subarray(HEADER_BYTES)),
  )
  return unpad(padded, form)
}

/**
 * What a computation gives. X25519 throws on a shared secret of zeros (RFC 7748 section 6.1), XChaCha20-Poly1305 on what is
 * not authentic.
 *
 * @throws SealedBoxError with this code and message if it throws
 */
function orRefuse<T>(code: SealedBoxErrorCode, message: string, compute: () => T): T {
  try {
    return compute()
  } catch (cause) {
    throw new SealedBoxError(code, message, { cause })
  }
}

/**
 * Derives by HKDF-SHA-256 the key that encrypts the message and the key that makes the nonce, 32 bytes each.
 * All that both sides must agree on goes into the derivation.
 */
function deriveKeys(
  ephemeralShared: Uint8Array,
  staticShared: Uint8Array,
  parties: Parties,
): { key: Uint8Array; nonceKey: Uint8Array } {
  const form = parties.purpose === undefined ? 1 : 2
  const info = concatBytes(
    Uint8Array.of(form),
    parties.ephemeralPublicKey,
    parties.senderPublicKey,
    parties.recipientPublicKey,
    prefixLength('senderId', parties.senderId),
    prefixLength('recipientId', parties.recipientId),
    encodePurpose(parties.purpose),
  )
  const okm = hkdf(sha256, concatBytes(ephemeralShared, staticShared), FORMS[form].salt, info, 2 * KEY_BYTES)
  return { key: okm.subarray(0, KEY_BYTES), nonceKey: okm.subarray(KEY_BYTES) }
}

/**
 * The purpose as bytes: none for the first form; 01 00 for a message; 02, a length and the order's id for a
 * delivery.
 */
function encodePurpose(purpose: Purpose | undefined): Uint8Array {
  if (purpose === undefined) return new Uint8Array()
  if (purpose.kind === 'message') return Uint8Array.of(1, 0)
  return concatBytes(Uint8Array.of(2), prefixLength('orderId', purpose.orderId))
}

/** An id in UTF-8 behind one byte with its length. @throws Error unless it has 1 to 255 bytes */
function prefixLength(name: string, id: string): Uint8Array {
  if (typeof id !== 'string' || !id.isWellFormed())
    throw new Error(`"${name}" expected a well-formed string, got ${typeof id}`)
  const bytes = utf8ToBytes(id)
  if (bytes.length === 0 || bytes.length > MAX_ID_BYTES) {
    throw new Error(`"${name}" expected 1 to ${MAX_ID_BYTES} bytes of UTF-8, got ${bytes.length}`)
  }
  return concatBytes(Uint8Array.of(bytes.length), bytes)
}

/**
 * Lays out the plaintext of a box: the message's length, the message, the note if it fits, and zeros up to
 * the next size class, so that a box tells little of its message's length.
 *
 * @throws SealedBoxError `too_long`
 */
function pad(message: Uint8Array, note?: Uint8Array): Uint8Array {
  const sizeFor = (bytes: number) => SIZE_CLASSES.find((sizeClass) => sizeClass >= LENGTH_BYTES + bytes)
  const noteSize =
    note === undefined || note.length > MAX_NOTE_BYTES
      ? undefined
      : sizeFor(message.length + NOTE_HEADER_BYTES + note.length)
  const size = noteSize ?? sizeFor(message.length)
  if (size === undefined) {
    throw new SealedBoxError(
      'too_long',
      `"plaintext" expected at most ${MAX_PLAINTEXT_BYTES} bytes, got ${message.length}`,
    )
  }
  const padded = new Uint8Array(size)
  new DataView(padded.buffer).setUint16(0, message.length) // big-endian
  padded.set(message, LENGTH_BYTES)
  if (note !== undefined && noteSize !== undefined) {
    const at = LENGTH_BYTES + message.length
    padded[at] = NOTE_MARK
    new DataView(padded.buffer).setUint16(at + 1, note.length)
    padded.set(note, at + NOTE_HEADER_BYTES)
  }
  return padded
}

/** Reads what pad() laid out. @throws SealedBoxError `bad_padding` */
function unpad(padded: Uint8Array, form: 1 | 2): { message: Uint8Array; note?: string } {
  const view = new DataView(padded.buffer, padded.byteOffset, padded.byteLength)
  const length = view.getUint16(0)
  const end = LENGTH_BYTES + length
  if (end > padded.length) {
    throw new SealedBoxError(
      'bad_padding',
      `the box is authentic but states ${length} bytes where at most ${padded.length - LENGTH_BYTES} fit`,
    )
  }
  const message = padded.slice(LENGTH_BYTES, end)
  const hasNote = form === 2 && padded[end] === NOTE_MARK && end + NOTE_HEADER_BYTES <= padded.length
  const noteEnd = hasNote ? end + NOTE_HEADER_BYTES + view.getUint16(end + 1) : end
  if (noteEnd > padded.length || padded.subarray(noteEnd).some((byte) => byte !== 0)) {
    throw new SealedBoxError(
      'bad_padding',
      'the box is authentic but its padding holds bytes other than zero',
    )
  }
  return hasNote
    ? { message, note: Buffer.from(padded.subarray(end + NOTE_HEADER_BYTES, noteEnd)).toString('utf8') }
    : { message }
}

/**
 * Decodes a box's text.
 *
 * @param newest the newest form that may be opened
 * @throws SealedBoxError `not_a_box`, `unknown_version`, `too_long`
 */
function decodeBox(box: string, newest: 1 | 2): { form: 1 | 2; bytes: Uint8Array } {
  if (typeof box !== 'string') throw new SealedBoxError('not_a_box', `a box is text, got ${typeof box}`)
  if (box.length > MAX_BOX_CHARACTERS) {
    throw new SealedBoxError(
      'too_long',
      `a box has at most ${MAX_BOX_CHARACTERS} characters, got ${box.length}`,
    )
  }
  const form = formOf(box)
  if (form === undefined || form > newest) {
    if (!/^box\d{1,9}\./.test(box))
      throw new SealedBoxError('not_a_box', `a box begins with "${FORMS[newest].prefix}"`)
    const opened =
      newest === 1 ? `"box1.", and "box2." if it is told what they are for` : '"box1." or "box2."'
    throw new SealedBoxError('unknown_version', `this client opens boxes that begin with ${opened}`)
  }
  const text = box.slice(PREFIX_CHARACTERS)
  const bytes = Buffer.from(text, 'base64url')
  // Encoding again catches what the decoder lets pass: padding, white space, the other alphabet, stray low
  // bits.
  if (bytes.toString('base64url') !== text)
    throw new SealedBoxError('not_a_box', 'a box is canonical base64url without padding')
  if (bytes.length > 0 && bytes[0] !== form) {
    throw new SealedBoxError(
      'unknown_version',
      `a box that begins with "box${form}." has version ${form}, got version ${bytes[0]}`,
    )
  }
  if (!SIZE_CLASSES.includes(bytes.length - HEADER_BYTES - TAG_BYTES)) {
    throw new SealedBoxError('not_a_box', `no box has ${bytes.length} bytes: it was cut short or lengthened`)
  }
  return { form, bytes }
}

/** The plaintext as bytes, a string in UTF-8. @throws Error for anything else, and for lone surrogates */
function readPlaintext(plaintext: Uint8Array | string): Uint8Array {
  if (plaintext instanceof Uint8Array) return plaintext
  if (typeof plaintext === 'string' && plaintext.isWellFormed()) return utf8ToBytes(plaintext)
  throw new Error('"plaintext" expected bytes or a well-formed string (no lone surrogates)')
}

/** A key as 32 bytes. @throws Error for another form; it doesn't quote the key */
function readKey(name: string, key: DmKey): Uint8Array {
  if (typeof key === 'string') {
    // The value is left out of the sentence: it may be a secret.
    if (!/^[0-9a-fA-F]{64}$/.test(key))
      throw new Error(`"${name}" expected 64 hex characters, got a string of ${key.length}`)
    return hexToBytes(key)
  }
  if (!(key instanceof Uint8Array) || key.length !== KEY_BYTES) {
    throw new Error(
      `"${name}" expected ${KEY_BYTES} bytes, got ${key instanceof Uint8Array ? key.length : typeof key}`,
    )
  }
  return key
}

/**
 * A public key as 32 bytes, which must be canonical: they go into the derivation, so another encoding of the
 * same point would make boxes that nobody can open.
 *
 * @throws SealedBoxError `bad_key`; Error for another form
 */
function readPublicKey(name: string, key: DmKey): Uint8Array {
  const bytes = readKey(name, key)
  const u = BigInt(`0x${bytesToHex(Uint8Array.from(bytes).reverse())}`) // little-endian, RFC 7748 section 5
  if (u >= FIELD_PRIME)
    throw new SealedBoxError('bad_key', `"${name}" is not a usable X25519 key: not in canonical form`)
  return bytes
}

/** Calls `random` for `length` bytes, and copies them. @throws Error if it gives something else */
function readRandom(random: (length: number) => Uint8Array, length: number): Uint8Array {
  const bytes = random(length)
  if (!(bytes instanceof Uint8Array) || bytes.length !== length)
    throw new Error(`"random" expected to give ${length} bytes`)
  return Uint8Array.from(bytes) // a copy of our own, wiped after use
}
