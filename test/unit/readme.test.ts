import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { parseCommandLine } from '../../scripts/agent/arguments.ts'
import { withHelp } from '../../scripts/agent/help.ts'
import { VERB_GROUPS } from '../../scripts/agent/verbs.ts'
import { OPERATOR_VERBS } from '../../scripts/operator/verbs.ts'
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

  it('shows no command line that the agent or the operator would be refused', () => {
    const agentVerbs = withHelp(VERB_GROUPS).flatMap(({ verbs }) => verbs)
    const parsers = {
      agent: (argv: string[]) => parseCommandLine(argv, agentVerbs),
      operator: (argv: string[]) => parseCommandLine(argv, OPERATOR_VERBS, undefined, 'operator'),
    }
    // Up to a comment, or to the end of inline code.
    const lines = [...readme.matchAll(/\b(agent|operator) -- ([^\n`#]+)/g)].map(([, command, text = '']) => ({
      command: command as keyof typeof parsers,
      argv: [...text.matchAll(/"([^"]*)"|\S+/g)].map(([word, quoted]) => quoted ?? word),
    }))
    // `help` has a verb of its own for the operator, and VERB stands for any.
    const real = lines.filter(({ argv: [verb = ''] }) => !['help', 'VERB'].includes(verb))
    expect(real.length).toBeGreaterThan(25)
    for (const { command, argv } of real) expect(() => parsers[command](argv), [command, ...argv].join(' ')).not.toThrow()
  })
})
