import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { canonicalJson } from '../../shared/crypto/canonical-json.ts'
import type { Source } from './chain.ts'
import { Unchecked } from './findings.ts'
import type { Recorder } from './service.ts'
import { decodeText, isObject, isWhole, MAX_ANSWER_BYTES, parseJson } from './values.ts'

/*
 * Files, which may be anybody's: dumps, receipts, notes, policies. A dump as --save writes it has one entry
 * or seal a line, and is read line by line, however long it is.
 */

const MAX_FILE_BYTES = MAX_ANSWER_BYTES // of a dump: of each line
const DUMP_HEAD = '{"entries":['
const DUMP_MIDDLE = '],"seals":['
const DUMP_END = ']}'

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
export function listSource(
  seals: Iterable<unknown> | AsyncIterable<unknown>,
  entries: Iterable<unknown> | AsyncIterable<unknown>,
): Source {
  return {
    async *seals() {
      yield* seals
    },
    async *entries(from) {
      let isReached = false
      for await (const entry of entries) {
        isReached ||= !isObject(entry) || !isWhole(entry['id']) || entry['id'] >= from
        if (isReached) yield entry
      }
    },
  }
}

/** The source of a dump that is read line by line; undefined for any other file. @throws Unchecked */
export async function dumpSource(file: string): Promise<Source | undefined> {
  const handle = await fromFile(() => open(file))
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(DUMP_HEAD.length + 1), 0)
    if (buffer.toString('latin1', 0, bytesRead) !== `${DUMP_HEAD}\n`) return undefined
  } finally {
    await handle.close()
  }
  const again = (part: 'entries' | 'seals') => ({ [Symbol.asyncIterator]: () => readDump(file, part) })
  return listSource(again('seals'), again('entries'))
}

async function* readDump(file: string, wanted: 'entries' | 'seals'): AsyncGenerator<unknown, void> {
  let part = ''
  for await (const line of readLines(file)) {
    const text = line.toString('latin1')
    if (part === 'end') throw new Unchecked('usage', `${file} goes on after its end`)
    if (text === DUMP_HEAD) part = 'entries'
    else if (text === DUMP_MIDDLE) part = 'seals'
    else if (text === DUMP_END) part = 'end'
    else if (part === wanted) yield parseFile(file, text.endsWith(',') ? line.subarray(0, -1) : line)
    if (part === 'seals' && wanted === 'entries') return
  }
  if (part !== 'end') throw new Unchecked('usage', `${file} ends in the middle`)
}

/** The lines of a file as bytes; they end in LF, the last one with or without it. @throws Unchecked */
async function* readLines(file: string): AsyncGenerator<Buffer> {
  let rest: Buffer[] = []
  let bytes = 0
  const take = (part: Buffer) => {
    rest.push(part)
    bytes += part.length
    if (bytes > MAX_FILE_BYTES)
      throw new Unchecked('usage', `${file} has a line of more than ${MAX_FILE_BYTES} bytes`)
  }
  for await (const part of createReadStream(file) as AsyncIterable<Buffer>) {
    let start = 0
    for (let end = part.indexOf(10); end !== -1; end = part.indexOf(10, start)) {
      take(part.subarray(start, end))
      yield Buffer.concat(rest)
      rest = []
      bytes = 0
      start = end + 1
    }
    take(part.subarray(start))
  }
  if (bytes > 0) yield Buffer.concat(rest)
}

/** Opens a file to write a dump into, entry by entry; seals are held back until the entries are complete. */
export async function openDump(file: string): Promise<Recorder & { close(): Promise<void> }> {
  const handle = await fromFile(() => open(file, 'w'))
  const seals: string[] = []
  let pending = [DUMP_HEAD]
  let isFirst = true
  async function flush(): Promise<void> {
    await handle.write(`${pending.join('\n')}\n`)
    pending = []
  }
  return {
    seal: (seal) => void seals.push(dumpLine(seal)),
    async entry(entry) {
      if (!isFirst) pending.push(`${pending.pop() ?? ''},`)
      isFirst = false
      pending.push(dumpLine(entry))
      if (pending.length <= 5_000) return
      const last = pending.pop() ?? '' // it may still need its comma
      await flush()
      pending.push(last)
    },
    async close() {
      pending.push(DUMP_MIDDLE, ...(seals.length > 0 ? [seals.join(',\n')] : []), DUMP_END)
      await flush()
      await handle.close()
    },
  }
}

/** A value on one line: in canonical form if it has one, else as JSON; `null` if it can't be written. */
function dumpLine(value: unknown): string {
  try {
    return canonicalJson(value)
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
  }
  // The check refuses it; it is kept as evidence if it can be written.
  try {
    return JSON.stringify(value)
  } catch (error) {
    if (error instanceof RangeError) return 'null'
    throw error
  }
}
