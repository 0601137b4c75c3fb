import type { z } from 'zod'
import { statusOf, type ErrorCode } from '../../shared/platform/errors.ts'
import type { Access, Route } from '../http/route.ts'

/**
 * Returns every refusal that a route can give, by status, ascending: those of its access, of its parsing,
 * those that it declares, `internal`, and `unavailable` if it needs the database.
 */
export function refusalsOf(route: Route): Map<number, ErrorCode[]> {
  const codes = new Set<ErrorCode>([
    ...ACCESS_REFUSALS[route.access],
    ...(route.method === 'POST' ? BODY_REFUSALS : []),
    ...parsingRefusals(route),
    ...(route.errors ?? []),
    'internal',
  ])
  if (route.needsDatabase !== false) codes.add('unavailable')
  return new Map([...Map.groupBy(codes, statusOf)].sort(([a], [b]) => a - b))
}

const ACCESS_REFUSALS: Record<Access, readonly ErrorCode[]> = {
  open: [],
  optional: ['invalid_token', 'banned'],
  token: ['missing_token', 'invalid_token', 'banned'],
  fresh: ['missing_token', 'invalid_token', 'banned'],
  pass: ['missing_token', 'invalid_token', 'banned', 'pass_required'],
}
const BODY_REFUSALS: readonly ErrorCode[] = ['body_too_large', 'unsupported_media_type']

/** Returns the refusals that parsing a request of this route can give, except `invalid_field`. */
function parsingRefusals(route: Route): ErrorCode[] {
  const hasRequiredField = [route.body, route.query].some(
    (fields) =>
      fields !== undefined &&
      Object.values(fields.shape).some((field) => !(field as z.ZodType).safeParse(undefined).success),
  )
  const codes: ErrorCode[] = []
  if (route.body !== undefined) codes.push('invalid_json')
  if (hasRequiredField) codes.push('missing_field')
  // A parameter that is empty or has a slash makes it another path.
  if (route.params !== undefined) codes.push('no_such_route')
  return codes
}
