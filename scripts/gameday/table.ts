import type { Played } from './play.ts'

const HEAD = [
  '| mishap | named as | after (s) | what `status` says to do | fine after (s) | lost |',
  '|---|---|---|---|---|---|',
]
/** Folders and numbers of one run. */
const cell = (text: string): string =>
  text
    .replaceAll('|', '\\|')
    .replace(/\/\S*agent-network-[a-z]+-\w+\//g, '…/')
    .replace(/^kill [\d ]+/, 'kill PID ')
/** A comment in it is for whoever runs it. */
const commandCell = (text: string): string =>
  /^(npm|kill|chmod|\()/.test(text) ? `\`${cell(text.replace(/\s+# .*$/, ''))}\`` : cell(text)
const seconds = (value: number): string => value.toFixed(1)

const rowOf = ({ name, kind, namedSeconds, command, fineSeconds, lost }: Played): string =>
  `| ${name} | \`${kind}\` | ${seconds(namedSeconds)} | ${commandCell(command)} | ${seconds(fineSeconds)} | ${lost.length === 0 ? 'nothing' : cell(lost.join('; '))} |`

/** @param before the table so far: its rows stay for mishaps that were not played again */
export function describePlayed(played: readonly Played[], names: readonly string[], before = ''): string {
  const rows = names.flatMap((name) => {
    const one = played.find((other) => other.name === name)
    const row =
      one === undefined ? before.split('\n').find((line) => line.startsWith(`| ${name} |`)) : rowOf(one)
    return row === undefined ? [] : [row]
  })
  return [...HEAD, ...rows].join('\n')
}
