import { describe } from './recovery-times.ts'
import type { TortureResult } from './run.ts'

/**
 * Runs side by side, as Markdown: one table by seed, one by kind of fault.
 *
 * @param results of different seeds; a seed that stands there twice is told twice
 */
export function describeRuns(results: readonly TortureResult[]): string {
  const bySeed = results.toSorted((one, other) => one.seed - other.seed)
  const recoveries = results.flatMap((result) => result.recoveries)
  const byKind = [...Map.groupBy(recoveries, ({ fault }) => fault.kind)].toSorted(([one], [other]) => one.localeCompare(other))
  return [
    '| seed | seconds | requests | ledger entries | seals | faults | without writes: median, worst | after a fault’s end: median, worst | all done after the last fault | findings |',
    '|---|---|---|---|---|---|---|---|---|---|',
    ...bySeed.map(({ seed, seconds, requests, entries, seals, recoveries: own, drainedMs, findings }) =>
      row([seed, seconds, requests, entries, seals, own.length, ...describe(own), `${(drainedMs / 1_000).toFixed(0)} s`, findings.length]),
    ),
    '',
    '| fault | times | without writes: median, worst | after its end: median, worst |',
    '|---|---|---|---|',
    ...byKind.map(([kind, own]) => row([`\`${kind}\``, own.length, ...describe(own)])),
    row(['all', recoveries.length, ...describe(recoveries)]),
  ].join('\n')
}

const row = (cells: readonly (string | number)[]): string => `| ${cells.join(' | ')} |`
