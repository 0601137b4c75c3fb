import { createHash } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { promisify } from 'node:util'
import zlib from 'node:zlib'
import type { Request, Response } from 'express'
import { statusOf, type Refusal } from '../../shared/platform/errors.ts'
import { PART_BYTES, RETRY_AFTER_SECONDS } from '../../shared/platform/limits.ts'
import { trackUnread } from './connection.ts'
import { isLate } from './refusals.ts'
import {
  cacheAndRevalidate,
  isCached,
  isPublic,
  type Caching,
  type GivenAnswer,
  type Route,
} from './route.ts'

/** An answer as it is sent, to one caller or to many. */
export interface WrittenAnswer {
  status: number
  /** The media type of a document; undefined for JSON. */
  document: string | undefined
  /** One after the other they are the body. Text, which goes out with the head, if one caller gets it. */
  parts: readonly (string | Buffer)[]
  /** Undefined if no cache may keep it. */
  cache: Caching | undefined
  /** What was compressed once for all who get it. */
  compressed?: Promise<Buffer>
}

const JSON_TYPE = 'application/json; charset=utf-8'
const lengthOf = (parts: WrittenAnswer['parts']): number =>
  parts.reduce((sum, part) => sum + Buffer.byteLength(part), 0)

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
  // A short answer costs less in one piece.
  const write = route.weight === undefined ? (view: object) => [JSON.stringify(view)] : piecesOfJson
  const body = 'body' in given ? given.body : write({ ok: true, ...(given.view as object) })
  const known = Buffer.isBuffer(body) ? written.get(body) : undefined
  if (known !== undefined) return known
  const hash = isCached(route) && given.cache === undefined ? createHash('sha256') : undefined
  const parts: (string | Buffer)[] = []
  const isShared = isPublic(route) && route.weight !== undefined
  for (const part of Buffer.isBuffer(body) ? [body] : joinTexts(body, isShared)) {
    parts.push(part)
    hash?.update(part)
    if (part.length >= PART_BYTES) await next()
  }
  const tag = hash?.digest('hex').slice(0, 32)
  const answer: WrittenAnswer = {
    status: given.status,
    document: 'body' in given ? given.document : undefined,
    parts,
    cache: isCached(route) ? (given.cache ?? cacheAndRevalidate(tag ?? '')) : undefined,
  }
  if (Buffer.isBuffer(body)) written.set(body, answer)
  return answer
}

/** Joins texts to parts of about PART_BYTES, encoded if `isShared`, and leaves bytes as they are. */
function* joinTexts(pieces: Iterable<string | Buffer>, isShared: boolean): Iterable<string | Buffer> {
  const encode = (text: string) => (isShared ? Buffer.from(text) : text)
  let text = ''
  for (const piece of pieces) {
    if (typeof piece === 'string') text += piece
    if (typeof piece === 'string' && text.length < PART_BYTES) continue
    if (text !== '') yield encode(text)
    text = ''
    if (typeof piece !== 'string') yield piece
  }
  if (text !== '') yield encode(text)
}

/** Gives a value as JSON, and its lists item by item, also those of the objects in it. */
export function* piecesOfJson(value: unknown): Iterable<string> {
  if (Array.isArray(value)) {
    yield '['
    // An item that JSON can't say is null there.
    for (const [index, item] of value.entries())
      yield `${index === 0 ? '' : ','}${JSON.stringify(item ?? null)}`
    yield ']'
  } else if (typeof value === 'object' && value !== null && !('toJSON' in value)) {
    let before = '{'
    for (const [name, field] of Object.entries(value) as [string, unknown][]) {
      if (field === undefined) continue
      yield `${before}${JSON.stringify(name)}:`
      before = ','
      yield* piecesOfJson(field)
    }
    yield before === '{' ? '{}' : '}'
  } else yield JSON.stringify(value)
}

const gzip = promisify(zlib.gzip)
/** Each piece of output is a call on the process's thread. */
const GZIP = { level: zlib.constants.Z_BEST_SPEED, chunkSize: 256 * 1024 }
/** Compressing shorter answers saves little. */
const MIN_COMPRESSED_BYTES = 1_024

