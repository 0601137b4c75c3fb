/**
 * `npm run planted -- [--only NAME,…] [--named]`: plants one bug after the other in a copy of the project and
 * tells which test or check notices it, and after how long. With `--named` only the tests that a bug names
 * are run. Exits with 1 if a bug stays hidden.
 */
import { parseArgs } from 'node:util'
import { PLANTED_BUGS } from './planted/bugs.ts'
import { tryBug } from './planted/run.ts'

const { values } = parseArgs({ options: { only: { type: 'string' }, named: { type: 'boolean' } } })
const only = values.only?.split(',')
const unknown = only?.filter((name) => !PLANTED_BUGS.some((bug) => bug.name === name)) ?? []
if (unknown.length > 0) {
  process.stderr.write(`There is no bug ${unknown.join(', ')}.\n`)
  process.exit(2)
}
const hidden: string[] = []
for (const bug of PLANTED_BUGS.filter(({ name }) => only === undefined || only.includes(name))) {
  const { by, seconds } = tryBug(bug, values.named !== true)
  if (by === undefined) hidden.push(bug.name)
  process.stdout.write(`${bug.name} (${bug.mistake})\n    ${by ?? 'HIDDEN'} after ${seconds} s\n`)
}
process.stdout.write(`${hidden.length} hidden${hidden.length === 0 ? '' : `: ${hidden.join(', ')}`}\n`)
process.exit(hidden.length === 0 ? 0 : 1)
