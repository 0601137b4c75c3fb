import fs from 'node:fs'
import path from 'node:path'

/** As containers have it. */
const PERIOD_US = 100_000

/** Where a group of processes with a part of a core is made, by the version of Linux's control groups. */
const VERSIONS = [
  {
    root: '/sys/fs/cgroup/cpu',
    files: (quota: number) => ({ 'cpu.cfs_period_us': `${PERIOD_US}`, 'cpu.cfs_quota_us': `${quota}` }),
  },
  { root: '/sys/fs/cgroup', files: (quota: number) => ({ 'cpu.max': `${quota} ${PERIOD_US}` }) },
] as const

/**
 * Gives a process a part of a core, as a container's quota does.
 *
 * @param part of one core
 * @returns a function that ends the quota
 * @throws Error if this machine lets nobody limit processor time
 */
export function limitProcessor(pid: number, part: number): () => void {
  for (const { root, files } of VERSIONS) {
    const folder = path.join(root, `agent-network-${pid}`)
    try {
      fs.mkdirSync(folder)
      for (const [name, text] of Object.entries(files(Math.round(part * PERIOD_US))))
        fs.writeFileSync(path.join(folder, name), text)
    } catch {
      if (fs.existsSync(folder)) fs.rmdirSync(folder)
      continue
    }
    fs.writeFileSync(path.join(folder, 'cgroup.procs'), String(pid))
    return () => {
      if (fs.existsSync(`/proc/${pid}`)) fs.writeFileSync(path.join(root, 'cgroup.procs'), String(pid))
      fs.rmdirSync(folder)
    }
  }
  throw new Error(
    'this machine has no control groups by which processor time is limited, or no right to make one',
  )
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
