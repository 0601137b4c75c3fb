import { hash } from 'node:crypto'
import { sealPayload, type Seal } from '../../shared/crypto/seal-payload.ts'
import { Refused, type Findings, type Fork } from './findings.ts'
import { isSignedBy, isWeakKey } from './signature.ts'
import { decodeSignature, isHexHash, isObject, isWhole } from './values.ts'
import type { Trust } from './verification.ts'

/** A seal that has the form of one, and the text that its signature covers, which is always rebuilt here. */
export type ReadSeal = { readonly seal: Seal; readonly payload: string }

/** Reads a seal. @throws Refused `malformed_seal` */
export function readSeal(value: unknown): ReadSeal {
  const malformed = (sentence: string) => new Refused('malformed_seal', sentence)
  if (!isObject(value)) throw malformed('a seal is not an object')
  let payload: string
  try {
    payload = sealPayload(value as Seal)
  } catch (error) {
    throw malformed(error instanceof Error ? error.message : String(error))
  }
  const { signed, signature, pubkey, algo, signed_at: signedAt } = value
  if (signed === true) {
    const isRight =
      decodeSignature(signature) !== undefined && isHexHash(pubkey) && algo === 'ed25519' && isWhole(signedAt)
    if (!isRight) throw malformed('it lacks an Ed25519 signature, its key or its time')
  } else if (signed !== false || (signature ?? null) !== null)
    throw malformed('it does not say whether it is signed')
  return { seal: value as Seal, payload }
}

export const sha256Hex = (data: string | Uint8Array): string => hash('sha256', data, 'hex')

/**
 * Which keys are accepted: the pinned ones, else the remembered ones, else the first that is seen, which
 * binds nobody.
 */
export class Keyring {
  readonly trust: Trust
  readonly accepted: Set<string>
  readonly seen = new Set<string>()
  #last: string | undefined

  constructor(pinned: readonly string[], remembered: readonly string[]) {
    this.trust = pinned.length > 0 ? 'pinned' : remembered.length > 0 ? 'remembered' : 'first_seen'
    this.accepted = new Set(pinned.length > 0 ? pinned : remembered)
  }

  /** @throws Refused if a key isn't accepted; once for a key that signs several seals in a row */
  check(pubkey: string): void {
    if (this.accepted.size === 0) this.accepted.add(pubkey)
    this.seen.add(pubkey)
    const isRepeated = pubkey === this.#last
    this.#last = pubkey
    if (this.accepted.has(pubkey) || isRepeated) return
    if (this.trust === 'pinned')
      throw new Refused('wrong_key', `signed with ${pubkey}, which is not a pinned key`)
    throw new Refused(
      'key_changed',
      `signed with ${pubkey}, not with ${[...this.accepted].join(' or ')}; if you know this key to be the service's, accept it: --pubkey for each key`,
    )
  }
}

const hasSigned = ({ seal, payload }: ReadSeal): boolean =>
  seal.signed &&
  isSignedBy(
    Buffer.from(seal.signature, 'base64'),
    Buffer.from(payload, 'utf8'),
    Buffer.from(seal.pubkey, 'hex'),
  )

/** Checks whose key signed a seal, and the signature; adds what does not hold to the findings. */
export function checkSignature(read: ReadSeal, keyring: Keyring, findings: Findings, where: string): void {
  const { seal } = read
  if (!seal.signed) return
  if (seal.signed_at < seal.at)
    findings.add('signed_before_made', where, `signed at ${seal.signed_at}, before it was made at ${seal.at}`)
  findings.run(where, () => keyring.check(seal.pubkey))
  if (isWeakKey(seal.pubkey)) findings.add('weak_key', where, `anyone can sign for the key ${seal.pubkey}`)
  else if (!hasSigned(read))
    findings.add('bad_signature', where, `the signature is not that of ${seal.pubkey} over this payload`)
}

/**
 * Checks what a seal says by itself: its range, its count and its time, and that the first begins the chain.
 */
export function checkSealAlone(seal: Seal, now: number, findings: Findings, where: string): void {
  if (seal.count < 1 || seal.count !== seal.to_id - seal.from_id + 1)
    findings.add(
      'wrong_count',
      where,
      `count is ${seal.count} for the entries ${seal.from_id} to ${seal.to_id}`,
    )
  if (seal.seq === 1 && seal.from_id !== 1)
    findings.add('range_gap', where, `the first seal begins at entry ${seal.from_id}, not 1`)
  if (seal.seq === 1 && seal.prev_root !== null)
    findings.add('wrong_prev_root', where, 'the first seal names a previous root')
  if (seal.seq > 1 && seal.prev_root === null)
    findings.add('wrong_prev_root', where, 'only the first seal has no previous root')
  findings.addTime(where, seal, now)
}

/** Checks what a seal says about one that stands before it. */
export function checkSealLink(previous: Seal, seal: Seal, findings: Findings, where: string): void {
  if (seal.at < previous.at)
    findings.add('at_goes_back', where, `at ${seal.at} is before the ${previous.at} of seal ${previous.seq}`)
  if (seal.seq !== previous.seq + 1) return
  if (seal.from_id !== previous.to_id + 1)
    findings.add('range_gap', where, `begins at entry ${seal.from_id}, ${previous.to_id + 1} was due`)
  if (seal.prev_root !== null && seal.prev_root !== previous.root)
    findings.add(
      'wrong_prev_root',
      where,
      `names ${seal.prev_root}, the root of seal ${previous.seq} is ${previous.root}`,
    )
}

/** The fields of a seal that prove who signed what. */
const signedSide = ({
  seq,
  at,
  count,
  from_id,
  to_id,
  root,
  prev_root,
  signature,
  pubkey,
}: Seal): object => ({
  ...{ seq, at, count, from_id, to_id, root, prev_root, signature, pubkey },
})

/** Makes evidence for anybody of two different seals of one number; undefined unless accepted keys signed both. */
export function sealForkOf(seen: ReadSeal, shown: ReadSeal, keyring: Keyring): Fork | undefined {
  const isProof = (read: ReadSeal): boolean =>
    read.seal.signed && keyring.accepted.has(read.seal.pubkey) && hasSigned(read)
  return isProof(seen) && isProof(shown)
    ? { kind: 'fork', sides: [signedSide(seen.seal), signedSide(shown.seal)] }
    : undefined
}
