import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { keyFromHex } from '../crypto/ed25519.ts'
import { signingKeyOf, type SigningKey } from '../crypto/message-signature.ts'
import { replaceFile } from '../platform/durable-file.ts'
import { readPrivateFile } from '../platform/private-file.ts'
import { StartError } from '../platform/process.ts'

/**
 * Reads the key that signs rings, and makes one, with mode 600, if the file is missing. Its signature shows receivers
 * that a ring is the service's. It serves nothing else: a lost key is replaced at the next start.
 *
 * @throws StartError if others may read the file, or it holds something else
 */
export function openDoorbellKey(file: string): SigningKey {
  const wanted = (problem: string) => new StartError(problem)
  if (!fs.existsSync(file)) {
    fs.mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 })
    replaceFile(file, `${randomBytes(32).toString('hex')}\n`)
  }
  try {
    return signingKeyOf(keyFromHex(readPrivateFile('The doorbells’ key', file, wanted)))
  } catch (error) {
    if (error instanceof StartError) throw error
    throw new StartError(
      `The doorbells’ key ${file} does not hold a key: expected 64 lower-case hex characters. Remove it, and the next start makes another.`,
    )
  }
}
