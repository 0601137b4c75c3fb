import { createHmac, randomBytes } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  MAX_PLAINTEXT_BYTES,
  newDmKeyPair,
  openBox,
  sealBox,
  SealedBoxError,
  type Purpose,
  type SealedBoxErrorCode,
} from '../../client/sealed-box.ts'
import { sealWithNode } from '../support/node-sealed-box.ts'
import { FULL } from '../support/full.ts'

const PREFIX = 'box2.'
const MESSAGE: Purpose = { kind: 'message' }
const HEADER_BYTES = 57
const OVERHEAD_BYTES = HEADER_BYTES + 16

type ValidVector = {
  sender_id: string
  recipient_id: string
  sender_secret_key: string
  sender_public_key: string
  recipient_secret_key: string
  recipient_public_key: string
  ephemeral_secret_key: string
  nonce_random: string
  plaintext: string
  padded_bytes: number
  ephemeral_public_key: string
  ephemeral_shared: string
  static_shared: string
  key: string
  nonce_key: string
  nonce: string
  box: string
}
type InvalidVector = {
  description: string
  error: SealedBoxErrorCode
  sender_id: string
  recipient_id: string
  recipient_secret_key: string
  sender_public_key: string
  box: string
}

function readVectors<T>(directory: 'valid' | 'invalid'): { name: string; vector: T }[] {
  const url = new URL(`../vectors/${directory}/`, import.meta.url)
  return readdirSync(url)
    .filter((file) => file.startsWith('sealed-box-'))
    .map((file) => ({
      name: file.replace('.json', ''),
      vector: JSON.parse(readFileSync(new URL(file, url), 'utf8')) as T,
    }))
}

const validVectors = readVectors<ValidVector>('valid')
const invalidVectors = readVectors<InvalidVector>('invalid')

function fromHex(hex: string): Uint8Array {
  return Uint8Array.from(Buffer.from(hex, 'hex'))
}

const sender = { id: 'agt_01SENDER', ...newDmKeyPair() }
const recipient = { id: 'agt_01RECIPIENT', ...newDmKeyPair() }

function seal(plaintext: Uint8Array | string, changes: Partial<Parameters<typeof sealBox>[0]> = {}): string {
  return sealBox({
    plaintext,
    senderSecretKey: sender.secretKey,
    senderId: sender.id,
    recipientPublicKey: recipient.publicKey,
    recipientId: recipient.id,
    purpose: MESSAGE,
    ...changes,
  })
}

function open(box: string, changes: Partial<Parameters<typeof openBox>[0]> = {}): Uint8Array {
  return openBox({
    box,
    recipientSecretKey: recipient.secretKey,
    recipientId: recipient.id,
    senderPublicKey: sender.publicKey,
    senderId: sender.id,
    purpose: MESSAGE,
    ...changes,
  })
}

/** The code with which the call refuses, or "accepted". */
function refusal(call: () => unknown): SealedBoxErrorCode | 'accepted' {
  try {
    call()
  } catch (error) {
    if (error instanceof SealedBoxError) return error.code
    throw error
  }
  return 'accepted'
}

function decode(box: string): Buffer {
  return Buffer.from(box.slice(PREFIX.length), 'base64url')
}

