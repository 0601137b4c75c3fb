import { createReadStream } from 'node:fs'
import type { Source } from './chain.ts'
import { Unchecked } from './findings.ts'
import { decodeText, isObject, isWhole, MAX_ANSWER_BYTES, parseJson } from './values.ts'

/*
 * Files, which may be anybody's: dumps, receipts, notes, policies.
 */

const MAX_FILE_BYTES = MAX_ANSWER_BYTES

/** Runs something that reads or writes a file. @throws Unchecked `usage` */
export async function fromFile<T>(use: () => Promise<T>): Promise<T> {
  try {
    return await use()
  } catch (error) {
    throw error instanceof Unchecked ? error : new Unchecked('usage', (error as Error).message)
  }
}

/** The bytes of a file, up to a size. @throws Unchecked */
const readBytes = (file: string): Promise<Buffer> =>
  fromFile(async () => {
    const parts: Buffer[] = []
    let size = 0
    for await (const part of createReadStream(file) as AsyncIterable<Buffer>) {
      parts.push(part)
      size += part.length
      if (size > MAX_FILE_BYTES) throw new Unchecked('usage', `${file} has more than ${MAX_FILE_BYTES} bytes`)
    }
    return Buffer.concat(parts)
  })

/** A file's text. @throws Unchecked if it can't be read, or isn't UTF-8 */
export async function readText(file: string): Promise<string> {
  const bytes = await readBytes(file)
  try {
    return decodeText(bytes)
  } catch {
    throw new Unchecked('usage', `${file} is not text in UTF-8`)
  }
}

/** The JSON in a file. @throws Unchecked */
export const readJsonFile = async (file: string): Promise<unknown> => parseFile(file, await readBytes(file))

function parseFile(file: string, bytes: Uint8Array): unknown {
  try {
    return parseJson(bytes)
  } catch (error) {
    throw new Unchecked('usage', `${file} is not JSON: ${(error as Error).message.slice(0, 200)}`)
  }
}

/** A source of lists. */
export function listSource(seals: Iterable<unknown>, entries: Iterable<unknown>): Source {
  return {
    async *seals() {
      yield* seals
    },
    async *entries(from) {
      let isReached = false
      for (const entry of entries) {
        isReached ||= !isObject(entry) || !isWhole(entry['id']) || entry['id'] >= from
        if (isReached) yield entry
      }
    },
  }
}
