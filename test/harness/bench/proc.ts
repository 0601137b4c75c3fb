import fs from 'node:fs'
import path from 'node:path'

/** A tick of /proc in milliseconds, on Linux for every usual processor. */
const TICK_MS = 10

/** What Linux says of a process at one moment. */
export interface ProcessUsage {
  pid: number
  /** The program's file name, such as `node`. */
  program: string
  parentId: number
  /** Processor time since the process began. */
  cpuMs: number
  /** Resident memory. */
  rssMib: number
}

/** Reads from /proc what a process uses now. @throws Error if there is no process of this id */
export function readUsage(pid: number): ProcessUsage {
  // The fields of `stat` are counted from behind the command, which may contain spaces and brackets.
  const fields = fs
    .readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ')
  const command = fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0', 1)[0] ?? ''
  const kib = /^VmRSS:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
  return {
    pid,
    program: path.basename(command),
    parentId: Number(fields[1]),
    cpuMs: (Number(fields[11]) + Number(fields[12])) * TICK_MS,
    rssMib: Number(kib ?? 0) / 1_024,
  }
}

/** The usage of a process and of all processes that descend from it. */
export function readTreeUsage(rootPid: number): ProcessUsage[] {
  const usages = new Map<number, ProcessUsage>()
  for (const name of fs.readdirSync('/proc').filter((entry) => /^\d+$/.test(entry)))
    try {
      usages.set(Number(name), readUsage(Number(name)))
    } catch {
      continue // it has ended since the folder was read
    }
  const isInTree = (pid: number): boolean => {
    const parentId = usages.get(pid)?.parentId
    return pid === rootPid || (parentId !== undefined && isInTree(parentId))
  }
  return [...usages].filter(([pid]) => isInTree(pid)).map(([, usage]) => usage)
}

/** The processor time that all processes of the machine have used since it began. */
export function readMachineMs(): number {
  const [, user = 0, nice = 0, system = 0, , , irq = 0, softIrq = 0] = fs
    .readFileSync('/proc/stat', 'utf8')
    .split('\n', 1)
    .join()
    .split(/\s+/)
    .map(Number)
  return (user + nice + system + irq + softIrq) * TICK_MS
}