describe('a sealed box', () => {
  it('gives back any message, byte for byte, to its recipient', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 3_000 }),
        fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 }),
        fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 }),
        (plaintext, senderId, recipientId) => {
          const box = seal(plaintext, { senderId, recipientId })
          expect(box).toMatch(/^box2\.[A-Za-z0-9_-]+$/)
          expect(open(box, { senderId, recipientId })).toEqual(plaintext)
        },
      ),
      { numRuns: 60 },
    )
  })

  it('carries a string as UTF-8 and takes keys as bytes as well as hex', () => {
    const box = seal('naïve ✓ 🜂', {
      senderSecretKey: fromHex(sender.secretKey),
      recipientPublicKey: fromHex(recipient.publicKey),
    })
    const opened = open(box, {
      recipientSecretKey: fromHex(recipient.secretKey),
      senderPublicKey: sender.publicKey.toUpperCase(),
    })
    expect(Buffer.from(opened).toString('utf8')).toBe('naïve ✓ 🜂')
  })

  it('of the longest message has exactly 64 KiB of text, and a byte more is refused', () => {
    const longest = Uint8Array.from(randomBytes(MAX_PLAINTEXT_BYTES))
    const box = seal(longest)
    expect(Buffer.byteLength(box)).toBe(65_536)
    expect(open(box)).toEqual(longest)
    expect(refusal(() => seal(new Uint8Array(MAX_PLAINTEXT_BYTES + 1)))).toBe('too_long')
    expect(refusal(() => open(`${box}A`))).toBe('too_long')
  })

  it('shows one of nine lengths, whatever the length of the message', () => {
    const lengths = [
      0,
      1,
      254,
      255,
      510,
      511,
      1_022,
      1_023,
      2_046,
      2_047,
      4_094,
      4_095,
      8_190,
      8_191,
      16_382,
      16_383,
      32_766,
      32_767,
      MAX_PLAINTEXT_BYTES,
    ]
    const shown = lengths.map((length) => seal(new Uint8Array(length)).length)
    expect(new Set(shown).size).toBe(9)
    // Both sides of each border: the last length of a class equals the first of it, the next one is longer.
    expect(shown[0]).toBe(shown[2])
    for (let i = 2; i + 2 < shown.length; i += 2) {
      expect(shown[i + 1]).toBeGreaterThan(shown[i] ?? 0)
      expect(shown[i + 2]).toBe(shown[i + 1])
    }
  })

  /** One place of so many is changed. */
  const EVERY = FULL ? 1 : 7

  it('is refused after any change of any byte', () => {
    const bytes = decode(seal('short'))
    for (let at = 0; at < bytes.length; at += EVERY) {
      const altered = Buffer.from(bytes)
      altered[at] = (altered[at] ?? 0) ^ (1 + (at % 255))
      const code = refusal(() => open(PREFIX + altered.toString('base64url')))
      expect(code, `byte ${at}`).toBe(at === 0 ? 'unknown_version' : 'cannot_open')
    }
  })

  it('is refused after any change of any character, and at any shorter length', () => {
    const box = seal('short')
    for (let at = 0; at < box.length; at += EVERY) {
      const other = box[at] === 'Q' ? 'R' : 'Q'
      expect(
        refusal(() => open(box.slice(0, at) + other + box.slice(at + 1))),
        `character ${at}`,
      ).not.toBe('accepted')
      expect(
        refusal(() => open(box.slice(0, at))),
        `length ${at}`,
      ).not.toBe('accepted')
    }
  })

  // holds: limits.metadata_of_messages
  it('opens only with the ids, the recipient and the sender it was sealed for', () => {
    const box = seal('for one pair of agents')
    const third = newDmKeyPair()
    const cases: Partial<Parameters<typeof openBox>[0]>[] = [
      { senderId: recipient.id, recipientId: sender.id },
      { senderId: 'agt_01OTHER' },
      { recipientId: 'agt_01OTHER' },
      { senderId: `${sender.id}a`, recipientId: recipient.id.slice(1) },
      { recipientSecretKey: third.secretKey },
      { senderPublicKey: third.publicKey },
      { senderPublicKey: recipient.publicKey },
    ]
    for (const changes of cases)
      expect(
        refusal(() => open(box, changes)),
        JSON.stringify(changes),
      ).toBe('cannot_open')
  })

  it('can not be sent back to its sender as if the recipient had written it, nor opened by the sender', () => {
    const box = seal('there and not back')
    const asSender = { recipientSecretKey: sender.secretKey, senderPublicKey: recipient.publicKey }
    expect(refusal(() => open(box, { ...asSender, recipientId: sender.id, senderId: recipient.id }))).toBe(
      'cannot_open',
    )
    expect(refusal(() => open(box, asSender))).toBe('cannot_open')
  })

  it('differs each time for the same message', () => {
    const boxes = Array.from({ length: 20 }, () => decode(seal('again')))
    const ephemeralKeys = new Set(boxes.map((bytes) => bytes.subarray(1, 33).toString('hex')))
    const nonces = new Set(boxes.map((bytes) => bytes.subarray(33, 57).toString('hex')))
    expect([ephemeralKeys.size, nonces.size]).toEqual([20, 20])
  })

  it('uses another nonce for another message even if the random bytes repeat', () => {
    const random = (length: number): Uint8Array => new Uint8Array(length).fill(7)
    const [one, other, again] = ['one', 'other', 'one'].map((text) => decode(seal(text, { random })))
    expect(other?.subarray(1, 33)).toEqual(one?.subarray(1, 33))
    expect(other?.subarray(33, 57)).not.toEqual(one?.subarray(33, 57))
    expect(again).toEqual(one)
  })
})

