import fs from 'node:fs'
import { StartError } from './process.ts'

/** Permission bits of anyone but the owner. */
const OTHERS = 0o077

/**
 * Keeps a process from starting with a secret that others on this machine can read or change. A file that is not there
 * yet is no reason.
 *
 * @param name the setting that names the file
 * @throws StartError with the file and its mode
 */
export function assertPrivate(name: string, file: string | undefined): void {
  const mode = file === undefined ? undefined : fs.statSync(file, { throwIfNoEntry: false })?.mode
  if (mode === undefined || (mode & OTHERS) === 0) return
  throw new StartError(
    `${name}: ${file} can be read or written by others than its owner (mode ${(mode & 0o777).toString(8)}); set its mode to 600, and make a new one if others had access.`,
  )
}
