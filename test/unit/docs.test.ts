import { existsSync, globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { parseCommandLine } from '../../client/command/arguments.ts'
import { AGENT } from '../../client/command/verbs.ts'
import { WRITERS } from '../../scripts/embedded/access.ts'
import { OPERATOR } from '../../scripts/operator/verbs.ts'
import {
  arrivalTable,
  changeTable,
  claimTable,
  errorTable,
  invoiceTable,
  passTable,
  payoutTable,
  transferTable,
  workTable,
} from '../../scripts/docs/write-docs.ts'
import { FILE_VARIABLES, REMOVED, VARIABLE_NAMES } from '../../shared/platform/config.ts'
import { QUEUE_NAMES } from '../../shared/platform/queue-table.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')
const read = (file: string): string => readFileSync(path.join(ROOT, file), 'utf8')
const PAGES = [
  ...globSync('*.md', { cwd: ROOT }),
  ...globSync('docs/*.md', { cwd: ROOT }),
  'client/README.md',
  'client/python/README.md',
]
const pages = PAGES.map((file) => ({ file, text: read(file) }))
const { dependencies, optionalDependencies, scripts } = JSON.parse(read('package.json')) as Record<
  'dependencies' | 'optionalDependencies' | 'scripts',
  Record<string, string>
>

