import { createHmac } from 'node:crypto'
import { verifyPost } from '../shared/crypto/message-signature.ts'

/** What the service posts to a doorbell. */
export interface Ring {
  agent_id: string
  kind: 'wake' | 'challenge'
  /** Unix seconds. */
  at: number
  /** Of a challenge: what answerChallenge() answers. */
  challenge?: string
}

/**
 * Reads what was posted to a doorbell.
 *
 * @param post.url the doorbell's URL, as GET /doorbell shows it
 * @param post.body as it came, unparsed
 * @param post.headers by names in lower case
 * @param keys `doorbells.keys` of GET /rules
 * @param now Unix seconds
 * @returns undefined unless it is signed by one of the keys, for this URL, within 5 minutes
 */
export function readRing(
  post: { url: string; body: string; headers: Readonly<Record<string, unknown>> },
  keys: readonly string[],
  now: number = Math.floor(Date.now() / 1000),
): Ring | undefined {
  return verifyPost(post, keys, now) ? (JSON.parse(post.body) as Ring) : undefined
}

/** The body with which a receiver answers a challenge. @param secret from the answer of setDoorbell */
export const answerChallenge = (challenge: string, secret: string): string =>
  createHmac('sha256', secret).update(challenge).digest('hex')
