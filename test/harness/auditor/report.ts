import type { RunResult } from '../run.ts'

const MOST_FINDINGS = 30

/** A run's findings as lines, each with the calls that it is about, and the command that does the run again. */
export function describeFindings(findings: RunResult['findings'], again: string): string[] {
  if (findings.length === 0) return ['nothing was found']
  return [
    `${findings.length} findings:`,
    ...findings
      .slice(0, MOST_FINDINGS)
      .flatMap(({ check, what, atMs, history }) => [
        `  - ${check}: ${what}${atMs === undefined ? '' : `, at ${(atMs / 1_000).toFixed(1)} s`}`,
        ...(history === '' ? [] : [history]),
      ]),
    ...(findings.length > MOST_FINDINGS ? [`  … and ${findings.length - MOST_FINDINGS} more`] : []),
    `again: npm run harness -- ${again}`,
  ]
}
