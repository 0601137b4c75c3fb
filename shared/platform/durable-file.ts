import { hash } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { performStep, type WatchStep } from './step.ts'

const SQLITE_BUSY = 5

/** Kept here because the garbage collector closes, and so unlocks, a database that nothing refers to. */
const held = new Set<DatabaseSync>()

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
    // The upper bits say why it is busy.
    if (((error as { errcode?: number }).errcode ?? 0) % 256 === SQLITE_BUSY) return undefined
    throw error
  }
  held.add(lock)
  return () => {
    held.delete(lock)
    lock.close()
  }
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
 * Replaces a file's content and syncs the file and its name before it returns; after a crash before that the
 * file has the old or the new content.
 *
 * @param mode that of a file which others may read; 600 if absent
 */
export function replaceFile(file: string, content: string | Uint8Array, mode?: number): void {
  writeFresh(file, content, mode)
  renameFresh(file)
}

/** Where a new text is written before it takes the file's name. */
const freshOf = (file: string): string => `${file}.new`

/** Writes and syncs the new content of a file beside it. */
function writeFresh(file: string, content: string | Uint8Array, mode = 0o600): void {
  const handle = fs.openSync(freshOf(file), 'w', mode)
  try {
    fs.fchmodSync(handle, mode) // one that was left over may have another
    fs.writeFileSync(handle, content)
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
 * The text of a JSON file that says itself whether it is as it was written: its last field, `sum`, is the
 * SHA-256 of the fields before it. A program that knows no sums reads the other fields as before.
 *
 * @param indent as JSON.stringify() takes it
 */
export function textWithSum(fields: Readonly<Record<string, unknown>>, indent?: number): string {
  return `${JSON.stringify({ ...fields, sum: sumOf(Object.entries(fields)) }, undefined, indent)}\n`
}

const sumOf = (fields: readonly [string, unknown][]): string =>
  hash('sha256', JSON.stringify(Object.fromEntries(fields)), 'hex')

/**
 * Parses a text of textWithSum(). One without a sum, as versions before it wrote, must have no field that the
 * schema doesn't know, since a name may be damaged too; fields behind the sum are of such a version.
 *
 * @throws Error for another sum, SyntaxError and the schema's error for another text
 */
export function parseWithSum<T extends object>(text: string, schema: { parse(value: unknown): T }): T {
  const fields = Object.entries(JSON.parse(text) as object)
  const place = fields.findIndex(([name]) => name === 'sum')
  if (place >= 0 && fields[place]?.[1] !== sumOf(fields.slice(0, place))) throw new Error('its sum differs')
  const others = fields.filter(([name]) => name !== 'sum')
  const value = schema.parse(Object.fromEntries(others))
  const unknown = others.find(([name]) => !Object.hasOwn(value, name))
  if (place < 0 && unknown !== undefined) throw new Error(`it has an unknown field ${unknown[0]}`)
  return value
}

/**
 * Reads a JSON file and parses it by a schema; undefined if there is no such file.
 *
 * @param broken makes the error for a file that isn't JSON of this schema, or not as textWithSum() wrote it
 * @throws the error of `broken`; any other error of reading the file
 */
export function readJsonFile<T extends object>(
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
    return parseWithSum(text, schema)
  } catch (error) {
    throw broken(error)
  }
}
