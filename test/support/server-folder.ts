import fs from 'node:fs'
import os from 'node:os'
import { FULL } from './full.ts'

const MEMORY = '/dev/shm'
const PLENTY_BYTES = 8 * 2 ** 30

/**
 * Where the servers of tests keep their data: in memory where there is plenty, which takes a fifth off
 * MongoDB's work for a write and two fifths for a new database. What a killed process has written is there
 * after it as on a disk. Full counts fill more than a memory may hold.
 */
export function serverFolder(): string {
  if (FULL || !fs.existsSync(MEMORY)) return os.tmpdir()
  const { bavail, bsize } = fs.statfsSync(MEMORY)
  return Math.min(bavail * bsize, os.freemem()) >= PLENTY_BYTES ? MEMORY : os.tmpdir()
}
