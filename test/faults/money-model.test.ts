import { describe, expect, it } from 'vitest'
import type { FaultKind } from '../harness/faults/table.ts'
import { describeModel } from '../harness/money/report.ts'
import { runModel } from '../harness/money/run.ts'

/** On a machine that does much else. */
const BUSY_LIMIT_MS = 400_000

/**
 * The command takes them all; what a database is restored to, and what operators mistype, takes longer than a
 * test.
 */
const KINDS: readonly FaultKind[] = ['kill-api', 'kill-worker', 'coin-hang', 'coin-down', 'coin-lost-answers']

describe('a market of agents that pay rightly, wrongly, late and twice', () => {
  it(
    'leaves no raw unaccounted for while processes and the node are killed, by HTTP and the chain alone',
    async () => {
      const result = await runModel({
        ...{
          agents: 6,
          salesAtOnce: 8,
          seed: 19,
          seconds: 12,
          payBySeconds: 8,
          allowsOwnAddresses: true,
          oneFaultAtATime: false,
          keepsGoing: true,
        },
        kinds: KINDS,
        tricks: ['own-addresses'],
        say: () => undefined,
      })
      expect(result.findings, describeModel(result)).toEqual([])
      expect(result.counts['deliveries'], describeModel(result)).toBeGreaterThan(0)
      expect(result.counts['checks'], describeModel(result)).toBeGreaterThan(200)
      // Each check of the money finds a fault that is put into what it saw.
      expect(result.canaries.filter(({ findings }) => findings === 0)).toEqual([])
      expect(result.canaries.length).toBeGreaterThan(0)
    },
    BUSY_LIMIT_MS,
  )
})
