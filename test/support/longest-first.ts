import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { FULL } from './full.ts'

/** The files that take longest, in the order in which they begin. Those that wait stand beside those that compute. */
const LONGEST = [
  'workers/nano-send',
  'api/hostile-money',
  'workers/monero-flow',
  'flows/first-session',
  'workers/doorbell-kills',
  'api/operator-verbs',
  'workers/unassigned',
  'workers/doorbells',
  'interop/venues',
  'workers/market',
  'workers/nano-reconcile',
  'api/market',
  'api/outages',
  'api/turns',
  'api/bad-input',
].map(toEnd)

/**
 * With full counts: a quarter of an hour and more, and beside the first, which counts seconds, those that
 * mostly wait.
 */
const LONGEST_IN_FULL = [
  'faults/named-cases',
  'faults/monero-send',
  'workers/monero-flow',
  'faults/monero-crashes',
  'faults/monero-storm',
  'faults/monero-recovery',
  'faults/market-monero',
  'faults/monero-wallet',
  'faults/crowds',
  'workers/market-model',
  'faults/shares-concurrency',
  'faults/market-crashes',
  'faults/nano-crashes',
].map(toEnd)

const order = FULL ? LONGEST_IN_FULL : LONGEST

function toEnd(name: string): string {
  return `/test/${name}.test.ts`
}

/**
 * Begins with the longest files, so that no processor waits for one of them at the end; those without servers
 * come before all others, since a worker that goes from one project to the other is started anew.
 */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const others = (await super.sort(files)).filter((file) => rank(file) === -1)
    const longest = files.filter((file) => rank(file) !== -1).sort((one, other) => rank(one) - rank(other))
    const sorted = [...longest, ...others]
    return [...sorted.filter(isUnit), ...sorted.filter((file) => !isUnit(file))]
  }
}

const isUnit = ({ project }: TestSpecification): boolean => project.name === 'unit'

function rank({ moduleId }: TestSpecification): number {
  return order.findIndex((name) => moduleId.endsWith(name))
}
