import { writeFileSync } from 'node:fs'
import { measureSolvers } from './miner.ts'

/**
 * Measures every solver on this machine, and writes shared/passes/measured-solvers.json, from which `GET
 * /currencies` and `GET /limits` state how long work takes.
 */
export async function recordSolvers(): Promise<void> {
  const solvers = await measureSolvers()
  const rounded = solvers.map(({ name, hashesPerSecond }) => ({
    name,
    hashesPerSecond: Number(hashesPerSecond.toPrecision(2)),
  }))
  writeFileSync(
    new URL('../../../shared/passes/measured-solvers.json', import.meta.url),
    `${JSON.stringify(rounded, null, 2)}\n`,
  )
}
