import { spawnSync } from 'node:child_process'
import type { Level } from '../auditor/levels.ts'
import { formatRecoveryTimes } from './recovery-times.ts'
import type { StormResult } from './run.ts'

/** A recorded run, with the commit of the code that was run. Older ones have neither levels nor options. */
export type RecordedRun = Omit<StormResult, 'levels' | 'monero' | 'canaries'> & {
  commit: string
  levels?: Level[]
  monero?: string[]
  /** The options that change what is done, such as `--overload`. */
  options?: string
}

/** The result with the present commit as a line of JSON, numbers rounded to integers except levels. */
export function recordOf(result: StormResult, options: string): string {
  const { status, stdout } = spawnSync('git', ['rev-parse', '--short', 'HEAD'], {
    cwd: import.meta.dirname,
    encoding: 'utf8',
  })
  const run: RecordedRun = { ...result, options, commit: status === 0 ? stdout.trim() : 'unknown' }
  return JSON.stringify(run, (key, value: unknown) => {
    if (typeof value !== 'number') return value
    return key === 'earlier' || key === 'later' ? Number(value.toFixed(2)) : Math.round(value)
  })
}

/**
 * Formats runs as Markdown: a table with a row for each run, by seed, one with a row for each kind of fault,
 * and the levels of each run that has some.
 */
export function describeRuns(results: readonly RecordedRun[]): string {
  const bySeed = results.toSorted((one, other) => one.seed - other.seed)
  const recoveries = results.flatMap((result) => result.recoveries)
  const byKind = [...Map.groupBy(recoveries, ({ fault }) => fault.kind)].toSorted(([one], [other]) =>
    one.localeCompare(other),
  )
  return [
    '| seed | code | options | seconds | requests | ledger entries | seals | faults | without writes: median, worst | after a fault’s end: median, worst | all done after the last fault | findings |',
    '|---|---|---|---|---|---|---|---|---|---|---|---|',
    ...bySeed.map(({ recoveries: ofRun, ...run }) =>
      row([
        run.seed,
        `\`${run.commit}\``,
        run.options ?? '',
        run.seconds,
        run.requests,
        run.entries,
        run.seals,
        ofRun.length,
        ...formatRecoveryTimes(ofRun),
        `${(run.drainedMs / 1_000).toFixed(0)} s`,
        run.findings.length,
      ]),
    ),
    '',
    '| fault | times | without writes: median, worst | after its end: median, worst |',
    '|---|---|---|---|',
    ...byKind.map(([kind, ofKind]) => row([`\`${kind}\``, ofKind.length, ...formatRecoveryTimes(ofKind)])),
    row(['all', recoveries.length, ...formatRecoveryTimes(recoveries)]),
    ...bySeed.flatMap(({ seed, commit, levels = [] }) =>
      levels.length === 0
        ? []
        : [
            '',
            `| seed ${seed}, \`${commit}\` | second quarter | last quarter |`,
            '|---|---|---|',
            ...levelRows(levels),
          ],
    ),
  ].join('\n')
}

/** A row for each level, without queues that were empty in both quarters. */
const levelRows = (levels: readonly Level[]): string[] =>
  levels
    .filter(({ earlier, later }) => earlier > 0 || later > 0)
    .map(({ name, unit, earlier, later }) =>
      row([name, `${earlier.toFixed(1)} ${unit}`, `${later.toFixed(1)} ${unit}`]),
    )

const row = (cells: readonly (string | number)[]): string => `| ${cells.join(' | ')} |`
