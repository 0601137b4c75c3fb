import fs from 'node:fs'
import path from 'node:path'

/** A place in a file; lines and columns begin at 1. */
interface Position {
  line: number
  column: number
}

export interface Mutant {
  fileName: string
  /** As StrykerJS says it. */
  status: string
  location: { start: Position; end: Position }
  /** The text in the place of what stands there. */
  replacement: string
}

const COLUMNS: readonly [title: string, status: string][] = [
  ['killed', 'Killed'],
  ['timed out', 'Timeout'],
  ['survived', 'Survived'],
  ['without a test', 'NoCoverage'],
]

const countOf = (mutants: readonly Mutant[], ...statuses: readonly string[]): number =>
  mutants.filter(({ status }) => statuses.includes(status)).length

/** The share of mutants that a test notices, in percent; one that never ends is noticed. */
export function scoreOf(mutants: readonly Mutant[]): number {
  const noticed = countOf(mutants, 'Killed', 'Timeout')
  const all = noticed + countOf(mutants, 'Survived', 'NoCoverage')
  return all === 0 ? 100 : (100 * noticed) / all
}

function formatRow(name: string, mutants: readonly Mutant[]): string {
  const counts = COLUMNS.map(([, status]) => countOf(mutants, status))
  const all = counts.reduce((sum, count) => sum + count, 0)
  return `| ${[name, all, ...counts, scoreOf(mutants).toFixed(1)].join(' | ')} |`
}

/** The lines that a mutant changes, and what it makes of them. */
function formatChange(mutant: Mutant, lines: readonly string[]): string {
  const { start, end } = mutant.location
  const before = lines.slice(start.line - 1, end.line)
  const first = (before[0] ?? '').slice(0, start.column - 1)
  const last = (before.at(-1) ?? '').slice(end.column - 1)
  const after = `${first}${mutant.replacement}${last}`.split('\n')
  return [...before.map((line) => `-${line}`), ...after.map((line) => `+${line}`)].join('\n')
}

/** Formats the mutants that no test noticed as changes, and a table with a row for each file. */
export function formatResults(mutants: readonly Mutant[], root: string): string {
  const byFile = Map.groupBy(mutants, ({ fileName }) => path.relative(root, fileName))
  const parts: string[] = []
  for (const [file, own] of byFile) {
    const lines = fs.readFileSync(path.join(root, file), 'utf8').split('\n')
    for (const mutant of own)
      if (mutant.status === 'Survived' || mutant.status === 'NoCoverage')
        parts.push(`${file}:${mutant.location.start.line}\n${formatChange(mutant, lines)}\n`)
  }
  const titles = ['file', 'mutants', ...COLUMNS.map(([title]) => title), 'score %']
  parts.push(
    [
      `| ${titles.join(' | ')} |`,
      `|${'---|'.repeat(titles.length)}`,
      ...[...byFile].map(([file, own]) => formatRow(file, own)),
      formatRow('all', mutants),
    ].join('\n'),
  )
  return `${parts.join('\n')}\n`
}
