import type { Market } from '../money/world.ts'
import type { Testbed } from '../testbed/testbed.ts'

/** What is drawn of a fault. */
export interface Drawn {
  readonly lastsMs: number
  /** 0 to DICE - 1; chooses among what the fault can hit, and how. */
  readonly dice: number
}

/** A fault under way. */
export interface Injected {
  /** The process or server that was hit, in words. */
  readonly target: string
  /**
   * Ends the fault, or waits until a supervisor has restarted what was killed; absent if it ends by itself.
   *
   * @throws TimeoutError if it is not restarted in time
   */
  heal?(): Promise<void> | void
}

/** Causes a fault. Undefined if there is nothing to hit at this moment, or what it needs is absent. */
export type Cause = (
  testbed: Testbed,
  drawn: Drawn,
  market?: Market,
) => Promise<Injected | undefined> | Injected | undefined

/** A row of the table. */
export interface Fault {
  /** The shortest and the longest duration in ms; 0 if it ends by itself. */
  readonly lastsMs: readonly [number, number]
  /** What a run or a machine may lack for it. */
  readonly needs?:
    | 'a market'
    | 'a coin'
    | 'Monero'
    | 'a commit before this one'
    | 'libfaketime'
    | 'prlimit'
    | 'control groups of memory'
    | "a disk of Redis's own"
    | undefined
  readonly cause: Cause
}

/** The one that the dice choose. */
export const pick = <T>(items: readonly T[], dice: number): T | undefined => items[dice % items.length]
