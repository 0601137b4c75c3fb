import { readFileSync, globSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { RULE_IDS } from '../../shared/reports/report.ts'
import { LINKS } from '../support/promise-links.ts'
import { findFaults, listPromises, promiseTable, testsOf, withTable } from '../support/promises.ts'
import { scanTests } from '../support/scan-tests.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')
const promises = listPromises()

describe('the promises', () => {
  it('are each held by tests that there are, and the page shows them', () => {
    expect(promises.length).toBeGreaterThan(300)
    expect(findFaults(promises, LINKS, testsOf)).toEqual([])
    const page = readFileSync(path.join(ROOT, 'docs/promises.md'), 'utf8')
    expect(withTable(page, promiseTable(promises, LINKS)), 'npm run promises -- --write').toBe(page)
  })

  it('are missed if they are new, if their tests are renamed or run with full counts alone, and if they are gone', () => {
    const tests = new Map([['holds', '']])
    const faultsOf = (keys: string[], links: Parameters<typeof findFaults>[1]) =>
      findFaults(
        keys.map((key) => ({ key, text: 'It is so.' })),
        links,
        (file) => (file === 'unit/a' || file === 'faults/a' ? tests : new Map()),
      )
    expect(faultsOf(['a'], { a: { 'unit/a': ['holds'] } })).toEqual([])
    expect(faultsOf(['a', 'b'], { a: { 'unit/a': ['holds'] } })).toEqual(['No test holds b: It is so.'])
    expect(faultsOf(['a'], { a: { 'unit/a': [] } })).toEqual(['No test holds a: It is so.'])
    expect(faultsOf(['a'], { a: { 'faults/a': ['holds'] } })).toEqual(['No test holds a: It is so.'])
    for (const links of [{ 'unit/a': ['held'] }, { 'unit/b': ['holds'] }])
      expect(faultsOf(['a'], { a: links })[0]).toMatch(/^a names a test that is not in/)
    expect(faultsOf([], { a: { 'unit/a': ['holds'] } })[0]).toMatch(/^No promise has the key a/)
  })

  it('say each rule that a report or the operator can name', () => {
    expect(
      promises.filter(({ key }) => key.startsWith('rules.rules.')).map(({ key }) => key.split('.')[2]),
    ).toEqual(RULE_IDS)
  })
})

describe('the scan of the tests', () => {
  it('reads names as they are written, with their headings, and leaves out what is skipped', () => {
    const source = `
describe('a post', () => {
  it('is the author\\'s', async () => {
    expect(it('no test')).toBe(1)
  })
  it.each([
    ['a)', "it('b'"],
    // it('c'
  ])(
    'is one of %s',
    () => undefined,
  )
  it.skipIf(isLate(\`x)\`))('may be late', () => {})
  it.skip('is never run', () => {})
})
test.each(rows)('$name alone', () => {})
`
    expect([...scanTests(source)]).toEqual([
      ["is the author's", 'a post'],
      ['is one of %s', 'a post'],
      ['may be late', 'a post'],
      ['$name alone', ''],
    ])
  })

  it('finds a test wherever one begins a line', () => {
    for (const file of globSync('test/**/*.test.ts', { cwd: ROOT })) {
      const source = readFileSync(path.join(ROOT, file), 'utf8')
      const begun = source.match(/^ *(?:it|test)[.(]/gm)?.length ?? 0
      if (begun > 0 && file !== 'test/unit/promises.test.ts')
        expect([file, scanTests(source).size > 0]).toEqual([file, true])
    }
  })
})
