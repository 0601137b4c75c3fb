/**
 * `npm run harness -- gameday [--only NAME]`: causes one mishap after another on a network of real
 * processes. `operator status` must say what each is and which command repairs it. That command is run, and
 * then everything must work and no data may be lost. Exits with 1 if something fails.
 *
 * `--only` takes parts of the names, comma-separated. The table of a run is written to reports/gameday.md.
 */
import { parseArgs } from 'node:util'
import { MISHAPS } from './gameday/mishaps.ts'
import { startNetwork } from './gameday/network.ts'
import { play, type Played } from './gameday/play.ts'
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
const played: Played[] = []
const failed: string[] = []
const network = await startNetwork(() => undefined)
try {
  for (const mishap of chosen)
    try {
      const result = await play(network, mishap)
      played.push(result)
      say(
        `${result.name}: named after ${result.namedSeconds.toFixed(1)} s, fine after ${result.fineSeconds.toFixed(1)} s`,
      )
      if (result.lost.length > 0) failed.push(`${result.name}: ${result.lost.join('; ')}`)
    } catch (error) {
      failed.push(`${mishap.name}: ${error instanceof Error ? error.message : String(error)}`)
      say(failed.at(-1) ?? '')
    }
} finally {
  await network.stop()
}
writeReport('gameday', describePlayed(played, names))
process.stdout.write(
  `${describePlayed(played, names)}\n${failed.map((line) => `FAILED: ${line}\n`).join('')}`,
)
process.exit(failed.length === 0 ? 0 : 1)
