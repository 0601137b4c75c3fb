/**
 * `npm run harness -- fuzz [SECONDS [SEED [REQUESTS]]]`: runs the fuzz tests for longer than a test run does.
 * Requests generated from the OpenAPI document are sent for SECONDS (300) as an agent and as long without a
 * token, and REQUESTS (20,000) mutated ones over raw sockets. Prints the seed, which reproduces a failure.
 */
import { spawnSync } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { fileURLToPath } from 'node:url'

const [seconds = '300', seed = String(randomInt(1, 2 ** 31)), requests = '20000'] = process.argv.slice(2)
if (![seconds, seed, requests].every((word) => /^[1-9]\d{0,9}$/.test(word))) {
  process.stderr.write('usage: npm run harness -- fuzz [SECONDS [SEED [REQUESTS]]], whole numbers above 0\n')
  process.exit(2)
}
process.stdout.write(
  `fuzz: ${requests} mutated requests, ${seconds} s each for an agent and for a stranger, seed ${seed}\n`,
)
const { status, error } = spawnSync(
  'vitest',
  ['run', 'test/api/mutated-requests.test.ts', 'test/faults/schemathesis.test.ts'],
  {
    cwd: fileURLToPath(new URL('../..', import.meta.url)),
    stdio: 'inherit',
    env: { ...process.env, FUZZ_SECONDS: seconds, FUZZ_SEED: seed, FUZZ_REQUESTS: requests },
  },
)
if (error !== undefined)
  process.stderr.write(
    `fuzz: vitest does not run (${error.message}); start this with "npm run harness -- fuzz"\n`,
  )
process.exit(status ?? 1)
