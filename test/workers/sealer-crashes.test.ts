import { afterEach, describe, expect, it } from 'vitest'
import type { TestLedger } from '../support/ledger.ts'
import { openWaitingLedger, recoverLedger, runSealChild } from '../support/seal-crashes.ts'

let ledger: TestLedger
afterEach(() => ledger.stop())

// The whole table of crash points is in test/faults; these are the ones between two stores.
describe('a seal worker that is killed', () => {
  it.each([
    ['after numbering, before the marks are cleared', 'entries', 'after'],
    ['after it closed a seal, before it made it', 'closing', 'after'],
    ['after it made a seal, before it signed it', 'seal', 'after'],
    ['after it remembered a seal, before it signed it', 'memory', 'after'],
    ['after it signed a seal, before the signature was stored', 'signature', 'before'],
  ] as const)('%s leaves nothing that the next one does not mend', async (_, write, phase) => {
    const opened = await openWaitingLedger()
    ledger = opened.ledger
    expect(await runSealChild(ledger, { CRASH_WRITE: write, CRASH_PHASE: phase })).toBe('SIGKILL')
    await recoverLedger(ledger, opened.written)
  })
})
