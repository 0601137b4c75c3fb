import { hash } from 'node:crypto'
import { sealPayload, type Seal } from '../../shared/crypto/seal-payload.ts'
import { refusal, type Findings, type Fork } from './findings.ts'
import { isSignedBy, isWeakKey } from '../../shared/crypto/ed25519-verify.ts'
import { decodeSignature, isHexHash, isObject, isWhole } from './values.ts'
import type { Trust } from './verification.ts'

/** A seal that has the form of one, and the text that its signature covers, which is always rebuilt here. */
export type ReadSeal = { readonly seal: Seal; readonly payload: string }

/** Reads a seal. @throws Refused `malformed_seal` */
export function readSeal(value: unknown): ReadSeal {
  if (!isObject(value)) throw refusal('malformed_seal.form')
  let payload: string
  try {
    payload = sealPayload(value as Seal)
  } catch (error) {
    throw refusal('malformed_seal.fields', error instanceof Error ? error.message : error)
  }
  const { signed, signature, pubkey, algo, signed_at: signedAt } = value
  if (signed === true) {
    const isRight =
      decodeSignature(signature) !== undefined && isHexHash(pubkey) && algo === 'ed25519' && isWhole(signedAt)
    if (!isRight) throw refusal('malformed_seal.signature')
  } else if (signed !== false || (signature ?? null) !== null) throw refusal('malformed_seal.signed')
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
    throw this.trust === 'pinned'
      ? refusal('wrong_key', pubkey)
      : refusal('key_changed', pubkey, [...this.accepted].join(' or '))
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
  if (seal.signed_at < seal.at) findings.add(where, 'signed_before_made', seal.signed_at, seal.at)
  findings.run(where, () => keyring.check(seal.pubkey))
  if (isWeakKey(seal.pubkey)) findings.add(where, 'weak_key', seal.pubkey)
  else if (!hasSigned(read)) findings.add(where, 'bad_signature', seal.pubkey)
}

/** Checks what a seal says by itself: its range, its count and its time, and that the first begins the chain. */
export function checkSealAlone(seal: Seal, now: number, findings: Findings, where: string): void {
  const { seq, count, from_id: from, to_id: to, prev_root: previous } = seal
  if (count < 1 || count !== to - from + 1) findings.add(where, 'wrong_count', count, from, to)
  if (seq === 1 && from !== 1) findings.add(where, 'range_gap.first', from)
  if (seq === 1 && previous !== null) findings.add(where, 'wrong_prev_root.first')
  if (seq > 1 && previous === null) findings.add(where, 'wrong_prev_root.none')
  findings.addTime(where, seal, now)
}

/** Checks what a seal says about one that stands before it. */
export function checkSealLink(previous: Seal, seal: Seal, findings: Findings, where: string): void {
  const { seq, at, from_id: from, prev_root: root } = seal
  if (at < previous.at) findings.add(where, 'at_goes_back', at, previous.at, previous.seq)
  if (seq !== previous.seq + 1) return
  if (from !== previous.to_id + 1) findings.add(where, 'range_gap.next', from, previous.to_id + 1)
  if (root !== null && root !== previous.root)
    findings.add(where, 'wrong_prev_root.other', root, previous.seq, previous.root)
}

/** The fields of a seal that prove who signed what. */
const signedSide = ({ seal }: ReadSeal): object => {
  const { seq, at, count, from_id, to_id, root, prev_root, signature, pubkey } = seal
  return { seq, at, count, from_id, to_id, root, prev_root, signature, pubkey }
}

/** Makes evidence for anybody of two different seals of one number; undefined unless accepted keys signed both. */
export function sealForkOf(seen: ReadSeal, shown: ReadSeal, keyring: Keyring): Fork | undefined {
  const isProof = (read: ReadSeal): boolean =>
    read.seal.signed && keyring.accepted.has(read.seal.pubkey) && hasSigned(read)
  return isProof(seen) && isProof(shown)
    ? { kind: 'fork', sides: [signedSide(seen), signedSide(shown)] }
    : undefined
}
