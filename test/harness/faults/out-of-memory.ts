import fs from 'node:fs'
import { orIfLate, waitFor } from '../../../scripts/embedded/wait.ts'
import { makeControlGroup, type Limit } from '../testbed/control-group.ts'
import type { Part } from '../testbed/part.ts'
import type { Injected } from './fault.ts'

const KILL_LIMIT_MS = 10_000

const NO_MEMORY: Limit = {
  controller: 'memory',
  files: [{ 'memory.limit_in_bytes': '0' }, { 'memory.max': '0' }],
}

/**
 * Leaves a process no memory, so that the kernel kills it as soon as it asks for some; `heal` waits until it logs
 * that it is up again.
 *
 * @returns undefined if it does not run, or this machine lets nobody limit memory
 * @throws Error if the kernel let it live
 */
export async function leaveNoMemory(part: Part | undefined): Promise<Injected | undefined> {
  const pid = part?.child.pid()
  if (part === undefined || pid === undefined) return undefined
  const upAtMs = part.upAtMs()
  const group = makeControlGroup(`agent-network-${pid}`, NO_MEMORY)
  if (group === undefined) return undefined
  try {
    group.add(pid)
    const isGone = await waitFor('the kernel', async () => (isRunning(pid) ? undefined : true), {
      limitMs: KILL_LIMIT_MS,
    }).catch(orIfLate(false))
    if (!isGone) throw new Error(`${part.name} lives without memory`)
    return { target: part.name, heal: () => part.whenUpAgain(upAtMs) }
  } finally {
    group.end(pid)
  }
}

const isRunning = (pid: number): boolean => fs.existsSync(`/proc/${pid}`)
