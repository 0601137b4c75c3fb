/**
 * `npm run replay -- [--scenario NAME] [--schedules N] [--seed S] [--keep-going]`: plays schedules of the
 * service's own code on a model of MongoDB, N of them from seed S on, and checks what must hold after each
 * step. With `--seed` alone it plays that one, and shows its steps. Exits with 1 if something doesn't hold.
 */
import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { BREAKS, plant } from './replay/breaks.ts'

const { values } = parseArgs({
  options: {
    scenario: { type: 'string', default: 'log' },
    schedules: { type: 'string' },
    seed: { type: 'string' },
    'keep-going': { type: 'boolean' },
    break: { type: 'string' },
  },
})
const broken = BREAKS.find(({ name }) => name === values.break)
if (broken !== undefined) plant(broken)
// Only now, so that what is broken is loaded broken.
const { SCENARIOS } = await import('./replay/scenarios.ts')
const { openScenario } = await import('./replay/world.ts')
const scenario = SCENARIOS.find(({ name }) => name === values.scenario)
const seed = Number(values.seed ?? randomInt(1, 2 ** 31))
const schedules = Number(values.schedules ?? (values.seed === undefined ? 1_000 : 1))
if (
  scenario === undefined ||
  ![seed, schedules].every((number) => Number.isSafeInteger(number) && number > 0)
) {
  const names = SCENARIOS.map(({ name }) => name).join(', ')
  process.stderr.write(
    `replay: the scenario is one of ${names}; seed and schedules are whole numbers above 0\n`,
  )
  process.exit(2)
}
const run = openScenario(scenario)
const before = process.cpuUsage()
let [steps, failed, played] = [0, 0, 0]
for (let number = seed; number < seed + schedules; number++) {
  const outcome = await run(number)
  played++
  steps += outcome.steps
  if (outcome.failure === undefined) continue
  failed++
  if (schedules === 1)
    process.stdout.write(`${outcome.trace.map((step, place) => `${place + 1} ${step}`).join('\n')}\n`)
  process.stdout.write(
    `${scenario.name}: ${outcome.failure}\n    after ${outcome.steps} steps of seed ${number}\n`,
  )
  if (values['keep-going'] !== true) break
}
const { user, system } = process.cpuUsage(before)
const seconds = (user + system) / 1e6
process.stdout.write(
  `${scenario.name}: ${played} schedules from seed ${seed} on, ${steps} steps, ${failed} failed; ${(played / seconds).toFixed(1)} schedules a second of processor time\n`,
)
process.exit(failed === 0 ? 0 : 1)
