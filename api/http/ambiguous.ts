import type { RequestHandler } from 'express'
import { Refusal } from '../../shared/foundation/errors.ts'
import { isHostAllowed } from '../../shared/foundation/hosts.ts'
import { sendRefusal } from './answer.ts'
import { discardRest } from './body.ts'

/**
 * Headers that may occur only once: a proxy and this server might each use another one (RFC 9110 section 5.3,
 * RFC 9112 section 3.2).
 */
const SINGLE_HEADERS = ['authorization', 'host']

/**
 * Returns middleware that refuses requests that a proxy could read differently: one of SINGLE_HEADERS twice,
 * or a Transfer-Encoding other than chunked (RFC 9112 section 6.1). It also refuses a Host that isn't among
 * `allowedHosts`.
 *
 * @param allowedHosts undefined allows any
 */
export function refuseAmbiguous(allowedHosts: readonly string[] | undefined): RequestHandler {
  return (req, res, next) => {
    const ambiguity = findAmbiguity(req.rawHeaders, req.headers['transfer-encoding'])
    const isOtherHost = allowedHosts !== undefined && !isHostAllowed(req.headers.host, allowedHosts)
    if (ambiguity === undefined && !isOtherHost) return next()
    res.setHeader('Connection', 'close')
    sendRefusal(
      res,
      new Refusal('invalid_field', ambiguity ?? 'The header Host names no host of this service.'),
    )
    discardRest(req)
  }
}

/**
 * Returns a sentence about what is ambiguous in the headers; undefined if nothing is.
 *
 * @param rawHeaders names and values by turns, as Node gives them
 * @param coding the header Transfer-Encoding
 */
function findAmbiguity(rawHeaders: readonly string[], coding: string | undefined): string | undefined {
  if (coding !== undefined && coding.trim().toLowerCase() !== 'chunked')
    return 'The body must be sent with a Content-Length or with "Transfer-Encoding: chunked".'
  const seen = new Set<string>()
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]?.toLowerCase() ?? ''
    if (!SINGLE_HEADERS.includes(name)) continue
    if (seen.has(name)) return `The header ${name} stands twice; send it once.`
    seen.add(name)
  }
  return undefined
}
