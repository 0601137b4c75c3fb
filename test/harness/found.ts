/**
 * `npm run harness -- found --check NAME --what TEXT --mended COMMIT --shown COMMAND [--seed S]`: adds a bug that
 * was found to TRACK-RECORD.md. It is refused if there is no such commit.
 */
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const RECORD = fileURLToPath(new URL('TRACK-RECORD.md', import.meta.url))
const text = { type: 'string' } as const
const { values } = parseArgs({ options: { check: text, seed: text, what: text, mended: text, shown: text } })
const { check, seed = '–', what, mended, shown } = values
if (check === undefined || what === undefined || mended === undefined || shown === undefined)
  stop('expected --check, --what, --mended and --shown')
const { status } = spawnSync('git', ['cat-file', '-e', `${mended}^{commit}`], { cwd: import.meta.dirname })
if (status !== 0) stop(`--mended expected a commit, got ${mended}`)
const cells = [check, seed, what, `\`${mended}\``, `\`${shown}\``].map((cell) => cell.replaceAll('|', '\\|'))
fs.appendFileSync(RECORD, `| ${cells.join(' | ')} |\n`)
process.stdout.write(`added to ${RECORD}\n`)

/** Ends the command with 2 and a message. */
function stop(message: string): never {
  process.stderr.write(`found: ${message}\n`)
  process.exit(2)
}
