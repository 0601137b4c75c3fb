import { readFileSync } from 'node:fs'
import {
  findCosigners,
  parseLogPolicy,
  satisfiesPolicy,
  type LogPolicy,
} from '../shared/crypto/log-policy.ts'
import { leafHash } from '../shared/crypto/merkle.ts'
import { verifyKeyProof, type AgentKeys, type KeyForm } from '../shared/crypto/key-tree.ts'
import { verifyLogConsistency, verifyLogInclusion, type LogHead } from '../shared/crypto/log-tree.ts'
import { NOTE_KEY, parseCheckpoint, parseLogProof, parseNote, verifyNote } from '../shared/crypto/note.ts'
import type { Client, KeyAnswer, Receipt } from './client.ts'
import { RefusalError } from './errors.ts'
import type { SealTrust } from './own-ledger.ts'
import { readPolicyVkeys, recall } from './seal-verify.mjs'

/*
 * What keys an agent has, proven without its receipt: from its place in the tree of keys to the closing entry
 * of the newest checkpoint, from that entry to the checkpoint, and from the checkpoint to the log that this
 * reader has seen.
 */

/** The service's answer doesn't prove an agent's keys; `message` says why. */
export class KeyProofError extends Error {
  override readonly name = 'KeyProofError'
  /** True if the service is expected to prove keys: then nothing weaker may take the place of the proof. */
  readonly isRefused: boolean

  constructor(message: string, isRefused = true) {
    super(message)
    this.isRefused = isRefused
  }
}

export interface ProvenKeys {
  /** Null if the agent has set no keys. */
  keys: AgentKeys | null
  /** The last entry of the ledger that the proof takes into account. */
  up_to: number
}

/**
 * Fetches an agent's keys and verifies the proof, by the service's keys that are pinned or remembered.
 *
 * @throws KeyProofError; RefusalError and TransportError as the client does
 */
export async function proveKeys(client: Client, agentId: string, trust: SealTrust): Promise<ProvenKeys> {
  const known = await recall(trust.stateFile, client.baseUrl)
  const pubkeys = knownKeys(trust, known)
  if (pubkeys.length === 0) throw new KeyProofError('key_unknown: no key of the service is remembered', false)
  let answer: KeyAnswer
  try {
    answer = await client.keys(agentId)
    const [proof = ''] = await addOwnCosignatures(client, trust, [answer.tlog_proof])
    answer = { ...answer, tlog_proof: proof }
  } catch (error) {
    const isAbsent =
      error instanceof RefusalError && ['no_such_seal', 'no_such_route', 'not_found'].includes(error.error)
    if (!isAbsent) throw error
    throw new KeyProofError(`the service proves no keys (${error.message})`, known?.logged === true)
  }
  const now = Math.floor(Date.now() / 1000)
  const head = verifyKeyAnswer(agentId, answer, pubkeys, readPolicy(trust.policyFile), now)
  if (head.form < (known?.key_form ?? 1))
    throw new KeyProofError(
      'the keys are proven in form 1, in which revoked keys stay, after the ledger has stated form 2',
    )
  requireFresh(head, known?.log, trust.maxAgeSeconds, now)
  await requireConsistent(client, known?.log, head)
  return { keys: answer.keys, up_to: answer.up_to }
}

/**
 * Puts the cosignatures of the reader's own witnesses into proofs that hang on the newest checkpoint: below
 * the one that comes with a proof others may have crowded them out. Proofs under another checkpoint stay as
 * they are, and so do all if there is no policy, or the service knows no such question.
 *
 * @param proofs texts of C2SP tlog-proof, of which nothing is checked here
 */
export async function addOwnCosignatures(
  client: Client,
  { policyFile }: Pick<SealTrust, 'policyFile'>,
  proofs: readonly string[],
): Promise<string[]> {
  // Whoever verifies says what is wrong with the policy's file.
  const witness = policyFile === undefined ? [] : await readPolicyVkeys(policyFile).catch(() => [])
  if (witness.length === 0 || proofs.length === 0) return [...proofs]
  let note: string
  try {
    note = await client.checkpoint({ witness })
  } catch (error) {
    if (!(error instanceof RefusalError)) throw error
    return [...proofs]
  }
  const signedPart = (text: string): string => text.slice(0, text.lastIndexOf('\n\n'))
  return proofs.map((proof) => {
    const start = proof.indexOf('\n\n') + 2
    return signedPart(proof.slice(start)) === signedPart(note) ? proof.slice(0, start) + note : proof
  })
}

/** The same for a receipt. */
export async function withOwnCosignatures<R extends Receipt>(
  client: Client,
  trust: Pick<SealTrust, 'policyFile'>,
  receipt: R,
): Promise<R> {
  const proofs = receipt.entries.flatMap((item) => (item.sealed && item.tlog_proof) || [])
  const cosigned = await addOwnCosignatures(client, trust, proofs)
  const byProof = new Map(proofs.map((proof, place) => [proof, cosigned[place] ?? proof]))
  const entries = receipt.entries.map((item) => {
    const proof = item.sealed ? byProof.get(item.tlog_proof ?? '') : undefined
    return proof === undefined ? item : { ...item, tlog_proof: proof }
  })
  return { ...receipt, entries }
}

/** The service's keys that are accepted: the pinned ones if there are any, else the remembered ones. */
export const knownKeys = (
  { pubkeys = [] }: SealTrust,
  remembered: { pubkeys?: readonly string[] } | undefined,
): readonly string[] => (pubkeys.length > 0 ? pubkeys : (remembered?.pubkeys ?? []))

