import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { ed25519PublicKey, keyFromHex, keyToHex } from '../crypto/ed25519.ts'
import { replaceFile, syncFolder } from '../platform/durable-file.ts'
import { readPrivateFile } from '../platform/private-file.ts'
import { NO_PAYLOAD_HASH, SealError } from './seal.ts'
import { memoryText, readMemory } from './seal-memory.ts'

/**
 * Reads the Ed25519 secret key (32 bytes, the seed of RFC 8032) from its file: 64 lower-case hex characters
 * and a line feed, readable by its owner alone.
 *
 * @returns undefined if there is no such file: a key may be given later
 * @throws SealError if others may read the file, or it holds something else
 */
export function readSealKey(file: string): Uint8Array | undefined {
  let text: string
  try {
    text = readPrivateFile('The seal key', file, (problem) => new SealError(problem))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  try {
    return keyFromHex(text)
  } catch {
    throw new SealError(
      `The seal key ${file} does not hold a key: expected 64 lower-case hex characters. Restore it from where it was kept.`,
    )
  }
}

/** Where the seal memory lies if no other place is named: beside the key. */
export const defaultMemoryFile = (keyFile: string): string => path.join(path.dirname(keyFile), 'seal-memory')

/**
 * Makes a seal key, mode 600, and its memory, which says that nothing was signed with it. Does nothing if the
 * key's file exists. A memory that knows a signature stays as it is: then this key can't sign until an
 * operator adopts a seal.
 *
 * The memory is written first: a memory without its key has signed nothing and is replaced, and a key without
 * its memory signs nothing. The key gets its name only once it is whole and synced, and never replaces
 * another.
 */
export function ensureSealKey(file: string, memoryFile: string = defaultMemoryFile(file)): void {
  if (fs.existsSync(file)) return
  const key = randomBytes(32)
  // A memory that knows a signature belongs to a key that is gone; it stays, and forbids what it forbade.
  if ((readMemory(memoryFile)?.seq ?? 0) === 0)
    replaceFile(
      memoryFile,
      memoryText({ seq: 0, payload_hash: NO_PAYLOAD_HASH, pubkey: keyToHex(ed25519PublicKey(key)) }),
    )
  const fresh = `${file}.${process.pid}.new`
  const handle = fs.openSync(fresh, 'w', 0o600)
  try {
    fs.fchmodSync(handle, 0o600)
    fs.writeSync(handle, `${key.toString('hex')}\n`)
    fs.fsyncSync(handle)
  } finally {
    fs.closeSync(handle)
  }
  try {
    fs.linkSync(fresh, file) // unlike a rename, it fails if another process has made a key meanwhile
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    fs.rmSync(fresh)
  }
  syncFolder(path.dirname(file))
}
