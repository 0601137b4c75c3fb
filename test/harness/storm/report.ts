import type { Recovery } from '../auditor/recoveries.ts'
import { formatRecoveryTimes } from './recovery-times.ts'
import { describeLevel } from '../auditor/levels.ts'
import type { StormResult } from './run.ts'

const MOST_FINDINGS = 30

/** A run's result as text: figures, findings with their history, and how to run it again. */
export function describeResult(result: StormResult): string {
  const {
    seed,
    seconds,
    requests,
    outcomes,
    recoveries,
    skipped,
    findings,
    entries,
    seals,
    drainedMs,
    monero,
  } = result
  const lines = [
    `seed ${seed}, ${seconds} s: ${requests} requests, ${recoveries.length} faults, ${entries} ledger entries under ${seals} seals`,
    `all that was begun was done ${(drainedMs / 1_000).toFixed(1)} s after the last fault`,
    `answers: ${Object.entries(outcomes)
      .sort(([, one], [, other]) => other - one)
      .map(([name, count]) => `${name} ${count}`)
      .join(', ')}`,
    ...monero,
    ...describeRecoveries(recoveries),
    ...result.levels.map((level) => `  ${describeLevel(level)}`),
    ...[...new Set(skipped)].map((reason) => `not done: ${reason}`),
  ]
  if (findings.length === 0) return [...lines, 'nothing was found'].join('\n')
  const shown = findings
    .slice(0, MOST_FINDINGS)
    .flatMap(({ check, what, history }) => [`  - ${check}: ${what}`, ...(history === '' ? [] : [history])])
  return [
    ...lines,
    `${findings.length} findings:`,
    ...shown,
    ...(findings.length > MOST_FINDINGS ? [`  … and ${findings.length - MOST_FINDINGS} more`] : []),
    `again: npm run harness -- storm --seconds ${seconds} --seed ${seed}${monero.length === 0 ? '' : ' --monero'}`,
  ].join('\n')
}

/** One line for each kind of fault: how often it occurred, and how long writes failed. */
function describeRecoveries(recoveries: readonly Recovery[]): string[] {
  return [...Map.groupBy(recoveries, ({ fault }) => fault.kind)].map(([kind, ofKind]) => {
    const [outage, after] = formatRecoveryTimes(ofKind)
    return `  ${kind.padEnd(20)} ${String(ofKind.length).padStart(3)}  without writes, median and worst: ${outage}; after its end: ${after}`
  })
}
