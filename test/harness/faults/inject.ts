import { setTimeout as sleep } from 'node:timers/promises'
import { TimeoutError } from '../../../scripts/embedded/wait.ts'
import type { Finding } from '../auditor/finding.ts'
import type { Market } from '../money/world.ts'
import type { Testbed } from '../testbed/testbed.ts'
import type { History } from '../world/history.ts'
import type { DrawnFault } from './plan.ts'
import { FAULTS } from './table.ts'

/** The network that a fault can hit, and the records that note it. */
interface Hit {
  readonly testbed: Testbed
  readonly market?: Market
  readonly history: History
  readonly wrongAnswers: Finding[]
}

/**
 * Causes a fault, and records it in the history, or why it could not be caused. A failure to heal it is a
 * finding.
 *
 * @param endMs when it ends at the latest, in milliseconds of the history
 * @returns a promise of its end; undefined if it was not caused
 */
export async function injectFault(
  { testbed, market, history, wrongAnswers }: Hit,
  { kind, lastsMs, dice }: DrawnFault,
  endMs = Number.POSITIVE_INFINITY,
): Promise<{ whenOver: Promise<void> } | undefined> {
  const { cause, needs } = FAULTS[kind]
  const fromMs = history.nowMs()
  history.faultsUnderWay++
  const noteEnd = (): void => {
    history.faultsUnderWay--
    history.lastFaultEndMs = history.nowMs()
  }
  const injected = await cause(testbed, { lastsMs, dice }, market)
  if (injected === undefined) {
    noteEnd()
    const lack = needs === undefined ? '' : `, or the run lacks ${needs}`
    history.notCaused.push(`${kind}: there was nothing to hit at that moment${lack}`)
    return undefined
  }
  const record = { kind, target: injected.target, fromMs, toMs: fromMs }
  history.faults.push(record)
  const last = async (): Promise<void> => {
    try {
      await sleep(Math.max(0, Math.min(lastsMs, endMs - fromMs)))
      await injected.heal?.()
    } catch (error) {
      if (!(error instanceof TimeoutError)) throw error
      wrongAnswers.push({ what: error.message, words: [] })
    } finally {
      noteEnd()
      record.toMs = Math.max(fromMs, history.nowMs())
    }
  }
  return { whenOver: last() }
}