/** What stands between backquotes, in one line. */
const inCode = (text: string): string[] => [...text.matchAll(/`([^`\n]+)`/g)].map(([, code = '']) => code)

describe('the docs', () => {
  it('are a README of at most 8 KB, and pages that it leads to', () => {
    const readme = read('README.md')
    expect(Buffer.byteLength(readme)).toBeLessThanOrEqual(8 * 1024)
    for (const page of globSync('docs/*.md', { cwd: ROOT })) expect(readme).toContain(`](${page})`)
  })

  it('hold the table of error codes that the service answers with', () => {
    const agents = read('docs/agents.md')
    expect(changeTable(agents, 'errors', errorTable)).toBe(agents)
    expect(agents).toContain('| 402 | `pass_required` |')
  })

  it('hold the tables of steps that a claim, a work order, an invoice, an arrival, a payout and a transfer take', () => {
    const architecture = read('docs/architecture.md')
    expect(changeTable(architecture, 'claims', claimTable)).toBe(architecture)
    expect(changeTable(architecture, 'work', workTable)).toBe(architecture)
    expect(changeTable(architecture, 'pass', passTable)).toBe(architecture)
    expect(changeTable(architecture, 'invoices', invoiceTable)).toBe(architecture)
    expect(changeTable(architecture, 'arrivals', arrivalTable)).toBe(architecture)
    expect(changeTable(architecture, 'payouts', payoutTable)).toBe(architecture)
    expect(changeTable(architecture, 'transfers', transferTable)).toBe(architecture)
  })

  it('have a row for every setting and for no other', () => {
    const table = /## Settings[\s\S]*?(?:\n## |$)/.exec(read('docs/set-up.md'))?.[0] ?? ''
    const named = table
      .split('\n')
      .flatMap((line) =>
        line.startsWith('| `')
          ? [...(line.split('|')[1] ?? '').matchAll(/`([A-Z_]+)`/g)].map((match) => match[1])
          : [],
      )
    expect(named.toSorted()).toEqual([...VARIABLE_NAMES, 'MONGOD_BINARY', 'REDIS_BINARY'].toSorted())
  })

  it('give a reason for every direct dependency', () => {
    const table = /## Packages[\s\S]*?\n\n[^|]/.exec(read('README.md'))?.[0] ?? ''
    const named = [...table.matchAll(/^\| ([^|]+) \|/gm)]
      .flatMap((match) => (match[1] ?? '').split(', '))
      .filter((name) => name !== 'package' && !name.startsWith('-'))
    expect(named.toSorted()).toEqual(Object.keys({ ...dependencies, ...optionalDependencies }).toSorted())
  })

  it('show no command line that the agent or the operator would be refused', () => {
    const parsers = {
      agent: (argv: string[]) => parseCommandLine(argv, AGENT),
      operator: (argv: string[]) => parseCommandLine(argv, OPERATOR),
    }
    // Up to a comment, or to the end of inline code.
    const lines = pages.flatMap(({ text }) =>
      [...text.matchAll(/\b(agent|operator) -- ([^\n`#]+)/g)].map(([, command, words = '']) => ({
        command: command as keyof typeof parsers,
        argv: [...words.matchAll(/"([^"]*)"|\S+/g)].map(([word, quoted]) => quoted ?? word),
      })),
    )
    // `help` has a verb of its own for the operator, and VERB stands for any.
    const real = lines.filter(({ argv: [verb = ''] }) => !['help', 'VERB'].includes(verb))
    expect(real.length).toBeGreaterThan(25)
    for (const { command, argv } of real)
      expect(() => parsers[command](argv), [command, ...argv].join(' ')).not.toThrow()
  })

  it('name no script that package.json does not have', () => {
    const named = pages.flatMap(({ file, text }) =>
      [...text.matchAll(/\bnpm run (?:--silent )?([a-z][a-z-]*)/g)].map(
        ([, name = '']) => `${file}: ${name}`,
      ),
    )
    expect(named.length).toBeGreaterThan(30)
    expect(named.filter((one) => scripts[one.split(': ')[1] ?? ''] === undefined)).toEqual([])
  })

  it.each(pages)('$file names no file that is not there', ({ file, text }) => {
    const links = [...text.matchAll(/\]\((?!https?:)([^)#\s]+)/g)].map(([, target = '']) =>
      path.join(path.dirname(file), target),
    )
    const code = inCode(text).filter((one) =>
      /^(?:api|workers|shared|client|scripts|test|docs|\.ci|\.vscode)\/[\w./-]+$/.test(one),
    )
    expect([...links, ...code].filter((name) => !existsSync(path.join(ROOT, name)))).toEqual([])
  })

  it('have a command for each pool of workers, and together they serve every queue once', () => {
    const section = /## Pools[\s\S]*?\n## /.exec(read('docs/set-up.md'))?.[0] ?? ''
    const served = [...section.matchAll(/npm run workers -- --queues (\S+)/g)].flatMap(([, names = '']) =>
      names.split(','),
    )
    expect(served.toSorted()).toEqual(QUEUE_NAMES.toSorted())
  })

  it('name the order of an upgrade: every service of ours once, the ledger first and the API last', () => {
    const section = /## Upgrade[\s\S]*?\n## /.exec(read('docs/run.md'))?.[0] ?? ''
    const steps = section
      .split('\n')
      .filter((line) => /^\d\. |^ {3}/.test(line))
      .join('\n')
      .split(/^\d\. /m)
    const { services } = parse(read('docker-compose.yml'), { merge: true }) as {
      services: Record<string, { command?: string[] }>
    }
    const ours = Object.keys(services).filter((name) =>
      /^(api|workers)\/main\.ts$/.test(services[name]?.command?.[1] ?? ''),
    )
    const named = steps.flatMap((step) =>
      inCode(step.split('. ')[0] ?? '').filter((word) => ours.includes(word)),
    )
    expect(named.toSorted()).toEqual(ours.toSorted())
    expect([named[0], named.at(-1)]).toEqual(['ledger', 'api'])
    // Who may upgrade the database, if each process has a user of its own, comes before those who wait for it.
    expect(Object.keys(WRITERS.schema)).toContain('payments')
    expect(named[1]).toBe('market')
  })

  it('name no setting, queue or collection that does not exist', () => {
    const variables: ReadonlySet<string> = new Set([...VARIABLE_NAMES, ...FILE_VARIABLES.keys()])
    const queues: ReadonlySet<string> = new Set(QUEUE_NAMES)
    const prefixes = new Set(VARIABLE_NAMES.map((name) => name.split('_')[0]))
    const words = pages.flatMap(({ file, text }) =>
      inCode(text).flatMap((code) => code.split(/[\s,=:]+/).map((word) => ({ file, word }))),
    )
    const settings = words.filter(
      ({ word }) => /^[A-Z]+(?:_[A-Z]+)+$/.test(word) && prefixes.has(word.split('_')[0] ?? ''),
    )
    expect(settings.length).toBeGreaterThan(60)
    const isKnown = ({ file, word }: (typeof words)[number]) =>
      variables.has(word) || OTHER_VARIABLES.has(word) || (file === 'CHANGELOG.md' && word in REMOVED)
    expect(settings.filter((one) => !isKnown(one))).toEqual([])
    // A coin's queue, or a verb and what it acts on.
    const queued = words.filter(({ word }) =>
      /^(?:watch|check|fill|send|sweep|reconcile)-(?:nano|monero)$|^[a-z]+-(?:shares|seals?|deadlines)$/.test(
        word,
      ),
    )
    expect(queued.length).toBeGreaterThan(3)
    expect(
      queued.filter(({ word }) => !queues.has(word) && !existsSync(path.join(ROOT, 'client', word))),
    ).toEqual([])
    const collections = pages.flatMap(({ file, text }) =>
      [...text.matchAll(/collections? `(\w+)`/g)].map(([, name = '']) => ({ file, name })),
    )
    expect(collections.length).toBeGreaterThan(0)
    expect(collections.filter(({ name }) => !(name in WRITERS))).toEqual([])
  })
})

/** Of other programs and scripts, and words that stand for an id. */
const OTHER_VARIABLES: ReadonlySet<string> = new Set([
  ...['WITNESS_POLICY', 'NANO_RPC', 'MONERO_RPC'], // the agent command's
  'MONGOD_BINARY',
  'REDIS_BINARY',
  'HTTP_PROXY',
  'NO_PROXY',
  'INVOICE_ID',
])
