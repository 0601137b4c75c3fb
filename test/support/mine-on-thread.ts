import { solveWork } from '../../client/miner/miner.ts'

/** A program that finds work on a thread and prints it; its one argument is the prefix. */
console.log(await solveWork({ prefix: process.argv[2] ?? '', difficultyBits: 8, threads: 1 }))
