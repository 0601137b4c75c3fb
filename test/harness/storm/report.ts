import type { Recovery } from '../auditor/recoveries.ts'
import { formatRecoveryTimes } from './recovery-times.ts'
import { describeLevel } from '../auditor/levels.ts'
import { describeFindings } from '../auditor/report.ts'
import type { StormResult } from './run.ts'

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
  return [
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
    ...describeFindings(
      findings,
      `storm --seconds ${seconds} --seed ${seed}${monero.length === 0 ? '' : ' --monero'}`,
    ),
  ].join('\n')
}

/** One line for each kind of fault: how often it occurred, and how long writes failed. */
function describeRecoveries(recoveries: readonly Recovery[]): string[] {
  return [...Map.groupBy(recoveries, ({ fault }) => fault.kind)].map(([kind, ofKind]) => {
    const [outage, after] = formatRecoveryTimes(ofKind)
    return `  ${kind.padEnd(20)} ${String(ofKind.length).padStart(3)}  without writes, median and worst: ${outage}; after its end: ${after}`
  })
}
