/**
 * `npm run harness -- canary [--seed S] [--seconds N] [--only PART,…]`: runs a small network and a small market on
 * which nothing is broken, and then gives each check of the auditor what it saw with one fault in it. Exits with 1
 * if a check doesn't find its fault. `--only` takes parts of the checks' names.
 */
import { parseArgs } from 'node:util'
import { describeModel } from './money/report.ts'
import { runModel } from './money/run.ts'
import { TRICKS } from './money/world.ts'
import { readerOf } from './options.ts'
import { describeResult } from './storm/report.ts'
import { runStorm } from './storm/run.ts'

const text = { type: 'string' } as const
const { values } = parseArgs({ options: { seed: text, seconds: text, only: text } })
const { whole } = readerOf('usage: npm run harness -- canary [--seed S] [--seconds N] [--only PART,…]')
const [seed, seconds] = [whole('--seed', values.seed ?? '1'), whole('--seconds', values.seconds ?? '20')]
const parts = values.only?.split(',') ?? ['']
const say = (line: string): void => void process.stderr.write(`canary: ${line}\n`)
const network = await runStorm({
  ...{ seed, seconds, agents: 4, members: 1, each: 1, kinds: [], hasCanaries: true, say },
})
const market = await runModel({
  ...{ seed, seconds, agents: 6, salesAtOnce: 8, payBySeconds: 8, kinds: [], tricks: TRICKS, say },
  ...{ allowsOwnAddresses: false, oneFaultAtATime: false, keepsGoing: true },
})
const tried = [...network.canaries, ...market.canaries].filter(({ check }) =>
  parts.some((part) => check.includes(part)),
)
const missed = tried.filter(({ findings }) => findings === 0)
const lines = [
  ...(network.findings.length > 0 ? [describeResult(network)] : []),
  ...(market.findings.length > 0 ? [describeModel(market)] : []),
  ...tried.map(
    ({ check, does, findings, untried }) =>
      `${findings > 0 ? 'found ' : 'MISSED'}  ${check}: ${does}${untried === undefined ? '' : ` (not tried: ${untried})`}`,
  ),
  `${tried.length} checks, ${tried.length - missed.length} of them found the fault in what they saw`,
]
process.stdout.write(`${lines.join('\n')}\n`)
const isInOrder = network.findings.length === 0 && market.findings.length === 0
process.exit(isInOrder && tried.length > 0 && missed.length === 0 ? 0 : 1)
