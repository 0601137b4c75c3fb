import type { AgentKeys, KeyForm, KeyProof } from '../../shared/crypto/key-tree.ts'
import { verifyKeyProof } from '../../shared/crypto/key-tree.ts'
import { meetsQuorum, parseLogPolicy, type LogPolicy } from '../../shared/crypto/log-policy.ts'
import { logNodeHash, verifyLogConsistency, verifyLogInclusion } from '../../shared/crypto/log-tree.ts'
import { leafHash } from '../../shared/crypto/merkle.ts'
import {
  formatVkey,
  NOTE_KEY,
  parseCheckpoint,
  parseLogProof,
  parseNoteOfAnyLines,
  verifyCosignatureBy,
  verifyNoteBy,
  type LogProof,
  type Note,
} from '../../shared/crypto/note.ts'
import type { LedgerEntry } from '../../shared/crypto/receipt.ts'
import { refusal, Refused, type Fork } from './findings.ts'
import { isSignedBy } from '../../shared/crypto/ed25519-verify.ts'
import { isHexHash, isObject, MAX_CLOCK_SKEW_SECONDS, show } from './values.ts'
import type { Connection, Doubt, RestsOn, Trust } from './verification.ts'
import { say } from './wording.ts'

/*
 * The light checker, which an agent uses at every run: whether a checkpoint is signed and cosigned, whether it
 * goes on from the one that was seen, whether an entry is in its log, and what keys it proves an agent to
 * have. All of it only computes. Sizes are numbers of entries, roots 64 lower-case hex characters, times Unix
 * seconds.
 */

export type LogHead = { readonly size: number; readonly root: string }
/** A log with the signed checkpoint that states it. */
export type SignedLog = LogHead & { readonly origin: string; readonly note: string; readonly parsed: Note }
/** What a service answers to GET /ledger/consistency: the older root as that log has it, and the proof. */
export type Consistency = { readonly root?: unknown; readonly path?: unknown }

const MAX_LOG_PATH = 128
const bytesOf = (hex: string): Uint8Array => Buffer.from(hex, 'hex')

// ——— a checkpoint and its signatures

/** Reads a checkpoint, of which nothing is verified. @throws Refused `wrong_checkpoint` */
export function readCheckpoint(note: unknown): SignedLog {
  try {
    const parsed = parseNoteOfAnyLines(note as string)
    const { origin, size, root } = parseCheckpoint(parsed.text)
    return { origin, size, root: Buffer.from(root).toString('hex'), note: note as string, parsed }
  } catch (error) {
    throw error instanceof TypeError ? refusal('wrong_checkpoint.form', error.message) : error
  }
}

/** Whether one of these keys (64 hex characters) has signed a checkpoint, under the name of its log. */
export const isSignedLog = ({ origin, parsed }: SignedLog, pubkeys: Iterable<string>): boolean =>
  [...pubkeys].some((pubkey) =>
    verifyNoteBy(isSignedBy, parsed, { name: origin, type: NOTE_KEY.signer, publicKey: bytesOf(pubkey) }),
  )

/** Reads a checkpoint that one of these keys must have signed. @throws Refused `wrong_checkpoint` */
export function verifyCheckpoint(note: unknown, pubkeys: Iterable<string>): SignedLog {
  const log = readCheckpoint(note)
  if (!isSignedLog(log, pubkeys)) throw refusal('wrong_checkpoint.signer')
  return log
}

// ——— whose word is enough: the reader's policy (C2SP tlog-policy)

/** At most so many witnesses are asked for by name. */
const MAX_WITNESSES_ASKED = 30

/** The vkeys of a policy's witnesses, whose lines a service is asked for, so that others can't crowd them out. */
export const witnessesOf = (policy: LogPolicy | undefined): string[] =>
  (policy?.witnesses ?? [])
    .flatMap(({ key }) => (key.type === 'unknown' ? [] : [formatVkey(key)]))
    .slice(0, MAX_WITNESSES_ASKED)

/** The keys of the logs that a policy names, 64 hex characters each. */
export const logKeysOf = (policy: LogPolicy | undefined): string[] =>
  (policy?.logs ?? []).flatMap(({ type, publicKey }) =>
    type === 'unknown' ? [] : [Buffer.from(publicKey).toString('hex')],
  )

export { parseLogPolicy, type LogPolicy }

/**
 * Finds the policy's witnesses that cosigned a note: by their names, the time of each one's newest
 * cosignature.
 *
 * @param now a cosignature from the future doesn't count. Infinity: they all do
 */
