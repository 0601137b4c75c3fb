import type { World as Market } from '../money/world.ts'
import type { Testbed } from '../testbed/testbed.ts'

/** What a fault can hit: a network, and the market on it, if the run has one. */
export interface Scene {
  readonly testbed: Testbed
  readonly market?: Market | undefined
}

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
export type Cause = (scene: Scene, drawn: Drawn) => Promise<Injected | undefined> | Injected | undefined

/** What a run or a machine may lack for a fault, and what is said then. */
export const LACKED = {
  market: 'the run has no market, or there was nothing to hit at that moment',
  coin: 'no coin is configured',
  monero: 'the run is without --monero, or it was down at that moment',
  'another version': 'this is no checkout with the commit before',
  libfaketime: 'there is no libfaketime here',
  prlimit: 'there is no prlimit here, or there was no primary',
  'a disk': 'this user may not mount a disk of its own for Redis',
} as const

/** A row of the table. */
export interface Fault {
  /** The shortest and the longest duration in ms; 0 if it ends by itself. */
  readonly lastsMs: readonly [number, number]
  readonly needs?: keyof typeof LACKED
  readonly cause: Cause
}

/** The one that the dice choose. */
export const pick = <T>(items: readonly T[], dice: number): T | undefined => items[dice % items.length]
