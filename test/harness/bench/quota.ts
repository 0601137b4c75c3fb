import fs from 'node:fs'
import { makeControlGroup } from '../testbed/control-group.ts'

/** As containers have it. */
const PERIOD_US = 100_000

/**
 * Gives a process a part of a core, as a container's quota does.
 *
 * @param part of one core
 * @returns a function that ends the quota
 * @throws Error if this machine lets nobody limit processor time
 */
export function limitProcessor(pid: number, part: number): () => void {
  const quota = String(Math.round(part * PERIOD_US))
  const group = makeControlGroup(`agent-network-${pid}`, {
    controller: 'cpu',
    files: [
      { 'cpu.cfs_period_us': String(PERIOD_US), 'cpu.cfs_quota_us': quota },
      { 'cpu.max': `${quota} ${PERIOD_US}` },
    ],
  })
  if (group === undefined)
    throw new Error(
      'this machine has no control groups by which processor time is limited, or no right to make one',
    )
  group.add(pid)
  return () => group.end(pid)
}

/** Nanoseconds that all threads of a process have run; 0 if it has ended. */
export function usedNs(pid: number): number {
  try {
    const tasks = `/proc/${pid}/task`
    return fs
      .readdirSync(tasks)
      .map((task) => Number(fs.readFileSync(`${tasks}/${task}/schedstat`, 'utf8').split(' ', 1)[0]))
      .reduce((sum, ns) => sum + ns, 0)
  } catch {
    return 0
  }
}
