import { describeFindings } from '../auditor/report.ts'
import type { ModelResult } from './run.ts'

/** A run's result as text: figures, findings with their history, and how to run it again. */
export function describeModel({ seed, seconds, counts, recoveries, findings }: ModelResult): string {
  return [
    `seed ${seed}, ${seconds} s`,
    ...Object.entries(counts)
      .sort(([one], [other]) => one.localeCompare(other))
      .map(([name, number]) => `  ${name}: ${number}`),
    ...Object.entries(recoveries).map(
      ([kind, tookMs]) =>
        `  after ${kind}, ${tookMs.length} times: all done within ${(Math.max(...tookMs) / 1_000).toFixed(0)} s`,
    ),
    ...describeFindings(findings, `money --seconds ${seconds} --seed ${seed}`),
  ].join('\n')
}
