import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { SECOND_MS } from '../../shared/foundation/time.ts'
import type { CodeChange, PlantedBug } from './bugs.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
/** Looks for the texts that planting replaces, so it would notice every bug by that alone. */
const TEXT_TEST = 'test/unit/planted.test.ts'
const LEFT_OUT = ['node_modules', '.git', '.data']
const TORTURE_SECONDS = 180
const TORTURE_SEED = 11
/** A bug may keep tests waiting until their own limits. */
const LIMIT_MS = 1_500 * SECOND_MS
const MAX_OUTPUT_BYTES = 64 * 2 ** 20

/** What noticed a bug, and how long that took; `by` is absent if nothing did. */
export interface Noticed {
  name: string
  by?: string
  seconds: number
}

/**
 * Returns the text of a bug's file with the bug in it; writes nothing.
 *
 * @throws Error if the text that it replaces isn't there, or more than once
 */
export function textWithBug({ file, text, instead }: CodeChange): string {
  const [before, after, ...more] = fs.readFileSync(path.join(ROOT, file), 'utf8').split(text)
  if (after === undefined || more.length > 0)
    throw new Error(`${file} does not have ${JSON.stringify(text)} once`)
  return `${before}${instead}${after}`
}

/** Copies the project to a temporary folder with a bug in it, for the time of `work`. */
export function withBuggyCopy<Result>(bug: CodeChange, work: (copy: string) => Result): Result {
  const copy = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-planted-'))
  try {
    for (const name of fs.readdirSync(ROOT).filter((entry) => !LEFT_OUT.includes(entry)))
      fs.cpSync(path.join(ROOT, name), path.join(copy, name), { recursive: true })
    fs.symlinkSync(path.join(ROOT, 'node_modules'), path.join(copy, 'node_modules'))
    fs.writeFileSync(path.join(copy, bug.file), textWithBug(bug))
    return work(copy)
  } finally {
    fs.rmSync(copy, { recursive: true, force: true })
  }
}

/**
 * Plants a bug in a copy of the project and runs there, until one of them notices it: the tests that it
 * names, and then, if `thorough`, all tests and the torture.
 */
export function tryBug(bug: PlantedBug, thorough: boolean): Noticed {
  const startedMs = performance.now()
  const by = withBuggyCopy(bug, (copy) => {
    const named = bug.tests.map((name) => `test/${name}.test.ts`)
    const failure = findFailure(copy, named)
    if (failure !== undefined || !thorough) return failure
    return findFailure(copy, []) ?? findByTorture(copy)
  })
  const seconds = Math.round((performance.now() - startedMs) / SECOND_MS)
  return { name: bug.name, ...(by === undefined ? {} : { by }), seconds }
}

/** The part of vitest's report that is read here. */
interface Report {
  testResults: {
    name: string
    message: string
    assertionResults: { fullName: string; status: string }[]
  }[]
}

/**
 * Runs tests of the copy.
 *
 * @param files all if empty
 * @returns the first test that fails, or that they did not end in time; undefined if all pass
 * @throws Error if vitest ends without a report
 */
function findFailure(copy: string, files: readonly string[]): string | undefined {
  const output = path.join(copy, 'planted.json')
  const vitest = path.join(copy, 'node_modules/vitest/vitest.mjs')
  const args = [
    'run',
    ...files,
    '--exclude',
    TEXT_TEST,
    '--bail=1',
    '--reporter=json',
    `--outputFile=${output}`,
  ]
  const { status, signal } = runIn(copy, vitest, args)
  if (status === 0) return undefined
  if (signal !== null) return `the tests did not end within ${LIMIT_MS / SECOND_MS} s`
  if (!fs.existsSync(output)) throw new Error('vitest ended without a report')
  const { testResults } = JSON.parse(fs.readFileSync(output, 'utf8')) as Report
  for (const { name, message, assertionResults } of testResults) {
    const failed = assertionResults.find((one) => one.status === 'failed')
    if (failed !== undefined || message !== '')
      return `${path.relative(copy, name)}: ${failed?.fullName ?? message.split('\n', 1)[0]}`
  }
  return 'vitest, beside its tests'
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
