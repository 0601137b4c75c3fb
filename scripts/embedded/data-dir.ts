import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { replaceFile, takeLock } from '../../shared/foundation/durable-file.ts'
import { assertPrivate } from '../../shared/foundation/private-file.ts'
import { StartError } from '../../shared/foundation/process.ts'

/** A data folder that cannot be used. */
export class DataDirError extends StartError {
  override readonly name = 'DataDirError'
}

export interface DataDirLock {
  release(): void
}

/**
 * Makes the folder if need be, and takes it for this process alone.
 *
 * @throws DataDirError if another start holds it
 */
export function lockDataDir(dataDir: string): DataDirLock {
  fs.mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  fs.chmodSync(dataDir, 0o700)
  const holderFile = path.join(dataDir, 'start.pid')
  const unlock = takeLock(path.join(dataDir, 'lock'))
  if (unlock === undefined) {
    const holder = fs.existsSync(holderFile) ? ` (process ${fs.readFileSync(holderFile, 'utf8').trim()})` : ''
    throw new DataDirError(
      `The data folder ${dataDir} is in use by another start${holder}: stop that one first, or set DATA_DIR to another folder.`,
    )
  }
  fs.writeFileSync(holderFile, `${process.pid}\n`, { mode: 0o600 })
  return {
    release() {
      fs.rmSync(holderFile, { force: true })
      unlock()
    },
  }
}

export interface FirstStart {
  challengeSecret: string
  operatorToken: string
  operatorTokenFile: string
  /** Milliseconds since the epoch. */
  firstStartMs: number
}

/** What the first start makes once and every later one finds again. */
export function readFirstStart(dataDir: string, nowMs: number): FirstStart {
  const operatorTokenFile = path.join(dataDir, 'operator-token')
  const firstStart = readOrMake(
    path.join(dataDir, 'first-start'),
    () => new Date(nowMs).toISOString(),
    /^\d{4}-\d\d-\d\dT[\d:.]+Z$/,
  )
  return {
    challengeSecret: readOrMake(path.join(dataDir, 'challenge-secret'), makeSecret, SECRET),
    operatorToken: readOrMake(operatorTokenFile, makeSecret, /^\S{16,}$/),
    operatorTokenFile,
    firstStartMs: Date.parse(firstStart),
  }
}

const SECRET = /^[0-9a-f]{64}$/

/** 32 random bytes in hex. */
export function makeSecret(): string {
  return randomBytes(32).toString('hex')
}

/** Reads a secret of this folder that is made when it is not there. */
export function readSecret(file: string): string {
  return readOrMake(file, makeSecret, SECRET)
}

/**
 * Written whole and synced before it has its name, so that it is there with all its content or not at all.
 */
function readOrMake(file: string, make: () => string, form: RegExp): string {
  if (!fs.existsSync(file)) {
    replaceFile(file, `${make()}\n`)
  }
  assertPrivate('DATA_DIR', file)
  const content = fs.readFileSync(file, 'utf8').trim()
  if (!form.test(content))
    throw new DataDirError(
      `${file} does not hold what was once written there: restore it, or remove it to have a new one made.`,
    )
  return content
}