export function findCosigners(
  policy: Pick<LogPolicy, 'witnesses'>,
  note: Note,
  now = Infinity,
): Map<string, number> {
  const newestTimes = new Map<string, number>()
  for (const { name, key } of policy.witnesses) {
    if (key.type === 'unknown') continue
    const times = note.signatures
      .flatMap((line) => verifyCosignatureBy(isSignedBy, note.text, line, key) ?? [])
      .filter((at) => at <= now + MAX_CLOCK_SKEW_SECONDS)
    if (times.length > 0) newestTimes.set(name, Math.max(...times))
  }
  return newestTimes
}

/** What a verdict rests on besides the key. */
export type Support = {
  readonly checkpoints: readonly SignedLog[]
  /** Up to this entry all stand under checkpoints. */
  readonly covered: number
  /** Up to this entry they should. */
  readonly upTo: number
  /** When the newest seal was made; undefined: no matter. */
  readonly madeAt: number | undefined
  /** How much of the log this reader had seen, if the verdict agrees with that. */
  readonly seenSize: number | null
}

export const NO_SUPPORT: Support = {
  checkpoints: [],
  covered: 0,
  upTo: 0,
  madeAt: undefined,
  seenSize: null,
}

/**
 * Says what a verdict rests on, and why that isn't enough.
 *
 * @param maxAge seconds; undefined: any age
 */
export function judgeSupport(
  policy: LogPolicy | undefined,
  support: Support,
  key: Trust,
  { now, maxAge }: { now: number; maxAge: number | undefined },
): { rests: RestsOn; doubts: Doubt[] } {
  const { checkpoints } = support
  const newest = checkpoints.reduce<SignedLog | undefined>(
    (one, other) => (other.size > (one?.size ?? -1) ? other : one),
    undefined,
  )
  const cosigners = new Map(policy && newest && findCosigners(policy, newest.parsed, now))
  for (const { parsed } of checkpoints) {
    const own = policy && findCosigners(policy, parsed, now)
    for (const name of cosigners.keys()) if (own?.has(name) !== true) cosigners.delete(name)
  }
  const names = [...cosigners.keys()]
  const cosignedAt = names.length > 0 ? Math.max(...cosigners.values()) : undefined
  const rests: RestsOn = {
    key,
    cosigned_by: names,
    ...(newest === undefined || cosignedAt === undefined
      ? {}
      : { cosigned_size: newest.size, cosigned_at: cosignedAt }),
    quorum: policy?.quorum ?? null,
    seen_size: support.seenSize,
  }
  const doubts = [
    ...(policy === undefined ? [] : policyDoubts(policy, checkpoints, names, newest, now)),
    ...coverDoubts(support, names.length > 0),
    ...ageDoubts(cosignedAt, support.madeAt, now, maxAge),
  ]
  return { rests, doubts }
}

/** Why checkpoints that these witnesses cosigned are not enough for a policy. */
function policyDoubts(
  policy: LogPolicy,
  checkpoints: readonly SignedLog[],
  names: readonly string[],
  newest: SignedLog | undefined,
  now: number,
): Doubt[] {
  const foreign = checkpoints.find(({ origin }) => policy.logs.every(({ name }) => name !== origin))
  if (policy.logs.length > 0 && foreign !== undefined) return [say('other_log', show(foreign.origin))]
  const { quorum } = policy
  if (meetsQuorum(policy, new Set(names))) return []
  if (newest === undefined) return [say('quorum_not_met.no_checkpoint', quorum, '')]
  const inTime = findCosigners(policy, newest.parsed, now)
  const early = [...findCosigners(policy, newest.parsed).keys()].filter((name) => !inTime.has(name))
  const clocks = early.length === 0 ? '' : say('quorum_not_met.ahead', early.join(', ')).message
  return names.length === 0
    ? [say('quorum_not_met.none', quorum, clocks)]
    : [say('quorum_not_met.some', names.join(', '), quorum, clocks)]
}

/** A checkpoint says nothing of the entries behind it: an old one must not vouch for a fork. */
function coverDoubts({ checkpoints, covered, upTo }: Support, isCosigned: boolean): Doubt[] {
  if (checkpoints.length === 0 || covered >= upTo) return []
  return [say(isCosigned ? 'not_cosigned_yet.cosigned' : 'not_cosigned_yet.shown', covered, upTo)]
}

/** What witnesses cosigned is as old as the newest cosignature; anything else, as the newest seal says. */
function ageDoubts(
  cosignedAt: number | undefined,
  madeAt: number | undefined,
  now: number,
  maxAge: number | undefined,
): Doubt[] {
  const at = cosignedAt ?? madeAt
  if (at === undefined || maxAge === undefined || now - at <= maxAge) return []
  return [say(cosignedAt === undefined ? 'stale.seal' : 'stale.cosignature', now - at, maxAge)]
}

