import { execFileSync } from 'node:child_process'
import os from 'node:os'
import { findMongod } from '../prepare.mjs'
import { formatValue, isMet, type Figure } from './figure.ts'

/** The table of docs/benchmarks.md, with a line about the machine. */
export function benchTable(measured: ReadonlyMap<string, readonly Figure[]>): string {
  const rows = [...measured].flatMap(([bench, figures]) => figures.map((figure) => row(bench, figure)))
  return [
    describeMachine(),
    '',
    '| bench | figure | measured | reference of the same run | ratio | goal |',
    '|---|---|---|---|---|---|',
    ...rows,
  ].join('\n')
}

/**
 * Replaces these benchmarks' rows in a table; a new benchmark's rows come last. Each row has its reference
 * from the same run, so benchmarks may be measured separately.
 */
export function replaceRows(table: string, measured: ReadonlyMap<string, readonly Figure[]>): string {
  let lines = table.split('\n')
  for (const [bench, figures] of measured) {
    const isOwn = (line: string): boolean => line.startsWith(`| \`${bench}\` |`)
    const at = lines.findIndex(isOwn)
    lines = lines.filter((line) => !isOwn(line))
    lines.splice(at === -1 ? lines.length : at, 0, ...figures.map((figure) => row(bench, figure)))
  }
  return lines.join('\n')
}

function row(bench: string, figure: Figure): string {
  const { name, value, unit, reference, reference_value: beside, ratio, goal, better } = figure
  const target =
    goal === undefined
      ? ''
      : `${better === 'higher' ? '≥' : '≤'} ${goal}${isMet(figure) ? '' : ', **missed**'}`
  const own = name.replace(new RegExp(`^${bench}: `), '')
  const cells = [
    `\`${bench}\``,
    own,
    `${formatValue(value)} ${unit}`,
    `${formatValue(beside)}: ${reference}`,
    ratio.toFixed(2),
    target,
  ]
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
}

function describeMachine(): string {
  const [cpu] = os.cpus()
  const mongod = findMongod(process.env)
  const version =
    mongod === undefined
      ? undefined
      : /v([\d.]+)/.exec(execFileSync(mongod, ['--version'], { encoding: 'utf8' }))?.[1]
  const parts = [
    `${os.cpus().length} cores (${cpu?.model.trim() ?? 'unknown'})`,
    `Node ${process.versions.node}`,
    `MongoDB ${version ?? 'unknown'}`,
  ]
  return `Measured on ${parts.join(', ')}; everything on the one machine.`
}
