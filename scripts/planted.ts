/**
 * `npm run planted -- [--only NAME,…] [--named]`: plants one bug after the other in a copy of the project and
 * tells which test or check notices it, and after how long. With `--named` only the tests that a bug names
 * are run. Exits with 1 if a bug stays hidden.
 *
 * `--json` prints a line of JSON for each bug, `--out FILE` appends it to a file. `--resume FILE` does the
 * same as `--out`, and skips the bugs that the file has already. `npm run planted -- --table FILE` makes the
 * table of docs/planted.md from such a file.
 */
import fs from 'node:fs'
import { parseArgs } from 'node:util'
import { PLANTED_BUGS } from './planted/bugs.ts'
import { tryBug } from './planted/run.ts'
import { describeOutcomes, parseOutcomes } from './planted/table.ts'
import { writePlanted } from './write-docs.ts'

const text = { type: 'string' } as const
const flag = { type: 'boolean' } as const
const { values } = parseArgs({
  options: { only: text, named: flag, json: flag, out: text, resume: text, table: text },
})
if (values.table !== undefined) {
  writePlanted(describeOutcomes(parseOutcomes(fs.readFileSync(values.table, 'utf8'))))
  process.exit(0)
}
const only = values.only?.split(',')
const unknown = only?.filter((name) => !PLANTED_BUGS.some((bug) => bug.name === name)) ?? []
if (unknown.length > 0) {
  process.stderr.write(`There is no bug ${unknown.join(', ')}.\n`)
  process.exit(2)
}
const { resume, out = resume } = values
const done = resume !== undefined && fs.existsSync(resume) ? fs.readFileSync(resume, 'utf8') : ''
const known = parseOutcomes(done)
const hidden: string[] = []
for (const bug of PLANTED_BUGS) {
  if (known.has(bug.name) || only?.includes(bug.name) === false) continue
  const outcome = tryBug(bug, values.named !== true)
  const { name, mistake, by, doubts = [], seconds } = outcome
  if (by === undefined) hidden.push(name)
  if (out !== undefined) fs.appendFileSync(out, `${JSON.stringify(outcome)}\n`)
  const doubted = doubts.map((doubt) => `    not counted: ${doubt}\n`).join('')
  process.stdout.write(
    values.json
      ? `${JSON.stringify(outcome)}\n`
      : `${name} (${mistake})\n    ${by ?? 'HIDDEN'} after ${seconds} s\n${doubted}`,
  )
}
const summary = `${hidden.length} hidden${hidden.length === 0 ? '' : `: ${hidden.join(', ')}`}\n`
process[values.json ? 'stderr' : 'stdout'].write(summary)
process.exit(hidden.length === 0 ? 0 : 1)
