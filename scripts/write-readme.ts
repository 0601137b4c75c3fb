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

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(README, renewReadme(readFileSync(README, 'utf8')))
