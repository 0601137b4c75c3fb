/**
 * `npm run replay -- [--scenario NAME] [--schedules N] [--seed S] [--keep-going]`: plays schedules of the
 * service's own code on a model of MongoDB, N of them from seed S on, and checks what must hold after each
 * step. With `--seed` alone it plays that one, and shows its steps if it fails. Exits with 1 if something
 * doesn't hold. `--break NAME` plays with one condition of the service taken away; `--breaks` does that with
 * each, and exits with 1 if one is not noticed.
 */
import { spawnSync } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { BREAKS, plant } from './replay/breaks.ts'

const NAMES = ['log', 'events', 'money']

const { values } = parseArgs({
  options: {
    scenario: { type: 'string' },
    schedules: { type: 'string' },
    seed: { type: 'string' },
    'keep-going': { type: 'boolean' },
    break: { type: 'string' },
    breaks: { type: 'boolean' },
  },
})
const names = values.scenario === undefined ? NAMES : [values.scenario]
const seed = Number(values.seed ?? randomInt(1, 2 ** 31))
const schedules = Number(values.schedules ?? (values.seed === undefined ? 1_000 : 1))
const broken = BREAKS.find(({ name }) => name === values.break)
const isUnknown = !names.every((name) => NAMES.includes(name)) || (values.break !== undefined && !broken)
if (isUnknown || ![seed, schedules].every((number) => Number.isSafeInteger(number) && number > 0)) {
  process.stderr.write(
    `replay: scenarios are ${NAMES.join(', ')}, breaks ${BREAKS.map(({ name }) => `"${name}"`).join(', ')}; seed and schedules are whole numbers above 0\n`,
  )
  process.exit(2)
}
const isFine = values.breaks === true ? playBroken() : await play()
process.exit(isFine ? 0 : 1)

/** Plays each scenario. @returns whether everything held */
async function play(): Promise<boolean> {
  if (broken !== undefined) plant(broken)
  // Only now, so that what is broken is loaded broken.
  const { SCENARIOS } = await import('./replay/scenarios.ts')
  const { openScenario } = await import('./replay/world.ts')
  let failed = 0
  for (const scenario of SCENARIOS.filter(({ name }) => names.includes(name))) {
    if (broken !== undefined && broken.scenario !== scenario.name) continue
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

/** Plays with each condition taken away. @returns whether each lack was noticed */
function playBroken(): boolean {
  let hidden = 0
  for (const { name, scenario } of BREAKS.filter((one) => names.includes(one.scenario))) {
    const given = ['--break', name, '--seed', String(seed), '--schedules', String(schedules)]
    const { status, stdout } = spawnSync(process.execPath, [fileURLToPath(import.meta.url), ...given], {
      encoding: 'utf8',
    })
    if (status === 0) hidden++
    process.stdout.write(
      `${scenario}: ${name}\n    ${status === 0 ? 'HIDDEN\n    ' : ''}${stdout.trim().replaceAll('\n', '\n    ')}\n`,
    )
  }
  return hidden === 0
}
