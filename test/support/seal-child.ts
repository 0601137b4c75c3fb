/*
 * A seal worker for tests that dies at one write: numbers, seals and signs what there is, in a process of its
 * own. CRASH_WRITE, CRASH_PHASE and CRASH_COUNT name the place; without them it runs to its end. ANNOUNCEMENT
 * is one that it signs. ROUNDS is how often it does all of it; CLOCK_SHIFT_MS sets its clock.
 */
import { signAnnouncement } from '../../shared/announcements/announcement-service.ts'
import { makeSeal } from '../../shared/ledger/sealer.ts'
import { sequencePending } from '../../shared/ledger/sequencer.ts'
import { signSeals } from '../../shared/ledger/signing.ts'
import type { WatchStep } from '../../shared/platform/step.ts'
import { openWorkerContext } from './ledger.ts'
import { closeContext } from '../../shared/context.ts'

const {
  CRASH_WRITE,
  CRASH_PHASE,
  CRASH_COUNT = '1',
  ROUNDS = '1',
  CLOCK_SHIFT_MS = '0',
  ANNOUNCEMENT,
} = process.env
let left = Number(CRASH_COUNT)
const watch: WatchStep = (write, phase) => {
  if (write !== CRASH_WRITE || phase !== CRASH_PHASE || --left > 0) return
  process.kill(process.pid, 'SIGKILL')
  return new Promise(() => {}) // the signal takes a moment
}

const ctx = await openWorkerContext(process.env, () => Date.now() + Number(CLOCK_SHIFT_MS))
for (let round = 0; round < Number(ROUNDS); round++) {
  await sequencePending(ctx, { useLease: false, batchSize: 50, watch })
  await makeSeal(ctx, { useLease: false, watch })
  await signSeals(ctx, { watch })
  if (ANNOUNCEMENT !== undefined) await signAnnouncement(ctx, ANNOUNCEMENT, watch)
}
await closeContext(ctx)
process.exit(0)
