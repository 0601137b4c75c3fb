import { afterEach, describe, expect, it } from 'vitest'
import { sequencePending } from '../../shared/ledger/sequencer.ts'
import { openLedger, verifyLedger, type TestLedger } from '../support/ledger.ts'
import {
  ADOPTION_STEPS,
  ANNOUNCEMENT_STEPS,
  openAdoptingLedger,
  openAnnouncement,
  openWaitingLedger,
  recoverAdoption,
  recoverAnnouncement,
  recoverLedger,
  runSealChild,
  STEPS,
} from '../support/seal-crashes.ts'

let ledger: TestLedger
afterEach(() => ledger.stop())

/** What a worker does more than once for three batches and one seal. */
const REPEATED: readonly string[] = ['entries', 'marks', 'status']

describe.each(STEPS)('a seal worker at "%s"', (write) => {
  it.each([
    ['before it', 'before', '1'],
    ['after it', 'after', '1'],
    ...(REPEATED.includes(write) ? [['before its second time', 'before', '2']] : []),
  ])(
    'that is killed %s leaves nothing that the next one does not mend',
    async (_, phase = '', count = '') => {
      const opened = await openWaitingLedger()
      ledger = opened.ledger
      const { written } = opened
      expect(await runSealChild(ledger, { CRASH_WRITE: write, CRASH_PHASE: phase, CRASH_COUNT: count })).toBe(
        'SIGKILL',
      )
      await recoverLedger(ledger, written)
    },
  )

  it('whose write fails although it was stored goes on at its next run', async () => {
    const opened = await openWaitingLedger()
    ledger = opened.ledger
    const { written } = opened
    let isDone = false
    const watch = (at: string, phase: string) => {
      if (at !== write || phase !== 'after' || isDone) return
      isDone = true
      throw new Error('the answer was lost')
    }
    const attempt = async () => {
      await sequencePending(ledger.ctx, { useLease: false, batchSize: 50, watch })
      await ledger.seal(watch)
    }
    await expect(attempt()).rejects.toThrow('the answer was lost')
    await recoverLedger(ledger, written)
  })
})

const KILLS = [
  ['before it', 'before'],
  ['after it', 'after'],
] as const

describe.each(ADOPTION_STEPS)('a signer at "%s" of an adoption', (write) => {
  it.each(KILLS)('that is killed %s leaves nothing that the next one does not mend', async (_, phase) => {
    const opened = await openAdoptingLedger()
    ledger = opened.ledger
    expect(await runSealChild(ledger, { CRASH_WRITE: write, CRASH_PHASE: phase })).toBe('SIGKILL')
    await recoverAdoption(ledger, opened.written)
  })
})

describe.each(ANNOUNCEMENT_STEPS)('a signer at "%s" of an announcement', (write) => {
  it.each(KILLS)('that is killed %s leaves nothing that the next one does not mend', async (_, phase) => {
    const opened = await openAnnouncement()
    ledger = opened.ledger
    expect(
      await runSealChild(ledger, { CRASH_WRITE: write, CRASH_PHASE: phase, ANNOUNCEMENT: opened.id }),
    ).toBe('SIGKILL')
    await recoverAnnouncement(ledger, opened.id)
  })
})

describe('seal workers that are killed again and again', () => {
  it('leave a whole chain, four at once beside 32 writers, the clock of one set back', async () => {
    ledger = await openLedger()
    const written: string[] = []
    let writing = true
    const workers = Array.from({ length: 4 }, async (_, worker) => {
      for (let turn = worker; writing; turn++) {
        const crash = {
          CRASH_WRITE: STEPS[turn % STEPS.length] ?? 'seal',
          CRASH_PHASE: turn % 2 === 0 ? 'before' : 'after',
          CRASH_COUNT: String(1 + (turn % 3)),
          ROUNDS: '20',
        }
        await runSealChild(ledger, { ...crash, CLOCK_SHIFT_MS: worker === 0 ? '-3600000' : '0' })
      }
    })
    const writers = Array.from({ length: 32 }, async (_, writer) => {
      for (let i = 0; i < 40; i++) {
        written.push(...(await ledger.write(1 + (writer % 3))))
        await new Promise((resolve) => setTimeout(resolve, 500))
      }
    })
    const verifying = (async () => {
      while (writing) await verifyLedger(ledger.ctx, [...written], true)
    })()
    await Promise.all(writers)
    writing = false
    await Promise.all([...workers, verifying])
    await recoverLedger(ledger, written)
  }, 180_000)
})
