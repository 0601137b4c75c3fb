import * as crypto from 'node:crypto'
import { Point, verify } from '@noble/ed25519'
import { sha512 } from '@noble/hashes/sha2.js'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  ed25519PublicKey,
  ed25519Sign,
  keyFromHex,
  keyToHex,
  signatureFromBase64,
  signatureToBase64,
} from '../../shared/crypto/ed25519.ts'
import { ed25519Verify } from '../../shared/crypto/ed25519-verify.ts'
import { FULL } from '../support/full.ts'

/** RFC 8032 section 7.1, tests 1 to 3: secret key, public key, message, signature. */
const SAMPLES: [string, string, string, string][] = [
  [
    '9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60',
    'd75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a',
    '',
    'e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b',
  ],
  [
    '4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb',
    '3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c',
    '72',
    '92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00',
  ],
  [
    'c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7',
    'fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025',
    'af82',
    '6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a',
  ],
]

const SPKI_HEADER = Buffer.from('302a300506032b6570032100', 'hex')
const PKCS8_HEADER = Buffer.from('302e020100300506032b657004220420', 'hex')
const GROUP_ORDER = Point.CURVE().n

function opensslVerify(signature: Uint8Array, message: Uint8Array, publicKey: Uint8Array): boolean {
  const key = crypto.createPublicKey({
    key: Buffer.concat([SPKI_HEADER, publicKey]),
    format: 'der',
    type: 'spki',
  })
  return crypto.verify(null, message, key, signature)
}

function opensslSign(message: Uint8Array, secretKey: Uint8Array): Buffer {
  return crypto.sign(
    null,
    message,
    crypto.createPrivateKey({ key: Buffer.concat([PKCS8_HEADER, secretKey]), format: 'der', type: 'pkcs8' }),
  )
}

/** The check of the library that signs, which multiplies by the cofactor. */
const libraryVerify = (signature: Uint8Array, message: Uint8Array, publicKey: Uint8Array): boolean =>
  verify(signature, message, publicKey, { zip215: false })

const bytes = (hex: string) => new Uint8Array(Buffer.from(hex, 'hex'))
const toNumber = (littleEndian: Uint8Array) =>
  BigInt('0x' + (Buffer.from(littleEndian).reverse().toString('hex') || '0'))
const toBytes = (value: bigint) =>
  new Uint8Array(Buffer.from(value.toString(16).padStart(64, '0'), 'hex').reverse())
const secretKeys = fc.uint8Array({ minLength: 32, maxLength: 32 })

/** A point of order 8, of the curve's part of small order. */
const ORDER_8 = Point.fromHex('c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a')

/** A signature that the key's holder makes on purpose so that R, or the key, has a part of small order. */
function craftSignature(
  message: Uint8Array,
  scalar: bigint,
  parts: { inR: boolean; inKey: boolean },
): { signature: Uint8Array; publicKey: Uint8Array } {
  const nonce = 987_654_321n
  const plainR = Point.BASE.multiply(nonce)
  const plainKey = Point.BASE.multiply(scalar)
  const R = (parts.inR ? plainR.add(ORDER_8) : plainR).toBytes()
  const publicKey = (parts.inKey ? plainKey.add(ORDER_8) : plainKey).toBytes()
  const challenge = toNumber(sha512(Buffer.concat([R, publicKey, message]))) % GROUP_ORDER
  return {
    signature: new Uint8Array(Buffer.concat([R, toBytes((nonce + challenge * scalar) % GROUP_ORDER)])),
    publicKey,
  }
}

