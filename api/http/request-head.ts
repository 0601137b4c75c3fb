import type { IncomingMessage } from 'node:http'
import type { RequestHandler } from 'express'
import { Refusal } from '../../shared/platform/errors.ts'
import { isHostAllowed } from '../../shared/platform/hosts.ts'

/** Headers that are sent once: a proxy might use another one (RFC 9110 section 5.3, RFC 9112 section 3.2). */
const SINGLE_HEADERS = ['authorization', 'host']

/**
 * Returns middleware that refuses requests that a proxy could read differently: a version other than HTTP/1.0
 * and 1.1, no Host with the latter (RFC 9112 section 3.2), one of SINGLE_HEADERS twice, or a Transfer-Encoding
 * other than chunked (RFC 9112 section 6.1). It also refuses a Host that isn't among `allowedHosts`, and an
 * Expect other than 100-continue.
 *
 * @param allowedHosts undefined allows any
 */
export function refuseSmuggling(allowedHosts: readonly string[] | undefined): RequestHandler {
  return (req, res, next) => {
    const ambiguity = findSmuggling(req)
    const isOtherHost = allowedHosts !== undefined && !isHostAllowed(req.headers.host, allowedHosts)
    if (ambiguity !== undefined || isOtherHost) {
      res.setHeader('Connection', 'close')
      throw new Refusal('invalid_field', ambiguity ?? 'The header Host names no host of this service.')
    }
    if (req.httpVersion === '1.1' && !/\b100-continue\b/i.test(req.headers.expect ?? '100-continue'))
      throw new Refusal('invalid_field', 'The header Expect may only be 100-continue.')
    next()
  }
}

/** Returns a sentence about what a proxy could read differently in a request's head; undefined if there is nothing. */
function findSmuggling({ headers, rawHeaders, httpVersion }: IncomingMessage): string | undefined {
  const coding = headers['transfer-encoding']
  if (httpVersion !== '1.1' && httpVersion !== '1.0')
    return 'The request line must end with HTTP/1.1 (or HTTP/1.0).'
  if (httpVersion === '1.1' && headers.host === undefined)
    return 'A request of HTTP/1.1 must have the header Host.'
  if (coding !== undefined && coding.trim().toLowerCase() !== 'chunked')
    return 'The body must be sent with a Content-Length or with "Transfer-Encoding: chunked".'
  // Names stand at even places, values at odd ones.
  const countOf = (name: string): number =>
    rawHeaders.filter((text, place) => place % 2 === 0 && text.toLowerCase() === name).length
  const twice = SINGLE_HEADERS.find((name) => countOf(name) > 1)
  return twice === undefined ? undefined : `The header ${twice} stands twice; send it once.`
}

/** Headers that say what the client prefers. An honest one is a few dozen bytes long. */
const PREFERENCES = ['accept', 'accept-charset', 'accept-encoding', 'accept-language'] as const
const MAX_PREFERENCE_LENGTH = 1_024

/**
 * Takes the headers away that say in a kilobyte or more what the client prefers: to weigh that against each
 * other would cost more than the answer (RFC 9110 section 12.1 lets a server take no notice of them).
 */
export const ignoreLongPreferences: RequestHandler = (req, _res, next) => {
  for (const name of PREFERENCES)
    if (String(req.headers[name] ?? '').length > MAX_PREFERENCE_LENGTH) delete req.headers[name]
  next()
}
