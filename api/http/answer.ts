import type { ServerResponse } from 'node:http';
import { isOutage, unavailable } from '../../shared/database.ts';
import { Refusal, statusOf } from '../../shared/errors.ts';
import type { Log } from '../../shared/log.ts';
import { BODY_TOO_LARGE } from './parse.ts';

/** Writes a JSON object. Node leaves the body out for HEAD and keeps its length. */
export function sendJson(res: ServerResponse, status: number, value: object): void {
  sendJsonText(res, status, Buffer.from(JSON.stringify(value)));
}

/** Writes a JSON object that is text already. */
export function sendJsonText(res: ServerResponse, status: number, text: Buffer): void {
  res.statusCode = status;
  res.setHeader('Content-Type', 'application/json; charset=utf-8');
  res.setHeader('Content-Length', text.length);
  res.end(text);
}

/** Writes a text as it is. A page of ours loads and runs nothing, and a browser is told so. */
export function sendDocumentText(res: ServerResponse, document: { type: string; text: string }): void {
  const text = Buffer.from(document.text);
  res.statusCode = 200;
  res.setHeader('Content-Type', document.type);
  res.setHeader('Content-Length', text.length);
  res.setHeader('Content-Security-Policy', "default-src 'none'");
  res.setHeader('X-Content-Type-Options', 'nosniff');
  res.end(text);
}

/** Writes a refusal with the headers that its code asks for. */
export function sendRefusal(res: ServerResponse, refusal: Refusal): void {
  const { code, message, field, retryAfterSeconds } = refusal;
  const status = statusOf(code);
  if (status === 401) res.setHeader('WWW-Authenticate', 'Bearer');
  if (status === 503) res.setHeader('Retry-After', String(retryAfterSeconds ?? 2));
  sendJson(res, status, { ok: false, error: code, message, ...(field === undefined ? {} : { field }) });
}

/**
 * Any error as a refusal from the table. What Express and its body reader throw carries only a status; an outage of the
 * database is not a defect; whatever else comes is one, is logged, and tells nothing.
 */
export function toRefusal(error: unknown, log: Log, requestId: string): Refusal {
  if (error instanceof Refusal) return error;
  if (isOutage(error)) {
    log.warn({ request_id: requestId, err: error }, 'MongoDB did not answer');
    return unavailable(error);
  }
  const { status, type } = error as { status?: unknown; type?: unknown };
  if (status === 413) return new Refusal('body_too_large', BODY_TOO_LARGE);
  if (status === 415) return new Refusal('unsupported_media_type', 'The body has an encoding that is not understood; send it plain, or as gzip, deflate or br.');
  if (error instanceof URIError) return new Refusal('invalid_field', 'The path has a % that two hex digits do not follow, or that is not UTF-8; escape it as %25.');
  if (typeof status === 'number' && status >= 400 && status < 500) {
    return new Refusal('invalid_json', type === 'request.aborted' ? 'The body ended before its length was reached.' : 'The body could not be read as JSON in UTF-8.');
  }
  log.error({ request_id: requestId, err: error }, 'a request ended in a defect');
  return new Refusal('internal', 'The service failed at this request; it has been logged.');
}
