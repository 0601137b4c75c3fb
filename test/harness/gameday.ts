/**
 * `npm run harness -- gameday [--only NAME]`: causes one mishap after another on a network of real
 * processes. `operator status` must say what each is and which command repairs it. That command is run, and
 * then everything must work and no data may be lost. Exits with 1 if something fails.
 *
 * `--only` takes parts of the names, comma-separated. The table of a run is written to reports/gameday.md.
 */
import { parseArgs } from 'node:util'
import { MISHAPS } from './gameday/mishaps.ts'
import { runGameday } from './gameday/run.ts'
import { describePlayed } from './gameday/table.ts'
import { writeReport } from './report-file.ts'

const { values } = parseArgs({ options: { only: { type: 'string' } } })
const words = values.only?.split(',') ?? ['']
const chosen = MISHAPS.filter(({ name }) => words.some((word) => name.includes(word)))
const say = (line: string): void => void process.stderr.write(`gameday: ${line}\n`)
if (chosen.length === 0) {
  say(`--only expected a part of one of these:\n  ${MISHAPS.map(({ name }) => name).join('\n  ')}`)
  process.exit(2)
}
const names = MISHAPS.map(({ name }) => name)
const { played, findings } = await runGameday(chosen, say)
const table = describePlayed(played, names)
writeReport('gameday', table)
const lines = findings.map(({ check, what }) => `FAILED: ${check}: ${what}\n`)
process.stdout.write(`${table}\n${lines.join('')}`)
process.exit(findings.length === 0 ? 0 : 1)
