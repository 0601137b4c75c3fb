/**
 * `npm run harness -- simulation [--scenario NAME] [--schedules N] [--seed S] [--keep-going]`: plays schedules of the
 * service's own code on a model of MongoDB, N of them from seed S on, and checks what must hold after each
 * step. With `--seed` alone it plays that one, and shows its steps if it fails. Exits with 1 if something
 * doesn't hold.
 */
import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { SCENARIOS } from './simulation/scenarios.ts'
import { openScenario } from './simulation/world.ts'

const NAMES = SCENARIOS.map(({ name }) => name)

const { values } = parseArgs({
  options: {
    scenario: { type: 'string' },
    schedules: { type: 'string' },
    seed: { type: 'string' },
    'keep-going': { type: 'boolean' },
  },
})
const names = values.scenario === undefined ? NAMES : [values.scenario]
const seed = Number(values.seed ?? randomInt(1, 2 ** 31))
const schedules = Number(values.schedules ?? (values.seed === undefined ? 1_000 : 1))
const isUnknown = !names.every((name) => NAMES.includes(name))
if (isUnknown || ![seed, schedules].every((number) => Number.isSafeInteger(number) && number > 0)) {
  process.stderr.write(
    `replay: scenarios are ${NAMES.join(', ')}; seed and schedules are whole numbers above 0\n`,
  )
  process.exit(2)
}
process.exit((await play()) ? 0 : 1)

/** Plays each scenario. @returns whether everything held */
async function play(): Promise<boolean> {
  let failed = 0
  for (const scenario of SCENARIOS.filter(({ name }) => names.includes(name))) {
    const run = openScenario(scenario)
    const before = process.cpuUsage()
    let [steps, played] = [0, 0]
    for (let number = seed; number < seed + schedules; number++) {
      const { failure, trace, ...outcome } = await run(number)
      played++
      steps += outcome.steps
      if (failure === undefined) continue
      failed++
      const shown = schedules === 1 ? trace.map((step, place) => `${place + 1} ${step}\n`).join('') : ''
      process.stdout.write(`${shown}${scenario.name}, seed ${number}, step ${outcome.steps}: ${failure}\n`)
      if (values['keep-going'] !== true) break
    }
    const { user, system } = process.cpuUsage(before)
    const rate = (played / ((user + system) / 1e6)).toFixed(0)
    process.stdout.write(
      `${scenario.name}: ${played} schedules from seed ${seed} on, ${steps} steps, ${rate} a second of processor time\n`,
    )
  }
  return failed === 0
}
