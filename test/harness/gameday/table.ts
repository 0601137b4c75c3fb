import type { Played } from './play.ts'

const HEAD = [
  '| mishap | named as | after (s) | what `status` says to do | fine after (s) | lost |',
  '|---|---|---|---|---|---|',
]
/** Formats a cell, without what differs from run to run: paths of temporary folders, process ids. */
const cell = (text: string): string =>
  text
    .replaceAll('|', '\\|')
    .replace(/\/\S*agent-network-[a-z]+-\w+\//g, '…/')
    .replace(/^kill [\d ]+/, 'kill PID ')
/** Formats what `status` says to do: a command as code, without its comment; a sentence as it is. */
const commandCell = (text: string): string =>
  /^(npm|kill|chmod|\()/.test(text) ? `\`${cell(text.replace(/\s+# .*$/, ''))}\`` : cell(text)
const seconds = (value: number): string => value.toFixed(1)

const rowOf = ({ name, kind, namedSeconds, command, fineSeconds, lost }: Played): string =>
  `| ${name} | \`${kind}\` | ${seconds(namedSeconds)} | ${commandCell(command)} | ${seconds(fineSeconds)} | ${lost.length === 0 ? 'nothing' : cell(lost.join('; '))} |`

/**
 * Writes the table of mishaps, as Markdown.
 *
 * @param names of all mishaps, in the order of the rows
 * @param oldTable has the rows of mishaps that were not played now; one without a row there is left out
 */
export function describePlayed(played: readonly Played[], names: readonly string[], oldTable = ''): string {
  const rows = names.flatMap((name) => {
    const playedNow = played.find((mishap) => mishap.name === name)
    if (playedNow !== undefined) return [rowOf(playedNow)]
    return oldTable.split('\n').filter((line) => line.startsWith(`| ${name} |`))
  })
  return [...HEAD, ...rows].join('\n')
}
