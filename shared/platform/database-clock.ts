import { Refusal } from './errors.ts'
import { MINUTE_MS, SECOND_MS } from './time.ts'

/**
 * How often a process asks the primary for the time: for that long one that came into office with another
 * clock is not noticed.
 */
export const CLOCK_SAMPLE_EVERY_MS = 5 * SECOND_MS
/**
 * A monotonic clock runs off by 500 ppm at most, what NTP slews it by: 0.3 s in this time. What is older
 * tells nothing.
 */
export const MAX_CLOCK_SAMPLE_AGE_MS = 10 * MINUTE_MS
/** The answer is from some moment of the round trip, so a sample is wrong by half of it at most. */
export const MAX_CLOCK_ROUND_TRIP_MS = 2 * SECOND_MS

/**
 * The database's clock, kept against this machine's monotonic one: the time of day that the machine goes by,
 * right or wrong or changed meanwhile, has no part in it. All that decides about money goes by it, in every
 * process.
 */
export interface DatabaseClock {
  /**
   * Milliseconds since the epoch.
   *
   * @throws Refusal `unavailable` if there is no sample that is young enough
   */
  now(): number
  /**
   * Sets the clock by the primary's.
   *
   * @param ask reads the primary's time, in milliseconds since the epoch
   * @returns false, and nothing is set, if the answer took too long to tell the time
   */
  sample(ask: () => Promise<number>): Promise<boolean>
}

/** A clock without a sample yet. @param monotonicMs never goes back and never jumps */
export function createDatabaseClock(monotonicMs: () => number = () => performance.now()): DatabaseClock {
  let last: { offsetMs: number; atMs: number } | undefined
  return {
    now() {
      const nowMs = monotonicMs()
      if (last === undefined || nowMs - last.atMs > MAX_CLOCK_SAMPLE_AGE_MS)
        throw new Refusal(
          'unavailable',
          'The service does not know the time now, because its database is out of reach; try again.',
        )
      return Math.round(nowMs + last.offsetMs)
    },
    async sample(ask) {
      const askedMs = monotonicMs()
      const timeMs = await ask()
      const atMs = monotonicMs()
      const isExact = atMs - askedMs <= MAX_CLOCK_ROUND_TRIP_MS
      if (isExact) last = { offsetMs: timeMs - (askedMs + atMs) / 2, atMs }
      return isExact
    },
  }
}