describe('Ed25519', () => {
  it.each(SAMPLES)(
    'signs as RFC 8032 does with the key %s',
    (secretHex, publicHex, messageHex, signatureHex) => {
      expect(keyToHex(ed25519PublicKey(bytes(secretHex)))).toBe(publicHex)
      expect(Buffer.from(ed25519Sign(bytes(messageHex), bytes(secretHex))).toString('hex')).toBe(signatureHex)
      expect(ed25519Verify(bytes(signatureHex), bytes(messageHex), bytes(publicHex))).toBe(true)
    },
  )

  it("makes the same signatures as OpenSSL, and each takes the other's", () => {
    fc.assert(
      fc.property(secretKeys, fc.uint8Array({ maxLength: 300 }), (secretKey, message) => {
        const signature = ed25519Sign(message, secretKey)
        expect(Buffer.from(signature)).toEqual(opensslSign(message, secretKey))
        expect(libraryVerify(signature, message, ed25519PublicKey(secretKey))).toBe(true)
        expect(ed25519Verify(signature, message, ed25519PublicKey(secretKey))).toBe(true)
      }),
      { numRuns: FULL ? 30 : 8 },
    )
  })

  it('agrees with the library on signatures, keys and messages with one bit flipped', () => {
    fc.assert(
      fc.property(secretKeys, fc.nat(8 * (64 + 32 + 10) - 1), (secretKey, bit) => {
        const all = Buffer.concat([
          ed25519Sign(new Uint8Array(10), secretKey),
          ed25519PublicKey(secretKey),
          new Uint8Array(10),
        ])
        all.writeUInt8(all.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3)
        const [signature, publicKey, message] = [
          all.subarray(0, 64),
          all.subarray(64, 96),
          all.subarray(96),
        ] as const
        expect(ed25519Verify(signature, message, publicKey)).toBe(false)
        expect(libraryVerify(signature, message, publicKey)).toBe(false)
      }),
      { numRuns: 60 },
    )
  })

  it('refuses a second signature made by adding the group order to S', () => {
    const secretKey = new Uint8Array(32).fill(9)
    const signature = ed25519Sign(new Uint8Array(3), secretKey)
    const second = new Uint8Array(
      Buffer.concat([signature.subarray(0, 32), toBytes(toNumber(signature.subarray(32)) + GROUP_ORDER)]),
    )
    expect(ed25519Verify(second, new Uint8Array(3), ed25519PublicKey(secretKey))).toBe(false)
  })

  it('refuses what is taken only by a verifier that multiplies by the cofactor', () => {
    const message = Buffer.from('crafted by the key holder')
    const plain = craftSignature(message, 5n, { inR: false, inKey: false })
    expect(ed25519Verify(plain.signature, message, plain.publicKey)).toBe(true)
    const crafted = craftSignature(message, 5n, { inR: true, inKey: false })
    expect(libraryVerify(crafted.signature, message, crafted.publicKey)).toBe(true)
    expect(opensslVerify(crafted.signature, message, crafted.publicKey)).toBe(false)
    expect(ed25519Verify(crafted.signature, message, crafted.publicKey)).toBe(false)
  })

  it('refuses a key with a part of small order, whatever the signature', () => {
    for (let number = 0; number < 16; number++) {
      const message = Buffer.from(`message ${number}`)
      const { signature, publicKey } = craftSignature(message, 5n, { inR: false, inKey: true })
      expect(ed25519Verify(signature, message, publicKey)).toBe(false)
    }
  })

  it('refuses a key of small order, for which a lax verifier (OpenSSL 3.0 too) takes a signature that nobody made', () => {
    const neutral = bytes('01' + '00'.repeat(31))
    const forged = new Uint8Array(Buffer.concat([Point.BASE.multiply(77n).toBytes(), toBytes(77n)]))
    expect(verify(forged, Buffer.from('anything'), neutral)).toBe(true)
    expect(ed25519Verify(forged, Buffer.from('anything'), neutral)).toBe(false)
  })

  it('gives false, not an error, for bytes that are no point', () => {
    const message = new Uint8Array(1)
    const secretKey = new Uint8Array(32).fill(9)
    expect(ed25519Verify(ed25519Sign(message, secretKey), message, bytes('02' + '00'.repeat(31)))).toBe(false)
    expect(ed25519Verify(new Uint8Array(64).fill(0xff), message, ed25519PublicKey(secretKey))).toBe(false)
  })

  it('names the argument that has another length', () => {
    expect(() => ed25519PublicKey(new Uint8Array(64))).toThrow('"secretKey" expected 32 bytes, got 64')
    expect(() => ed25519Sign(new Uint8Array(1), new Uint8Array(31))).toThrow(
      '"secretKey" expected 32 bytes, got 31',
    )
    expect(() => ed25519Sign('text' as unknown as Uint8Array, new Uint8Array(32))).toThrow(
      '"message" expected a Uint8Array, got string',
    )
    expect(() => ed25519Verify(new Uint8Array(63), new Uint8Array(1), new Uint8Array(32))).toThrow(
      '"signature" expected 64 bytes, got 63',
    )
    expect(() => ed25519Verify(new Uint8Array(64), new Uint8Array(1), new Uint8Array(33))).toThrow(
      '"publicKey" expected 32 bytes, got 33',
    )
  })
})

describe('keys in hex and signatures in base64', () => {
  it('come back as they were', () => {
    fc.assert(fc.property(secretKeys, (key) => void expect(keyFromHex(keyToHex(key))).toEqual(key)))
    fc.assert(
      fc.property(
        fc.uint8Array({ minLength: 64, maxLength: 64 }),
        (signature) => void expect(signatureFromBase64(signatureToBase64(signature))).toEqual(signature),
      ),
    )
  })

  it('are taken in one form only', () => {
    const base64 = signatureToBase64(new Uint8Array(64).fill(0xfb))
    for (const other of [
      base64.slice(0, -2),
      base64.replaceAll('+', '-'),
      ` ${base64}`,
      `${base64}\n`,
      base64.slice(0, 85) + 'x==',
      '',
      null as unknown as string,
    ]) {
      expect(() => signatureFromBase64(other)).toThrow(TypeError)
    }
    const hex = keyToHex(new Uint8Array(32).fill(0xab))
    for (const other of [
      hex.toUpperCase(),
      hex.slice(1),
      `${hex}00`,
      `0x${hex.slice(2)}`,
      '',
      null as unknown as string,
    ])
      expect(() => keyFromHex(other)).toThrow(TypeError)
  })

  it('never repeat a key in an error', () => {
    const secret = 'SECRET'.repeat(10) + 'abcd'
    expect(() => keyFromHex(secret)).toThrow(
      expect.not.objectContaining({ message: expect.stringContaining('SECRET') }),
    )
  })
})
