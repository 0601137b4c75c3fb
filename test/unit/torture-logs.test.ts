import { expect, it } from 'vitest'
import { checkLogs } from '../harness/auditor/service.ts'
import type { FaultRecord } from '../harness/world/history.ts'

const LATE = 'workers: did not stop within 27000 ms and is ended'
const findingsOf = (line: string, faults: FaultRecord[]): string[] =>
  checkLogs([{ name: 'coins-1', errors: [line] }], faults).map(({ what }) => what)
const fault = (kind: string, target: string, fromMs: number, toMs: number): FaultRecord => ({
  ...{ kind, target, fromMs, toMs },
})

it('finds a process that did not stop in time, unless it was stopped during another fault', () => {
  const stop = fault('other-version', 'coins-1', 1_000, 9_000)
  expect(findingsOf(LATE, [stop])).toHaveLength(1)
  expect(findingsOf(LATE, [stop, fault('mongo-delay', 'every mongod', 9_500, 12_000)])).toHaveLength(1)
  expect(findingsOf(LATE, [stop, fault('mongo-delay', 'every mongod', 500, 1_500)])).toEqual([])
  const ofAnother = fault('other-version', 'coins-0', 1_000, 9_000)
  expect(findingsOf(LATE, [ofAnother, fault('mongo-delay', 'every mongod', 500, 1_500)])).toHaveLength(1)
})

it("finds Node's word on a timer in the past, unless a clock was changed", () => {
  for (const line of [
    '(node:1) TimeoutNegativeWarning: -7197000 is a negative number.',
    'Timeout duration was set to 1.',
  ]) {
    expect(findingsOf(line, [])).toHaveLength(1)
    expect(findingsOf(line, [fault('jump-clock', 'coins-1 by -7200 s', 1, 2)])).toEqual([])
    expect(findingsOf(line, [fault('jump-clock', 'coins-0 by -7200 s', 1, 2)])).toHaveLength(1)
  }
})
