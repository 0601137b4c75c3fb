import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { expect, it } from 'vitest'
import { dependsOn, pureRules, testsOf } from '../harness/mutation/pure-rules.ts'
import { formatResults, scoreOf, type Mutant } from '../harness/mutation/results.ts'

const mutant = (status: Mutant['status'], more: Partial<Mutant> = {}): Mutant => ({
  fileName: 'rule.ts',
  status,
  location: { start: { line: 1, column: 1 }, end: { line: 1, column: 2 } },
  replacement: '',
  ...more,
})

it('counts a mutant that never ends as noticed, one without a test as not, and one that is left alone as none', () => {
  const statuses = ['Killed', 'Timeout', 'Survived', 'NoCoverage', 'Ignored']
  expect(scoreOf(statuses.map((status) => mutant(status)))).toBe(50)
  expect(scoreOf([])).toBe(100)
})

it('shows each mutant that no test noticed as a change of its lines, and a row for each file', () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'mutants-'))
  try {
    writeFileSync(path.join(folder, 'rule.ts'), 'const a = 1\nif (a > 0) {\n  stop()\n}\n')
    const fileName = path.join(folder, 'rule.ts')
    const place = { start: { line: 2, column: 12 }, end: { line: 4, column: 2 } }
    const report = formatResults(
      [mutant('Survived', { fileName, location: place, replacement: '{}' }), mutant('Killed', { fileName })],
      folder,
    )
    expect(report).toContain('rule.ts:2\n-if (a > 0) {\n-  stop()\n-}\n+if (a > 0) {}\n')
    expect(report).toContain('| rule.ts | 2 | 1 | 0 | 1 | 0 | 50.0 |\n| all | 2 | 1 | 0 | 1 | 0 | 50.0 |\n')
  } finally {
    rmSync(folder, { recursive: true })
  }
})

it('takes modules that only compute, with the tests that import them and start no server', () => {
  const rules = pureRules()
  expect(rules).toEqual(expect.arrayContaining(['shared/market/order-states.ts', 'shared/passes/work.ts']))
  expect(rules.filter((file) => /-(?:store|service)\.ts$/.test(file))).toEqual([])
  expect(testsOf(['shared/market/order-states.ts'])).toContain('test/unit/order-states.test.ts')
  expect(testsOf(['shared/money/invoice.ts'])).not.toContain('test/unit/hostile-service.test.ts')
  expect(dependsOn('test/unit/order.test.ts', 'shared/market/market-terms.ts')).toBe(true)
})
