import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { z } from 'zod'
import { makePuzzle, PUZZLE_VERSION, type Puzzle } from '../crypto/puzzle.ts'
import { CHALLENGE_TTL_MS, PREFIX_LENGTH } from '../platform/limits.ts'
import { once } from '../platform/once-per.ts'
import { hex, unixTime } from '../platform/schema.ts'
import { unixSeconds } from '../platform/time.ts'

/**
 * A registration challenge is not stored: its id carries all its parameters under an HMAC, and puzzle and
 * prefix are derived from these bytes and the secret. So the id doesn't reveal the answer, and a flood of
 * challenges costs no memory.
 *
 *   byte 0      purpose: 1 registration
 *   byte 1      generator version of the puzzle
 *   byte 2      difficulty in bits
 *   bytes 3–7   expiry, Unix seconds, big-endian
 *   bytes 8–23  random
 *   bytes 24–39 first half of HMAC-SHA-256(secret, "id" 00 bytes 0–23)
 */
export interface Challenge {
  challengeId: string
  /** Unique for each challenge; used challenges are stored by it. 32 hex characters. */
  key: string
  /** Made when it is first asked for. */
  readonly puzzle: Puzzle
  prefix: string
  difficultyBits: number
  /** Unix seconds. */
  expiresAt: number
}

export const challengeView = z.object({
  challenge_id: z.string(),
  puzzle: z.object({ kind: z.string(), question: z.string(), answer_format: z.string() }),
  pow: z.object({
    algorithm: z.literal('sha256'),
    prefix: hex(32),
    difficulty_bits: z.int().max(256),
    preimage: z.literal('prefix:nonce'),
  }),
  expires_at: unixTime(),
})

const PURPOSE_REGISTRATION = 1
const BODY_BYTES = 24
const MAC_BYTES = 16
const ID_PATTERN = /^[A-Za-z0-9_-]{54}$/

/**
 * Makes a challenge that expires CHALLENGE_TTL_MS after `nowMs`. Nothing is stored.
 *
 * @param secret hex
 * @param difficultyBits leading zero bits that its proof of work takes
 */
export function makeChallenge(secret: string, nowMs: number, difficultyBits: number): Challenge {
  const body = Buffer.alloc(BODY_BYTES)
  body.writeUInt8(PURPOSE_REGISTRATION, 0)
  body.writeUInt8(PUZZLE_VERSION, 1)
  body.writeUInt8(difficultyBits, 2)
  body.writeUIntBE(unixSeconds(nowMs + CHALLENGE_TTL_MS), 3, 5)
  randomBytes(16).copy(body, 8)
  return deriveChallenge(secret, body, Buffer.concat([body, deriveMac(secret, body)]).toString('base64url'))
}

/**
 * Returns the challenge of an id, or undefined if the id was not made with this secret by this version of the
 * puzzles. The caller checks whether it has expired.
 *
 * @param secret hex
 */
export function parseChallengeId(secret: string, challengeId: string): Challenge | undefined {
  if (!ID_PATTERN.test(challengeId)) return undefined
  const bytes = Buffer.from(challengeId, 'base64url')
  const body = bytes.subarray(0, BODY_BYTES)
  if (bytes.length !== BODY_BYTES + MAC_BYTES || bytes.toString('base64url') !== challengeId) return undefined
  if (!timingSafeEqual(bytes.subarray(BODY_BYTES), deriveMac(secret, body))) return undefined
  if (body[0] !== PURPOSE_REGISTRATION || body[1] !== PUZZLE_VERSION) return undefined
  return deriveChallenge(secret, body, challengeId)
}

/** Derives all of a challenge from its id and the id's bytes 0–23. */
function deriveChallenge(secret: string, body: Buffer, challengeId: string): Challenge {
  const puzzle = once(() => makePuzzle(deriveBytes(secret, 'puzzle', body)))
  return {
    challengeId,
    key: body.subarray(8).toString('hex'),
    get puzzle() {
      return puzzle()
    },
    prefix: deriveBytes(secret, 'prefix', body).toString('hex').slice(0, PREFIX_LENGTH),
    difficultyBits: body.readUInt8(2),
    expiresAt: body.readUIntBE(3, 5),
  }
}

const deriveMac = (secret: string, body: Buffer): Buffer =>
  deriveBytes(secret, 'id', body).subarray(0, MAC_BYTES)

/**
 * Returns HMAC-SHA-256(secret, label 00 body), 32 bytes. Each use has its own label, so that no derived value
 * reveals another.
 *
 * @param secret hex
 */
function deriveBytes(secret: string, label: string, body: Buffer): Buffer {
  return createHmac('sha256', Buffer.from(secret, 'hex')).update(`${label}\0`).update(body).digest()
}
