import { randomBytes } from 'node:crypto'
import { closeSync, fsyncSync, linkSync, mkdirSync, openSync, readFileSync, renameSync, rmSync, writeSync } from 'node:fs'
import path from 'node:path'

const OWNER_ONLY_FILE = 0o600
const OWNER_ONLY_DIR = 0o700

/** Makes the directory of a file where it is missing, for its owner alone. */
export function makePrivateDir(filePath: string): void {
  mkdirSync(path.dirname(filePath), { recursive: true, mode: OWNER_ONLY_DIR })
}

/**
 * Writes a file that only its owner can read. Whoever reads it, also after a power cut, finds the old content or the
 * new and no part of either: written beside it, synced, renamed, directory synced.
 */
export function writePrivateFile(filePath: string, text: string): void {
  writeBeside(filePath, text, (written) => renameSync(written, filePath))
}

/** The same for a file that must not be there yet. @throws the EEXIST of the platform where it is */
export function createPrivateFile(filePath: string, text: string): void {
  writeBeside(filePath, text, (written) => {
    linkSync(written, filePath) // unlike a rename it never replaces
    rmSync(written)
  })
}

/** The file's text, or undefined where there is none. */
export function readPrivateFile(filePath: string): string | undefined {
  try {
    return readFileSync(filePath, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

function writeBeside(filePath: string, text: string, putInPlace: (written: string) => void): void {
  makePrivateDir(filePath)
  const written = `${filePath}.${randomBytes(6).toString('hex')}.tmp`
  try {
    const file = openSync(written, 'wx', OWNER_ONLY_FILE)
    try {
      const bytes = Buffer.from(text)
      for (let done = 0; done < bytes.length;) done += writeSync(file, bytes, done)
      fsyncSync(file)
    } finally {
      closeSync(file)
    }
    putInPlace(written)
  } catch (error) {
    rmSync(written, { force: true })
    throw error
  }
  syncDir(path.dirname(filePath))
}

function syncDir(dir: string): void {
  if (process.platform === 'win32') return // a directory cannot be opened there
  const handle = openSync(dir, 'r')
  try {
    fsyncSync(handle)
  } finally {
    closeSync(handle)
  }
}
