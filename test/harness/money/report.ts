import type { ModelResult } from './run.ts'

/** How many findings are shown with their history. */
const MOST_EXPLAINED = 6
const MOST_FINDINGS = 30

/** A run's result as text: figures, findings with their history, and how to run it again. */
export function describeModel({ seed, seconds, counts, recoveries, findings }: ModelResult): string {
  const { checks = 0, ...figures } = counts
  return [
    `seed ${seed}, ${seconds} s`,
    ...Object.entries(figures)
      .sort(([one], [other]) => one.localeCompare(other))
      .map(([name, number]) => `  ${name}: ${number}`),
    ...Object.entries(recoveries).map(
      ([kind, tookMs]) =>
        `  after ${kind}, ${tookMs.length} times: all done within ${(Math.max(...tookMs) / 1_000).toFixed(0)} s`,
    ),
    ...findings
      .slice(0, MOST_FINDINGS)
      .flatMap(({ what, atMs, history }, index) => [
        `- ${atMs === undefined ? '' : `at ${(atMs / 1_000).toFixed(1)} s: `}${what}`,
        ...(index < MOST_EXPLAINED && history !== '' ? [history] : []),
      ]),
    ...(findings.length > MOST_FINDINGS ? [`… and ${findings.length - MOST_FINDINGS} more`] : []),
    `${checks} checks, ${findings.length} findings`,
    ...(findings.length === 0 ? [] : [`again: npm run harness -- money --seconds ${seconds} --seed ${seed}`]),
  ].join('\n')
}
