import fs from 'node:fs'
import path from 'node:path'

/** What a group may not exceed: the controller's name in version 1, and its files by version of Linux's control groups. */
export interface Limit {
  controller: 'cpu' | 'memory'
  files: readonly [v1: Readonly<Record<string, string>>, v2: Readonly<Record<string, string>>]
}

export interface ControlGroup {
  /** Takes a process in. */
  add(pid: number): void
  /** Ends the group; a process in it that still runs is without the limit from then on. */
  end(pid: number): void
}

/** Makes a group with a limit; undefined if this machine has no such groups, or gives no right to make one. */
export function makeControlGroup(name: string, { controller, files }: Limit): ControlGroup | undefined {
  const roots = [`/sys/fs/cgroup/${controller}`, '/sys/fs/cgroup']
  for (const [version, root] of roots.entries()) {
    const folder = path.join(root, name)
    try {
      fs.mkdirSync(folder)
    } catch {
      continue
    }
    try {
      for (const [file, text] of Object.entries(files[version] ?? {}))
        fs.writeFileSync(path.join(folder, file), text)
    } catch {
      fs.rmdirSync(folder)
      continue
    }
    const move = (to: string, pid: number) => fs.writeFileSync(path.join(to, 'cgroup.procs'), String(pid))
    return {
      add: (pid) => move(folder, pid),
      end(pid) {
        if (fs.existsSync(`/proc/${pid}`)) move(root, pid)
        fs.rmdirSync(folder)
      },
    }
  }
  return undefined
}
