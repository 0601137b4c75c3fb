import { setTimeout as sleep } from 'node:timers/promises'
import { Overtaken } from './database.ts'
import { Refusal } from './errors.ts'
import { throwIfOver } from './scope.ts'
import { MINUTE_MS } from './time.ts'

/** The parts of a change; see change(). */
export interface Change<Known, Decision, Outcome> {
  /** The clock that decides, in milliseconds since the epoch. */
  now(): number
  /** Reads everything that the decision depends on. */
  read(): Promise<Known>
  /** Decides what is to be stored, by what was read and the time alone. It may throw a Refusal. */
  decide(known: Known, nowMs: number): Decision
  /**
   * Stores the decision, all of it or nothing, and gives the outcome. It is one write, or one transaction, on
   * condition that what was read still stands.
   *
   * @throws Overtaken if it does not; nothing is stored then
   */
  store(decision: Decision, known: Known): Promise<Outcome>
  /** How long it is tried against others, in milliseconds; PATIENCE_MS if absent. */
  patienceMs?: number
}

/**
 * Far longer than others go on being faster: what has lost for so long would lose for ever. An attempt may take
 * seconds while the database is slow.
 */
const PATIENCE_MS = MINUTE_MS
/** Before another attempt it pauses for up to this many milliseconds for each conflict so far. */
const PAUSE_MS = 5

/**
 * Changes what is stored: reads, decides, stores. If another has changed meanwhile what was read, all three
 * are done again, the time included, so a decision never rests on what is outdated. If this process dies, all
 * of the decision is stored or nothing.
 *
 * @returns the outcome that `store` gives
 * @throws what the parts throw; Refusal `unavailable` if others were faster for `patienceMs`; after a conflict,
 *   the reason why its request is over
 */
export async function change<Known, Decision, Outcome>(
  parts: Change<Known, Decision, Outcome>,
): Promise<Outcome> {
  const endMs = performance.now() + (parts.patienceMs ?? PATIENCE_MS)
  for (let conflicts = 1; ; conflicts++) {
    try {
      const known = await parts.read()
      return await parts.store(parts.decide(known, parts.now()), known)
    } catch (error) {
      if (!(error instanceof Overtaken)) throw error
      if (performance.now() >= endMs)
        throw new Refusal(
          'unavailable',
          'Others keep changing the same records at the same time; nothing was stored. Try again.',
          { cause: error },
        )
    }
    await sleep(PAUSE_MS * conflicts * Math.random())
    throwIfOver()
  }
}
