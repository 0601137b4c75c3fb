/**
 * `npm run harness -- money SECONDS SEED [--no-faults KIND,… | --only KIND,…]`: runs a market on a network of
 * its own, with exact, wrong, late and double payments, under faults. Afterwards every raw of the coin is
 * accounted for, by the chain and the service's answers alone. Invariants are checked while it runs. With
 * `--deliveries N` a slow machine goes on beyond SECONDS until there were N deliveries. The first finding
 * ends the run, unless `--keep-going` is given; `--singly` causes one fault at a time and waits until all
 * work is done before the next. Exits with 1 if something was found. The seed determines what is chosen,
 * not when it happens.
 */
import { parseArgs } from 'node:util'
import { FAULT_NAMES, TRICKS, USUAL } from './money/faults.ts'
import { describeModel } from './money/report.ts'
import { runModel } from './money/run.ts'

const KINDS: readonly string[] = [...FAULT_NAMES, ...TRICKS]
const USAGE = `usage: npm run harness -- money SECONDS SEED [--no-faults KIND,… | --only KIND,…] [--allow-own-addresses] [--singly] [--keep-going] [--deliveries N] [--pay-by SECONDS] [--history FILE]
kinds: ${KINDS.join(', ')}; "all" stands for every one of them; without --only ${[...USUAL, ...TRICKS].join(', ')}`

/** Ends the command with 2, a message and how it is used. */
function stop(message: string): never {
  process.stderr.write(`${message}\n${USAGE}\n`)
  process.exit(2)
}

/** A word as a number. Ends the command with 2 if it isn't a whole number above 0. */
function readWhole(name: string, text: string | undefined): number {
  if (text === undefined || !/^[1-9]\d{0,8}$/.test(text))
    stop(`${name} expected a whole number above 0, got ${JSON.stringify(text)}`)
  return Number(text)
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    'no-faults': { type: 'string' },
    only: { type: 'string' },
    'allow-own-addresses': { type: 'boolean' },
    singly: { type: 'boolean' },
    'keep-going': { type: 'boolean' },
    history: { type: 'string' },
    'pay-by': { type: 'string' },
    deliveries: { type: 'string' },
  },
})
/**
 * The kinds in a comma-separated list, or every kind for "all". Ends the command with 2 if one is unknown.
 */
function readKinds(name: string, text: string): readonly string[] {
  const kinds = text === 'all' ? KINDS : text.split(',')
  const unknown = kinds.filter((kind) => !KINDS.includes(kind))
  if (unknown.length > 0) stop(`${name} names ${unknown.join(', ')}`)
  return kinds
}

const only = values.only === undefined ? [...USUAL, ...TRICKS] : readKinds('--only', values.only)
const left = values['no-faults'] === undefined ? [] : readKinds('--no-faults', values['no-faults'])
const without = KINDS.filter((kind) => !only.includes(kind) || left.includes(kind))
const [seconds, seed] = [readWhole('SECONDS', positionals[0]), readWhole('SEED', positionals[1])]
const result = await runModel({
  seconds,
  seed,
  payBySeconds: readWhole('--pay-by', values['pay-by'] ?? '30'),
  without,
  allowsOwnAddresses: values['allow-own-addresses'] === true,
  oneFaultAtATime: values.singly === true,
  keepsGoing: values['keep-going'] === true,
  ...(values.deliveries === undefined
    ? {}
    : { leastDeliveries: readWhole('--deliveries', values.deliveries) }),
  historyFile: values.history ?? `money-model-${seed}.jsonl`,
  say: (line) => void process.stderr.write(`money-model: ${line}\n`),
})
process.stdout.write(`${describeModel(result)}\n`)
process.exit(result.findings.length === 0 ? 0 : 1)
