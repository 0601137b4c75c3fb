import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { BREAKS } from '../../scripts/replay/breaks.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** In a process of its own, whose clock and timers the schedules take over. */
function replay(...given: string[]) {
  const script = path.join(ROOT, 'scripts/replay.ts')
  return spawnSync(process.execPath, [script, ...given], { cwd: ROOT, encoding: 'utf8' })
}

it.each([
  ['log', 100],
  ['events', 60],
  ['money', 30],
] as const)('holds what must hold in some schedules of %s', (scenario, schedules) => {
  const given = ['--scenario', scenario, '--seed', '1', '--schedules', String(schedules)]
  const { stdout, status, stderr } = replay(...given)
  expect(status, stdout + stderr).toBe(0)
  expect(stdout).toContain(`${schedules} schedules`)
})

it('replays a failure by its seed alone', () => {
  const broken = ['--break', 'pending entries are read that an election may take back']
  const { stdout, status } = replay(...broken, '--seed', '1', '--schedules', '1000')
  expect(status, stdout).toBe(1)
  const [found = '', seed = ''] = /^log, seed (\d+), step \d+: .*$/m.exec(stdout) ?? []
  const again = replay(...broken, '--seed', seed)
  expect(again.stdout).toContain(`\n${found}\n`)
  expect(replay(...broken, '--seed', seed).stdout.split('\nlog:')[0]).toBe(again.stdout.split('\nlog:')[0])
})

it.each(BREAKS)('finds in the code what it takes away: $name', ({ file, text }) => {
  expect(fs.readFileSync(path.join(ROOT, file), 'utf8').split(text).length).toBe(2)
})
