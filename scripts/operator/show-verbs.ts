import { formatTime, toOneLine } from '../../client/command/format.ts'
import { Refusal } from '../../shared/platform/errors.ts'
import { readTrail, type Trail, type TrailRecord } from '../../shared/operation/trail.ts'
import { defineOperatorVerb, type OperatorVerb } from './verb.ts'

/** More of one value hides the others. */
const LONGEST = 200
/** Fields that are Unix seconds. */
const IS_TIME = /(?:^at|_at|_by|_until)$/
const FIRST_TIME = 1_000_000_000

export const showVerbs: readonly OperatorVerb[] = [
  defineOperatorVerb({
    name: 'show',
    words: ['ID|ADDRESS|TX|HANDLE'],
    options: {},
    help: 'All that is on record about anything: its records, and in order entries of the ledger, moves of money, and jobs',
    changes: false,
    async run({ ctx, words: [word] }) {
      const trail = await readTrail(ctx, word)
      if (trail === undefined)
        throw new Refusal(
          'no_such_record',
          `Nothing is known of ${JSON.stringify(word)}: it is no id, entry, address, transaction, handle or job of this network.`,
        )
      return { answer: { ok: true, ...trail }, text: formatTrail(trail) }
    },
  }),
]

/** The records of a trail, and then its events, a line each. */
function formatTrail({ records, events, isCut }: Trail): string {
  return [
    ...records.flatMap(formatRecord),
    ...(isCut ? ['… and more records; show one of these'] : []),
    '',
    ...(events.length === 0
      ? ['Nothing has happened.']
      : events.map(({ at, by, what }) => `${formatTime(at)}  ${by}: ${shorten(what)}`)),
  ].join('\n')
}

function formatRecord({ collection, record: { _id, ...fields } }: TrailRecord): string[] {
  const shown = Object.entries(fields).filter(([, value]) => value !== undefined && value !== null)
  return [
    `${collection} ${_id}`,
    ...shown.map(([name, value]) => `    ${name}: ${shorten(formatValue(name, value))}`),
  ]
}

function formatValue(name: string, value: unknown): string {
  if (typeof value === 'number' && IS_TIME.test(name) && value > FIRST_TIME) return formatTime(value)
  if (typeof value === 'string') return value
  return JSON.stringify(value) ?? ''
}

const shorten = (text: string): string => {
  const line = toOneLine(text)
  return line.length > LONGEST ? `${line.slice(0, LONGEST)}…` : line
}
