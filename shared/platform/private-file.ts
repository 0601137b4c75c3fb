import fs from 'node:fs'
import path from 'node:path'
import { StartError } from './process.ts'

/** Permission bits of anyone but the owner. */
const OTHERS = 0o077
/**
 * systemd's credentials: an access list for the unit's user alone, which shows as the group's right to read.
 */
const CREDENTIALS = '/run/credentials/'
/** What a Kubernetes volume of secrets has beside its files, which belong to root and to the pod's own group. */
const KUBERNETES_DATA = '..data'
const GROUP_READS = 0o040

/**
 * Checks that other users of this machine can neither read nor change a file with a secret. A file that
 * doesn't exist yet is accepted.
 *
 * @param name the setting that names the file
 * @throws StartError with the file and its mode if they can
 */
export function assertPrivate(name: string, file: string | undefined): void {
  const stat = file === undefined ? undefined : fs.statSync(file, { throwIfNoEntry: false })
  if (file === undefined || stat === undefined) return
  const problem = describeModeProblem(`${name}: ${file}`, file, stat)
  if (problem !== undefined) throw new StartError(problem)
}

/**
 * Reads a file with a secret, without the white space around it. Returns an empty text for what isn't a
 * regular file or is too long for a secret. The mode is checked on the opened file, so that the file can't be
 * exchanged in between.
 *
 * @param name what the file is, at the beginning of a sentence
 * @param refuse makes the error for a file that others may read or write
 * @throws the ENOENT of the platform if there is no such file
 */
export function readPrivateFile(name: string, file: string, refuse: (problem: string) => Error): string {
  const handle = fs.openSync(file, 'r')
  try {
    const stat = fs.fstatSync(handle)
    const problem = describeModeProblem(`${name} ${file}`, file, stat)
    if (problem !== undefined) throw refuse(problem)
    return stat.isFile() && stat.size <= MAX_BYTES ? fs.readFileSync(handle, 'utf8').trim() : ''
  } finally {
    fs.closeSync(handle)
  }
}

/** A secret is one line; a longer file is another one. */
const MAX_BYTES = 1_024

/** Says what is wrong if others than a file's owner may read or write it; undefined if they may not. */
function describeModeProblem(named: string, file: string, { mode, gid }: fs.Stats): string | undefined {
  const others = isGroupOurs(file, gid) ? OTHERS & ~GROUP_READS : OTHERS
  if ((mode & others) === 0) return undefined
  const octal = (mode & 0o777).toString(8)
  return `${named} can be read or written by others than its owner (mode ${octal}); set its mode to 600, and use a new secret if others had access.`
}

/** Whether what hands the file in lets its group be this process alone, so that the group may read it. */
function isGroupOurs(file: string, gid: number): boolean {
  if (file.startsWith(CREDENTIALS)) return true
  const isFromKubernetes = fs
    .lstatSync(path.join(path.dirname(file), KUBERNETES_DATA), { throwIfNoEntry: false })
    ?.isSymbolicLink()
  return isFromKubernetes === true && [process.getegid?.(), ...(process.getgroups?.() ?? [])].includes(gid)
}
