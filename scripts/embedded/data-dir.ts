import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { replaceFile, takeLock } from '../../shared/platform/durable-file.ts'
import { assertPrivate } from '../../shared/platform/private-file.ts'
import { StartError } from '../../shared/platform/process.ts'

/** The data folder cannot be used. */
export class DataDirError extends StartError {
  override readonly name = 'DataDirError'
}

export interface DataDirLock {
  release(): void
}

/**
 * Makes the folder if need be, and locks it for this process.
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
  metricsToken: string
  /** Milliseconds since the epoch. */
  firstStartMs: number
}

/**
 * Reads the secrets and the time of the first start from the data folder; writes those that are missing.
 *
 * @param nowMs the time of the first start, if this is it; milliseconds since the epoch
 * @throws DataDirError if a file holds something else
 */
export function ensureFirstStart(dataDir: string, nowMs: number): FirstStart {
  const operatorTokenFile = path.join(dataDir, 'operator-token')
  const firstStart = ensureFile(
    path.join(dataDir, 'first-start'),
    () => new Date(nowMs).toISOString(),
    /^\d{4}-\d\d-\d\dT[\d:.]+Z$/,
  )
  return {
    challengeSecret: ensureSecret(path.join(dataDir, 'challenge-secret')),
    operatorToken: ensureFile(operatorTokenFile, makeSecret, TOKEN),
    operatorTokenFile,
    metricsToken: ensureFile(path.join(dataDir, 'metrics-token'), makeSecret, TOKEN),
    firstStartMs: Date.parse(firstStart),
  }
}

const SECRET = /^[0-9a-f]{64}$/
/** An operator may write another one. */
const TOKEN = /^[\x21-\x7e]{16,}$/

/** 32 random bytes in hex. */
export function makeSecret(): string {
  return randomBytes(32).toString('hex')
}

/**
 * Reads a secret from a file; makes it first if there is no such file.
 *
 * @returns 32 bytes in hex
 * @throws DataDirError if the file holds something else
 */
export const ensureSecret = (file: string): string => ensureFile(file, makeSecret, SECRET)

/**
 * Reads a file of the data folder, without the white space around its text; writes what `make` gives first if
 * there is no such file.
 *
 * @throws DataDirError if the text is not of this form, StartError if others may read the file
 */
function ensureFile(file: string, make: () => string, form: RegExp): string {
  if (!fs.existsSync(file)) replaceFile(file, `${make()}\n`)
  assertPrivate('DATA_DIR', file)
  const content = fs.readFileSync(file, 'utf8').trim()
  if (!form.test(content))
    throw new DataDirError(
      `${file} does not hold what was once written there: restore it, or remove it to have a new one made.`,
    )
  return content
}
