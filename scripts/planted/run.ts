import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { omitUndefined } from '../../shared/foundation/omit-undefined.ts'
import { SECOND_MS } from '../../shared/foundation/time.ts'
import type { PlantedBug } from './bugs.ts'
import { applyCodeChange, type CodeChange } from './code-change.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
/** Looks for the texts that planting replaces, so it would notice every bug by that alone. */
const TEXT_TEST = 'test/unit/planted.test.ts'
const LEFT_OUT = ['node_modules', '.git', '.data']
const TORTURE_SECONDS = 180
const TORTURE_SEED = 11
/** A bug may keep tests waiting until their own limits. */
const LIMIT_MS = 1_500 * SECOND_MS
const MAX_OUTPUT_BYTES = 64 * 2 ** 20

/** What noticed a bug; `by` is absent if nothing did. */
export interface Outcome {
  name: string
  mistake: string
  by?: string
  /** Failures that don't count, each with the reason. */
  doubts?: string[]
  /** Until it was noticed, or until everything had passed. */
  seconds: number
  /** Of the code that the bug was planted in. */
  commit: string
}

/**
 * Returns the text of a bug's file with the bug in it; writes nothing.
 *
 * @throws Error if the text that it replaces isn't there, or more than once
 */
export const textWithBug = (change: CodeChange): string =>
  applyCodeChange(change, fs.readFileSync(path.join(ROOT, change.file), 'utf8'))

/** Copies the project to a temporary folder, with a bug in it if one is given, for the time of `work`. */
export function withCopy<Result>(bug: CodeChange | undefined, work: (copy: string) => Result): Result {
  const copy = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-planted-'))
  try {
    for (const name of fs.readdirSync(ROOT).filter((entry) => !LEFT_OUT.includes(entry)))
      fs.cpSync(path.join(ROOT, name), path.join(copy, name), { recursive: true })
    fs.symlinkSync(path.join(ROOT, 'node_modules'), path.join(copy, 'node_modules'))
    if (bug !== undefined) fs.writeFileSync(path.join(copy, bug.file), textWithBug(bug))
    return work(copy)
  } finally {
    fs.rmSync(copy, { recursive: true, force: true })
  }
}

/**
 * Plants a bug in a copy of the project and runs there, until one of them notices it: the tests that it
 * names, and then, if `thorough`, all tests and the torture. A test's failure counts if it comes again, and
 * not on the code without the bug.
 */
export function tryBug(bug: PlantedBug, thorough: boolean): Outcome {
  const startedMs = performance.now()
  const secondsSoFar = (): number => Math.round((performance.now() - startedMs) / SECOND_MS)
  const doubts: string[] = []
  const { by, seconds } = withCopy(bug, (copy) => {
    const named = bug.tests.map((name) => `test/${name}.test.ts`)
    for (const files of thorough ? [named, ALL] : [named]) {
      const leftOut = [TEXT_TEST]
      for (;;) {
        const chosen = files.filter((file) => !leftOut.includes(file))
        if (files.length > 0 && chosen.length === 0) break
        const [failure] = runTests(copy, chosen, leftOut, ['--bail=1'])
        if (failure === undefined) break
        const { file, what } = failure
        const noticed = { by: file === undefined ? what : `${file}: ${what}`, seconds: secondsSoFar() }
        const doubt = findDoubt(copy, failure)
        if (file === undefined || doubt === undefined) return noticed
        doubts.push(`${noticed.by} (${doubt})`)
        leftOut.push(file)
      }
    }
    return { by: thorough ? findByTorture(copy) : undefined, seconds: secondsSoFar() }
  })
  const { name, mistake } = bug
  return {
    ...{ name, mistake, seconds, commit: readCommit() },
    ...omitUndefined({ by, doubts: doubts.length === 0 ? undefined : doubts }),
  }
}

