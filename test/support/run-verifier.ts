import { execFile, spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

/** A verifier as a command: the program and its first arguments. */
export type VerifierCommand = readonly [string, ...string[]]

export type VerifierFinding = { reason: string; where: string; message: string }

/** What --json prints; which of the parts are there depends on what was checked. */
export type VerifierReport = {
  ok: boolean
  binding: boolean
  verdict: string
  not_binding?: { reason: string; message: string }[]
  kind?: string
  seals?: number
  signed?: number
  unsigned_seqs?: number[]
  entries_sealed?: number
  entries_waiting?: number
  openings?: number
  entries_read?: number
  head?: { seq: number; at: number; payload_hash: string; history: string } | null
  head_age_seconds?: number | null
  adoptions?: { entry_id: number; at: number; data: string }[]
  unreadable_amounts?: number
  /** The file with both sides of a contradiction. */
  evidence?: string
  pubkeys?: string[]
  remembered_seq?: number | null
  key_trust?: string
  rests_on?: { key: string; cosigned_by: string[]; quorum: string | null; seen_size: number | null } | null
  findings?: VerifierFinding[]
  findings_total?: number
  results?: { file: string; ok: boolean; not_binding: string[]; findings: VerifierFinding[] }[]
  error?: string
  message?: string
}

export const NODE_VERIFIER: VerifierCommand = [
  process.execPath,
  fileURLToPath(new URL('../../client/seal-verify.mjs', import.meta.url)),
]
/** The program itself: what stands before it on the search path may be a script that looks for it, each time. */
const PYTHON =
  spawnSync('python3', ['-c', 'import sys; print(sys.executable)'], {
    encoding: 'utf8',
    timeout: 60_000,
  }).stdout?.trim() || 'python3'
export const PYTHON_VERIFIER: VerifierCommand = [
  PYTHON,
  fileURLToPath(new URL('../../client/python/seal_verify.py', import.meta.url)),
]

let isPythonThere: boolean | undefined

export function canRunPythonVerifier(): boolean {
  isPythonThere ??=
    spawnSync(PYTHON, ['-c', 'import sys; sys.exit(sys.version_info < (3, 9))'], { timeout: 60_000 })
      .status === 0
  return isPythonThere
}

/** Runs a verifier in `cwd`, where its state file lies. */
export function runVerifier(
  command: VerifierCommand,
  args: readonly string[],
  cwd: string,
): Promise<{ code: number; stdout: string; stderr: string }> {
  const [program, ...first] = command
  return new Promise((resolve, reject) => {
    execFile(program, [...first, ...args], { cwd, maxBuffer: 2 ** 26 }, (error, stdout, stderr) => {
      if (error !== null && typeof error.code !== 'number') reject(error)
      else resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr })
    })
  })
}

/** The same with --json, its one object parsed. */
export async function reportOf(
  command: VerifierCommand,
  args: readonly string[],
  cwd: string,
): Promise<VerifierReport & { code: number }> {
  const { code, stdout, stderr } = await runVerifier(command, [...args, '--json'], cwd)
  if (stdout === '') throw new Error(`the verifier printed nothing on stdout, and on stderr: ${stderr}`)
  return { ...(JSON.parse(stdout) as VerifierReport), code }
}

type Report = VerifierReport & { code: number }

/** The same for a reader who knows the keys that signed it, and to whom no head is too old. */
export const reportToKnower = (
  command: VerifierCommand,
  args: readonly string[],
  cwd: string,
): Promise<Report> => askAsKnower((words) => reportOf(command, words, cwd), args)

/** The same, however the verifier is asked. */
export async function askAsKnower(
  report: (args: readonly string[]) => Promise<Report>,
  args: readonly string[],
): Promise<Report> {
  const { pubkeys = [] } = await report(args)
  return report([...args, '--max-age', '999999999', ...pubkeys.flatMap((key) => ['--pubkey', key])])
}

export function reasonsOf(report: Pick<VerifierReport, 'findings'>): string[] {
  return [...new Set((report.findings ?? []).map(({ reason }) => reason))].sort()
}
