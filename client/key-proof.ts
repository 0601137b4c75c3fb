import { readFileSync } from 'node:fs'
import { parseLogPolicy, satisfiesPolicy, type LogPolicy } from '../shared/crypto/log-policy.ts'
import { leafHash } from '../shared/crypto/merkle.ts'
import { verifyKeyProof, type AgentKeys } from '../shared/crypto/key-tree.ts'
import { verifyLogConsistency, verifyLogInclusion, type LogHead } from '../shared/crypto/log-tree.ts'
import { NOTE_KEY, parseCheckpoint, parseLogProof, parseNote, verifyNote } from '../shared/crypto/note.ts'
import type { Client, KeyAnswer } from './client.ts'
import { RefusalError } from './errors.ts'
import type { SealTrust } from './own-ledger.ts'
import { recall } from './seal-verify.mjs'

/*
 * What keys an agent has, proven without its receipt: from its place in the tree of keys to the closing entry
 * of the newest checkpoint, from that entry to the checkpoint, and from the checkpoint to the log that this
 * reader has seen.
 */

/** A sentence that says why the service's answer proves nothing. */
export class NoKeyProof extends Error {
  override readonly name = 'NoKeyProof'
  /**
   * The service is expected to prove keys, and doesn't: an older path must not take the place of the proof.
   */
  readonly isRefused: boolean

  constructor(message: string, isRefused = true) {
    super(message)
    this.isRefused = isRefused
  }
}

export interface ProvenKeys {
  /** Null: the agent has no keys up to that entry. */
  keys: AgentKeys | null
  /** The last entry of which the tree tells. */
  up_to: number
}

/**
 * Fetches an agent's keys and verifies the proof.
 *
 * @throws NoKeyProof; RefusalError and TransportError as the client does
 */
export async function proveKeys(client: Client, agentId: string, trust: SealTrust): Promise<ProvenKeys> {
  const known = await recall(trust.stateFile, client.baseUrl)
  const pubkeys = knownKeys(trust, known)
  if (pubkeys.length === 0) throw new NoKeyProof('key_unknown: no key of the service is remembered', false)
  let answer: KeyAnswer
  try {
    answer = await client.keys(agentId)
  } catch (error) {
    const isAbsent =
      error instanceof RefusalError && ['no_such_seal', 'no_such_route', 'not_found'].includes(error.error)
    if (!isAbsent) throw error
    throw new NoKeyProof(`the service proves no keys (${error.message})`, known?.logged === true)
  }
  const head = verifyAnswer(agentId, answer, pubkeys, readPolicy(trust.policyFile))
  await requireConsistent(client, known?.log, head)
  return { keys: answer.keys, up_to: answer.up_to }
}

/** The service's keys that count: the pinned ones, else those that were remembered. */
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

/** @throws NoKeyProof if the file is no policy */
function readPolicy(file: string | undefined): LogPolicy | undefined {
  try {
    return file === undefined ? undefined : parseLogPolicy(readFileSync(file, 'utf8'))
  } catch (error) {
    throw new NoKeyProof(`${file} is no policy of witnesses: ${(error as Error).message}`)
  }
}

/** Verifies all that the answer itself proves. @returns the log of its checkpoint. @throws NoKeyProof */
export function verifyAnswer(
  agentId: string,
  answer: KeyAnswer,
  pubkeys: readonly string[],
  policy?: LogPolicy,
): LogHead {
  const { entry, proof, keys, up_to: upTo } = answer
  const refuse = (sentence: string) =>
    new NoKeyProof(`the proof of the keys of ${agentId} does not hold: ${sentence}`)
  const stated = entry.data as { log?: { size?: unknown }; keys?: { root?: unknown } }
  if (entry.kind !== 'solvency' || typeof stated.keys?.root !== 'string' || stated.log?.size !== upTo)
    throw refuse('its entry is no closing entry that states keys')
  const verdict = verifyKeyProof(agentId, stated.keys.root, proof)
  if (!verdict.ok) throw refuse(verdict.reason)
  if (!isSameKeys(verdict.keys, keys)) throw refuse('it shows other keys than those it proves')
  try {
    const { index, path, checkpoint } = parseLogProof(answer.tlog_proof)
    const note = parseNote(checkpoint)
    const head = parseCheckpoint(note.text)
    // The newest closing entry is the last of the log: an older tree of keys can't pass for the newest.
    if (index !== entry.id - 1 || entry.id !== head.size)
      throw refuse('its closing entry is not the last of the checkpoint')
    if (!isSignedByAny(pubkeys, note, head.origin)) throw refuse('no known key has signed its checkpoint')
    if (policy !== undefined && !satisfiesPolicy(policy, note))
      throw refuse("the witnesses of this reader's policy have not cosigned its checkpoint, or not yet")
    const leaf = Buffer.from(leafHash(entry), 'hex')
    if (!verifyLogInclusion({ leaf, index, path, size: head.size, root: head.root }))
      throw refuse('its entry is not in the log')
    return head
  } catch (error) {
    if (error instanceof TypeError) throw refuse(error.message)
    throw error
  }
}

function isSameKeys(proven: AgentKeys | null, shown: AgentKeys | null): boolean {
  if (proven === null || shown === null) return proven === shown
  const fields = ['agent_id', 'dm_key', 'author_key', 'version', 'entry_id'] as const
  return fields.every((field) => proven[field] === shown[field])
}

/** @throws NoKeyProof if one of the two logs, the proof's and the one that was seen, doesn't continue the other */
async function requireConsistent(
  client: Client,
  seen: { size: number; root: string } | undefined,
  head: LogHead,
): Promise<void> {
  if (seen === undefined || seen.size === 0) return
  const own: LogHead = { size: seen.size, root: Buffer.from(seen.root, 'hex') }
  const [from, to] = own.size <= head.size ? [own, head] : [head, own]
  const hashes =
    from.size === to.size ? [] : (await client.consistency({ from: from.size, to: to.size })).hashes
  if (
    !verifyLogConsistency(
      from,
      to,
      hashes.map((hash) => Buffer.from(hash, 'hex')),
    )
  )
    throw new NoKeyProof(
      `the log of the keys, of size ${head.size}, does not agree with the one seen before, of size ${seen.size}`,
    )
}
