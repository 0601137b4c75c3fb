import { countCores } from './cores.ts'
import { CodedError } from './errors.ts'
import { expectedHashes } from '../shared/crypto/pow.ts'

/** No core hashes faster than this: twenty times what one does with SHA instructions. */
const MAX_HASHES_PER_CORE_SECOND = 1e9
/** Clocks differ, and what is soon done costs nothing to try. */
const GRACE_SECONDS = 60
/** The rate of the first seconds, in which threads start, says little. */
const MEASURED_SECONDS = 5

/** How far a run has come. */
export type MiningProgress = {
  hashes: number
  hashesPerSecond: number
  sharesFound: number
  /** Expected seconds until `count` is reached, at the rate so far; Infinity before the first report. */
  secondsLeft: number
}

/** A service asks for proof of work that this machine can't do in time: a mistake, or meant to keep it busy. */
export class WorkTooHardError extends CodedError<'work_too_hard'> {
  override readonly name = 'WorkTooHardError'
}

/** Proof of work that a service asks for. @internal */
interface WorkAsked {
  difficultyBits: number
  count: number
  /** Unix seconds. */
  endsAt: number
  /** One for each core if absent. */
  threads?: number | undefined
}

/**
 * Checks work before it is begun.
 *
 * @throws WorkTooHardError if no machine with that many cores does it in time
 * @internal
 */
export function assertPossible({ difficultyBits, count, endsAt, threads = countCores() }: WorkAsked): void {
  refuseBeyond(endsAt, (count * expectedHashes(difficultyBits)) / (threads * MAX_HASHES_PER_CORE_SECOND))
}

/**
 * Checks work while it is done, as long as no share is found.
 *
 * @param endsAt Unix seconds
 * @throws WorkTooHardError if it is not done in time at the rate measured so far; not in the first 5 s
 * @internal
 */
export function assertInTime(
  endsAt: number,
  { hashes, hashesPerSecond, sharesFound, secondsLeft }: MiningProgress,
): void {
  if (sharesFound === 0 && hashes >= hashesPerSecond * MEASURED_SECONDS && hashes > 0)
    refuseBeyond(endsAt, secondsLeft)
}

/**
 * @throws WorkTooHardError if so many seconds are more than are left until `endsAt`; a minute is always
 *   allowed
 */
function refuseBeyond(endsAt: number, secondsLeft: number): void {
  const allowed = Math.max(GRACE_SECONDS, endsAt - Date.now() / 1000)
  if (secondsLeft <= allowed) return
  throw new WorkTooHardError(
    'work_too_hard',
    `The service asks for work that this machine cannot do in time: about ${formatDuration(secondsLeft)}, and it ends in ${formatDuration(allowed)}. No more is done of it.`,
  )
}

/** A time for people, in seconds or hours. */
function formatDuration(seconds: number): string {
  const hours = seconds / 3600
  if (hours > 1e6) return 'more than a million hours'
  return hours >= 1 ? `${hours.toFixed(1)} hours` : `${Math.ceil(seconds)} s`
}
