/**
 * `npm run harness -- money [--seconds N] [--seed S] [--no-faults KIND,… | --only KIND,…]`: runs a market on a network of
 * its own, with exact, wrong, late and double payments, under faults. Afterwards every raw of the coin is
 * accounted for, by the chain and the service's answers alone. Invariants are checked while it runs. With
 * `--deliveries N` a slow machine goes on beyond that until there were N deliveries. The first finding
 * ends the run, unless `--keep-going` is given; `--singly` causes one fault at a time and waits until all
 * work is done before the next. Exits with 1 if something was found. The seed determines what is chosen,
 * not when it happens.
 */
import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { readerOf } from './options.ts'
import { FAULT_KINDS } from './faults/table.ts'
import { USUAL } from './money/faults.ts'
import { describeModel } from './money/report.ts'
import { runModel } from './money/run.ts'
import { TRICKS } from './money/world.ts'

const KINDS: readonly string[] = [...FAULT_KINDS, ...TRICKS]
const USAGE = `usage: npm run harness -- money [--seconds N] [--seed S] [--no-faults KIND,… | --only KIND,…] [--allow-own-addresses] [--singly] [--keep-going] [--deliveries N] [--pay-by SECONDS] [--history FILE]
kinds: ${KINDS.join(', ')}; "all" stands for every one of them; without --only ${[...USUAL, ...TRICKS].join(', ')}`

const { whole, kinds: readKinds } = readerOf(USAGE)
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seconds: { type: 'string' },
    seed: { type: 'string' },
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
/** Of a list, or every kind for "all". */
const kindsIn = (name: string, list: string): readonly string[] =>
  list === 'all' ? KINDS : readKinds(name, list, KINDS)

const only = values.only === undefined ? [...USUAL, ...TRICKS] : kindsIn('--only', values.only)
const left = values['no-faults'] === undefined ? [] : kindsIn('--no-faults', values['no-faults'])
const isWanted = (kind: string): boolean => only.includes(kind) && !left.includes(kind)
const seconds = whole('--seconds', values.seconds ?? positionals[0] ?? '60')
const seed = whole('--seed', values.seed ?? positionals[1] ?? String(randomInt(1, 2 ** 31)))
const result = await runModel({
  seconds,
  seed,
  payBySeconds: whole('--pay-by', values['pay-by'] ?? '30'),
  kinds: FAULT_KINDS.filter(isWanted),
  tricks: TRICKS.filter(isWanted),
  allowsOwnAddresses: values['allow-own-addresses'] === true,
  oneFaultAtATime: values.singly === true,
  keepsGoing: values['keep-going'] === true,
  ...(values.deliveries === undefined ? {} : { leastDeliveries: whole('--deliveries', values.deliveries) }),
  historyFile: values.history ?? `money-${seed}.jsonl`,
  say: (line) => void process.stderr.write(`money: ${line}\n`),
})
process.stdout.write(`${describeModel(result)}\n`)
process.exit(result.findings.length === 0 ? 0 : 1)
