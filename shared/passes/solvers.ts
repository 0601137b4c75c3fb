import { HOUR_MS, SECOND_MS } from '../time.ts';

export interface Solver {
  name: string;
  /** On one core, as `npm run bench -- miner --record` measured it and wrote it here. */
  hashesPerSecond: number;
}

export const SOLVERS: readonly Solver[] = [];

/** Hours that one core needs for so many hashes. */
export function coreHoursPerDay(solver: Solver, hashesPerDay: number): number {
  return hashesPerDay / solver.hashesPerSecond / (HOUR_MS / SECOND_MS);
}
