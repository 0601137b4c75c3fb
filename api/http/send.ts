import { promisify } from 'node:util'
import zlib from 'node:zlib'
import type { Request, Response } from 'express'
import { sendDocument, sendJsonText } from './answer.ts'
import { isPublic, type Route } from './route.ts'
import type { WrittenAnswer } from './write.ts'

const gzip = promisify(zlib.gzip)
/** Compressing shorter answers saves little. */
const MIN_COMPRESSED_BYTES = 1_024
/** Each piece of output is a call on the process's thread. */
const OUTPUT_BYTES = 256 * 1024

/**
 * Sends an answer. If all callers of the route get the same one, it has an etag, is compressed if the client
 * takes gzip, and 304 takes its place if the client names the etag.
 *
 * @param inTurn runs the compression when it may begin
 */
export async function send(
  req: Request,
  res: Response,
  route: Route,
  answer: WrittenAnswer,
  inTurn: (bytes: number, compress: () => Promise<Buffer>) => Promise<Buffer>,
): Promise<void> {
  const vary = variesBy(route)
  if (vary !== '') res.setHeader('Vary', vary)
  const { cache } = answer
  if (cache === undefined) {
    res.setHeader('Cache-Control', 'no-store')
    return sendParts(res, answer, answer.parts)
  }
  res.setHeader('ETag', cache.etag)
  res.setHeader('Cache-Control', cache.control)
  if (namesTag(req.headers['if-none-match'], cache.etag)) return void res.status(304).end()
  if (answer.bytes < MIN_COMPRESSED_BYTES || !takesGzip(req)) return sendParts(res, answer, answer.parts)
  const compressed = await inTurn(answer.bytes, () => compress(answer))
  res.setHeader('Content-Encoding', 'gzip')
  // Weak, since the strong tag belongs to the uncompressed bytes (RFC 9110 section 8.8.3.3).
  res.setHeader('ETag', `W/${cache.etag}`)
  sendParts(res, answer, [compressed])
}

/** The headers of the request that decide about an answer's form; empty if none does. */
function variesBy(route: Route): string {
  if (route.documents === undefined) return isPublic(route) ? 'Accept-Encoding' : ''
  return isPublic(route) ? 'Accept, Accept-Encoding' : 'Accept'
}

/** Whether the client names gzip in Accept-Encoding; one without that header gets the answer uncompressed. */
const takesGzip = (req: Request): boolean =>
  req.headers['accept-encoding'] !== undefined && req.acceptsEncodings('gzip') !== false

/** Sends the body of an answer, with the headers of a document or of JSON. */
function sendParts(res: Response, answer: WrittenAnswer, parts: readonly Buffer[]): void {
  if (answer.isJson) sendJsonText(res, answer.status, ...parts)
  else sendDocument(res, answer.type, parts)
}

/** What was compressed; an answer may be sent to many. */
const compressed = new WeakMap<WrittenAnswer, Promise<Buffer>>()

/** Compresses an answer, once however many callers get it. */
function compress(answer: WrittenAnswer): Promise<Buffer> {
  const known = compressed.get(answer)
  if (known !== undefined) return known
  const options = { level: zlib.constants.Z_BEST_SPEED, chunkSize: OUTPUT_BYTES }
  const result = gzip(Buffer.concat(answer.parts), options)
  compressed.set(answer, result)
  return result
}

/**
 * Whether `If-None-Match` names the etag (RFC 9110 section 13.1.2, compared weakly). Express's `req.fresh`
 * can't be used: it is false with `Cache-Control: no-cache`, which fetch adds by itself to each such request.
 */
function namesTag(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false
  return header.split(',').some((tag) => tag.trim() === '*' || tag.trim().replace(/^W\//, '') === etag)
}
