import type { ChildTracker } from '../../../scripts/embedded/children.ts'
import { signalProcess } from '../../../scripts/embedded/children.ts'
import { supervise, type ChildSpec, type SupervisedChild } from '../../../scripts/embedded/supervise.ts'

/** Restarts after 0.3 s each time, without a longer pause after repeated failures. */
export const QUICK_RESTART = { firstDelayMs: 300, longestDelayMs: 300, steadyMs: 1 } as const

/** A supervised process that can be started again after a stop. */
export interface KeptProcess extends SupervisedChild {
  /** Starts it and its supervision anew, after stop() or kill(), on the data that it left. */
  start(): void
}

/** Starts a process under supervision; it is restarted quickly if it dies. `spec` is read again at each start. */
export function keepProcess(
  spec: ChildSpec,
  report: (line: string) => void,
  children: ChildTracker,
): KeptProcess {
  const superviseQuickly = (): SupervisedChild =>
    supervise({ ...spec, backOff: QUICK_RESTART }, report, children)
  let child = superviseQuickly()
  return {
    name: spec.name,
    pid: () => child.pid(),
    deaths: () => child.deaths(),
    kill: () => child.kill(),
    stop: () => child.stop(),
    start: () => void (child = superviseQuickly()),
  }
}

/** Sends a signal to a process. @returns its id; undefined if it does not run */
export function signal(
  child: Pick<SupervisedChild, 'pid'> | undefined,
  name: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT' | 'SIGTERM',
): number | undefined {
  const pid = child?.pid()
  if (pid !== undefined) signalProcess(pid, name)
  return pid
}
