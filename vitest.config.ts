import { defineConfig } from 'vitest/config'
import { compileCacheDir } from './scripts/prepare.mjs'
import { LongestFirst } from './test/support/longest-first.ts'
import { SummaryReporter } from './test/support/summary-reporter.ts'

// The tests start hundreds of processes.
process.env.NODE_COMPILE_CACHE ??= compileCacheDir(process.env)

// What takes minutes, or repeats in the large what another test holds, is in test/faults or runs only if FULL;
// FAULTS=1 adds it, and makes the others' counts full.
const isFull = process.env.FAULTS === '1'
const folders = isFull ? 'api,workers,flows,interop,faults' : 'api,workers,flows,interop'

export default defineConfig({
  test: {
    pool: 'forks',
    // Most of what a test makes is garbage at once: with room for more of it, less of it is moved about, which
    // is a twentieth of the whole run's work.
    execArgv: ['--max-semi-space-size=64', '--single-threaded-gc'],
    // A file's modules serve the next file too: loading them anew for each takes an eighth of the whole run's
    // work.
    isolate: false,
    // Node itself reads TypeScript, as it does in service: without a translation of their own the modules run
    // a tenth faster.
    experimental: { viteModuleRunner: false, nodeLoader: false },
    // Full counts load the machine by themselves, and some of them have to be through within seconds. Of the
    // others some wait for blocks, polls and restarts, which more at a time would fill; but each worker warms up
    // its code anew, which takes 9 s of a processor.
    maxWorkers: isFull ? 2 : 4,
    sequence: { sequencer: LongestFirst },
    // Beside two other files a test may stand still for seconds; what it waits for inside says sooner what
    // did not come.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    teardownTimeout: 60_000,
    reporters: ['default', new SummaryReporter()],
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: ['test/unit/**/*.test.ts'],
          // They compute, and wait for nothing; and no worker goes on to the other project.
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: 'servers',
          // Real servers and processes on a machine that others burden too: what fails is tried once more. If it
          // passes then, the summary names it, since its test or what it tests depends on chance.
          retry: 1,
          sequence: { groupOrder: 1 },
          include: [`test/{${folders}}/**/*.test.ts`],
          globalSetup: ['test/support/global-setup.ts'],
        },
      },
    ],
  },
})
