import type { ServerResponse } from 'node:http'
import { isOutage, unavailable } from '../../shared/platform/database.ts'
import { Refusal, statusOf } from '../../shared/platform/errors.ts'
import { RETRY_AFTER_SECONDS } from '../../shared/platform/limits.ts'
import type { Log } from '../../shared/platform/log.ts'
import { LateRequest } from './body.ts'
import type { NoteRefusal } from './refusals.ts'
import { trackUnread } from './unread.ts'

/** Sends a JSON object. For HEAD, Node leaves the body out and keeps its length. */
export function sendJson(res: ServerResponse, status: number, value: object): void {
  sendJsonText(res, status, Buffer.from(JSON.stringify(value)))
}

/** Sends a JSON object that is written already; its parts may be shared with other answers. */
export function sendJsonText(res: ServerResponse, status: number, ...parts: readonly Buffer[]): void {
  sendParts(res, status, 'application/json; charset=utf-8', parts)
}

/** Sends the parts one after the other as one body, and counts them as unread until the client has them. */
function sendParts(res: ServerResponse, status: number, type: string, parts: readonly Buffer[]): void {
  const length = parts.reduce((sum, part) => sum + part.length, 0)
  res.statusCode = status
  res.setHeader('Content-Type', type)
  res.setHeader('Content-Length', length)
  trackUnread(res, length)
  const [only = EMPTY] = parts
  if (parts.length <= 1) return void res.end(only)
  res.cork()
  for (const part of parts) res.write(part)
  res.end()
  res.uncork()
}

const EMPTY = Buffer.alloc(0)

/**
 * Sends a document as it is, with status 200. Our pages load and run nothing, and the headers tell browsers
 * so.
 */
export function sendDocument(res: ServerResponse, type: string, parts: readonly Buffer[]): void {
  res.setHeader('Content-Security-Policy', "default-src 'none'")
  res.setHeader('X-Content-Type-Options', 'nosniff')
  sendParts(res, 200, type, parts)
}

/** Sends a refusal with the headers that its status needs. */
export function sendRefusal(res: ServerResponse, refusal: Refusal): void {
  const { code, message, field, retryAfterSeconds } = refusal
  const status = refusal instanceof LateRequest ? 408 : statusOf(code)
  // Without it a cache may keep a refusal for as long as it thinks right (RFC 9111 section 4.2.2).
  res.setHeader('Cache-Control', 'no-store')
  if (status === 401) res.setHeader('WWW-Authenticate', 'Bearer')
  if (status === 429 || status === 503)
    res.setHeader('Retry-After', String(retryAfterSeconds ?? RETRY_AFTER_SECONDS))
  if ('locals' in res) Object.assign(res.locals as object, { error: code })
  sendJson(res, status, { ok: false, error: code, message, ...(field === undefined ? {} : { field }) })
}

/**
 * Returns the refusal to answer an error with. An outage of the database and a path that Express can't decode
 * have their own; any other error is a defect, which is logged and becomes `internal`, without its details.
 *
 * @param note counts a refusal for lack of room, an outage and the like
 */
export function toRefusal(error: unknown, log: Log, note: NoteRefusal, requestId: string): Refusal {
  if (error instanceof Refusal || isOutage(error)) {
    const refusal = error instanceof Refusal ? error : unavailable(error)
    if (refusal.countedAs !== undefined) note(refusal.countedAs, refusal.cause)
    return refusal
  }
  if (error instanceof URIError)
    return new Refusal(
      'invalid_field',
      'The path has a % that two hex digits do not follow, or that is not UTF-8; escape it as %25.',
    )
  log.error({ request_id: requestId, err: error }, 'a request ended in a defect')
  return new Refusal('internal', 'The service failed at this request; it has been logged.')
}
