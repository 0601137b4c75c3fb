import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { Findings, refusal, Unchecked, type Fork } from './findings.ts'
import {
  connectLogs,
  isContradiction,
  logForkOf,
  verifyCheckpoint,
  type Consistency,
  type LogHead,
  type SignedLog,
} from './light.ts'
import { checkSignature, Keyring, readSeal, sealForkOf, sha256Hex, type ReadSeal } from './seals.ts'
import { memoryOf, type Remembered } from './state.ts'
import { isHexHash, isObject, memberOf, type Fields } from './values.ts'
import type { Connection } from './verification.ts'

/*
 * Proofs that one key has signed two histories: two seals of one number, or two checkpoints of one log. Anybody
 * can check them who knows the key.
 */

/** What a check has found so far, and by which keys it judges. */
export type Judged = { readonly findings: Findings; readonly keyring: Keyring }

/**
 * Compares a signed log with the one that was seen.
 *
 * @returns how it stands to that; null, with evidence if it can be shown, if they contradict each other
 */
export function compareLogs(
  { findings, keyring }: Judged,
  where: string,
  seen: LogHead | SignedLog,
  shown: SignedLog,
  proof: Consistency | undefined,
): Connection | null {
  const compared = findings.run(where, () => connectLogs(seen, shown, proof))
  if (compared.held) return compared.value
  findings.fork ??= logForkOf(seen, shown, proof, keyring.accepted)
  return null
}

/** Adds what is wrong if a seal of the remembered head's number is another one, with evidence if it can be shown. */
export function compareWithHead(
  { findings, keyring }: Judged,
  read: ReadSeal,
  remembered: Remembered,
  sentence: 'history_rewritten.payload' | 'history_rewritten.in_chain',
): void {
  if (sha256Hex(read.payload) === remembered.payload_hash) return
  findings.add(`seal ${read.seal.seq}`, sentence)
  const head = memoryOf(remembered)?.head
  if (head !== undefined) findings.fork ??= sealForkOf(readSeal(head), read, keyring)
}

/** Writes a proof of a contradiction into a new file. @returns its path @throws Unchecked */
export async function writeEvidence(
  folder: string,
  fork: Fork,
  service: string | undefined,
  now: number,
): Promise<string> {
  const { kind, ...parts } = fork
  const text = `${JSON.stringify({ kind, service: service ?? null, found_at: now, ...parts }, null, 2)}\n`
  for (let count = 1; ; count++) {
    const file = path.join(folder, `fork-${now}${count === 1 ? '' : `-${count}`}.json`)
    try {
      await writeFile(file, text, { flag: 'wx' })
      return file
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST'))
        throw new Unchecked('usage', `the evidence can't be written: ${(error as Error).message}`)
    }
  }
}

/** Evidence as a file has it: two sides, of which nothing is known yet. */
export type Evidence =
  | { readonly kind: 'fork'; readonly sides: readonly unknown[] }
  | {
      readonly kind: 'log_fork'
      readonly notes: readonly unknown[]
      readonly pubkey: unknown
      readonly consistency: unknown
    }

/** Reads what may be evidence. @returns undefined if it isn't any */
export function readEvidence(value: unknown): Evidence | undefined {
  if (!isObject(value)) return undefined
  const { kind, sides, notes, pubkey, consistency } = value
  if (kind === 'fork' && Array.isArray(sides) && sides.length === 2) return { kind, sides }
  if (kind === 'log_fork' && Array.isArray(notes) && notes.length === 2)
    return { kind, notes, pubkey, consistency }
  return undefined
}

/** The keys that evidence is of. */
export const keysOfEvidence = (evidence: Evidence): unknown[] =>
  evidence.kind === 'fork'
    ? evidence.sides.map((side) => (isObject(side) ? side['pubkey'] : undefined))
    : [evidence.pubkey]

/** What a check of evidence found. No finding means that it proves a fork. */
export type EvidenceCheck = { readonly findings: Findings; readonly report: Fields }

export const checkEvidence = (evidence: Evidence, keyring: Keyring): EvidenceCheck =>
  evidence.kind === 'fork' ? checkSealFork(evidence.sides, keyring) : checkLogFork(evidence, keyring)

function checkSealFork(sides: readonly unknown[], keyring: Keyring): EvidenceCheck {
  const findings = new Findings()
  const read: ReadSeal[] = []
  for (const [place, side] of sides.entries()) {
    const where = `side ${place + 1}`
    findings.run(where, () => {
      const seal = readSeal(
        isObject(side) ? { ...side, signed: true, algo: 'ed25519', signed_at: memberOf(side, 'at') } : side,
      )
      read.push(seal)
      checkSignature(seal, keyring, findings, where)
    })
  }
  const [one, other] = read
  if (other !== undefined && (one?.payload === other.payload || one?.seal.seq !== other.seal.seq))
    findings.add('evidence', 'no_contradiction.seals')
  const report = { seq: one?.seal.seq ?? null, payload_hashes: read.map(({ payload }) => sha256Hex(payload)) }
  return { findings, report }
}

function checkLogFork(
  { notes, pubkey, consistency }: Evidence & { kind: 'log_fork' },
  keyring: Keyring,
): EvidenceCheck {
  const findings = new Findings()
  const sides: SignedLog[] = []
  for (const [place, note] of notes.entries())
    findings.run(`note ${place + 1}`, () => {
      if (!isHexHash(pubkey)) throw refusal('wrong_checkpoint.key')
      keyring.check(pubkey)
      sides.push(verifyCheckpoint(note, [pubkey]))
    })
  const [from, to] = sides
  if (from !== undefined && to !== undefined)
    if (from.origin !== to.origin || !isContradiction(from, to, consistency))
      findings.add('evidence', 'no_contradiction.logs')
  return { findings, report: { sizes: sides.map(({ size }) => size), roots: sides.map(({ root }) => root) } }
}
