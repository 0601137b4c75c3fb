import measured from './measured-solvers.json' with { type: 'json' }
import { HOUR_MS, SECOND_MS } from '../platform/time.ts'

export interface Solver {
  name: string
  /** On one core. */
  hashesPerSecond: number
}

/** Measured on one machine by `npm run bench -- miner --record`, which writes them beside this file. */
export const SOLVERS: readonly Solver[] = measured

/** Returns the hours that one core needs for a day of pass, which takes `hashesPerDay` hashes. */
export function coreHoursPerDay(solver: Solver, hashesPerDay: number): number {
  return hashesPerDay / solver.hashesPerSecond / (HOUR_MS / SECOND_MS)
}
