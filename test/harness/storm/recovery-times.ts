import type { Recovery } from '../auditor/recoveries.ts'

/**
 * Formats how long writes failed, from the faults' beginning and from their end.
 *
 * @returns two texts, each with the median and the worst, such as `0.3 s, 2.1 s`
 */
export function formatRecoveryTimes(recoveries: readonly Recovery[]): [string, string] {
  return [
    formatMedianAndWorst(recoveries.map(({ outageMs }) => outageMs)),
    formatMedianAndWorst(recoveries.map(({ afterMs }) => afterMs)),
  ]
}

function formatMedianAndWorst(timesMs: readonly number[]): string {
  const sorted = timesMs.toSorted((one, other) => one - other)
  return `${inSeconds(sorted[Math.floor(sorted.length / 2)] ?? 0)}, ${inSeconds(sorted.at(-1) ?? 0)}`
}

const inSeconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`
