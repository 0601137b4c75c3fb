import { createReadStream } from 'node:fs'
import type { Source } from './chain.ts'
import { Unchecked } from './findings.ts'
import { decodeText, isObject, isWhole, MAX_ANSWER_BYTES, parseJson } from './values.ts'

/*
 * Files, which may be anybody's: dumps, receipts, notes, policies.
 */

const MAX_FILE_BYTES = MAX_ANSWER_BYTES

/** The bytes of a file, up to a size. @throws Unchecked */
async function readBytes(file: string): Promise<Buffer> {
  const parts: Buffer[] = []
  let size = 0
  try {
    for await (const part of createReadStream(file) as AsyncIterable<Buffer>) {
      parts.push(part)
      size += part.length
      if (size > MAX_FILE_BYTES) throw new Error(`${file} has more than ${MAX_FILE_BYTES} bytes`)
    }
  } catch (error) {
    throw new Unchecked('usage', (error as Error).message)
  }
  return Buffer.concat(parts)
}

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
export async function readJsonFile(file: string): Promise<unknown> {
  const bytes = await readBytes(file)
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
