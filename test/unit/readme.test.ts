import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { VARIABLE_NAMES } from '../../shared/config.ts'
import { renewReadme } from '../../scripts/write-readme.ts'

const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')
const { dependencies } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  dependencies: Record<string, string>
}

describe('README', () => {
  it('holds the table of error codes that the service answers with', () => {
    expect(renewReadme(readme)).toBe(readme)
    expect(readme).toContain('| 402 | `pass_required` |')
  })

  it('has a row for every setting and for no other', () => {
    const table = /### Settings[\s\S]*?\n## /.exec(readme)?.[0] ?? ''
    const named = table
      .split('\n')
      .flatMap((line) => (/^\| `/.test(line) ? [...(line.split('|')[1] ?? '').matchAll(/`([A-Z_]+)`/g)].map((match) => match[1]) : []))
    expect(named.toSorted()).toEqual([...VARIABLE_NAMES, 'MONGOD_BINARY'].toSorted())
  })

  it('gives a reason for every direct dependency', () => {
    const table = /### Packages[\s\S]*?\n## /.exec(readme)?.[0] ?? ''
    const named = [...table.matchAll(/^\| ([^|]+) \|/gm)]
      .flatMap((match) => (match[1] ?? '').split(', '))
      .filter((name) => name !== 'package' && !name.startsWith('-'))
    expect(named.toSorted()).toEqual(Object.keys(dependencies).toSorted())
  })
})
