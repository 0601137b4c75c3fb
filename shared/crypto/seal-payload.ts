import { hash } from 'node:crypto'
import { canonicalJson } from './canonical-json.ts'
import {
  ed25519PublicKey,
  ed25519Sign,
  keyFromHex,
  keyToHex,
  signatureFromBase64,
  signatureToBase64,
} from './ed25519.ts'
import { ed25519Verify, isSmallOrderKey } from './ed25519-verify.ts'

export const SEAL_ALGO = 'ed25519'

/** What a seal's signature covers. `at` is in Unix seconds, hashes are 64 lower-case hex characters. */
export type SealFields = {
  readonly seq: number
  readonly at: number
  readonly count: number
  readonly root: string
  readonly prev_root: string | null
  readonly from_id: number
  readonly to_id: number
}

/** The fields that signing adds; all four are null while a seal is unsigned. */
export type SealSignature = {
  readonly signature: string
  readonly pubkey: string
  readonly algo: typeof SEAL_ALGO
  readonly signed_at: number
}

/** A seal as `GET /seal` lists it. */
export type Seal = SealFields &
  (
    | (SealSignature & { readonly signed: true })
    | ({ readonly [K in keyof SealSignature]: null } & { readonly signed: false })
  )

/** Why a chain of seals doesn't hold; the words are the same in every verifier. */
export type SealFault =
  | 'malformed_seal'
  | 'seq_gap'
  | 'range_gap'
  | 'wrong_count'
  | 'wrong_prev_root'
  | 'at_goes_back'
  | 'signed_before_made'
  | 'weak_key'
  | 'bad_signature'

export type SealVerdict =
  { readonly ok: true } | { readonly ok: false; readonly reason: SealFault; readonly message: string }

const HEX_HASH = /^[0-9a-f]{64}$/
const WHOLE_FIELDS = ['seq', 'at', 'count', 'from_id', 'to_id'] as const

/**
 * Writes the text that is signed: canonical JSON of exactly `at, count, from_id, prev_root, root, seq,
 * to_id`, to be encoded as UTF-8. A verifier always rebuilds it from the fields.
 *
 * @throws TypeError naming the field that is missing or has the wrong form
 */
export function sealPayload(seal: SealFields): string {
  for (const field of WHOLE_FIELDS) {
    if (!Number.isSafeInteger(seal[field]) || seal[field] < 0)
      throw new TypeError(`"${field}" expected a whole number from 0, got ${JSON.stringify(seal[field])}`)
  }
  if (!isHexHash(seal.root))
    throw new TypeError(`"root" expected 64 lower-case hex characters, got ${JSON.stringify(seal.root)}`)
  if (seal.prev_root !== null && !isHexHash(seal.prev_root))
    throw new TypeError(
      `"prev_root" expected 64 lower-case hex characters or null, got ${JSON.stringify(seal.prev_root)}`,
    )
  const { at, count, from_id, prev_root, root, seq, to_id } = seal
  return canonicalJson({ at, count, from_id, prev_root, root, seq, to_id })
}

/**
 * The SHA-256 of a seal's payload, 64 lower-case hex characters, by which the signer's seal memory and a
 * verifier's state remember a seal.
 *
 * @throws TypeError for what sealPayload() refuses
 */
export function sealPayloadHash(seal: SealFields): string {
  return hash('sha256', sealPayload(seal), 'hex')
}

/**
 * Signs a seal. The caller must first have checked, by the seal memory, that no other payload was ever signed
 * for this `seq`.
 *
 * @param secretKey 32 bytes
 * @param signedAt Unix seconds, not before the seal's `at`
 * @throws TypeError for arguments of another form
 */
export function signSeal(seal: SealFields, secretKey: Uint8Array, signedAt: number): SealSignature {
  if (!Number.isSafeInteger(signedAt) || signedAt < seal.at)
    throw new TypeError(`"signedAt" expected a whole number from the seal's at ${seal.at}, got ${signedAt}`)
  const signature = ed25519Sign(Buffer.from(sealPayload(seal), 'utf8'), secretKey)
  return {
    signature: signatureToBase64(signature),
    pubkey: keyToHex(ed25519PublicKey(secretKey)),
    algo: SEAL_ALGO,
    signed_at: signedAt,
  }
}

/**
 * Verifies that a seal is signed by the key that it names. The caller must check that it trusts that key.
 * Doesn't throw.
 */
export function verifySealSignature(seal: SealFields & SealSignature): SealVerdict {
  let payload: string
  let signature: Uint8Array
  let pubkey: Uint8Array
  try {
    payload = sealPayload(seal)
    if (seal.algo !== SEAL_ALGO)
      throw new TypeError(`"algo" expected "${SEAL_ALGO}", got ${JSON.stringify(seal.algo)}`)
    if (!Number.isSafeInteger(seal.signed_at))
      throw new TypeError(`"signed_at" expected a whole number, got ${JSON.stringify(seal.signed_at)}`)
    signature = signatureFromBase64(seal.signature)
    pubkey = keyFromHex(seal.pubkey)
  } catch (error) {
    return refuse('malformed_seal', error instanceof Error ? error.message : String(error))
  }
  if (seal.signed_at < seal.at)
    return refuse('signed_before_made', `signed at ${seal.signed_at}, before it was made at ${seal.at}`)
  if (isSmallOrderKey(pubkey)) return refuse('weak_key', `anyone can sign for the key ${seal.pubkey}`)
  if (!ed25519Verify(signature, Buffer.from(payload, 'utf8'), pubkey))
    return refuse('bad_signature', `the signature is not that of ${seal.pubkey} over this payload`)
  return { ok: true }
}

/**
 * Verifies that `seal` may follow `previous` in the chain, by seq, range, count, prev_root and time. Checks
 * neither the signature nor the entries under the root. Doesn't throw.
 *
 * @param previous null if `seal` is the first one
 */
export function verifySealFollows(previous: SealFields | null, seal: SealFields): SealVerdict {
  try {
    sealPayload(seal)
  } catch (error) {
    return refuse('malformed_seal', error instanceof Error ? error.message : String(error))
  }
  const seq = previous === null ? 1 : previous.seq + 1
  const fromId = previous === null ? 1 : previous.to_id + 1
  const prevRoot = previous === null ? null : previous.root
  if (seal.seq !== seq) return refuse('seq_gap', `seq ${seq} was due, not ${seal.seq}`)
  if (seal.from_id !== fromId) return refuse('range_gap', `from_id ${fromId} was due, not ${seal.from_id}`)
  if (seal.count < 1 || seal.count !== seal.to_id - seal.from_id + 1)
    return refuse('wrong_count', `count is ${seal.count} for the entries ${seal.from_id} to ${seal.to_id}`)
  if (seal.prev_root !== prevRoot)
    return refuse('wrong_prev_root', `prev_root is ${seal.prev_root}, the previous root is ${prevRoot}`)
  if (previous !== null && seal.at < previous.at)
    return refuse('at_goes_back', `at ${seal.at} is before the previous seal's ${previous.at}`)
  return { ok: true }
}

function isHexHash(value: unknown): value is string {
  return typeof value === 'string' && HEX_HASH.test(value)
}

function refuse(reason: SealFault, message: string): SealVerdict {
  return { ok: false, reason, message }
}
