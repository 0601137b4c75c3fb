import { hash } from 'node:crypto'
import { promisify } from 'node:util'
import zlib from 'node:zlib'
import type { Request, Response } from 'express'
import { sendDocument, sendJsonText, writeJson } from './answer.ts'
import { cacheAndRevalidate, isPublic, type GivenAnswer, type Route } from './route.ts'

const gzip = promisify(zlib.gzip)
/** Compressing shorter answers saves little. */
const MIN_COMPRESSED_BYTES = 1_024

/**
 * Sends an answer. If all callers of the route get the same one, it has an etag, is compressed if the client
 * takes gzip, and 304 takes its place if the client names the etag.
 */
export async function send(
  req: Request,
  res: Response,
  route: Route,
  given: GivenAnswer<unknown>,
): Promise<void> {
  const parts = bytesOf(given)
  const vary = variesBy(route)
  if (vary !== '') res.setHeader('Vary', vary)
  if (!isPublic(route)) return sendParts(res, given, parts)
  const cache = given.cache ?? (route.changesEachTime ? undefined : cacheAndRevalidate(tagOf(parts)))
  if (cache !== undefined) {
    res.setHeader('ETag', cache.etag)
    res.setHeader('Cache-Control', cache.control)
    if (namesTag(req.headers['if-none-match'], cache.etag)) return void res.status(304).end()
  }
  const length = parts.reduce((sum, part) => sum + part.length, 0)
  if (length < MIN_COMPRESSED_BYTES || !takesGzip(req)) return sendParts(res, given, parts)
  const compressed = await compress(parts)
  res.setHeader('Content-Encoding', 'gzip')
  // Weak, since the strong tag belongs to the uncompressed bytes (RFC 9110 section 8.8.3.3).
  if (cache !== undefined) res.setHeader('ETag', `W/${cache.etag}`)
  sendParts(res, given, [compressed])
}

/** The headers of the request that decide about an answer's form; empty if none does. */
function variesBy(route: Route): string {
  if (route.documents === undefined) return isPublic(route) ? 'Accept-Encoding' : ''
  return isPublic(route) ? 'Accept, Accept-Encoding' : 'Accept'
}

/** Whether the client names gzip in Accept-Encoding; one without that header gets the answer uncompressed. */
const takesGzip = (req: Request): boolean =>
  req.headers['accept-encoding'] !== undefined && req.acceptsEncodings('gzip') !== false

/** Returns the body of an answer, in parts. */
function bytesOf(given: GivenAnswer<unknown>): readonly Buffer[] {
  if ('document' in given) {
    const { text } = given.document
    return [typeof text === 'string' ? Buffer.from(text) : text]
  }
  return 'json' in given ? [given.json].flat() : [writeJson(given.view as object)]
}

/** Sends the body of an answer, with the headers of a document or of JSON. */
function sendParts(res: Response, given: GivenAnswer<unknown>, parts: readonly Buffer[]): void {
  if ('document' in given) sendDocument(res, given.document.type, parts)
  else sendJsonText(res, given.status, ...parts)
}

/**
 * Returns a function that calls `compute` with the parts as one buffer. For an answer in one part it
 * remembers the result by that buffer, which may be shared by many answers.
 */
function memoizeByBuffer<Result>(compute: (bytes: Buffer) => Result): (parts: readonly Buffer[]) => Result {
  const results = new WeakMap<Buffer, Result>()
  return ([first = EMPTY, ...more]) => {
    if (more.length > 0) return compute(Buffer.concat([first, ...more]))
    const known = results.get(first)
    if (known !== undefined) return known
    const result = compute(first)
    results.set(first, result)
    return result
  }
}

const EMPTY = Buffer.alloc(0)
const tagOf = memoizeByBuffer((bytes) => hash('sha256', bytes, 'hex').slice(0, 32))
const compress = memoizeByBuffer((bytes) => gzip(bytes, { level: zlib.constants.Z_BEST_SPEED }))

/**
 * Whether `If-None-Match` names the etag (RFC 9110 section 13.1.2, compared weakly). Express's `req.fresh`
 * can't be used: it is false with `Cache-Control: no-cache`, which fetch adds by itself to each such request.
 */
function namesTag(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false
  return header.split(',').some((tag) => tag.trim() === '*' || tag.trim().replace(/^W\//, '') === etag)
}
