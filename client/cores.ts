import { availableParallelism } from 'node:os'

/** On how many cores a miner works. In browsers, client/browser/cores.ts replaces this file. */
export const countCores = (): number => availableParallelism()
