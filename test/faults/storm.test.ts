import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { describeResult } from '../harness/storm/report.ts'
import { runStorm } from '../harness/storm/run.ts'

/** Seconds of faults; the command takes as many as it is told. */
const SECONDS = 45
/** Another one each day, so that in time many are tried; a failing run is done again by its seed. */
const SEED = Number(process.env['TORTURE_SEED'] ?? Math.floor(Date.now() / 86_400_000))

describe('the whole network under faults', () => {
  it(
    'keeps every write that it acknowledged, once, with its entry, and answers everything by its table',
    async () => {
      const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-torture-test-'))
      try {
        const result = await runStorm({
          seed: SEED,
          seconds: SECONDS,
          agents: 4,
          each: 2,
          historyFile: path.join(folder, 'history'),
          say: () => undefined,
        })
        expect(result.findings.length, describeResult(result)).toBe(0)
        expect(result.recoveries.length, describeResult(result)).toBeGreaterThan(3)
        expect(result.outcomes['201'], describeResult(result)).toBeGreaterThan(50)
      } finally {
        fs.rmSync(folder, { recursive: true, force: true })
      }
    },
    (SECONDS + 300) * 1_000,
  )
})
