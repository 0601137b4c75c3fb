import { spawn } from 'node:child_process'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { check } from '../../client/verify/main.ts'
import type { Fields } from '../../client/verify/values.ts'
import { runVector, type VectorResult } from './run-vectors.ts'
import { PYTHON_VERIFIER, type VerifierReport } from './run-verifier.ts'

/** What a verifier ended with, and all that it printed. */
export interface Ended {
  code: number
  text: string
}

/** Runs a verifier's command line, without a process of its own for each. */
export type Verify = (args: readonly string[]) => Promise<Ended>

export const verifyInNode: Verify = async (args) => {
  const { exitCode, text, json } = await check(args)
  return { code: exitCode, text: args.includes('--json') ? json : text }
}

export interface StartedVerifier {
  verify: Verify
  runVector: (vector: object) => Promise<VectorResult>
  stop(): void
}

export const startNodeVerifier = (): StartedVerifier => ({
  verify: verifyInNode,
  runVector: (vector) => runVector(vector as Fields),
  stop: () => undefined,
})

/** One Python for many checks, many at a time. */
export function startPythonVerifier(): StartedVerifier {
  const driver = fileURLToPath(new URL('./verifier_driver.py', import.meta.url))
  const child = spawn(PYTHON_VERIFIER[0], [driver, PYTHON_VERIFIER[1] as string], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  type Answer = Ended & { result: VectorResult }
  const waiting = new Map<number, { resolve(answer: Answer): void; reject(error: Error): void }>()
  let calls = 0
  createInterface(child.stdout).on('line', (line) => {
    const { id, ...answer } = JSON.parse(line) as Answer & { id: number }
    waiting.get(id)?.resolve(answer)
    waiting.delete(id)
  })
  const ask = (call: object) =>
    new Promise<Answer>((resolve, reject) => {
      waiting.set(++calls, { resolve, reject })
      child.stdin.write(`${JSON.stringify({ id: calls, ...call })}\n`)
    })
  child.on('exit', (code) => {
    for (const { reject } of waiting.values()) reject(new Error(`seal_verify.py ended with ${code}`))
  })
  return {
    verify: (args) => ask({ args }),
    runVector: async (vector) => (await ask({ vector })).result,
    stop: () => void child.stdin.end(),
  }
}

/**
 * What a verifier prints with `--json` if it is run in `folder`: the names of files among the arguments are
 * taken as of there, and so is its memory.
 */
export async function reportIn(
  folder: string,
  verify: Verify,
  args: readonly string[],
): Promise<VerifierReport & { code: number }> {
  const own = args.includes('--state') ? args : [...args, '--state', '.seal-verify.json']
  const placed = own.map((arg) =>
    arg.endsWith('.json') && !arg.includes('://') ? path.resolve(folder, arg) : arg,
  )
  const { code, text } = await verify([...placed, '--json'])
  return { ...(JSON.parse(text) as VerifierReport), code }
}

/** What `--json` printed, with the words found. */
export function readReport({ code, text }: Ended): VerifierReport & { code: number; words: string[] } {
  const report = JSON.parse(text) as VerifierReport
  const words = [...(report.findings ?? []), ...(report.not_binding ?? [])].map(({ reason }) => reason)
  return { ...report, code, words: [...new Set(report.error === undefined ? words : [report.error])].sort() }
}