describe('sealing and opening', () => {
  // Little-endian u coordinates: 0, 1, the two of order 8, p - 1, then p and p + 1, which are 0 and 1 spelled
  // again.
  const LOW_ORDER = [
    '0000000000000000000000000000000000000000000000000000000000000000',
    '0100000000000000000000000000000000000000000000000000000000000000',
    'e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800',
    '5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157',
    'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
    'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
    'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  ]

  it('refuse every public key of low order, wherever it stands', () => {
    const bytes = decode(seal('short'))
    for (const point of LOW_ORDER) {
      expect(
        refusal(() => seal('x', { recipientPublicKey: point })),
        point,
      ).toBe('bad_key')
      expect(
        refusal(() => open(seal('x'), { senderPublicKey: point })),
        point,
      ).toBe('bad_key')
      for (const topBit of [0, 0x80]) {
        const altered = Buffer.from(bytes)
        altered.set(fromHex(point), 1)
        altered[32] = (altered[32] ?? 0) | topBit
        expect(() => open(PREFIX + altered.toString('base64url')), point).toThrow(
          'its ephemeral key is a point of low order',
        )
      }
    }
  })

  it('refuse a second spelling of a public key, with which the two sides would derive different keys', () => {
    const respelled = fromHex(recipient.publicKey)
    respelled[31] = (respelled[31] ?? 0) | 0x80
    expect(refusal(() => seal('x', { recipientPublicKey: respelled }))).toBe('bad_key')
    const nineAgain = `f6${'ff'.repeat(30)}7f` // 2^255 - 19 + 9: the base point's second spelling
    expect(refusal(() => open(seal('x'), { senderPublicKey: nineAgain }))).toBe('bad_key')
  })

  it('say which argument is wrong, without repeating a secret', () => {
    const almostKey = sender.secretKey.slice(1)
    expect(() => seal('x', { senderSecretKey: almostKey })).toThrow(
      '"senderSecretKey" expected 64 hex characters, got a string of 63',
    )
    expect(() => open(seal('x'), { recipientSecretKey: new Uint8Array(31) })).toThrow(
      '"recipientSecretKey" expected 32 bytes, got 31',
    )
    expect(() => seal('x', { senderId: '' })).toThrow('"senderId" expected 1 to 255 bytes of UTF-8, got 0')
    expect(() => seal('x', { recipientId: 'é'.repeat(128) })).toThrow(
      '"recipientId" expected 1 to 255 bytes of UTF-8, got 256',
    )
    expect(() => seal('x', { recipientId: '\ud800' })).toThrow('"recipientId" expected a well-formed string')
    expect(() => seal('lone \udc00')).toThrow('"plaintext" expected bytes or a well-formed string')
    expect(() => seal('x', { random: () => new Uint8Array(16) })).toThrow(
      '"random" expected to give 32 bytes',
    )
  })
})

describe('the format', () => {
  it.each(validVectors)('has the vector $name of the first form, which this client opens', ({ vector }) => {
    const opened = openBox({
      box: vector.box,
      recipientSecretKey: vector.recipient_secret_key,
      recipientId: vector.recipient_id,
      senderPublicKey: vector.sender_public_key,
      senderId: vector.sender_id,
    })
    expect(Buffer.from(opened).toString('hex')).toBe(vector.plaintext)
  })

  it.each(validVectors)(
    'gives the same box for $name when built on node:crypto alone, with every step as the vector says',
    ({ vector }) => {
      const plaintext = fromHex(vector.plaintext)
      const padded = Buffer.alloc(vector.padded_bytes)
      padded.writeUInt16BE(plaintext.length)
      padded.set(plaintext, 2)
      const nonceDigest = createHmac('sha256', fromHex(vector.nonce_key))
        .update(fromHex(vector.nonce_random))
        .update(padded)
        .digest()
      expect(nonceDigest.subarray(0, 24).toString('hex')).toBe(vector.nonce)
      const made = sealWithNode({
        padded,
        ephemeralSecretKey: vector.ephemeral_secret_key,
        nonce: fromHex(vector.nonce),
        senderSecretKey: vector.sender_secret_key,
        senderId: vector.sender_id,
        recipientPublicKey: vector.recipient_public_key,
        recipientId: vector.recipient_id,
      })
      expect(made.box).toBe(vector.box)
      expect(made.ephemeralPublicKey.toString('hex')).toBe(vector.ephemeral_public_key)
      expect(made.ephemeralShared.toString('hex')).toBe(vector.ephemeral_shared)
      expect(made.staticShared.toString('hex')).toBe(vector.static_shared)
      expect(made.key.toString('hex')).toBe(vector.key)
      expect(made.nonceKey.toString('hex')).toBe(vector.nonce_key)
    },
  )

  it.each(invalidVectors)('refuses the vector $name: $vector.description', ({ vector }) => {
    const code = refusal(() =>
      openBox({
        box: vector.box,
        recipientSecretKey: vector.recipient_secret_key,
        recipientId: vector.recipient_id,
        senderPublicKey: vector.sender_public_key,
        senderId: vector.sender_id,
      }),
    )
    expect(code).toBe(vector.error)
  })

  it('has its vectors on file', () => {
    expect(validVectors.length).toBeGreaterThanOrEqual(5)
    expect(new Set(invalidVectors.map(({ vector }) => vector.error))).toEqual(
      new Set(['not_a_box', 'unknown_version', 'cannot_open', 'bad_padding', 'bad_key']),
    )
  })

  it('opens boxes of other implementations, also one that chose a larger size class or its nonce at random', () => {
    const padded = Buffer.alloc(4_096)
    padded.writeUInt16BE(5)
    padded.write('hello', 2)
    const { box } = sealWithNode({
      padded,
      ephemeralSecretKey: newDmKeyPair().secretKey,
      nonce: randomBytes(24),
      senderSecretKey: sender.secretKey,
      senderId: sender.id,
      recipientPublicKey: recipient.publicKey,
      recipientId: recipient.id,
    })
    expect(Buffer.from(open(box)).toString()).toBe('hello')
    expect(decode(box).length).toBe(4_096 + OVERHEAD_BYTES)
  })
})

describe('the second form', () => {
  interface Vector {
    purpose: 'message' | 'delivery'
    order_id?: string
    sender_id: string
    recipient_id: string
    sender_public_key: string
    recipient_secret_key: string
    box: string
  }
  type Valid = Vector & {
    sender_secret_key: string
    recipient_public_key: string
    ephemeral_secret_key: string
    nonce_random: string
    plaintext: string
  }
  const vectorsOf = <T>(directory: 'valid' | 'invalid') => {
    const url = new URL(`../vectors/${directory}/`, import.meta.url)
    const files = readdirSync(url).filter((file) => file.startsWith('sealed-box2-'))
    return files.map((file) => ({ file, vector: JSON.parse(readFileSync(new URL(file, url), 'utf8')) as T }))
  }
  const purposeOf = ({ purpose, order_id: orderId = '' }: Vector): Purpose =>
    purpose === 'message' ? { kind: 'message' } : { kind: 'delivery', orderId }
  const openVector = (vector: Vector) =>
    openBox({
      box: vector.box,
      purpose: purposeOf(vector),
      recipientSecretKey: vector.recipient_secret_key,
      recipientId: vector.recipient_id,
      senderPublicKey: vector.sender_public_key,
      senderId: vector.sender_id,
    })

  for (const { file, vector } of vectorsOf<Valid>('valid'))
    it(`is sealed and opened as on file, and as node:crypto alone makes it: ${file}`, () => {
      const random = [vector.ephemeral_secret_key, vector.nonce_random].map(fromHex)
      const box = sealBox({
        plaintext: fromHex(vector.plaintext),
        purpose: purposeOf(vector),
        senderSecretKey: vector.sender_secret_key,
        senderId: vector.sender_id,
        recipientPublicKey: vector.recipient_public_key,
        recipientId: vector.recipient_id,
        random: () => random.shift() ?? new Uint8Array(),
      })
      expect(box).toBe(vector.box)
      expect(Buffer.from(openVector(vector)).toString('hex')).toBe(vector.plaintext)
      const id = Buffer.from(vector.order_id ?? '')
      const padded = Buffer.alloc(256)
      padded.writeUInt16BE(vector.plaintext.length / 2)
      padded.write(vector.plaintext, 2, 'hex')
      const second = sealWithNode({
        padded,
        ephemeralSecretKey: vector.ephemeral_secret_key,
        nonce: decode(box).subarray(33, 57),
        senderSecretKey: vector.sender_secret_key,
        senderId: vector.sender_id,
        recipientPublicKey: vector.recipient_public_key,
        recipientId: vector.recipient_id,
        version: 2,
        purpose: Buffer.concat([Buffer.of(vector.purpose === 'message' ? 1 : 2, id.length), id]),
      })
      expect(second.box).toBe(box)
    })

  for (const { file, vector } of vectorsOf<Vector & { error: SealedBoxErrorCode }>('invalid'))
    it(`is refused as on file: ${file}`, () => expect(refusal(() => openVector(vector))).toBe(vector.error))

  it('opens for its purpose and its order alone', () => {
    const purposes: Purpose[] = [
      { kind: 'message' },
      { kind: 'delivery', orderId: 'ord_1' },
      { kind: 'delivery', orderId: 'ord_2' },
      { kind: 'delivery', orderId: '\u0000' },
    ]
    for (const sealed of purposes)
      for (const handedOverAs of purposes)
        expect(refusal(() => open(seal('x', { purpose: sealed }), { purpose: handedOverAs }))).toBe(
          sealed === handedOverAs ? 'accepted' : 'cannot_open',
        )
  })

  it('is the only one that is written', () => {
    const { purpose: _, ...rest } = {
      purpose: MESSAGE,
      plaintext: 'x',
      senderSecretKey: sender.secretKey,
      senderId: sender.id,
    }
    const recipientPublicKey = recipient.publicKey
    // @ts-expect-error The purpose is required; a program in JavaScript is told so.
    expect(() => sealBox({ ...rest, recipientPublicKey, recipientId: recipient.id })).toThrow(
      /"purpose" expected what the box is for/,
    )
  })

  it('is unknown to who names no purpose, while the first form opens for any', () => {
    expect(refusal(() => openBox({ ...parties, box: seal('x') }))).toBe('unknown_version')
    const padded = Buffer.alloc(256)
    const { box } = sealWithNode({
      padded,
      ephemeralSecretKey: newDmKeyPair().secretKey,
      nonce: randomBytes(24),
      senderSecretKey: sender.secretKey,
      senderId: sender.id,
      recipientPublicKey: recipient.publicKey,
      recipientId: recipient.id,
    })
    expect(refusal(() => open(box))).toBe('accepted')
    expect(() => seal('x', { purpose: { kind: 'delivery', orderId: '' } })).toThrow(
      /"orderId" expected 1 to 255 bytes/,
    )
  })
  const parties = {
    recipientSecretKey: recipient.secretKey,
    recipientId: recipient.id,
    senderPublicKey: sender.publicKey,
    senderId: sender.id,
  }
})
