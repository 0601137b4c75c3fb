import { afterEach, describe, expect, it } from 'vitest'
import type { TestLedger } from '../support/ledger.ts'
import {
  openAdoptingLedger,
  openAnnouncement,
  openWaitingLedger,
  recoverAdoption,
  recoverAnnouncement,
  recoverLedger,
  runSealChild,
} from '../support/seal-crashes.ts'

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

  it.each([
    ['after it put an adoption on record, before it remembered it', 'adoption', 'after'],
    ['after it remembered an adoption, before the file was removed', 'adopted', 'before'],
  ] as const)('%s leaves nothing that the next one does not mend', async (_, write, phase) => {
    const opened = await openAdoptingLedger()
    ledger = opened.ledger
    expect(await runSealChild(ledger, { CRASH_WRITE: write, CRASH_PHASE: phase })).toBe('SIGKILL')
    await recoverAdoption(ledger, opened.written)
  })

  it('after it remembered an announcement, before it signed it, leaves nothing that the next one does not mend', async () => {
    const opened = await openAnnouncement()
    ledger = opened.ledger
    const crash = { CRASH_WRITE: 'statement', CRASH_PHASE: 'after', ANNOUNCEMENT: opened.id }
    expect(await runSealChild(ledger, crash)).toBe('SIGKILL')
    await recoverAnnouncement(ledger, opened.id)
  })
})
