import type { RequestHandler } from 'express'
import { Refusal } from '../../shared/foundation/errors.ts'
import { isHostAllowed } from '../../shared/foundation/hosts.ts'
import { sendRefusal } from './answer.ts'
import { discardRest } from './body.ts'

/**
 * Of these, two readers between a client and us might each take another one (RFC 9110 section 5.3, RFC 9112
 * section 3.2).
 */
const ONCE = ['authorization', 'host']

/**
 * Refuses what two programs could read differently: a header twice that may stand once, a body in another
 * coding than chunks (RFC 9112 section 6.1), and a host that the operator didn't name, if any was.
 */
export function refuseAmbiguous(allowedHosts: readonly string[] | undefined): RequestHandler {
  return (req, res, next) => {
    const obstacle = obstacleOf(req.rawHeaders, req.headers['transfer-encoding'])
    const isForeign = allowedHosts !== undefined && !isHostAllowed(req.headers.host, allowedHosts)
    if (obstacle === undefined && !isForeign) return next()
    res.setHeader('Connection', 'close')
    sendRefusal(
      res,
      new Refusal('invalid_field', obstacle ?? 'The header Host names no host of this service.'),
    )
    discardRest(req)
  }
}

function obstacleOf(rawHeaders: readonly string[], coding: string | undefined): string | undefined {
  if (coding !== undefined && coding.trim().toLowerCase() !== 'chunked')
    return 'The body must be sent with a Content-Length or with "Transfer-Encoding: chunked".'
  const seen = new Set<string>()
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]?.toLowerCase() ?? ''
    if (!ONCE.includes(name)) continue
    if (seen.has(name)) return `The header ${name} stands twice; send it once.`
    seen.add(name)
  }
  return undefined
}