/** Whether one of these keys, each 64 hex characters, has signed a checkpoint of this log. */
export const isSignedByAny = (
  pubkeys: readonly string[],
  note: ReturnType<typeof parseNote>,
  origin: string,
): boolean =>
  pubkeys.some((key) =>
    verifyNote(note, {
      name: origin,
      type: NOTE_KEY.signer,
      publicKey: new Uint8Array(Buffer.from(key, 'hex')),
    }),
  )

/**
 * Reads a policy of witnesses; undefined without a file.
 *
 * @throws KeyProofError if the file holds something else
 */
function readPolicy(file: string | undefined): LogPolicy | undefined {
  try {
    return file === undefined ? undefined : parseLogPolicy(readFileSync(file, 'utf8'))
  } catch (error) {
    throw new KeyProofError(`${file} is no policy of witnesses: ${(error as Error).message}`)
  }
}

/**
 * Verifies the proof in an answer of GET /keys: from the keys to the root of the tree of keys in a closing
 * entry, from that entry to a checkpoint, and the checkpoint's signature and cosignatures.
 *
 * @param pubkeys keys of the service that are accepted, 64 hex characters each
 * @param now Unix seconds; cosignatures from the future don't count
 * @returns the size and root of the checkpoint's log, and how new it is
 * @throws KeyProofError
 */
export function verifyKeyAnswer(
  agentId: string,
  answer: KeyAnswer,
  pubkeys: readonly string[],
  policy?: LogPolicy,
  now = Infinity,
): KeyHead {
  const { entry, proof, keys, up_to: upTo } = answer
  const refuse = (sentence: string) =>
    new KeyProofError(`the proof of the keys of ${agentId} does not hold: ${sentence}`)
  const stated = entry.data as { log?: { size?: unknown }; keys?: { root?: unknown; v?: unknown } }
  const form = stated.keys?.v === undefined ? 1 : stated.keys.v
  if (entry.kind !== 'solvency' || typeof stated.keys?.root !== 'string' || stated.log?.size !== upTo)
    throw refuse('its entry is no closing entry that states keys')
  if (form !== 1 && form !== 2) throw refuse('its tree of keys has a form that is not known here')
  const verdict = verifyKeyProof(agentId, stated.keys.root, proof)
  if (!verdict.ok) throw refuse(verdict.reason)
  if (!isSameKeys(verdict.keys, keys)) throw refuse('it shows other keys than those it proves')
  try {
    const { index, path, checkpoint } = parseLogProof(answer.tlog_proof)
    const note = parseNote(checkpoint)
    const head = parseCheckpoint(note.text)
    // The newest closing entry is the last of this checkpoint's log: an older tree can't pass for its newest.
    if (index !== entry.id - 1 || entry.id !== head.size)
      throw refuse('its closing entry is not the last of the checkpoint')
    if (!isSignedByAny(pubkeys, note, head.origin)) throw refuse('no known key has signed its checkpoint')
    if (policy !== undefined && !satisfiesPolicy(policy, note, now))
      throw refuse("the witnesses of this reader's policy have not cosigned its checkpoint, or not yet")
    const leaf = Buffer.from(leafHash(entry), 'hex')
    if (!verifyLogInclusion({ leaf, index, path, size: head.size, root: head.root }))
      throw refuse('its entry is not in the log')
    const cosignedAt = policy === undefined ? [] : [...findCosigners(policy, note, now).values()]
    return { ...head, form, at: cosignedAt.length > 0 ? Math.max(...cosignedAt) : entry.at }
  } catch (error) {
    if (error instanceof TypeError) throw refuse(error.message)
    throw error
  }
}

/** The log that keys are proven by. */
export interface KeyHead extends LogHead {
  /** Of the tree of keys: in form 1 a revoked key stays. */
  form: KeyForm
  /**
   * Unix seconds: when a witness of the reader's policy last cosigned it, else when the service says that it
   * was sealed.
   */
  at: number
}

/**
 * Checks that a proof is no older than what is known: an older checkpoint, true as it is, proves keys that
 * may have been replaced since.
 *
 * @param seen the log that this reader has seen, if any
 * @param maxAgeSeconds how old the proof's log may be; undefined: any age
 * @param now Unix seconds
 * @throws KeyProofError
 */
export function requireFresh(
  head: KeyHead,
  seen: { size: number } | undefined,
  maxAgeSeconds: number | undefined,
  now: number,
): void {
  if (seen !== undefined && head.size < seen.size)
    throw new KeyProofError(
      `the keys are proven by a log of ${head.size} entries, and one of ${seen.size} was seen here: the keys may have changed since`,
    )
  const age = now - head.at
  if (maxAgeSeconds !== undefined && age > maxAgeSeconds)
    throw new KeyProofError(
      `the log that proves the keys is ${age} s old, and ${maxAgeSeconds} s are allowed: the keys may have changed since`,
    )
}

function isSameKeys(proven: AgentKeys | null, shown: AgentKeys | null): boolean {
  if (proven === null || shown === null) return proven === shown
  const fields = ['agent_id', 'dm_key', 'author_key', 'version', 'entry_id'] as const
  return fields.every((field) => proven[field] === shown[field])
}

/**
 * Checks that the proof's log continues the one seen before.
 *
 * @throws KeyProofError
 */
async function requireConsistent(
  client: Client,
  seen: { size: number; root: string } | undefined,
  head: LogHead,
): Promise<void> {
  if (seen === undefined || seen.size === 0) return
  const seenHead: LogHead = { size: seen.size, root: Buffer.from(seen.root, 'hex') }
  const hashes =
    seen.size === head.size ? [] : (await client.consistency({ from: seen.size, to: head.size })).hashes
  const path = hashes.map((hash) => Buffer.from(hash, 'hex'))
  if (!verifyLogConsistency(seenHead, head, path))
    throw new KeyProofError(
      `the log of the keys, of size ${head.size}, does not agree with the one seen before, of size ${seen.size}`,
    )
}
