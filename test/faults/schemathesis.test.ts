import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { whyNoPython } from '../support/python.ts'
import { fuzz, prepareSchemathesis } from '../support/schemathesis.ts'
import { startService, type TestService } from '../support/service.ts'

// `npm run harness -- fuzz` sets both; a plain test run is short and the same each time.
const { FUZZ_SECONDS: seconds = '240', FUZZ_SEED: seed = '1' } = process.env
const length =
  seconds === undefined
    ? { limitMs: 600_000 }
    : {
        maxSeconds: Number(seconds),
        limitMs: (Number(seconds) + 120) * 1_000,
        onOutput: (text: string) => void process.stdout.write(text),
      }

const missing = whyNoPython()

// Skipped where the machine has no Python to run Schemathesis with; the reason stands in the name.
describe.skipIf(missing !== undefined)(
  `the OpenAPI document and the service${missing === undefined ? '' : ` (skipped: ${missing})`}`,
  () => {
    let service: TestService
    let program: string
    beforeAll(async () => {
      ;[service, program] = await Promise.all([startService(), prepareSchemathesis()])
    }, 400_000)
    afterAll(() => service?.stop())

    it(
      'agree in both directions for an agent with a pass',
      async () => {
        const agent = await service.registerWithPass()
        const { code, output } = await fuzz(program, service, {
          agent,
          // The other phase comes below, in a short run.
          ...(seconds === undefined
            ? { maxExamples: 2, phases: ['examples', 'coverage', 'fuzzing'] }
            : { maxExamples: 300 }),
          seed: Number(seed),
          ...length,
        })
        expect(code, output).toBe(0)
        // Requests that follow one another: what one answer names, the next one asks for.
        const own = { agent, maxExamples: 8, seed: Number(seed), phases: ['stateful'] as const, ...length }
        const stateful = seconds === undefined ? await fuzz(program, service, own) : { code, output }
        const [, links = '0'] = /API Links: +(\d+) covered/.exec(stateful.output) ?? []
        expect(stateful.code, stateful.output).toBe(0)
        if (seconds === undefined || Number(seconds) >= 240)
          expect(Number(links), stateful.output).toBeGreaterThan(0)
      },
      length.limitMs + 10_000,
    )

    it(
      'agree in both directions for a stranger',
      async () => {
        const { code, output } = await fuzz(program, service, {
          // Whoever has no token is refused before much else is looked at.
          ...(seconds === undefined
            ? { maxExamples: 1, phases: ['examples', 'fuzzing'] }
            : { maxExamples: 100 }),
          seed: Number(seed),
          ...length,
        })
        expect(code, output).toBe(0)
      },
      length.limitMs + 10_000,
    )
  },
)