/** Says why a failure does not count, though it did with the bug in `copy`; undefined if it does. */
function findDoubt(copy: string, { file, what }: Failure): string | undefined {
  if (file === undefined) return undefined
  const isAmong = (failures: readonly Failure[]): boolean => failures.some((failure) => failure.what === what)
  if (!isAmong(runTests(copy, [file]))) return 'it passed when it was run again'
  return isAmong(failuresWithoutBug(file)) ? 'it fails without the bug too' : undefined
}

/** By test file, what fails of it on the code as it is. */
const failingWithoutBug = new Map<string, readonly Failure[]>()

/** Runs a test file on the code as it is, the first time that it is asked for. */
function failuresWithoutBug(file: string): readonly Failure[] {
  const known = failingWithoutBug.get(file)
  if (known !== undefined) return known
  const failures = withCopy(undefined, (copy) => runTests(copy, [file]))
  failingWithoutBug.set(file, failures)
  return failures
}

/** The present commit, or `unknown`. */
function readCommit(): string {
  const { status, stdout } = spawnSync('git', ['rev-parse', '--short', 'HEAD'], {
    cwd: ROOT,
    encoding: 'utf8',
  })
  return status === 0 ? stdout.trim() : 'unknown'
}

/** The part of vitest's report that is read here. */
interface Report {
  testResults: {
    name: string
    message: string
    assertionResults: { fullName: string; status: string }[]
  }[]
}

/** Stands for all test files. */
const ALL: readonly string[] = []

/** What failed, in which test file; `file` is absent if that is not known. */
interface Failure {
  file?: string
  what: string
}

/**
 * Runs tests of the copy.
 *
 * @param copy its folder
 * @param files all if empty
 * @param leftOut files that are not run
 * @param more further options for vitest
 * @returns the tests that fail; that they did not end in time; or, if vitest failed and no test did, that;
 *   empty if all pass
 * @throws Error if vitest ends without a report
 */
function runTests(
  copy: string,
  files: readonly string[],
  leftOut: readonly string[] = [],
  more: readonly string[] = [],
): Failure[] {
  const output = path.join(copy, 'planted.json')
  fs.rmSync(output, { force: true })
  const vitest = path.join(copy, 'node_modules/vitest/vitest.mjs')
  const excluded = leftOut.flatMap((file) => ['--exclude', file])
  const report = ['--reporter=json', `--outputFile=${output}`]
  const { status, signal } = runIn(copy, vitest, ['run', ...files, ...excluded, ...more, ...report])
  if (status === 0) return []
  if (signal !== null) return [{ what: `the tests did not end within ${LIMIT_MS / SECOND_MS} s` }]
  if (!fs.existsSync(output)) throw new Error('vitest ended without a report')
  const { testResults } = JSON.parse(fs.readFileSync(output, 'utf8')) as Report
  const failures = testResults.flatMap(({ name, message, assertionResults }) => {
    const failed = assertionResults.filter((one) => one.status === 'failed')
    const names = failed.map(({ fullName }) => fullName)
    if (names.length === 0 && message !== '') names.push(message.split('\n', 1)[0] ?? '')
    return names.map((what) => ({ file: path.relative(copy, name), what }))
  })
  return failures.length > 0 ? failures : [{ what: 'vitest, beside its tests' }]
}

/** Runs the torture of the copy. @returns the first thing that it found; undefined if nothing */
function findByTorture(copy: string): string | undefined {
  const args = ['--seconds', String(TORTURE_SECONDS), '--seed', String(TORTURE_SEED)]
  const { status, stdout } = runIn(copy, path.join(copy, 'scripts/torture.ts'), args)
  if (status === 0) return undefined
  return `torture: ${stdout.split('\n').find((line) => line.trimStart().startsWith('- ')) ?? 'did not end'}`
}

/** Runs a script in a folder, with a time limit. @throws Error if it could not be run, or printed too much */
function runIn(cwd: string, script: string, args: readonly string[]) {
  const options = { cwd, encoding: 'utf8', timeout: LIMIT_MS, maxBuffer: MAX_OUTPUT_BYTES } as const
  const result = spawnSync(process.execPath, [script, ...args], options)
  if (result.error !== undefined && !result.error.message.includes('ETIMEDOUT')) throw result.error
  return result
}
