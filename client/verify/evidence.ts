import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { Findings, refusal, Unchecked, type Fork } from './findings.ts'
import { isContradiction, verifyCheckpoint, type SignedLog } from './light.ts'
import { checkSignature, Keyring, readSeal, sha256Hex, type ReadSeal } from './seals.ts'
import { isHexHash, isObject, memberOf, type Fields } from './values.ts'

/*
 * Proofs that one key has signed two histories: two seals of one number, or two checkpoints of one log. Anybody
 * can check them who knows the key.
 */

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
