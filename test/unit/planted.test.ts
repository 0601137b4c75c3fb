import fs from 'node:fs'
import { expect, test } from 'vitest'
import { PLANTED_BUGS } from '../../scripts/planted/bugs.ts'
import { textWithBug } from '../../scripts/planted/run.ts'
import { describeOutcomes, parseOutcomes } from '../../scripts/planted/table.ts'

test('every planted bug changes its file in one place, and names tests that exist', () => {
  for (const bug of PLANTED_BUGS) {
    expect(textWithBug(bug), bug.name).not.toBe(fs.readFileSync(bug.file, 'utf8'))
    for (const name of bug.tests) expect(fs.existsSync(`test/${name}.test.ts`), name).toBe(true)
  }
})

test('each planted bug has a name of its own', () => {
  expect(new Set(PLANTED_BUGS.map(({ name }) => name)).size).toBe(PLANTED_BUGS.length)
})

test('the table has a row for each bug that was tried, by its later outcome, and says what nothing noticed', () => {
  const [first, second] = PLANTED_BUGS.map(({ name, mistake }) => ({
    name,
    mistake,
    seconds: 5,
    commit: 'abc',
  }))
  const lines = [second, first, { ...second, by: 'a test | of it', doubts: ['another (it passed again)'] }]
  const table = describeOutcomes(parseOutcomes(lines.map((line) => `${JSON.stringify(line)}\n`).join('')))
  const [summary, , , , ...rows] = table.split('\n')
  expect(summary).toBe(`${PLANTED_BUGS.length} bugs, 2 of them tried, 1 noticed.`)
  expect(rows).toEqual([
    `| ${first?.name} | ${first?.mistake} | **nothing** | 5 | \`abc\` |`,
    `| ${second?.name} | ${second?.mistake} | a test \\| of it; another (it passed again) | 5 | \`abc\` |`,
  ])
})
