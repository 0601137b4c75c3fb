import { randomBytes } from 'node:crypto'
import {
  closeSync,
  fchmodSync,
  fstatSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs'
import path from 'node:path'
import { lockByFiles } from './file-lock.ts'

const OWNER_ONLY_FILE = 0o600
const OWNER_ONLY_DIR = 0o700
const OTHERS = 0o077
const LOCK_MS = 10_000
const SQLITE_BUSY = 5

/** Makes the directory of a file if it is missing, for its owner alone. */
export function makePrivateDir(filePath: string): void {
  mkdirSync(path.dirname(filePath), { recursive: true, mode: OWNER_ONLY_DIR })
}

/**
 * Writes a value as JSON into a file that only its owner can read. Whoever reads it, also after a power cut, finds the old content
 * or the new and no part of either: written beside it, synced, renamed, directory synced.
 */
export function writePrivateFile(filePath: string, value: object, indent = 0): void {
  writeBeside(filePath, value, indent, (fresh) => renameSync(fresh, filePath))
}

/**
 * Writes a value as JSON into a new file that only its owner can read, whole or not at all, as writePrivateFile() does.
 *
 * @throws the platform's EEXIST if the file exists
 */
export function createPrivateFile(filePath: string, value: object, indent = 0): void {
  writeBeside(filePath, value, indent, (fresh) => {
    linkSync(fresh, filePath) // unlike a rename it never replaces
    rmSync(fresh)
  })
}

/**
 * Reads a file of JSON that only its owner may read or write.
 *
 * @param read gives undefined for a value that isn't right, which is undefined itself if the file isn't JSON
 * @param wrong what an Error then says of the file; if absent, it counts as missing
 * @returns what `read` gives; undefined if there is no such file
 * @throws what `read` throws; Error that says what mends it for a file that others may read or write
 */
export function readPrivateFile<T>(
  filePath: string,
  read: (value: unknown) => T | undefined,
  wrong?: string,
): T | undefined {
  let file: number
  try {
    file = openSync(filePath, 'r')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  try {
    const value = read(parseJson(readFileSync(file, 'utf8')))
    if (value === undefined && wrong !== undefined) throw new Error(`${filePath} ${wrong}`)
    const mode = fstatSync(file).mode & 0o777
    if (process.platform !== 'win32' && (mode & OTHERS) !== 0)
      throw new Error(
        `${filePath} is open to other users (mode ${mode.toString(8)}), so it is not used; "chmod 600 ${filePath}" mends it.`,
      )
    return value
  } finally {
    closeSync(file)
  }
}

/** Parses JSON; undefined for other text, which a caller then refuses like any other wrong value. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/**
 * Runs `change` while no other process of this host changes the same file by this function; others wait for
 * their turn. The lock is SQLite's exclusive one on `<file>.lock`, the operating system's own: it ends with
 * its holder, however that ends. A Node without SQLite, before 22.13, locks by files that name their holders.
 *
 * @param change synchronous: it reads what the file holds by now, and replaces it
 * @throws Error if the lock isn't free within 10 s
 */
export function withFileLock<T>(filePath: string, change: () => T): T {
  makePrivateDir(filePath)
  const release = takeLock(filePath)
  if (release === undefined)
    throw new Error(`${filePath} is held by another process; try again when that one has ended.`)
  try {
    return change()
  } finally {
    release()
  }
}

/** Waits up to 10 s for the lock. @returns a function that releases it; undefined if it isn't free in time */
function takeLock(filePath: string): (() => void) | undefined {
  const sqlite = findSqlite()
  if (sqlite === undefined) return lockByFiles(filePath, LOCK_MS)
  const lockFile = `${filePath}.lock`
  // Before SQLite makes it by the umask: whoever may open it could hold the lock.
  const fd = openSync(lockFile, 'a', 0o600)
  fchmodSync(fd, 0o600) // one from an earlier version may be there
  closeSync(fd)
  const database = new sqlite.DatabaseSync(lockFile, { timeout: LOCK_MS })
  try {
    database.exec('BEGIN EXCLUSIVE')
    return () => database.close()
  } catch (error) {
    database.close()
    if ((error as { errcode?: number }).errcode !== SQLITE_BUSY) throw error
    return undefined
  }
}

/** Node's SQLite; undefined on a Node without it. */
function findSqlite(): typeof import('node:sqlite') | undefined {
  const { getBuiltinModule, emitWarning } = process
  // Node 22 calls SQLite experimental on stderr, once, where the command's own words belong.
  process.emitWarning = () => undefined
  try {
    return (getBuiltinModule as typeof getBuiltinModule | undefined)?.('node:sqlite')
  } finally {
    process.emitWarning = emitWarning
  }
}

/** Writes a new file beside the named one, synced, and lets `putInPlace` give it the name; removes it if that fails. */
function writeBeside(
  filePath: string,
  value: object,
  indent: number,
  putInPlace: (fresh: string) => void,
): void {
  makePrivateDir(filePath)
  const fresh = `${filePath}.${randomBytes(6).toString('hex')}.tmp`
  try {
    const file = openSync(fresh, 'wx', OWNER_ONLY_FILE)
    try {
      const bytes = Buffer.from(`${JSON.stringify(value, null, indent)}\n`)
      for (let done = 0; done < bytes.length;) done += writeSync(file, bytes, done)
      fsyncSync(file)
    } finally {
      closeSync(file)
    }
    putInPlace(fresh)
  } catch (error) {
    rmSync(fresh, { force: true })
    throw error
  }
  syncDir(path.dirname(filePath))
}

/** Syncs a directory, so that a rename in it survives a power cut. */
function syncDir(dir: string): void {
  if (process.platform === 'win32') return // a directory cannot be opened there
  const handle = openSync(dir, 'r')
  try {
    fsyncSync(handle)
  } finally {
    closeSync(handle)
  }
}
