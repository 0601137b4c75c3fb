import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'

const FILLER_CHUNK = Buffer.alloc(2 ** 20, 0x61)
const fillerOf = (folder: string): string => path.join(folder, 'filler')

/**
 * Makes a folder, and mounts a small tmpfs there.
 *
 * @param size in mount's notation, such as `64m`
 * @returns its path, or undefined if this user may not mount
 */
export function mountSmallDisk(place: string, size: string): string | undefined {
  fs.mkdirSync(place, { recursive: true, mode: 0o700 })
  const { status } = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${size},mode=700`, 'tmpfs', place], {
    stdio: 'ignore',
  })
  return status === 0 ? place : undefined
}

/** Writes a file into a file system until at most `leftBytes` of it are free. */
export function fillDisk(folder: string, leftBytes = 0): void {
  const handle = fs.openSync(fillerOf(folder), 'w')
  try {
    for (;;) {
      const { bavail, bsize } = fs.statfsSync(folder)
      if (bavail * bsize <= leftBytes) return
      fs.writeSync(handle, FILLER_CHUNK)
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
  } finally {
    fs.closeSync(handle)
  }
}

/** Removes what fillDisk() wrote. */
export const emptyDisk = (folder: string): void => fs.rmSync(fillerOf(folder), { force: true })
