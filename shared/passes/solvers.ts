import measured from './measured-solvers.json' with { type: 'json' }
import { HOUR_MS, SECOND_MS } from '../foundation/time.ts'

export interface Solver {
  name: string
  /** On one core. */
  hashesPerSecond: number
}

/** As `npm run bench -- miner --record` measured them on one machine and wrote them beside this file. */
export const SOLVERS: readonly Solver[] = measured

/** Hours that one core needs for so many hashes. */
export function coreHoursPerDay(solver: Solver, hashesPerDay: number): number {
  return hashesPerDay / solver.hashesPerSecond / (HOUR_MS / SECOND_MS)
}
