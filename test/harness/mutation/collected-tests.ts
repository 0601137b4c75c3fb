/**
 * Stands in the place of `vitest` for the files of a mutation run: it collects their tests, so that a warm
 * process can run any of them again and again. It has what unit tests without a server use of vitest.
 */
export { expect } from 'vitest'

type Body = (...args: never[]) => unknown
type Step = () => unknown

interface Suite {
  name: string
  beforeEach: Step[]
  afterEach: Step[]
}

export interface CollectedTest {
  file: string
  name: string
  /** Runs the test with the hooks around it. @throws what the test throws */
  run(): Promise<void>
}

let file = ''
let suites: Suite[] = []
let collected: CollectedTest[] = []

/** Collects the tests of a file. @param load imports it */
export async function collectTests(ofFile: string, load: () => Promise<unknown>): Promise<CollectedTest[]> {
  file = ofFile
  suites = [{ name: '', beforeEach: [], afterEach: [] }]
  collected = []
  await load()
  return collected
}

function addTest(name: string, body: Step): void {
  const around = [...suites]
  const names = [...around.slice(1).map((suite) => suite.name), name].join(' > ')
  const twin = collected.filter((test) => test.name === names || test.name.startsWith(`${names} (`)).length
  collected.push({
    file,
    name: twin === 0 ? names : `${names} (${twin + 1})`,
    async run() {
      try {
        for (const suite of around) for (const step of suite.beforeEach) await step()
        await body()
      } finally {
        for (const suite of around.toReversed()) for (const step of suite.afterEach) await step()
      }
    },
  })
}

function addSuite(name: string, body: () => void): void {
  suites.push({ name, beforeEach: [], afterEach: [] })
  body()
  suites.pop()
}

const each =
  (add: (name: string, body: () => void) => void) =>
  (cases: readonly unknown[]) =>
  (name: string, body: Body): void => {
    for (const one of cases) {
      const args = (Array.isArray(one) ? one : [one]) as never[]
      add(name, () => body(...args))
    }
  }
const none = (): void => {}

export const it = Object.assign(addTest, {
  each: each(addTest),
  skipIf: (isSkipped: boolean) => (isSkipped ? none : addTest),
  runIf: (isRun: boolean) => (isRun ? addTest : none),
})
export const describe = Object.assign(addSuite, {
  each: each(addSuite),
  skipIf: (isSkipped: boolean) => (isSkipped ? none : addSuite),
  runIf: (isRun: boolean) => (isRun ? addSuite : none),
})
export const beforeEach = (step: Step): void => void suites.at(-1)?.beforeEach.push(step)
export const afterEach = (step: Step): void => void suites.at(-1)?.afterEach.push(step)
