import type { Reporter, SerializedError, TestModule } from 'vitest/node'

/**
 * Prints the counts as the last line of the run, and before it the names of the tests that passed only when they
 * were tried again. A file that could not run at all, and an error outside every test, count as a failure each.
 */
export class SummaryReporter implements Reporter {
  private summary: string | undefined

  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly SerializedError[]): void {
    this.summary = summarize(modules, unhandledErrors)
    // After the last words of the other reporters and of the global teardown.
    process.once('exit', () => {
      if (this.summary !== undefined) process.stdout.write(`${this.summary}\n`)
      this.summary = undefined
    })
  }
}

function summarize(modules: readonly TestModule[], unhandledErrors: readonly SerializedError[]): string {
  const counts = { passed: 0, failed: unhandledErrors.length, skipped: 0 }
  const unsteady: string[] = []
  for (const module of modules) {
    counts.failed += module.errors().length
    for (const suite of module.children.allSuites()) counts.failed += suite.errors().length
    for (const test of module.children.allTests()) {
      const { state } = test.result()
      if (test.diagnostic()?.flaky === true) unsteady.push(`${module.relativeModuleId}: ${test.fullName}`)
      // A test that never got a result did not pass.
      counts[state === 'pending' ? 'failed' : state] += 1
    }
  }
  const skipped = counts.skipped > 0 ? `, ${counts.skipped} skipped` : ''
  return [
    ...unsteady.map((name) => `passed only at the second try: ${name}`),
    `${counts.passed} passed, ${counts.failed} failed${skipped}`,
  ].join('\n')
}
