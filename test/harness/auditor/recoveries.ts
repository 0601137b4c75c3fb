import type { Call, FaultRecord } from '../world/history.ts'
import { findingsOf, type Finding } from './finding.ts'

/** A write that takes longer counts as an outage. */
const GOOD_WITHIN_MS = 2_500
/** After a fault's end, writes are taken again within this time. */
const RECOVERY_LIMIT_MS = 20_000

export interface Recovery {
  fault: FaultRecord
  /** From the fault's beginning until every API process took writes again; 0 if none was refused. */
  outageMs: number
  /** From the fault's end until then. */
  afterMs: number
}

/**
 * Measures how long the prober's posts failed after each fault. A failure counts as one of the last fault
 * that began before its answer.
 *
 * @param who the prober's name
 */
export function measureRecoveries(
  calls: readonly Call[],
  faults: readonly FaultRecord[],
  who: string,
): Recovery[] {
  const posts = calls.filter((call) => call.who === who && call.did === 'post')
  const isGood = (call: Call): boolean => call.status === 201 && call.tookMs <= GOOD_WITHIN_MS
  const endOf = ({ atMs, tookMs }: Call): number => atMs + tookMs
  return faults.map((fault, index) => {
    const nextMs = faults[index + 1]?.fromMs ?? Number.POSITIVE_INFINITY
    let backMs = fault.fromMs
    for (const api of new Set(posts.map((call) => call.api))) {
      const bad = posts.findLast(
        (call) => call.api === api && !isGood(call) && endOf(call) >= fault.fromMs && endOf(call) < nextMs,
      )
      if (bad === undefined) continue
      const good = posts.find((call) => call.api === api && isGood(call) && call.atMs > bad.atMs)
      // From the next fault's beginning on, an outage counts as that fault's.
      backMs = Math.max(backMs, Math.min(nextMs, good === undefined ? Number.POSITIVE_INFINITY : endOf(good)))
    }
    return { fault, outageMs: backMs - fault.fromMs, afterMs: Math.max(0, backMs - fault.toMs) }
  })
}

/** Finds faults after whose end writes were refused for too long. */
export const checkRecoveries = (recoveries: readonly Recovery[]): Finding[] =>
  findingsOf(
    recoveries
      .filter(({ afterMs }) => afterMs > RECOVERY_LIMIT_MS)
      .map(
        ({ fault: { kind, fromMs }, afterMs }) =>
          `writes were taken again ${(afterMs / 1_000).toFixed(1)} s after the end of ${kind} at ${(fromMs / 1_000).toFixed(1)} s`,
      ),
  )
