/**
 * `npm run harness -- storm [--minutes N | --seconds N] [--seed S]`: runs the whole network in real processes,
 * under load and faults, and then compares the answers that agents got with what is stored. Prints its
 * findings and seed, and exits with 1 if there are any. The same seed gives the same workload and faults
 * again. `--monero` adds a private chain of real Monero programs, and its faults.
 *
 * `--out FILE` appends the result to a file, and `--table FILE` makes the tables in reports/storm.md from it.
 */
import fs from 'node:fs'
import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { usualKinds, WITHOUT_MARKET } from './faults/table.ts'
import { readerOf } from './options.ts'
import { describeResult } from './storm/report.ts'
import { runStorm } from './storm/run.ts'
import { describeRuns, recordOf, type RecordedRun } from './storm/table.ts'
import { writeReport } from './report-file.ts'

const USAGE = `usage: npm run harness -- storm [--minutes N | --seconds N] [--seed S] [--agents N] [--members N] [--each N] [--only KIND,…] [--except KIND,…] [--overload] [--monero] [--pace N] [--levels] [--history FILE] [--out FILE] [--json]
       npm run harness -- storm --table FILE
kinds of faults: ${WITHOUT_MARKET.join(', ')} (those of Monero with --monero)`

const { stop, whole, kinds: readKinds } = readerOf(USAGE)
const text = { type: 'string' } as const
const { values } = parseArgs({
  options: {
    minutes: text,
    seconds: text,
    out: text,
    table: text,
    seed: text,
    agents: text,
    members: text,
    only: text,
    kinds: text,
    except: text,
    each: text,
    pace: text,
    levels: { type: 'boolean' },
    overload: { type: 'boolean' },
    monero: { type: 'boolean' },
    history: text,
    json: { type: 'boolean' },
  },
})
if (values.table !== undefined) {
  const results = fs.readFileSync(values.table, 'utf8').trim().split('\n')
  writeReport('storm', describeRuns(results.map((line) => JSON.parse(line) as RecordedRun)))
  process.exit(0)
}
if (values.minutes !== undefined && values.seconds !== undefined)
  stop('expected --minutes or --seconds, not both')
const seconds =
  values.minutes === undefined
    ? whole('--seconds', values.seconds ?? '60')
    : 60 * whole('--minutes', values.minutes)
const seed = values.seed === undefined ? randomInt(1, 2 ** 31) : whole('--seed', values.seed)
/** `--kinds` is another name of `--only`. */
const only = values.only ?? values.kinds
const except = values.except === undefined ? [] : readKinds('--except', values.except, WITHOUT_MARKET)
const kinds = (
  only === undefined ? usualKinds(values.monero === true) : readKinds('--only', only, WITHOUT_MARKET)
).filter((kind) => !except.includes(kind))
if (kinds.length === 0) stop('expected at least one kind of fault')
/** What a table of runs tells of this one besides its seed and length. */
const options = [
  ...(['agents', 'each', 'members', 'only', 'kinds', 'except', 'pace'] as const).flatMap((name) =>
    values[name] === undefined ? [] : `--${name} ${values[name]}`,
  ),
  ...(['overload', 'monero'] as const).flatMap((name) => (values[name] === true ? `--${name}` : [])),
].join(' ')
const result = await runStorm({
  seed,
  seconds,
  agents: whole('--agents', values.agents ?? '12'),
  members: whole('--members', values.members ?? '3'),
  each: whole('--each', values.each ?? '2'),
  pace: whole('--pace', values.pace ?? '1'),
  hasLevels: values.levels === true,
  kinds,
  isOverload: values.overload === true,
  monero: values.monero === true,
  historyFile: values.history ?? `storm-${seed}.jsonl`,
  say: (line) => void process.stderr.write(`storm: ${line}\n`),
})
if (values.out !== undefined) fs.appendFileSync(values.out, `${recordOf(result, options)}\n`)
process.stdout.write(values.json ? `${JSON.stringify(result)}\n` : `${describeResult(result)}\n`)
process.exit(result.findings.length === 0 ? 0 : 1)