// ——— two logs, of which the larger must go on from the smaller

/** The proof in an answer to GET /ledger/consistency, which may be anything. */
export const readConsistency = (answer: unknown): Consistency =>
  isObject(answer) ? { root: answer['from_root'], path: answer['hashes'] } : {}

function isConsistent(from: LogHead, to: LogHead, path: unknown): boolean {
  return (
    Array.isArray(path) &&
    path.length <= MAX_LOG_PATH &&
    path.every(isHexHash) &&
    verifyLogConsistency(
      { size: from.size, root: bytesOf(from.root) },
      { size: to.size, root: bytesOf(to.root) },
      path.map(bytesOf),
    )
  )
}

const inOrder = <T extends LogHead>(one: T, other: T): [T, T] =>
  one.size <= other.size ? [one, other] : [other, one]

/**
 * Compares a log with the one that was seen.
 *
 * @param proof that the larger goes on from the smaller; undefined if the caller has none
 * @throws Refused `log_rewritten`
 */
export function connectLogs(seen: LogHead, shown: LogHead, proof: Consistency | undefined): Connection {
  const [from, to] = inOrder(seen, shown)
  if (from.size === to.size && from.root === to.root) return 'same'
  if (from.size !== to.size && proof === undefined) return from.size > 0 ? 'not_checked' : 'consistent'
  if (from.size !== to.size && isConsistent(from, to, proof?.path)) return 'consistent'
  throw refusal('log_rewritten.log', shown.size, shown.root, seen.size, seen.root)
}

/**
 * Whether two logs contradict each other: they have one size and two roots, or the proof shows that the
 * larger begins with another log of the smaller's size.
 */
export function isContradiction(from: LogHead, to: LogHead, consistency: unknown): boolean {
  if (from.size === to.size) return from.root !== to.root
  const { root, path }: Consistency = isObject(consistency) ? consistency : {}
  return isHexHash(root) && root !== from.root && from.size > 0 && isConsistent({ ...from, root }, to, path)
}

/**
 * Makes evidence for anybody of two checkpoints that contradict each other.
 *
 * @param pubkeys of which one must have signed both
 * @returns undefined if it can't be shown
 */
export function logForkOf(
  seen: LogHead | SignedLog,
  shown: LogHead | SignedLog,
  proof: Consistency | undefined,
  pubkeys: Iterable<string>,
): Fork | undefined {
  if (!('note' in seen) || !('note' in shown)) return undefined
  const [from, to] = inOrder(seen, shown)
  const pubkey = [...pubkeys].find((key) => [from, to].every((side) => isSignedLog(side, [key])))
  const consistency = from.size === to.size ? {} : { consistency: proof ?? {} }
  return pubkey === undefined || !isContradiction(from, to, proof)
    ? undefined
    : { kind: 'log_fork', pubkey, notes: [from.note, to.note], ...consistency }
}

// ——— an entry in the log

/** Reads the text of a C2SP tlog-proof, of which nothing is verified. @throws Refused `wrong_log_proof` */
export function readLogProof(text: unknown): LogProof {
  try {
    const proof = parseLogProof(text as string)
    if (proof.path.length <= MAX_LOG_PATH) return proof
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
  }
  throw refusal('wrong_log_proof.text')
}

/**
 * Verifies that the log of a checkpoint has an entry at the place that the proof names.
 *
 * @param leaf the entry's, 64 hex characters
 * @throws Refused `wrong_log_proof`
 */
export function verifyPlace(entryId: number, leaf: string, { index, path }: LogProof, log: LogHead): void {
  const place = { leaf: bytesOf(leaf), index, path, size: log.size, root: bytesOf(log.root) }
  if (index !== entryId - 1 || !verifyLogInclusion(place)) throw refusal('wrong_log_proof.path', entryId)
}

/**
 * Compares an entry whose place in a log is verified with the log that was seen. If that is no larger, it needs
 * no other proof: the subtree of the seen log that has the entry is a part of the larger log too, so the path
 * leads through its root.
 *
 * @param seen its size, and the roots of its complete subtrees, the largest first
 * @returns `same` if it is in both; `not_checked` if it lies beyond the seen log, or that is larger
 * @throws Refused `log_rewritten`
 */
