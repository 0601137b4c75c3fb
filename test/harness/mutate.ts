/**
 * `npm run harness -- mutate [FILE …|--changed BASE]`: mutation testing by StrykerJS. Each mutant, a small
 * change of a module, runs with the unit tests that import the module; one that no test notices is printed.
 * Without files it takes all pure rules, with `--changed` those that differ from a commit. Ends with 1 if the
 * tests notice less than 85 % of the mutants.
 */
import { execFileSync } from 'node:child_process'
import os from 'node:os'
import path from 'node:path'
import { Stryker } from '@stryker-mutator/core'
import { pureRules, ROOT } from './mutation/pure-rules.ts'
import { formatResults, scoreOf } from './mutation/results.ts'

const LEAST_SCORE = 85
const USAGE = 'usage: npm run harness -- mutate [FILE …|--changed BASE]\n'

/** The pure rules that differ from a commit, in the work tree too. */
function changedSince(base: string): string[] {
  const names = execFileSync('git', ['diff', '--name-only', '--relative', base], {
    cwd: ROOT,
    encoding: 'utf8',
  })
  const changed = new Set(names.split('\n'))
  return pureRules().filter((file) => changed.has(file))
}

function readFiles([first, ...others]: readonly string[]): string[] {
  if (first === undefined) return pureRules()
  if (first !== '--changed') return [first, ...others].map((file) => path.relative(ROOT, path.resolve(file)))
  const [base] = others
  if (base === undefined || others.length > 1) {
    process.stderr.write(USAGE)
    process.exit(2)
  }
  return changedSince(base)
}

const files = readFiles(process.argv.slice(2))
if (files.length === 0) process.stdout.write('no pure rule has changed\n')
else {
  const stryker = new Stryker({
    mutate: files,
    testRunner: 'warm',
    plugins: ['./test/harness/mutation/warm-runner.ts', './test/harness/mutation/ignore-prose.ts'],
    ignorers: ['prose'],
    concurrency: os.availableParallelism(),
    reporters: ['progress-append-only'],
    tempDirName: path.join(os.tmpdir(), 'mutation'),
    // Node takes the types out by itself, and there is no tsconfig that StrykerJS would have to move: it asks
    // for an API that TypeScript 7 does not have.
    disableTypeChecks: false,
    tsconfigFile: 'none',
  })
  const results = await stryker.runMutationTest()
  process.stdout.write(formatResults(results, ROOT))
  if (scoreOf(results) < LEAST_SCORE) process.exitCode = 1
}
