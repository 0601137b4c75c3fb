import { spawnSync } from 'node:child_process'
import { formatRecoveryTimes } from './recovery-times.ts'
import type { TortureResult } from './run.ts'

/** A recorded run, with the commit of the code that was run. */
export type RecordedRun = TortureResult & { commit: string }

/** The result with the present commit as a line of JSON, numbers rounded to integers. */
export function recordOf(result: TortureResult): string {
  const { status, stdout } = spawnSync('git', ['rev-parse', '--short', 'HEAD'], {
    cwd: import.meta.dirname,
    encoding: 'utf8',
  })
  const run: RecordedRun = { ...result, commit: status === 0 ? stdout.trim() : 'unknown' }
  return JSON.stringify(run, (_, value: unknown) => (typeof value === 'number' ? Math.round(value) : value))
}

/**
 * Formats runs as Markdown: a table with a row for each run, by seed, and one with a row for each kind of
 * fault.
 */
export function describeRuns(results: readonly RecordedRun[]): string {
  const bySeed = results.toSorted((one, other) => one.seed - other.seed)
  const recoveries = results.flatMap((result) => result.recoveries)
  const byKind = [...Map.groupBy(recoveries, ({ fault }) => fault.kind)].toSorted(([one], [other]) =>
    one.localeCompare(other),
  )
  return [
    '| seed | code | seconds | requests | ledger entries | seals | faults | without writes: median, worst | after a fault’s end: median, worst | all done after the last fault | findings |',
    '|---|---|---|---|---|---|---|---|---|---|---|',
    ...bySeed.map(
      ({ seed, commit, seconds, requests, entries, seals, recoveries: ofRun, drainedMs, findings }) =>
        row([
          seed,
          `\`${commit}\``,
          seconds,
          requests,
          entries,
          seals,
          ofRun.length,
          ...formatRecoveryTimes(ofRun),
          `${(drainedMs / 1_000).toFixed(0)} s`,
          findings.length,
        ]),
    ),
    '',
    '| fault | times | without writes: median, worst | after its end: median, worst |',
    '|---|---|---|---|',
    ...byKind.map(([kind, ofKind]) => row([`\`${kind}\``, ofKind.length, ...formatRecoveryTimes(ofKind)])),
    row(['all', recoveries.length, ...formatRecoveryTimes(recoveries)]),
  ].join('\n')
}

const row = (cells: readonly (string | number)[]): string => `| ${cells.join(' | ')} |`
