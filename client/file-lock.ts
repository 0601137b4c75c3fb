import { linkSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { randomBytes } from 'node:crypto'
import path from 'node:path'

const PAUSE_MS = 20

/**
 * A lock of plain files, for a platform that offers no other. `<file>.lock.N` names the process that holds
 * the Nth turn; who wants the next one makes `N + 1` by a link, which one process alone can, once the
 * holder of the highest has ended or let go. The highest file is never removed, so no number comes twice.
 *
 * @returns what ends the lock; undefined if it isn't free in time
 */
export function lockByFiles(filePath: string, limitMs: number): (() => void) | undefined {
  const endsAt = performance.now() + limitMs
  do {
    const before = highestTurn(filePath)
    if (isFree(filePath, before)) {
      const own = turnFile(filePath, before + 1)
      if (makeTurn(own) && highestTurn(filePath) === before + 1) {
        removeBelow(filePath, before + 1)
        return () => writeTurn(own, '')
      }
    }
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PAUSE_MS)
  } while (performance.now() < endsAt)
  return undefined
}

const turnFile = (filePath: string, turn: number): string => `${filePath}.lock.${turn}`

function turnsOf(filePath: string): number[] {
  const prefix = `${path.basename(filePath)}.lock.`
  return readdirSync(path.dirname(filePath)).flatMap((name) => {
    const turn = name.startsWith(prefix) ? name.slice(prefix.length) : ''
    return /^\d+$/.test(turn) ? Number(turn) : []
  })
}

const highestTurn = (filePath: string): number => Math.max(0, ...turnsOf(filePath))

function removeBelow(filePath: string, turn: number): void {
  for (const older of turnsOf(filePath)) if (older < turn) rmSync(turnFile(filePath, older), { force: true })
}

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

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** Whole at once: nobody reads a turn whose holder isn't written yet. */
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

function writeTurn(file: string, holder: string): void {
  const written = `${file}.${randomBytes(6).toString('hex')}.tmp`
  writeFileSync(written, holder, { mode: 0o600 })
  renameSync(written, file)
}
