import type { MiningProgress } from './miner/miner.ts'
import { countCores } from './miner/threads.ts'
import { expectedHashes } from '../shared/crypto/pow.ts'

/** No core hashes faster than this: twenty times what one does with SHA instructions. */
const MAX_HASHES_PER_CORE_SECOND = 1e9
/** Clocks differ, and what is soon done costs nothing to try. */
const GRACE_SECONDS = 60
/** The rate of the first seconds, in which threads start, says little. */
const MEASURED_SECONDS = 5

/**
 * The work asked for would take longer than it may: whoever asks for it wants the cores busy, or is beyond
 * this machine.
 */
export class WorkTooHardError extends Error {
  override readonly name = 'WorkTooHardError'
  readonly code = 'work_too_hard'
}

/** Proof of work that a service asks for. */
interface WorkAsked {
  difficultyBits: number
  count: number
  /** Unix seconds. */
  endsAt: number
  /** One for each core if absent. */
  threads?: number | undefined
}

/** @throws WorkTooHardError for work that no machine with so many cores does in time */
export function assertPossible({ difficultyBits, count, endsAt, threads = countCores() }: WorkAsked): void {
  refuseBeyond(endsAt, (count * expectedHashes(difficultyBits)) / (threads * MAX_HASHES_PER_CORE_SECOND))
}

/** @throws WorkTooHardError if the work, at the rate measured so far, is not done in time */
export function assertInTime(
  endsAt: number,
  { hashes, hashesPerSecond, sharesFound, secondsLeft }: MiningProgress,
): void {
  if (sharesFound === 0 && hashes >= hashesPerSecond * MEASURED_SECONDS && hashes > 0)
    refuseBeyond(endsAt, secondsLeft)
}

function refuseBeyond(endsAt: number, secondsLeft: number): void {
  const allowed = Math.max(GRACE_SECONDS, endsAt - Date.now() / 1000)
  if (secondsLeft <= allowed) return
  throw new WorkTooHardError(
    `The service asks for work that this machine cannot do in time: about ${formatDuration(secondsLeft)}, and it ends in ${formatDuration(allowed)}. No more is done of it.`,
  )
}

function formatDuration(seconds: number): string {
  const hours = seconds / 3600
  return hours > 1e6
    ? 'more than a million hours'
    : hours >= 1
      ? `${hours.toFixed(1)} hours`
      : `${Math.ceil(seconds)} s`
}
