/**
 * The promises that the service makes to agents in `/contract`, `/limits` and `/rules`, and the tests that hold
 * them. A test names what it holds in the comment above it: `// holds: limits.market_fee, rules.pass.*`, where
 * `.*` stands for all that begins so.
 */
import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describeContract } from '../../shared/about/contract.ts'
import { describeLimits } from '../../shared/about/limits-page.ts'
import { describeRules } from '../../shared/about/rules.ts'
import { readConfig } from '../../shared/platform/config.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')

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

/** A block of `// holds:` lines, and the line of code below it. */
const TAGGED = /((?:^ *\/\/ holds: .*\n)+)(.*)/gm
const IS_TEST = /^ *(?:it|test|describe)(?:\.\w+)?[.(]/

/** The promises that a test file's text says it holds; those above anything but a test are in `misplaced`. */
export function readTags(source: string): { held: string[]; misplaced: string[] } {
  const blocks = [...source.matchAll(TAGGED)].map(([, comment = '', below = '']) => ({
    keys: comment
      .replaceAll(/ *\/\/ holds: /g, ', ')
      .split(',')
      .map((key) => key.trim())
      .filter((key) => key !== ''),
    isTest: IS_TEST.test(below) && !/\.(?:skip|todo)\(/.test(below),
  }))
  const keysOf = (isTest: boolean): string[] =>
    blocks.filter((block) => block.isTest === isTest).flatMap(({ keys }) => keys)
  return { held: keysOf(true), misplaced: keysOf(false) }
}

/** The tags of every test that `npm test` runs; those in faults/ run with their full counts alone. */
export function readAllTags(): { held: string[]; misplaced: string[] } {
  const files = globSync('test/{unit,api,workers,flows,interop}/**/*.test.ts', { cwd: ROOT })
  const tags = files.map((file) => readTags(readFileSync(path.join(ROOT, file), 'utf8')))
  return { held: tags.flatMap(({ held }) => held), misplaced: tags.flatMap(({ misplaced }) => misplaced) }
}

/** Whether a tag stands for a promise. */
const covers = (tag: string, key: string): boolean =>
  tag.endsWith('.*') ? key.startsWith(tag.slice(0, -1)) : tag === key

/** The promises that no tag stands for. */
export const findUntagged = (promises: readonly Stated[], tags: readonly string[]): string[] =>
  promises
    .filter(({ key }) => !tags.some((tag) => covers(tag, key)))
    .map(({ key, text }) => `${key}: ${text}`)

/** The tags that stand for no promise: it was changed or is gone, so its tests are to be read again. */
export const findUnknown = (promises: readonly Stated[], tags: readonly string[]): string[] =>
  tags.filter((tag) => !promises.some(({ key }) => covers(tag, key)))
