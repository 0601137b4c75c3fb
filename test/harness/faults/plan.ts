import type { SeededNumbers } from '../../../shared/crypto/puzzle/seeded-numbers.ts'
import { numbersFor } from '../world/numbers.ts'
import type { Drawn } from './fault.ts'
import { FAULTS, usualKinds, type FaultKind } from './table.ts'

export interface DrawnFault extends Drawn {
  readonly kind: FaultKind
}

export interface PlannedFault extends DrawnFault {
  /** From the beginning of the run. */
  readonly atMs: number
}

/** Time before the first fault. */
const QUIET_START_MS = 2_000
/** The time from one fault's beginning to the next's; shorter than long faults, so that some overlap. */
const GAP_MS = [1_500, 3_500] as const
const DICE = 2 ** 20

/** Draws how long a fault lasts, and what it hits. */
export const drawFault = (numbers: SeededNumbers, kind: FaultKind): DrawnFault => ({
  kind,
  lastsMs: numbers.between(...FAULTS[kind].lastsMs),
  dice: numbers.below(DICE),
})

/** Draws faults without end, if there are any kinds: every kind once before any comes again. */
export function* drawFaults(numbers: SeededNumbers, kinds: readonly FaultKind[]): Generator<DrawnFault> {
  while (kinds.length > 0)
    for (const kind of numbers.shuffle(kinds).toReversed()) yield drawFault(numbers, kind)
}

/** Draws the faults of a run from its seed, in order of time. */
export function planFaults(
  seed: number,
  seconds: number,
  kinds: readonly FaultKind[] = usualKinds(false),
): PlannedFault[] {
  const numbers = numbersFor(seed, 'faults')
  const planned: PlannedFault[] = []
  let atMs = QUIET_START_MS
  for (const fault of drawFaults(numbers, kinds)) {
    if (atMs >= seconds * 1_000) break
    planned.push({ atMs, ...fault })
    atMs += numbers.between(...GAP_MS)
  }
  return planned
}
