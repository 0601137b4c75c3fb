/**
 * `npm run promises [-- --write]`: lists every promise that the service makes to agents in `/contract`,
 * `/limits` and `/rules` with the tests that hold it. Exits with 1 if a promise has no test, if a link names
 * a promise or a test that there is not, or if docs/promises.md shows another table; `--write` writes that.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describeContract } from '../../shared/about/contract.ts'
import { describeLimits } from '../../shared/about/limits-page.ts'
import { describeRules } from '../../shared/about/rules.ts'
import { readConfig } from '../../shared/foundation/config.ts'
import { LINKS, type Links } from './promise-links.ts'
import { scanTests } from './scan-tests.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')
const DOCS = path.join(ROOT, 'docs/promises.md')

export interface Stated {
  /** Its place in the answer; a row of a list goes by its first field, a sentence by its first words. */
  key: string
  text: string
}

/** What is no promise by itself: the number of rows, and hashes that other tests compare with the files. */
const LEFT_OUT = new Set(['count', 'sha256'])

/** The first six words of a text, for a key. */
const slug = (text: string): string =>
  text
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, ' ')
    .trim()
    .split(' ')
    .slice(0, 6)
    .join('_')

/** A value in one line. */
function inWords(value: unknown): string {
  if (Array.isArray(value)) return value.map(inWords).join(', ')
  if (value === null) return 'none'
  if (typeof value !== 'object') return String(value)
  return Object.entries(value)
    .filter(([name, part]) => !LEFT_OUT.has(name) && !(Array.isArray(part) && part.length === 0))
    .map(([name, part]) => `${name}: ${inWords(part)}`)
    .join('; ')
}

/** The promises in a part of an answer. */
function statedIn(value: unknown, key: string): Stated[] {
  if (Array.isArray(value)) {
    if (value.some((one) => typeof one === 'object'))
      return value.flatMap((row: Record<string, unknown>) => statedInRow(row, key))
    const isOfSentences = value.some((one) => String(one).includes(' '))
    if (!isOfSentences) return [{ key, text: inWords(value) }]
    return value.map((text) => ({ key: `${key}.${slug(String(text))}`, text: String(text) }))
  }
  if (typeof value !== 'object' || value === null) return [{ key, text: inWords(value) }]
  return Object.entries(value)
    .filter(([name]) => !LEFT_OUT.has(name))
    .flatMap(([name, part]) => statedIn(part, `${key}.${name}`))
}

/** The promise of a row, and its `detail` as one of its own. */
function statedInRow(row: Record<string, unknown>, list: string): Stated[] {
  const [[, name = ''] = [], ...rest] = Object.entries(row)
  const key = `${list}.${slug(String(name))}`
  const { detail, ...said } = Object.fromEntries(rest.filter(([field]) => !LEFT_OUT.has(field)))
  const words = Object.keys(said).length === 1 ? inWords(Object.values(said)[0]) : inWords(said)
  const stated = [{ key, text: [String(name), words].filter((part) => part !== '').join(': ') }]
  return detail === undefined ? stated : [...stated, { key: `${key}.detail`, text: String(detail) }]
}

/** Every promise at default settings, and those that a sandbox adds. */
export function listPromises(): Stated[] {
  const config = readConfig({}, 'start')
  const sandbox = { ...config, sandboxFaucetUrl: 'http://127.0.0.1:3002' }
  const { example, ...work } = describeRules(config).proof_of_work
  const stated = [
    ...statedIn(describeContract(''), 'contract'),
    ...statedIn(describeLimits(sandbox).limits, 'limits'),
    ...statedIn({ ...describeRules(config), proof_of_work: work }, 'rules'),
    { key: 'rules.proof_of_work.example', text: inWords(example) },
  ]
  const twice = stated.filter(({ key }, index) => stated.findIndex((one) => one.key === key) !== index)
  if (twice.length > 0)
    throw new Error(`two promises have one key: ${twice.map(({ key }) => key).join(', ')}`)
  return stated
}

/** Says of each promise and link what is wrong with it. */
export function findFaults(
  promises: readonly Stated[],
  links: Links,
  testsOf: (file: string) => ReadonlyMap<string, string>,
): string[] {
  const keys = new Set(promises.map(({ key }) => key))
  return [
    ...promises
      .filter(({ key }) => !isHeld(links[key]))
      .map(({ key, text }) => `No test holds ${key}: ${text}`),
    ...Object.keys(links)
      .filter((key) => !keys.has(key))
      .map((key) => `No promise has the key ${key}, or it was changed: read its tests again.`),
    ...Object.entries(links).flatMap(([key, files]) =>
      Object.entries(files).flatMap(([file, names]) =>
        names
          .filter((name) => !testsOf(file).has(name))
          .map((name) => `${key} names a test that is not in test/${file}.test.ts: ${name}`),
      ),
    ),
  ]
}

/** Whether a test holds it that `npm test` runs; the tests in faults/ run with their full counts alone. */
const isHeld = (files: Links[string] | undefined): boolean =>
  Object.entries(files ?? {}).some(([file, names]) => !file.startsWith('faults/') && names.length > 0)

const read = new Map<string, ReadonlyMap<string, string>>()

/** The tests of a file by name, each with the heading that it stands under; none if there is no such file. */
export function testsOf(file: string): ReadonlyMap<string, string> {
  let tests = read.get(file)
  if (tests === undefined) {
    tests = scanTests(readOrNothing(path.join(ROOT, `test/${file}.test.ts`)))
    read.set(file, tests)
  }
  return tests
}

function readOrNothing(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return ''
    throw error
  }
}

const inCell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('<', '&lt;')

/** The table for docs/promises.md. */
export function promiseTable(promises: readonly Stated[], links: Links): string {
  const rows = promises.map(({ key, text }) => {
    const tests = Object.entries(links[key] ?? {}).flatMap(([file, names]) =>
      names.map((name) => `${file}: ${[testsOf(file).get(name), name].filter(Boolean).join(' › ')}`),
    )
    return `| \`${key}\` | ${inCell(text)} | ${tests.map(inCell).join('<br>')} |`
  })
  return ['| promise | as it is stated | tests in test/ |', '|---|---|---|', ...rows].join('\n')
}

const [BEGIN, END] = ['<!-- promises -->\n', '\n<!-- /promises -->']

/** The page with its table replaced. */
export function withTable(page: string, table: string): string {
  const [from, to] = [page.indexOf(BEGIN), page.indexOf(END)]
  if (from === -1 || to < from) throw new Error('docs/promises.md has no markers for its table')
  return `${page.slice(0, from)}${BEGIN}${table}${page.slice(to)}`
}

function run(isWriting: boolean): void {
  const promises = listPromises()
  const faults = findFaults(promises, LINKS, testsOf)
  const page = readFileSync(DOCS, 'utf8')
  const next = withTable(page, promiseTable(promises, LINKS))
  if (isWriting) writeFileSync(DOCS, next)
  else if (next !== page) faults.push('docs/promises.md is not up to date: npm run promises -- --write')
  const links = Object.values(LINKS).flatMap((files) => Object.values(files).flat())
  for (const { key, text } of isWriting ? [] : promises) process.stdout.write(`${key}\n    ${text}\n`)
  for (const fault of faults) process.stderr.write(`${fault}\n`)
  process.stdout.write(`${promises.length} promises, ${links.length} links, ${faults.length} faults\n`)
  process.exitCode = faults.length === 0 ? 0 : 1
}

if (process.argv[1] === import.meta.filename) run(process.argv.includes('--write'))
