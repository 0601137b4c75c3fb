import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { check } from '../../client/seal-verify.mjs'
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

/** One Python for many checks, many at a time. */
export function startPythonVerifier(): { verify: Verify; stop(): void } {
  const driver = fileURLToPath(new URL('./verifier_driver.py', import.meta.url))
  const child = spawn(PYTHON_VERIFIER[0], [driver, PYTHON_VERIFIER[1] as string], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const waiting = new Map<number, { resolve(ended: Ended): void; reject(error: Error): void }>()
  let calls = 0
  createInterface(child.stdout).on('line', (line) => {
    const { id, ...ended } = JSON.parse(line) as Ended & { id: number }
    waiting.get(id)?.resolve(ended)
    waiting.delete(id)
  })
  child.on('exit', (code) => {
    for (const { reject } of waiting.values()) reject(new Error(`seal_verify.py ended with ${code}`))
  })
  return {
    verify: (args) =>
      new Promise((resolve, reject) => {
        waiting.set(++calls, { resolve, reject })
        child.stdin.write(`${JSON.stringify({ id: calls, args })}\n`)
      }),
    stop: () => void child.stdin.end(),
  }
}

/** What `--json` printed, with the words found. */
export function readReport({ code, text }: Ended): VerifierReport & { code: number; words: string[] } {
  const report = JSON.parse(text) as VerifierReport
  const words = [...(report.findings ?? []), ...(report.not_binding ?? [])].map(({ reason }) => reason)
  return { ...report, code, words: [...new Set(report.error === undefined ? words : [report.error])].sort() }
}
