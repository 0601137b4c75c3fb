import { registerHooks } from 'node:module'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import type { MutantCoverage, StrykerOptions } from '@stryker-mutator/api/core'
import { PluginKind } from '@stryker-mutator/api/plugin'
import {
  DryRunStatus,
  MutantRunStatus,
  TestStatus,
  type DryRunResult,
  type MutantRunOptions,
  type MutantRunResult,
  type TestRunner,
} from '@stryker-mutator/api/test-runner'
import fc from 'fast-check'
import { collectTests, type CollectedTest } from './collected-tests.ts'
import { dependsOn, testsOf } from './pure-rules.ts'

/**
 * A test runner of StrykerJS that stays warm: the tests are imported once and called for each mutant, a
 * hundred times as fast as vitest starts. Only a mutant of what a module does while it is loaded takes a new
 * copy of the modules. StrykerJS ends the process of a mutant that never ends, and starts another.
 */

/** What the instrumented modules and the runner share. */
interface Shared {
  activeMutant?: string | undefined
  currentTestId?: string | undefined
  mutantCoverage?: MutantCoverage
  hitCount?: number | undefined
  hitLimit?: number | undefined
}
const shared: Shared = ((globalThis as { __stryker__?: Shared }).__stryker__ ??= {})

const STAND_IN = new URL('./collected-tests.ts', import.meta.url).href
/** Of the copy of the modules that is imported now; 0 is the first, without a mutant. */
let copy = 0

function redirectImports(root: string): void {
  registerHooks({
    resolve(specifier, context, next) {
      const isOurs = context.parentURL?.startsWith(root) === true
      if (specifier === 'vitest' && isOurs) return { url: STAND_IN, shortCircuit: true }
      const found = next(specifier, context)
      return copy > 0 && found.url.startsWith(root) ? { ...found, url: `${found.url}?copy=${copy}` } : found
    },
  })
}

const idOf = ({ file, name }: CollectedTest): string => `${file}#${name}`

class WarmRunner implements TestRunner {
  static inject = ['options'] as const
  readonly #files: readonly string[]
  readonly #root = `${pathToFileURL(process.cwd()).href}/`
  #tests: CollectedTest[] = []

  constructor(options: StrykerOptions) {
    this.#files = testsOf(options.mutate)
  }

  capabilities() {
    return { reloadEnvironment: true }
  }

  async init(): Promise<void> {
    // A failure is all that counts, and the same mutant has the same fate each time.
    fc.configureGlobal({ endOnFailure: true, seed: 1 })
    redirectImports(this.#root)
    this.#tests = await this.#load(this.#files)
  }

  async dryRun(): Promise<DryRunResult> {
    const tests = []
    for (const test of this.#tests) {
      const began = performance.now()
      shared.currentTestId = idOf(test)
      const failure = await failureOf(test)
      shared.currentTestId = undefined
      const result = { id: idOf(test), name: test.name, timeSpentMs: performance.now() - began }
      tests.push(
        failure === undefined
          ? { ...result, status: TestStatus.Success as const }
          : { ...result, status: TestStatus.Failed as const, failureMessage: failure },
      )
    }
    return {
      status: DryRunStatus.Complete,
      tests,
      mutantCoverage: shared.mutantCoverage ?? { static: {}, perTest: {} },
    }
  }

  async mutantRun(options: MutantRunOptions): Promise<MutantRunResult> {
    const { activeMutant, testFilter, reloadEnvironment, hitLimit } = options
    shared.activeMutant = activeMutant.id
    shared.hitCount = hitLimit === undefined ? undefined : 0
    shared.hitLimit = hitLimit
    try {
      const tests = reloadEnvironment
        ? await this.#loadAnew(path.relative(process.cwd(), options.sandboxFileName))
        : this.#tests
      const wanted = tests.filter((test) => testFilter?.includes(idOf(test)) ?? true)
      return await runUntilFailure(wanted)
    } catch (error) {
      // A module that cannot even be loaded is noticed by each test of it.
      return { status: MutantRunStatus.Killed, killedBy: [], failureMessage: String(error), nrOfTests: 0 }
    } finally {
      shared.activeMutant = undefined
      shared.hitCount = undefined
    }
  }

  async #loadAnew(mutated: string): Promise<CollectedTest[]> {
    copy++
    return this.#load(this.#files.filter((file) => dependsOn(file, mutated)))
  }

  async #load(files: readonly string[]): Promise<CollectedTest[]> {
    const tests: CollectedTest[] = []
    for (const file of files)
      tests.push(...(await collectTests(file, () => import(`${this.#root}${file}?copy=${copy}`))))
    return tests
  }
}

async function runUntilFailure(tests: readonly CollectedTest[]): Promise<MutantRunResult> {
  for (const [index, test] of tests.entries()) {
    const failure = await failureOf(test)
    if (shared.hitLimit !== undefined && (shared.hitCount ?? 0) > shared.hitLimit)
      return { status: MutantRunStatus.Timeout, reason: 'it repeats without end' }
    if (failure !== undefined)
      return {
        status: MutantRunStatus.Killed,
        killedBy: [idOf(test)],
        failureMessage: failure,
        nrOfTests: index + 1,
      }
  }
  return { status: MutantRunStatus.Survived, nrOfTests: tests.length }
}

/** Runs a test. @returns why it failed; undefined if it passed */
async function failureOf(test: CollectedTest): Promise<string | undefined> {
  try {
    await test.run()
    return undefined
  } catch (error) {
    return String(error)
  }
}

export const strykerPlugins = [{ kind: PluginKind.TestRunner, name: 'warm', injectableClass: WarmRunner }]
