import { PLANTED_BUGS } from './bugs.ts'
import type { Outcome } from './run.ts'

/** Parses the lines of a file of outcomes; of two outcomes of one bug the later one stands. */
export function parseOutcomes(text: string): Map<string, Outcome> {
  const lines = text.split('\n').filter((line) => line !== '')
  const outcomes = lines.map((line) => JSON.parse(line) as Outcome)
  return new Map(outcomes.map((outcome) => [outcome.name, outcome]))
}

/** Formats outcomes as Markdown: a sentence and a table with a row for each bug, in the order of the bugs. */
export function describeOutcomes(outcomes: ReadonlyMap<string, Outcome>): string {
  const tried = PLANTED_BUGS.flatMap(({ name }) => outcomes.get(name) ?? [])
  const noticed = tried.filter(({ by }) => by !== undefined)
  return [
    `${PLANTED_BUGS.length} bugs, ${tried.length} of them tried, ${noticed.length} noticed.`,
    '',
    '| bug | what agents or the operator would suffer | noticed by | after (s) | code |',
    '|---|---|---|---|---|',
    ...tried.map(
      ({ name, mistake, by, doubts = [], seconds, commit }) =>
        `| ${[name, mistake, [by ?? '**nothing**', ...doubts].join('; '), seconds, `\`${commit}\``]
          .map((cell) => String(cell).replaceAll('|', '\\|'))
          .join(' | ')} |`,
    ),
  ].join('\n')
}
