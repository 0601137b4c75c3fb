import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { ERRORS, statusOf, type ErrorCode } from '../shared/errors.ts'

const README = fileURLToPath(new URL('../README.md', import.meta.url))

/** The table of error codes as README shows it, from the one that the service answers with. */
export function errorTable(): string {
  const rows = (Object.keys(ERRORS) as ErrorCode[]).map((code) => `| ${statusOf(code)} | \`${code}\` | ${ERRORS[code].meaning} |`)
  return ['| status | `error` | meaning |', '|---|---|---|', ...rows].join('\n')
}

/** README with the generated parts between their markers brought up to date. */
export function renewReadme(text: string): string {
  return text.replace(
    /(<!-- errors -->\n)[\s\S]*?(<!-- \/errors -->)/,
    (_, begin: string, end: string) => `${begin}${errorTable()}\n${end}`,
  )
}

/** What a program measured, and README has a place for between `<!-- name -->` and `<!-- /name -->`. */
type Measured = 'bench' | 'torture'

/**
 * Changes a table of README.
 *
 * @throws Error where README has no markers for it
 */
function changeTable(name: Measured, change: (table: string) => string): void {
  const text = readFileSync(README, 'utf8')
  const [begin, end] = [`<!-- ${name} -->\n`, `<!-- /${name} -->`]
  const [from, to] = [text.indexOf(begin), text.indexOf(end)]
  if (from === -1 || to < from) throw new Error(`README has no ${begin.trim()} … ${end} for its table`)
  const table = text.slice(from + begin.length, to).trimEnd()
  writeFileSync(README, `${text.slice(0, from)}${begin}${change(table)}\n${text.slice(to)}`)
}

/** Changes the table of the benchmarks in README. */
export const writeBenchmarks = (change: (table: string) => string): void => changeTable('bench', change)

/** Writes the tables of torture runs into README. */
export const writeTorture = (tables: string): void => changeTable('torture', () => tables)

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(README, renewReadme(readFileSync(README, 'utf8')))
