import { createHash } from 'node:crypto'
import { PART_BYTES } from '../../shared/platform/limits.ts'
import { cacheAndRevalidate, isPublic, type Caching, type GivenAnswer, type Route } from './route.ts'

/** An answer as it is sent, to one caller or to many. */
export interface WrittenAnswer {
  status: number
  /** The media type. */
  type: string
  /** False for documents, which keep their standard's form. */
  isJson: boolean
  /** One after the other they are the body. */
  parts: readonly Buffer[]
  bytes: number
  /** Absent if no cache may keep it. */
  cache: Caching | undefined
}

const JSON_TYPE = 'application/json; charset=utf-8'

/** Answers whose bytes are always the same, by these bytes. */
const written = new WeakMap<Buffer, WrittenAnswer>()

/**
 * Writes an answer in parts of about PART_BYTES.
 *
 * @param next resolves when the next part may be written
 */
export async function writeAnswer(
  route: Route,
  given: GivenAnswer<unknown>,
  next: () => Promise<void>,
): Promise<WrittenAnswer> {
  const whole = wholeOf(given)
  const known = whole === undefined ? undefined : written.get(whole)
  if (known !== undefined) return known
  const mayBeKept = isPublic(route) && route.changesEachTime !== true
  const hash = mayBeKept && given.cache === undefined ? createHash('sha256') : undefined
  const parts: Buffer[] = []
  let bytes = 0
  let text = ''
  const add = (part: Buffer): void => {
    parts.push(part)
    bytes += part.length
    hash?.update(part)
  }
  for (const piece of whole === undefined ? piecesOf(given) : [whole]) {
    if (typeof piece === 'string') text += piece
    if (typeof piece === 'string' && text.length < PART_BYTES) continue
    if (text !== '') add(Buffer.from(text))
    text = ''
    if (typeof piece !== 'string') add(piece)
    if (whole === undefined) await next()
  }
  if (text !== '') add(Buffer.from(text))
  const tag = hash?.digest('hex').slice(0, 32)
  const answer = {
    status: given.status,
    type: 'document' in given ? given.document.type : JSON_TYPE,
    isJson: !('document' in given),
    parts,
    bytes,
    cache: mayBeKept ? (given.cache ?? cacheAndRevalidate(tag ?? '')) : undefined,
  }
  if (whole !== undefined) written.set(whole, answer)
  return answer
}

/** The body of an answer that a handler gives in one piece of bytes; undefined if it doesn't. */
function wholeOf(given: GivenAnswer<unknown>): Buffer | undefined {
  const content = 'document' in given ? given.document.text : 'json' in given ? given.json : undefined
  return Buffer.isBuffer(content) ? content : undefined
}

/** Gives the body of an answer in pieces, each of about a record's length. */
function* piecesOf(given: GivenAnswer<unknown>): Iterable<string | Buffer> {
  if ('document' in given) yield given.document.text
  else if ('json' in given) yield* given.json as Iterable<string | Buffer>
  else yield* piecesOfJson({ ok: true, ...(given.view as object) })
}

/** Gives an object as JSON, its lists item by item, also those of the objects in it. */
export function* piecesOfJson(object: object): Iterable<string> {
  let before = '{'
  for (const [name, value] of Object.entries(object) as [string, unknown][]) {
    if (value === undefined) continue
    yield `${before}${JSON.stringify(name)}:`
    before = ','
    if (Array.isArray(value)) yield* piecesOfList(value)
    else if (isPlain(value)) yield* piecesOfJson(value)
    else yield JSON.stringify(value)
  }
  yield before === '{' ? '{}' : '}'
}

function* piecesOfList(list: readonly unknown[]): Iterable<string> {
  yield '['
  for (const [index, item] of list.entries()) {
    if (index > 0) yield ','
    // As JSON.stringify writes a list.
    yield item === undefined ? 'null' : JSON.stringify(item)
  }
  yield ']'
}

/** Whether a value is an object that JSON writes field by field. */
const isPlain = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !('toJSON' in value)

/** Gives a list of records that are JSON already, under its name and with its count. */
export function* listOfJson(name: string, items: readonly string[]): Iterable<string> {
  yield `{"ok":true,"${name}":[`
  for (const [index, item] of items.entries()) yield index === 0 ? item : `,${item}`
  yield `],"count":${items.length}}`
}
