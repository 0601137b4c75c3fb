import type { ServerResponse } from 'node:http'
import { isOutage, unavailable } from '../../shared/database.ts'
import { Refusal, statusOf } from '../../shared/errors.ts'
import { RETRY_AFTER_SECONDS } from '../../shared/limits.ts'
import type { Log } from '../../shared/log.ts'
import { countUnread } from './admission.ts'

/** Writes a JSON object. Node leaves the body out for HEAD and keeps its length. */
export function sendJson(res: ServerResponse, status: number, value: object): void {
  sendJsonText(res, status, Buffer.from(JSON.stringify(value)))
}

/** A good answer as it goes out, written once for everyone who gets it. */
export function writeJson(view: object): Buffer {
  return Buffer.from(JSON.stringify({ ok: true, ...view }))
}

/** A good answer with a list whose items are JSON already, and their count. */
export function writeJsonList(name: string, items: readonly string[]): Buffer {
  return Buffer.from(`{"ok":true,"${name}":[${items.join(',')}],"count":${items.length}}`)
}

/** Writes a JSON object that is text already. */
export function sendJsonText(res: ServerResponse, status: number, text: Buffer): void {
  res.statusCode = status
  res.setHeader('Content-Type', 'application/json; charset=utf-8')
  res.setHeader('Content-Length', text.length)
  countUnread(res, text.length)
  res.end(text)
}

/** Writes a text as it is. A page of ours loads and runs nothing, and a browser is told so. */
export function sendDocumentText(res: ServerResponse, document: { type: string; text: string }): void {
  const text = Buffer.from(document.text)
  res.statusCode = 200
  res.setHeader('Content-Type', document.type)
  res.setHeader('Content-Length', text.length)
  res.setHeader('Content-Security-Policy', "default-src 'none'")
  res.setHeader('X-Content-Type-Options', 'nosniff')
  countUnread(res, text.length)
  res.end(text)
}

/** Writes a refusal with the headers that its code asks for. */
export function sendRefusal(res: ServerResponse, refusal: Refusal): void {
  const { code, message, field, retryAfterSeconds } = refusal
  const status = statusOf(code)
  if (status === 401) res.setHeader('WWW-Authenticate', 'Bearer')
  if (status === 503) res.setHeader('Retry-After', String(retryAfterSeconds ?? RETRY_AFTER_SECONDS))
  sendJson(res, status, { ok: false, error: code, message, ...(field === undefined ? {} : { field }) })
}

/**
 * Any error as a refusal from the table. An outage of the database is not a defect, and neither is a path that Express
 * cannot decode; whatever else comes is one, is logged, and tells nothing.
 */
export function toRefusal(error: unknown, log: Log, requestId: string): Refusal {
  if (error instanceof Refusal) return error
  if (isOutage(error)) {
    log.warn({ request_id: requestId, err: error }, 'MongoDB did not answer')
    return unavailable(error)
  }
  if (error instanceof URIError)
    return new Refusal('invalid_field', 'The path has a % that two hex digits do not follow, or that is not UTF-8; escape it as %25.')
  log.error({ request_id: requestId, err: error }, 'a request ended in a defect')
  return new Refusal('internal', 'The service failed at this request; it has been logged.')
}
