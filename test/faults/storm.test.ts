import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { describeResult } from '../harness/storm/report.ts'
import { isOfMonero, planFaults, USUAL_KINDS, USUAL_KINDS_WITH_MONERO } from '../harness/storm/plan.ts'
import { runTorture } from '../harness/storm/run.ts'

const isFull = process.env['FAULTS'] === '1'
/** Seconds of faults; the command takes as many as it is told. */
const SECONDS = isFull ? 45 : 9
/** Of the API and of each kind of worker: each start costs as much as the whole workload of a short run. */
const PROCESSES = isFull ? 2 : 1
/**
 * In full another one each day, so that in time many are tried; a failing run is done again by its seed. In
 * `npm test` one and the same, so that it judges the change and not the day.
 */
const SEED = Number(process.env['TORTURE_SEED'] ?? (isFull ? Math.floor(Date.now() / 86_400_000) : 11))

describe('the whole network under faults', () => {
  it(
    'keeps every write that it acknowledged, once, with its entry, and answers everything by its table',
    async () => {
      const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-torture-test-'))
      try {
        const result = await runTorture({
          seed: SEED,
          seconds: SECONDS,
          agents: isFull ? 4 : 3,
          each: PROCESSES,
          historyFile: path.join(folder, 'history'),
          say: () => undefined,
        })
        expect(result.findings.length, describeResult(result)).toBe(0)
        expect(result.recoveries.length, describeResult(result)).toBeGreaterThan(isFull ? 3 : 1)
        expect(result.outcomes['201'], describeResult(result)).toBeGreaterThan(isFull ? 50 : 10)
      } finally {
        fs.rmSync(folder, { recursive: true, force: true })
      }
    },
    (SECONDS + 300) * 1_000,
  )

  it('has the same faults at the same times for the same seed, and others for another', () => {
    expect(planFaults(SEED, 300)).toEqual(planFaults(SEED, 300))
    expect(planFaults(SEED, 300)).not.toEqual(planFaults(SEED + 1, 300))
  })

  it('has every kind of fault once before any comes again', () => {
    const kinds = planFaults(SEED, 600).map(({ kind }) => kind)
    expect(new Set(kinds.slice(0, USUAL_KINDS.length)).size).toBe(USUAL_KINDS.length)
  })

  it('has the faults of Monero only with Monero', () => {
    expect(planFaults(SEED, 600).filter(({ kind }) => isOfMonero(kind))).toEqual([])
    expect(USUAL_KINDS_WITH_MONERO.filter((kind) => !isOfMonero(kind))).toEqual(USUAL_KINDS)
    expect(USUAL_KINDS_WITH_MONERO.filter(isOfMonero).length).toBe(6)
  })
})
