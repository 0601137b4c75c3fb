import fs from 'node:fs'

/** A process by its name; its id changes with each restart, and is undefined while it is dead. */
export interface Process {
  readonly name: string
  pid(): number | undefined
}

/** Fields of a line of /proc/net/tcp. */
const [LOCAL, REMOTE, INODE] = [1, 2, 9]

/**
 * Finds which connections to a port of this machine some processes have open, by what Linux says of their
 * sockets.
 *
 * @returns the ports at their ends; empty on a system without /proc
 */
export function findClientPorts(port: number, processes: readonly Process[]): Set<number> {
  const inodes = new Set<string>()
  for (const { pid } of processes) for (const inode of listSockets(pid())) inodes.add(inode)
  const found = new Set<number>()
  if (inodes.size === 0) return found
  const portOf = (address: string | undefined): number => Number.parseInt(address?.split(':')[1] ?? '', 16)
  for (const line of fs.readFileSync('/proc/net/tcp', 'utf8').split('\n').slice(1)) {
    const fields = line.trim().split(/\s+/)
    if (portOf(fields[REMOTE]) === port && inodes.has(fields[INODE] ?? '')) found.add(portOf(fields[LOCAL]))
  }
  return found
}

/** The inodes of a process's sockets; none if it has ended or may not be looked at, or there is no /proc. */
function listSockets(pid: number | undefined): string[] {
  if (pid === undefined) return []
  const folder = `/proc/${pid}/fd`
  try {
    return fs.readdirSync(folder).flatMap((name) => {
      try {
        return /^socket:\[(\d+)\]$/.exec(fs.readlinkSync(`${folder}/${name}`))?.[1] ?? []
      } catch {
        return [] // closed meanwhile
      }
    })
  } catch {
    return []
  }
}