export function connectEntry(
  entryId: number,
  leaf: string,
  { index, path }: LogProof,
  log: LogHead,
  seen: { readonly size: number; readonly frontier: readonly string[] } | undefined,
): 'same' | 'not_checked' {
  if (seen === undefined || entryId > seen.size || log.size < seen.size) return 'not_checked'
  let [from, width, place] = [0, 2 ** 52, 0]
  for (; width >= 1; width /= 2) {
    if (Math.floor(seen.size / width) % 2 === 0) continue
    if (index < from + width) break
    from += width
    place++
  }
  let running: Uint8Array = bytesOf(leaf)
  let step = 0
  for (let below = 1; below < width; below *= 2) {
    const sibling = path[step++] ?? running
    running =
      Math.floor(index / below) % 2 === 1 ? logNodeHash(sibling, running) : logNodeHash(running, sibling)
  }
  if (Buffer.from(running).toString('hex') === seen.frontier[place]) return 'same'
  throw refusal('log_rewritten.entry', entryId, seen.size)
}

// ——— the keys of an agent

/** What GET /keys/<agent_id> answers, as far as it is checked. */
export interface KeyAnswer {
  readonly keys: AgentKeys | null
  readonly up_to: number
  readonly proof: KeyProof
  readonly entry: LedgerEntry
  readonly tlog_proof: string
}

/** What a reader knows of a service before it asks for an agent's keys. */
export interface KeyReader {
  /** Keys of the service that are accepted, 64 hex characters each. */
  readonly pubkeys: readonly string[]
  readonly policy: LogPolicy | undefined
  /** The log that was seen, and the form of the tree of keys that closing entries state by now. */
  readonly seen: (LogHead & { readonly keyForm: KeyForm }) | undefined
  /** Seconds; undefined: any age. */
  readonly maxAge: number | undefined
  readonly now: number
}

/**
 * Verifies the proof of an agent's keys: from the keys to the root of the tree of keys in a closing entry,
 * from that entry to a checkpoint, the checkpoint's signature and cosignatures, and its age.
 *
 * @returns the log that proves them, which must still go on from the one that was seen
 * @throws Refused
 */
export function verifyKeyAnswer(agentId: string, answer: KeyAnswer, reader: KeyReader): SignedLog {
  const { entry, policy, seen, now, maxAge } = { ...answer, ...reader }
  const stated: { log?: { size?: unknown }; keys?: { root?: unknown; v?: unknown } } = entry.data
  const { root, v: form = 1 } = stated.keys ?? {}
  const wrong = (sentence: string) =>
    new Refused('wrong_keys', `the proof of the keys of ${agentId} does not hold: ${sentence}`)
  if (entry.kind !== 'solvency' || typeof root !== 'string' || stated.log?.size !== answer.up_to)
    throw wrong('its entry is no closing entry that states keys')
  if (form !== 1 && form !== 2) throw wrong('its tree of keys has a form that is not known here')
  const proven = verifyKeyProof(agentId, root, answer.proof)
  if (!proven.ok) throw wrong(proven.reason)
  if (!isSameKeys(proven.keys, answer.keys)) throw wrong('it shows other keys than those it proves')
  let log: SignedLog
  try {
    const proof = readLogProof(answer.tlog_proof)
    log = verifyCheckpoint(proof.checkpoint, reader.pubkeys)
    // The newest closing entry is the last of its checkpoint's log: no older tree passes for that log's newest.
    if (entry.id !== log.size) throw wrong('its closing entry is not the last of the checkpoint')
    verifyPlace(entry.id, leafHash(entry), proof, log)
  } catch (error) {
    throw error instanceof Refused && error.reason !== 'wrong_keys' ? wrong(error.message) : error
  }
  const support: Support = {
    ...{ checkpoints: [log], covered: log.size, upTo: log.size },
    ...{ madeAt: entry.at, seenSize: null },
  }
  const [doubt] = judgeSupport(policy, support, 'pinned', { now, maxAge }).doubts
  if (doubt !== undefined) throw wrong(`${doubt.reason}: ${doubt.message}`)
  if (seen !== undefined && log.size < seen.size)
    throw new Refused(
      'behind',
      `the keys are proven by a log of ${log.size} entries, and one of ${seen.size} was seen here: the keys may have changed since`,
    )
  if (seen !== undefined && form < seen.keyForm)
    throw new Refused(
      'wrong_keys',
      'the keys are proven in form 1, in which revoked keys stay, after the ledger has stated form 2',
    )
  return log
}

function isSameKeys(proven: AgentKeys | null, shown: AgentKeys | null): boolean {
  if (proven === null || shown === null) return proven === shown
  const fields = ['agent_id', 'dm_key', 'author_key', 'version', 'entry_id'] as const
  return fields.every((field) => proven[field] === shown[field])
}
