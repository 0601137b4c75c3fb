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

/**
 * README with the table of the benchmarks in place of the last one.
 *
 * @throws Error where README has no markers for it
 */
export function renewBenchmarks(text: string, table: string): string {
  const renewed = text.replace(
    /(<!-- bench -->\n)[\s\S]*?(<!-- \/bench -->)/,
    (_, begin: string, end: string) => `${begin}${table}\n${end}`,
  )
  if (!renewed.includes(table)) throw new Error('README has no <!-- bench --> … <!-- /bench --> for the table of the benchmarks')
  return renewed
}

/** Writes the table of the benchmarks into README. */
export function writeBenchmarks(table: string): void {
  writeFileSync(README, renewBenchmarks(readFileSync(README, 'utf8'), table))
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(README, renewReadme(readFileSync(README, 'utf8')))
