/**
 * `npm run harness -- PROFILE …`: breaks a running network in every way that it has to stand, and checks what
 * must hold. Each profile says what it takes if it is called with nothing.
 */
const PROFILES: Record<string, { does: string; load(): Promise<unknown> }> = {
  storm: {
    does: 'agents under faults of processes, servers, networks, disks and clocks; histories judged',
    load: () => import('./storm.ts'),
  },
  money: {
    does: 'a market under faults; every raw accounted for by HTTP and the chain alone',
    load: () => import('./money.ts'),
  },
  gameday: {
    does: 'mishaps of an operator; what status says, and what its remedy leaves',
    load: () => import('./gameday.ts'),
  },
  simulation: {
    does: 'the service’s own code on a model of MongoDB, in virtual time',
    load: () => import('./simulation.ts'),
  },
  canary: {
    does: 'each check of the auditor with a fault in what it sees, which it must find',
    load: () => import('./canary.ts'),
  },
  found: { does: 'adds a bug to the track record', load: () => import('./found.ts') },
  mutate: {
    does: 'small changes of the pure rules, each of which a unit test must notice',
    load: () => import('./mutate.ts'),
  },
  fuzz: { does: 'mutated requests against a running service', load: () => import('./fuzz.ts') },
}

const [name = ''] = process.argv.splice(2, 1)
const profile = PROFILES[name]
if (profile === undefined) {
  const rows = Object.entries(PROFILES).map(([profileName, { does }]) => `  ${profileName.padEnd(12)}${does}`)
  process.stderr.write(`npm run harness -- PROFILE …\n\n${rows.join('\n')}\n`)
  process.exitCode = 2
} else await profile.load()
