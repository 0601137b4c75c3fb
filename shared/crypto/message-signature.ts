import { createHash, createPrivateKey, sign, type KeyObject } from 'node:crypto'
import { ed25519PublicKey, keyFromHex, keyToHex } from './ed25519.ts'
import { ed25519Verify } from './ed25519-verify.ts'

/*
 * HTTP message signatures (RFC 9421) of one kind alone: a POST, its target and the digest of its content (RFC 9530),
 * by Ed25519 (RFC 9421 section 3.3.6). Whoever verifies takes no other components and no other parameters.
 */

/** The application's tag (RFC 9421 section 2.3), so that no other statement under the key passes for a ring. */
const TAG = 'agent-network-doorbell'
const COVERED = '("@method" "@target-uri" "content-digest")'
/** The parameters in the one order and form that are written and taken; the key's id is the public key in hex. */
const PARAMETERS = new RegExp(
  `^bell=(${COVERED.replace(/[()]/g, '\\$&')};created=(\\d{1,12});keyid="([0-9a-f]{64})";alg="ed25519";tag="${TAG}")$`,
)
const SIGNATURE = /^bell=:([A-Za-z0-9+/]{86}==):$/

/** How far `created` may be from the verifier's time, in seconds. */
export const MAX_SIGNATURE_AGE_SECONDS = 300

/** The headers of a signed POST, by their names in lower case. */
export type SignedHeaders = Record<'content-digest' | 'signature-input' | 'signature', string>

const digestOf = (body: string | Uint8Array): string =>
  `sha-256=:${createHash('sha256').update(body).digest('base64')}:`

/** The signature base (RFC 9421 section 2.5). @param url the whole target, as the sender uses it */
const baseOf = (url: string, digest: string, parameters: string): Uint8Array =>
  Buffer.from(
    `"@method": POST\n"@target-uri": ${url}\n"content-digest": ${digest}\n"@signature-params": ${parameters}`,
  )

/** A key as OpenSSL signs with it, which takes a fiftieth of the time: a process signs hundreds of rings a second. */
export interface SigningKey {
  privateKey: KeyObject
  /** 64 hex characters. */
  publicKey: string
}

/** What stands before the seed of an Ed25519 key in PKCS #8 (RFC 8410 section 7). */
const PKCS8_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex')

/** @param secretKey the 32-byte seed of RFC 8032 */
export function signingKeyOf(secretKey: Uint8Array): SigningKey {
  const publicKey = keyToHex(ed25519PublicKey(secretKey))
  const key = Buffer.concat([PKCS8_PREFIX, secretKey])
  return { privateKey: createPrivateKey({ key, format: 'der', type: 'pkcs8' }), publicKey }
}

/**
 * Signs a POST.
 *
 * @param post.at Unix seconds
 */
export function signPost(
  post: { url: string; body: string; at: number },
  { privateKey, publicKey: keyId }: SigningKey,
): SignedHeaders {
  const digest = digestOf(post.body)
  const parameters = `${COVERED};created=${post.at};keyid="${keyId}";alg="ed25519";tag="${TAG}"`
  const signature = sign(null, baseOf(post.url, digest, parameters), privateKey)
  return {
    'content-digest': digest,
    'signature-input': `bell=${parameters}`,
    signature: `bell=:${signature.toString('base64')}:`,
  }
}

/**
 * Whether a POST is signed by one of these keys, for this URL, within MAX_SIGNATURE_AGE_SECONDS.
 *
 * @param post.url the URL as it was given to the service
 * @param post.headers by names in lower case
 * @param keys public keys, 64 hex characters each
 * @param now Unix seconds
 */
export function verifyPost(
  post: { url: string; body: string | Uint8Array; headers: Readonly<Record<string, unknown>> },
  keys: readonly string[],
  now: number,
): boolean {
  const digest = digestOf(post.body)
  const { 'signature-input': input = '', signature: signed = '' } = post.headers
  const [, parameters, created, keyId = ''] = PARAMETERS.exec(String(input)) ?? []
  const [, signature] = SIGNATURE.exec(String(signed)) ?? []
  if (parameters === undefined || signature === undefined || !keys.includes(keyId)) return false
  if (post.headers['content-digest'] !== digest) return false
  if (Math.abs(Number(created) - now) > MAX_SIGNATURE_AGE_SECONDS) return false
  const base = baseOf(post.url, digest, parameters)
  return ed25519Verify(Buffer.from(signature, 'base64'), base, keyFromHex(keyId))
}
