import fs from 'node:fs'
import path from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { performStep, type WatchStep } from './step.ts'

const SQLITE_BUSY = 5

/** Takes a file for this process alone, by {@link takeLock} on `<file>.lock`. */
export const lockFile = (file: string): (() => void) | undefined => takeLock(`${file}.lock`)

/**
 * SQLite's exclusive lock on a file of its own, which is the operating system's (fcntl): it ends with its
 * holder, however that ends, so there is no stale lock to break and no process number to compare. A second
 * taking within one process is refused too. It holds within one host.
 *
 * @returns the function that releases it; undefined if it is held
 */
export function takeLock(lockName: string): (() => void) | undefined {
  const lock = new DatabaseSync(lockName, { timeout: 0 })
  try {
    lock.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE')
  } catch (error) {
    lock.close()
    if ((error as { errcode?: number }).errcode === SQLITE_BUSY) return undefined
    throw error
  }
  return () => lock.close()
}

/**
 * Replaces a file's text, mode 600. Resolves when the file and its name are synced: after a crash it holds
 * this or what it held before. The writes are called `<name>-file` and `<name>` to their watcher.
 */
export async function writeDurably(
  file: string,
  text: string,
  name: string,
  watch?: WatchStep,
): Promise<void> {
  await performStep(watch, `${name}-file`, () => writeFresh(file, text))
  await performStep(watch, name, () => renameFresh(file))
}

/** As {@link writeDurably}, at once. */
export function replaceFile(file: string, text: string): void {
  writeFresh(file, text)
  renameFresh(file)
}

const freshOf = (file: string): string => `${file}.new`

function writeFresh(file: string, text: string): void {
  const handle = fs.openSync(freshOf(file), 'w', 0o600)
  try {
    fs.writeFileSync(handle, text)
    fs.fsyncSync(handle)
  } finally {
    fs.closeSync(handle)
  }
}

function renameFresh(file: string): void {
  fs.renameSync(freshOf(file), file)
  syncFolder(path.dirname(file))
}

/** Makes a rename or a new name in a folder last. */
export function syncFolder(folder: string): void {
  const handle = fs.openSync(folder, 'r')
  try {
    fs.fsyncSync(handle)
  } finally {
    fs.closeSync(handle)
  }
}

/**
 * What a file of ours holds, by its schema; undefined if there is no such file.
 *
 * @param broken makes the error for a file that holds something else
 */
export function readJsonFile<T>(
  file: string,
  schema: { parse(value: unknown): T },
  broken: (cause: unknown) => Error,
): T | undefined {
  let text: string
  try {
    text = fs.readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  try {
    return schema.parse(JSON.parse(text))
  } catch (error) {
    throw broken(error)
  }
}
