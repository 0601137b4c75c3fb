import { createSeededNumbers, type SeededNumbers } from '../../../shared/crypto/puzzle/seeded-numbers.ts'

/**
 * The kinds of faults, with their shortest and longest duration in ms; 0 for those that end by themselves.
 */
export const FAULTS = {
  'kill-api': [0, 0],
  'kill-worker': [0, 0],
  'pause-worker': [3_000, 9_000],
  'jump-clock': [2_000, 6_000],
  'mongo-stepdown': [0, 0],
  'mongo-kill-primary': [0, 0],
  'mongo-kill-secondary': [0, 0],
  'mongo-kill-all': [0, 0],
  'mongo-pause-primary': [2_000, 6_000],
  'mongo-cut-primary': [1_000, 4_000],
  'mongo-hang-primary': [1_000, 5_000],
  'mongo-delay': [2_000, 5_000],
  'mongo-disk-full': [0, 0],
  'redis-kill': [0, 0],
  'redis-flush': [0, 0],
  'redis-pause': [1_000, 6_000],
  'redis-full': [1_000, 4_000],
  'redis-cut': [1_000, 4_000],
  'redis-hang': [1_000, 5_000],
  'redis-delay': [2_000, 5_000],
  'redis-disk-full': [1_000, 4_000],
  'coin-down': [1_000, 6_000],
  'coin-hang': [1_000, 6_000],
  'coin-lost-answers': [1_000, 4_000],
  'coin-lies-once': [1_000, 4_000],
  'partition-pair': [1_000, 5_000],
  'partition-oneway': [1_000, 5_000],
  'mongo-clock': [2_000, 6_000],
  'redis-clock': [2_000, 6_000],
  'other-version': [4_000, 9_000],
  'monero-down': [1_000, 6_000],
  'monero-hang': [1_000, 6_000],
  'monero-lost-answers': [1_000, 4_000],
  'monero-lies-once': [1_000, 4_000],
  'monero-reorganise': [0, 0],
  'monero-lock': [0, 0],
} as const satisfies Record<string, readonly [number, number]>

export type FaultKind = keyof typeof FAULTS
export const FAULT_KINDS = Object.keys(FAULTS) as FaultKind[]
/** Those of a run that is told no others: `mongo-clock` shifts the members' monotonic clocks too. */
const NAMED_ONLY: readonly FaultKind[] = ['mongo-clock']
/** Those that need Monero. */
export const isOfMonero = (kind: FaultKind): boolean => kind.startsWith('monero-')
export const USUAL_KINDS = FAULT_KINDS.filter((kind) => !NAMED_ONLY.includes(kind) && !isOfMonero(kind))
/** The same of a run with Monero. */
export const USUAL_KINDS_WITH_MONERO = FAULT_KINDS.filter((kind) => !NAMED_ONLY.includes(kind))
export const usualKinds = (hasMonero: boolean): readonly FaultKind[] =>
  hasMonero ? USUAL_KINDS_WITH_MONERO : USUAL_KINDS

export interface PlannedFault {
  /** From the beginning of the run. */
  atMs: number
  kind: FaultKind
  lastsMs: number
  /** 0 to DICE - 1; chooses among the processes that the fault can hit. */
  dice: number
}

/** Time before the first fault. */
const QUIET_START_MS = 2_000
/** The time from one fault's beginning to the next's; shorter than long faults, so that some overlap. */
const GAP_MS = [1_500, 3_500] as const
export const DICE = 2 ** 20

/** A stream of random numbers for one part of a run, the same for the same seed and part. */
export function numbersFor(seed: number, part: string): SeededNumbers {
  const bytes = new Uint8Array(8)
  new DataView(bytes.buffer).setBigUint64(0, BigInt(seed))
  return createSeededNumbers(part, bytes)
}

/**
 * Draws the faults of a run from its seed, in order of time: every kind occurs once before any occurs again.
 */
export function planFaults(
  seed: number,
  seconds: number,
  kinds: readonly FaultKind[] = USUAL_KINDS,
): PlannedFault[] {
  const numbers = numbersFor(seed, 'faults')
  const planned: PlannedFault[] = []
  if (kinds.length === 0) return planned
  let deck: FaultKind[] = []
  for (let atMs = QUIET_START_MS; atMs < seconds * 1_000; atMs += numbers.between(...GAP_MS)) {
    if (deck.length === 0) deck = numbers.shuffle(kinds)
    const kind = deck.pop() as FaultKind
    planned.push({
      atMs,
      kind,
      lastsMs: numbers.between(FAULTS[kind][0], FAULTS[kind][1]),
      dice: numbers.below(DICE),
    })
  }
  return planned
}
