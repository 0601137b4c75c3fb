import fs from 'node:fs'
import { expect, test } from 'vitest'
import { PLANTED_BUGS } from '../../scripts/planted/bugs.ts'
import { textWithBug } from '../../scripts/planted/run.ts'

test('every planted bug changes its file in one place, and names tests that exist', () => {
  for (const bug of PLANTED_BUGS) {
    expect(textWithBug(bug), bug.name).not.toBe(fs.readFileSync(bug.file, 'utf8'))
    for (const name of bug.tests) expect(fs.existsSync(`test/${name}.test.ts`), name).toBe(true)
  }
})

test('each planted bug has a name of its own', () => {
  expect(new Set(PLANTED_BUGS.map(({ name }) => name)).size).toBe(PLANTED_BUGS.length)
})
