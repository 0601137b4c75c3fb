import fs from 'node:fs'

const PERIOD_MS = 200
const NS = 1_000_000

/**
 * Gives a process a part of a core, as a container's quota does: in each period it is stopped once it has used up
 * its part.
 *
 * @param part of one core
 * @returns a function that ends the quota, and lets the process run
 */
export function limitProcessor(pid: number, part: number): () => void {
  const allowedNs = part * PERIOD_MS * NS
  let atPeriod = usedNs(pid)
  let isStopped = false
  const set = (stops: boolean): void => {
    if (isStopped === stops) return
    isStopped = stops
    try {
      process.kill(pid, stops ? 'SIGSTOP' : 'SIGCONT')
    } catch {
      clearInterval(period) // it has ended
      clearInterval(look)
    }
  }
  const period = setInterval(() => {
    const used = usedNs(pid)
    // What it used beyond its part counts in the next period.
    atPeriod = Math.min(used, Math.max(atPeriod + allowedNs, used - allowedNs * 5))
    if (used - atPeriod < allowedNs) set(false)
  }, PERIOD_MS)
  const look = setInterval(() => {
    if (usedNs(pid) - atPeriod >= allowedNs) set(true)
  }, PERIOD_MS / 20)
  return () => {
    clearInterval(period)
    clearInterval(look)
    set(false)
  }
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
