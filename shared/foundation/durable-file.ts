import fs from 'node:fs'
import path from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { performStep, type WatchStep } from './step.ts'

const SQLITE_BUSY = 5

/**
 * Locks a file for this process alone, by {@link takeLock} on `<file>.lock`.
 *
 * @returns a function that releases the lock; undefined if somebody holds it
 */
export const lockFile = (file: string): (() => void) | undefined => takeLock(`${file}.lock`)

/**
 * Takes SQLite's exclusive lock on a file that serves no other purpose. It is a lock of the operating system
 * (fcntl), which ends with its process, so there are no stale locks. It is also exclusive within one process,
 * but only within one host.
 *
 * @returns a function that releases the lock; undefined if somebody holds it
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
 * Replaces a file's text, with mode 600. Resolves when the file and its name are synced; after a crash before
 * that the file has the old or the new text. `watch` is told of the writes as `<name>-file` and `<name>`.
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

/**
 * Replaces a file's text, with mode 600, and syncs the file and its name before it returns; after a crash
 * before that the file has the old or the new text.
 */
export function replaceFile(file: string, text: string): void {
  writeFresh(file, text)
  renameFresh(file)
}

/** Where a new text is written before it takes the file's name. */
const freshOf = (file: string): string => `${file}.new`

/** Writes and syncs the new text of a file beside it, with mode 600. */
function writeFresh(file: string, text: string): void {
  const handle = fs.openSync(freshOf(file), 'w', 0o600)
  try {
    fs.writeFileSync(handle, text)
    fs.fsyncSync(handle)
  } finally {
    fs.closeSync(handle)
  }
}

/** Gives the new text the file's name, durably. */
function renameFresh(file: string): void {
  fs.renameSync(freshOf(file), file)
  syncFolder(path.dirname(file))
}

/** Syncs a folder, so that a rename or a new name in it survives a crash. */
export function syncFolder(folder: string): void {
  const handle = fs.openSync(folder, 'r')
  try {
    fs.fsyncSync(handle)
  } finally {
    fs.closeSync(handle)
  }
}

/**
 * Reads a JSON file and parses it by a schema; undefined if there is no such file.
 *
 * @param broken makes the error for a file that isn't JSON of this schema
 * @throws the error of `broken`; any other error of reading the file
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
