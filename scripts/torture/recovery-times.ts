import type { Recovery } from './canary.ts'

/**
 * How long writes failed, from the faults' beginning and from their end.
 *
 * @returns median and worst of each, such as `0.3 s, 2.1 s`
 */
export function formatRecoveryTimes(recoveries: readonly Recovery[]): [string, string] {
  return [
    summarize(recoveries.map(({ outageMs }) => outageMs)),
    summarize(recoveries.map(({ afterMs }) => afterMs)),
  ]
}

function summarize(times: readonly number[]): string {
  const sorted = times.toSorted((one, other) => one - other)
  return `${inSeconds(sorted[Math.floor(sorted.length / 2)] ?? 0)}, ${inSeconds(sorted.at(-1) ?? 0)}`
}

const inSeconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`
