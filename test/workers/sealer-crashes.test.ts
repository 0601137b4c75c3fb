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
import { FULL, sampled } from '../support/full.ts'

let ledger: TestLedger
afterEach(() => ledger.stop())

// The whole table of crash points is in test/faults; these are one of each: of numbering, of making and
// signing a seal, of taking an adoption, of an announcement.
describe('a seal worker that is killed', () => {
  it.each(
    sampled([
      ['after numbering, before the marks are cleared', 'entries', 'after'],
      ['after it remembered a seal, before it signed it', 'memory', 'after'],
    ]),
  )('%s leaves nothing that the next one does not mend', async (_, write, phase) => {
    const opened = await openWaitingLedger()
    ledger = opened.ledger
    expect(await runSealChild(ledger, { CRASH_WRITE: write, CRASH_PHASE: phase })).toBe('SIGKILL')
    await recoverLedger(ledger, opened.written)
  })

  it.runIf(FULL)(
    'after it put an adoption on record, before it remembered it, leaves nothing that the next one does not mend',
    async () => {
      const opened = await openAdoptingLedger()
      ledger = opened.ledger
      expect(await runSealChild(ledger, { CRASH_WRITE: 'adoption', CRASH_PHASE: 'after' })).toBe('SIGKILL')
      await recoverAdoption(ledger, opened.written)
    },
  )

  it.runIf(FULL)(
    'after it remembered an announcement, before it signed it, leaves nothing that the next one does not mend',
    async () => {
      const opened = await openAnnouncement()
      ledger = opened.ledger
      const crash = { CRASH_WRITE: 'statement', CRASH_PHASE: 'after', ANNOUNCEMENT: opened.id }
      expect(await runSealChild(ledger, crash)).toBe('SIGKILL')
      await recoverAnnouncement(ledger, opened.id)
    },
  )
})
