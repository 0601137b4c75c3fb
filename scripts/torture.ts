/**
 * `npm run torture -- [--seconds N] [--seed S]`: the whole network in real processes under load while everything around
 * it is broken, then a comparison of what agents were told with what is stored. Prints what it found with its seed, and
 * ends with 1 where it found something. The same seed gives the same workload and the same faults again.
 */
import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { FAULT_KINDS, type FaultKind } from './torture/plan.ts'
import { describeResult } from './torture/report.ts'
import { runTorture } from './torture/run.ts'

const USAGE = `usage: npm run torture -- [--seconds N] [--seed S] [--agents N] [--members N] [--only KIND,…] [--history FILE] [--json]
kinds of faults: ${FAULT_KINDS.join(', ')}`

function readWholeNumber(name: string, text: string): number {
  if (!/^[1-9]\d{0,9}$/.test(text)) stop(`--${name} expected a whole number above 0, got ${JSON.stringify(text)}`)
  return Number(text)
}

function stop(message: string): never {
  process.stderr.write(`${message}\n${USAGE}\n`)
  process.exit(2)
}

function readKinds(text: string): FaultKind[] {
  const kinds = text.split(',')
  const unknown = kinds.filter((kind) => !FAULT_KINDS.some((known) => known === kind))
  if (unknown.length > 0) stop(`--only names ${unknown.join(', ')}`)
  return kinds as FaultKind[]
}

const text = { type: 'string' } as const
const { values } = parseArgs({
  options: { seconds: text, seed: text, agents: text, members: text, only: text, history: text, json: { type: 'boolean' } },
})
const seed = values.seed === undefined ? randomInt(1, 2 ** 31) : readWholeNumber('seed', values.seed)
const result = await runTorture({
  seed,
  seconds: readWholeNumber('seconds', values.seconds ?? '60'),
  agents: readWholeNumber('agents', values.agents ?? '12'),
  members: readWholeNumber('members', values.members ?? '3'),
  ...(values.only === undefined ? {} : { kinds: readKinds(values.only) }),
  historyFile: values.history ?? `torture-${seed}.jsonl`,
  say: (line) => void process.stderr.write(`torture: ${line}\n`),
})
process.stdout.write(values.json ? `${JSON.stringify(result)}\n` : `${describeResult(result)}\n`)
process.exit(result.findings.length === 0 ? 0 : 1)
