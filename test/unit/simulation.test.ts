import { spawnSync } from 'node:child_process'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { FULL } from '../support/full.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** In a process of its own, whose clock and timers the schedules take over. */
function replay(...given: string[]) {
  const script = path.join(ROOT, 'test/harness/simulation.ts')
  return spawnSync(process.execPath, [script, ...given], { cwd: ROOT, encoding: 'utf8' })
}

it.each([
  ['log', FULL ? 100 : 6],
  ['events', FULL ? 60 : 6],
  ['money', FULL ? 30 : 4],
  ['passes', FULL ? 60 : 6],
  ['claims', FULL ? 60 : 6],
] as const)('holds what must hold in some schedules of %s', (scenario, schedules) => {
  const given = ['--scenario', scenario, '--seed', '1', '--schedules', String(schedules)]
  const { stdout, status, stderr } = replay(...given)
  expect(status, stdout + stderr).toBe(0)
  expect(stdout).toContain(`${schedules} schedules`)
})

it.each([
  // An election takes back the seal in whose place another sealer's could not be stored.
  ['log', 706_026],
  // A verdict by a claim's author is stored although an election has taken the claim back.
  ['claims', 125],
] as const)('holds what must hold in a schedule of %s that has found a bug, seed %d', (scenario, seed) => {
  const { stdout, status, stderr } = replay(
    '--scenario',
    scenario,
    '--seed',
    String(seed),
    '--schedules',
    '1',
  )
  expect(status, stdout + stderr).toBe(0)
})
