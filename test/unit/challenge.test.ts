import { createHmac } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { makeChallenge, parseChallengeId } from '../../shared/agents/challenge.ts'
import { PUZZLE_VERSION } from '../../shared/crypto/puzzle.ts'

const SECRET = 'c0'.repeat(32)
const NOW_MS = Date.UTC(2030, 0, 1)

/** An id over any bytes, under the service's own secret: what only the service could make. */
function sign(body: Buffer): string {
  const mac = createHmac('sha256', Buffer.from(SECRET, 'hex'))
    .update('id\0')
    .update(body)
    .digest()
    .subarray(0, 16)
  return Buffer.concat([body, mac]).toString('base64url')
}

describe('a registration challenge', () => {
  // holds: rules.proof_of_work.statements.the_prefix_is_the_service_s
  it('is all in its id: opening the id gives the same puzzle, prefix, bits and expiry', () => {
    const made = makeChallenge(SECRET, NOW_MS, 20)
    expect(parseChallengeId(SECRET, made.challengeId)).toEqual(made)
    expect(made).toMatchObject({
      difficultyBits: 20,
      expiresAt: NOW_MS / 1_000 + 600,
      prefix: expect.stringMatching(/^[0-9a-f]{32}$/),
    })
  })

  it('is another each time', () => {
    const made = Array.from({ length: 500 }, () => makeChallenge(SECRET, NOW_MS, 20))
    for (const part of ['challengeId', 'key', 'prefix'] as const)
      expect(new Set(made.map((challenge) => challenge[part])).size).toBe(500)
  })

  it('does not give away in its id what the secret makes: another secret makes other puzzles of the same bytes', () => {
    const made = makeChallenge(SECRET, NOW_MS, 20)
    const bytes = Buffer.from(made.challengeId, 'base64url')
    expect(bytes.includes(made.prefix.slice(0, 8), 0, 'hex')).toBe(false)
    expect(parseChallengeId('c1'.repeat(32), made.challengeId)).toBeUndefined()
  })

  it('is refused when any byte of its id is another', () => {
    const { challengeId } = makeChallenge(SECRET, NOW_MS, 20)
    const bytes = Buffer.from(challengeId, 'base64url')
    expect(bytes).toHaveLength(40)
    for (let i = 0; i < bytes.length; i++) {
      for (const mask of [0x01, 0x80]) {
        const forged = Buffer.from(bytes)
        forged[i] = (forged[i] ?? 0) ^ mask
        expect(parseChallengeId(SECRET, forged.toString('base64url')), `byte ${i}`).toBeUndefined()
      }
    }
  })

  it('is refused in any other writing: cut, lengthened, padded, in another alphabet, with loose bits', () => {
    const { challengeId } = makeChallenge(SECRET, NOW_MS, 20)
    // 54 characters carry 324 bits for 320: the last character's low four are loose and must be zero.
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
    const loose = challengeId.slice(0, -1) + alphabet[alphabet.indexOf(challengeId.at(-1) ?? '') + 1]
    expect(Buffer.from(loose, 'base64url').equals(Buffer.from(challengeId, 'base64url'))).toBe(true)
    for (const other of [
      '',
      challengeId.slice(0, -1),
      `${challengeId}A`,
      `${challengeId}==`,
      ` ${challengeId}`,
      `${challengeId}\n`,
      loose,
      '\0'.repeat(54),
      'é'.repeat(54),
    ]) {
      expect(parseChallengeId(SECRET, other)).toBeUndefined()
    }
  })

  it('is refused where its purpose or its generator version is another, also when signed', () => {
    const body = Buffer.from(makeChallenge(SECRET, NOW_MS, 20).challengeId, 'base64url').subarray(0, 24)
    const changed = (index: number, value: number) => {
      const other = Buffer.from(body)
      other[index] = value
      return sign(other)
    }
    expect(parseChallengeId(SECRET, sign(body))).toBeDefined()
    expect(parseChallengeId(SECRET, changed(0, 2))).toBeUndefined()
    expect(parseChallengeId(SECRET, changed(1, PUZZLE_VERSION + 1))).toBeUndefined()
    expect(parseChallengeId(SECRET, changed(1, 0))).toBeUndefined()
  })

  it('says when it expires and leaves the judgement to the caller', () => {
    const { challengeId, expiresAt } = makeChallenge(SECRET, 0, 4)
    expect(expiresAt).toBe(600)
    expect(parseChallengeId(SECRET, challengeId)?.expiresAt).toBe(600)
  })
})
