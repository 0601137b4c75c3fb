import { setTimeout as sleep } from 'node:timers/promises'
import { injectFault } from '../faults/inject.ts'
import { drawFaults, type DrawnFault } from '../faults/plan.ts'
import { FAULT_KINDS, FAULTS, type FaultKind } from '../faults/table.ts'
import { numbersFor } from '../world/numbers.ts'
import type { Market } from './world.ts'

/** Those of a run that is told no others. */
export const USUAL: readonly FaultKind[] = [
  ...FAULT_KINDS.filter((kind) => FAULTS[kind].needs === 'a market'),
  ...(['kill-api', 'kill-worker', 'coin-hang', 'coin-down', 'coin-lost-answers'] as const),
]

/** The time before the first fault, and the pauses between two, in which the network recovers. */
const QUIET_START_MS = 12_000
const PAUSE_MS = [6_000, 16_000] as const
/** A short run has its first fault after this part of its time. */
const QUIET_PART = 1 / 6

/** Causes one fault, and waits until it is over. @returns whether there was anything to hit */
export async function injectUntilOver(world: Market, fault: DrawnFault): Promise<boolean> {
  const injected = await injectFault({ ...world, market: world }, fault)
  await injected?.whenOver
  return injected !== undefined
}

/** Causes one fault after the other until the time is over, every kind once before any comes again. */
export async function injectFaults(world: Market, isOver: () => boolean): Promise<void> {
  const numbers = numbersFor(world.mode.seed, 'faults')
  let pauseMs = Math.min(QUIET_START_MS, world.mode.seconds * 1_000 * QUIET_PART)
  for (const fault of drawFaults(numbers, world.mode.kinds)) {
    const untilMs = world.history.nowMs() + pauseMs
    while (world.history.nowMs() < untilMs) {
      if (isOver() || world.ended.signal.aborted) return
      await sleep(200)
    }
    await injectUntilOver(world, fault)
    pauseMs = Math.min(numbers.between(...PAUSE_MS), pauseMs * 2)
  }
}
