import fs from 'node:fs'
import path from 'node:path'

const FOLDER = path.resolve(import.meta.dirname, '../../reports')

/** Writes the tables of a run to `reports/NAME.md`, which isn't committed. */
export function writeReport(name: string, text: string): void {
  fs.mkdirSync(FOLDER, { recursive: true })
  fs.writeFileSync(path.join(FOLDER, `${name}.md`), `${text}\n`)
}