/**
 * Sends an answer. If it has an etag, it is compressed for a client that takes gzip, and 304 takes its place
 * if the client names the etag.
 *
 * @param inTurn runs the compression of so many bytes when it may begin
 */
export async function sendAnswer(
  req: Request,
  res: Response,
  route: Route,
  answer: WrittenAnswer,
  inTurn: (bytes: number, compress: () => Promise<Buffer>) => Promise<Buffer>,
): Promise<void> {
  const { status, document, parts, cache } = answer
  const decides = [route.documents && 'Accept', isPublic(route) && 'Accept-Encoding'].filter(Boolean)
  if (decides.length > 0) res.setHeader('Vary', decides.join(', '))
  res.setHeader('Cache-Control', cache?.control ?? 'no-store')
  if (cache !== undefined) res.setHeader('ETag', cache.etag)
  if (cache !== undefined && namesTag(req.headers['if-none-match'], cache.etag))
    return void res.status(304).end()
  if (document !== undefined) {
    // Our pages load and run nothing, and browsers are told so.
    res.setHeader('Content-Security-Policy', "default-src 'none'")
    res.setHeader('X-Content-Type-Options', 'nosniff')
  }
  const length = lengthOf(parts)
  if (cache === undefined || length < MIN_COMPRESSED_BYTES || !takesGzip(req))
    return sendParts(res, status, document ?? JSON_TYPE, parts)
  const compressed = await inTurn(
    length,
    () =>
      (answer.compressed ??= gzip(
        Buffer.concat(answer.parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : part))),
        GZIP,
      )),
  )
  res.setHeader('Content-Encoding', 'gzip')
  // Weak, since the strong tag belongs to the uncompressed bytes (RFC 9110 section 8.8.3.3).
  res.setHeader('ETag', `W/${cache.etag}`)
  sendParts(res, status, document ?? JSON_TYPE, [compressed])
}

/** Whether the client names gzip in Accept-Encoding; one without that header gets the answer uncompressed. */
const takesGzip = (req: Request): boolean =>
  req.headers['accept-encoding'] !== undefined && req.acceptsEncodings('gzip') !== false

/**
 * Whether `If-None-Match` names the etag (RFC 9110 section 13.1.2, compared weakly). Express's `req.fresh`
 * can't be used: it is false with `Cache-Control: no-cache`, which fetch adds by itself to each such request.
 */
function namesTag(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false
  return header.split(',').some((tag) => tag.trim() === '*' || tag.trim().replace(/^W\//, '') === etag)
}

/** Sends a refusal with the headers that its status needs. */
export function sendRefusal(res: ServerResponse, refusal: Refusal): void {
  const { code, message, field, pay, retryAfterSeconds } = refusal
  const status = isLate(refusal) ? 408 : statusOf(code)
  // Without it a cache may keep a refusal for as long as it thinks right (RFC 9111 section 4.2.2).
  res.setHeader('Cache-Control', 'no-store')
  if (status === 401) res.setHeader('WWW-Authenticate', 'Bearer')
  if (status === 429 || status === 503)
    res.setHeader('Retry-After', String(retryAfterSeconds ?? RETRY_AFTER_SECONDS))
  if ('locals' in res) Object.assign(res.locals as object, { error: code })
  sendJson(res, status, { ok: false, error: code, message, field, pay })
}

/** Sends a JSON object. For HEAD, Node leaves the body out and keeps its length. */
export function sendJson(res: ServerResponse, status: number, value: object): void {
  sendParts(res, status, JSON_TYPE, [JSON.stringify(value)])
}

/** Sends the parts one after the other as one body. What the system doesn't take at once counts as unread. */
function sendParts(res: ServerResponse, status: number, type: string, parts: WrittenAnswer['parts']): void {
  const length = lengthOf(parts)
  res.statusCode = status
  res.setHeader('Content-Type', type)
  res.setHeader('Content-Length', length)
  if (parts.length <= 1) res.end(parts[0])
  else {
    res.cork()
    for (const part of parts) res.write(part)
    res.end()
    res.uncork()
  }
  if (res.writableLength > 0) trackUnread(res, length)
}
