import { linkSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { randomBytes } from 'node:crypto'
import path from 'node:path'

const PAUSE_MS = 20

/**
 * Takes a lock made of plain files, for a platform that offers no other; waits for it, blocking the thread,
 * for up to `limitMs`. The file `<file>.lock.N` has the id of the process that holds the Nth turn; it is
 * empty once that has let go. If the holder of the highest turn has ended or let go, a process makes the file
 * `N + 1` by a link, which fails if there is one, and has that turn if it is then the highest: a process that
 * was slow may make a file anew that the holder of a later turn has removed. The highest file is never
 * removed, so no turn is held twice.
 *
 * @returns a function that releases the lock; undefined if it isn't free in time
 */
export function lockByFiles(filePath: string, limitMs: number): (() => void) | undefined {
  const endsAt = performance.now() + limitMs
  do {
    const before = highestTurn(filePath)
    if (isFree(filePath, before)) {
      const nextFile = turnFile(filePath, before + 1)
      if (makeTurn(nextFile) && highestTurn(filePath) === before + 1) {
        removeBelow(filePath, before + 1)
        return () => writeTurn(nextFile, '')
      }
    }
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PAUSE_MS)
  } while (performance.now() < endsAt)
  return undefined
}

const turnFile = (filePath: string, turn: number): string => `${filePath}.lock.${turn}`

/** The numbers of the turns of which there is a file. */
function turnsOf(filePath: string): number[] {
  const prefix = `${path.basename(filePath)}.lock.`
  return readdirSync(path.dirname(filePath)).flatMap((name) => {
    const turn = name.startsWith(prefix) ? name.slice(prefix.length) : ''
    return /^\d+$/.test(turn) ? Number(turn) : []
  })
}

const highestTurn = (filePath: string): number => Math.max(0, ...turnsOf(filePath))

/** Removes the files of the turns before `turn`. */
function removeBelow(filePath: string, turn: number): void {
  for (const older of turnsOf(filePath)) if (older < turn) rmSync(turnFile(filePath, older), { force: true })
}

/** Whether the turn after this one may be taken: its holder has let go, or has ended. */
function isFree(filePath: string, turn: number): boolean {
  if (turn === 0) return true
  let holder: string
  try {
    holder = readFileSync(turnFile(filePath, turn), 'utf8')
  } catch {
    return false // a later turn has begun
  }
  return holder === '' || !isAlive(Number(holder))
}

/** Whether a process runs, another user's too. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/**
 * Creates the file of a turn, with this process as its holder from the start.
 *
 * @returns false if another process has created it
 */
function makeTurn(file: string): boolean {
  const written = `${file}.${randomBytes(6).toString('hex')}.tmp`
  writeFileSync(written, String(process.pid), { mode: 0o600 })
  try {
    linkSync(written, file)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    return false
  } finally {
    rmSync(written, { force: true })
  }
}

/** Replaces the holder in the file of a turn; '' lets go of it. */
function writeTurn(file: string, holder: string): void {
  const written = `${file}.${randomBytes(6).toString('hex')}.tmp`
  writeFileSync(written, holder, { mode: 0o600 })
  renameSync(written, file)
}
