import { parseArgs } from 'node:util'
import { formatFigures, type Figure } from './bench/figure.ts'

/** Each benchmark by its name; loaded when it is run. */
const BENCHES: Record<string, () => Promise<Figure[]>> = {
  miner: async () => (await import('./bench/miner.ts')).benchMiner(),
  shares: async () => (await import('./bench/shares.ts')).benchShares(),
  seal: async () => (await import('./bench/seal.ts')).benchSeal(),
  entry: async () => (await import('./bench/entry.ts')).benchEntry(),
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { json: { type: 'boolean', default: false }, record: { type: 'boolean', default: false } },
})
const names = positionals.length > 0 ? positionals : Object.keys(BENCHES)
const unknown = names.filter((name) => !Object.hasOwn(BENCHES, name))
if (unknown.length > 0) {
  process.stderr.write(`There is no benchmark ${unknown.join(', ')}; there are ${Object.keys(BENCHES).join(', ')}.\n`)
  process.exit(2)
}

const figures: Figure[] = []
for (const name of names) {
  const run = BENCHES[name]
  if (run === undefined) continue
  const measured = await run()
  if (!values.json) process.stdout.write(`${formatFigures(measured)}\n`)
  figures.push(...measured)
}
if (values.record) await (await import('./bench/record-solvers.ts')).recordSolvers()
if (values.json) process.stdout.write(`${JSON.stringify({ figures })}\n`)
process.exit(0)
