/**
 * `npm run bench -- [NAME …] [--json] [--record] [--minutes N] [--records N]`: measures each beside its reference in the same
 * run, and writes the table of the run to reports/bench.md, which isn't committed.
 */
import { parseArgs } from 'node:util'
import { formatFigures, type Figure } from './bench/figure.ts'
import { writeReport } from './report-file.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    json: { type: 'boolean', default: false },
    /** Also measures the solvers anew for what the API states as the cost of work: see record-solvers.ts. */
    record: { type: 'boolean', default: false },
    /** How long `day` or the idle part of `footprint` lasts; 10 if absent. */
    minutes: { type: 'string' },
    /** How many records of each kind `growth` compares with a thousand; a million if absent. */
    records: { type: 'string' },
  },
})

const length = values.minutes === undefined ? {} : { minutes: Number(values.minutes) }

/** Each benchmark by its name; loaded when it is run. */
const BENCHES: Record<string, () => Promise<Figure[]>> = {
  api: async () => (await import('./bench/api.ts')).benchApi(),
  read: async () => (await import('./bench/read.ts')).benchRead(),
  miner: async () => (await import('./bench/miner.ts')).benchMiner(),
  shares: async () => (await import('./bench/shares.ts')).benchShares(),
  seal: async () => (await import('./bench/seal.ts')).benchSeal(),
  cost: async () => (await import('./bench/cost.ts')).benchCost(),
  day: async () => (await import('./bench/day.ts')).benchDay(length),
  market: async () => (await import('./bench/market.ts')).benchMarket(),
  hostile: async () => (await import('./bench/hostile.ts')).benchHostile(),
  wait: async () => (await import('./bench/wait.ts')).benchWait(),
  doorbell: async () => (await import('./bench/doorbell.ts')).benchDoorbell(),
  footprint: async () => [
    ...(await (await import('./bench/start.ts')).benchStart()),
    ...(await (await import('./bench/idle.ts')).benchIdle(length)),
  ],
  watch: async () => (await import('./bench/watch.ts')).benchWatch(),
  bundles: async () => (await import('./bench/bundles.ts')).benchBundles(),
  growth: async () =>
    (await import('./bench/growth.ts')).benchGrowth(
      values.records === undefined ? {} : { records: Number(values.records) },
    ),
  scale: async () => (await import('./bench/scale.ts')).benchScale(),
}

const names = positionals.length > 0 ? positionals : Object.keys(BENCHES)
const unknown = names.filter((name) => !Object.hasOwn(BENCHES, name))
if (unknown.length > 0) {
  process.stderr.write(
    `There is no benchmark ${unknown.join(', ')}; there are ${Object.keys(BENCHES).join(', ')}.\n`,
  )
  process.exit(2)
}

const measured = new Map<string, Figure[]>()
const failed: string[] = []
for (const name of names) {
  const run = BENCHES[name]
  if (run === undefined) continue
  try {
    const figures = await run()
    if (!values.json) process.stdout.write(`${formatFigures(figures)}\n`)
    measured.set(name, figures)
  } catch (error) {
    process.stderr.write(
      `${name}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`,
    )
    failed.push(name)
  }
}
if (values.record) await (await import('./bench/record-solvers.ts')).recordSolvers()
if (values.json) process.stdout.write(`${JSON.stringify({ figures: [...measured.values()].flat() })}\n`)
if (measured.size > 0) {
  const { benchTable } = await import('./bench/table.ts')
  writeReport('bench', benchTable(measured))
}
process.exit(failed.length === 0 ? 0 : 1)
