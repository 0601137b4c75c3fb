import fs from 'node:fs'
import path from 'node:path'
import { orIfLate, waitFor } from '../../../scripts/embedded/wait.ts'
import type { Part } from '../testbed/part.ts'
import type { Injected } from './fault.ts'

const KILL_LIMIT_MS = 10_000

/** Where a group of processes with a limit of memory is made, by the version of Linux's control groups. */
const VERSIONS = [
  { root: '/sys/fs/cgroup/memory', limitFile: 'memory.limit_in_bytes' },
  { root: '/sys/fs/cgroup', limitFile: 'memory.max' },
] as const

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
  const group = makeGroup(`agent-network-${pid}`)
  if (group === undefined) return undefined
  try {
    fs.writeFileSync(path.join(group.folder, 'cgroup.procs'), String(pid))
    const isGone = await waitFor('the kernel', async () => (isRunning(pid) ? undefined : true), {
      limitMs: KILL_LIMIT_MS,
    }).catch(orIfLate(false))
    if (!isGone) throw new Error(`${part.name} lives without memory`)
    return { target: part.name, heal: () => part.whenUpAgain(upAtMs) }
  } finally {
    if (isRunning(pid)) fs.writeFileSync(path.join(group.root, 'cgroup.procs'), String(pid))
    fs.rmdirSync(group.folder)
  }
}

/** Makes a group without memory; undefined if there are no control groups of memory, or no right to make one. */
function makeGroup(name: string): { root: string; folder: string } | undefined {
  for (const { root, limitFile } of VERSIONS) {
    const folder = path.join(root, name)
    try {
      fs.mkdirSync(folder)
    } catch {
      continue
    }
    try {
      fs.writeFileSync(path.join(folder, limitFile), '0')
      return { root, folder }
    } catch {
      fs.rmdirSync(folder)
    }
  }
  return undefined
}

const isRunning = (pid: number): boolean => fs.existsSync(`/proc/${pid}`)
