import { execFileSync } from 'node:child_process'
import os from 'node:os'
import { findMongod } from '../../../scripts/prepare.mjs'
import { formatValue, isMet, type Figure } from './figure.ts'

/** Formats the table of a run: a line about the machine, then a row for each figure. */
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

/** A row of the table, in Markdown. */
function row(bench: string, figure: Figure): string {
  const { name, value, unit, reference, reference_value: beside, ratio, goal, better } = figure
  const target =
    goal === undefined
      ? ''
      : `${better === 'higher' ? '≥' : '≤'} ${goal}${isMet(figure) ? '' : ', **missed**'}`
  const shortName = name.replace(new RegExp(`^${bench}: `), '')
  const cells = [
    `\`${bench}\``,
    shortName,
    `${formatValue(value)} ${unit}`,
    `${formatValue(beside)}: ${reference}`,
    ratio.toFixed(2),
    target,
  ]
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
}

/** A sentence about the processor and the versions; it runs `mongod --version`. */
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
