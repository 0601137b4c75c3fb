import type { Context } from '../../../shared/context.ts'
import { NotModelled } from './query.ts'
import type { World } from './world.ts'

/** Stand-ins for what the scenarios' services need beside the database. */
export function stubs(world: World): Pick<Context, 'leases' | 'metrics' | 'log' | 'now'> {
  const { random } = world.schedule
  const skewMs = random.below(4_000)
  // Whether a lease is had is a coin's toss: nothing may depend on it.
  const lease = { renew: async () => random.chance(0.9), release: async () => {} }
  const quiet = new Proxy({}, { get: () => () => {} })
  return {
    leases: { take: async () => (random.chance(0.8) ? lease : undefined) } as unknown as Context['leases'],
    metrics: {
      countAnomaly: (kind: string) => world.fail(`an anomaly: ${kind}`),
    } as unknown as Context['metrics'],
    log: quiet as Context['log'],
    now: () => Date.now() + skewMs,
  }
}

/** @throws Error if something that must hold doesn't */
export function requireThat(holds: boolean, otherwise: string): asserts holds {
  if (!holds) throw new Error(otherwise)
}

/** Performs one job: an error ends it, as a worker's, and the next round tries again. */
export async function tolerate(job: () => Promise<unknown>): Promise<void> {
  try {
    await job()
  } catch (error) {
    const all = error instanceof AggregateError ? (error.errors as unknown[]) : [error]
    const defect = all.find(
      (one) =>
        one instanceof NotModelled ||
        one instanceof TypeError ||
        /since it was (read|inserted)/.test(String(one)),
    )
    if (defect !== undefined) throw defect
  }
}
