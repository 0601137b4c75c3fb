import { z } from 'zod'
import { pathsOf } from '../../api/http/mount.ts'
import type { Route } from '../../api/http/route.ts'
import { paymentAskedView } from '../../shared/passes/payment-asked.ts'
import { ERRORS, statusOf, type ErrorCode } from '../../shared/platform/errors.ts'
import { oncePer } from '../../shared/platform/once-per.ts'

/** What any request can be told, whatever its route. */
const EVERYWHERE: readonly ErrorCode[] = ['unavailable', 'method_not_allowed', 'no_such_route']
const OF_ACCESS: Record<Route['access'], readonly ErrorCode[]> = {
  open: [],
  optional: ['invalid_token', 'banned'],
  token: ['missing_token', 'invalid_token', 'banned'],
  fresh: ['missing_token', 'invalid_token', 'banned'],
  pass: ['missing_token', 'invalid_token', 'banned', 'pass_required'],
}
const OF_PARSING: readonly ErrorCode[] = ['missing_field', 'invalid_field']
const OF_BODIES: readonly ErrorCode[] = ['invalid_json', 'body_too_large', 'unsupported_media_type']

const refusalView = z.strictObject({
  ok: z.literal(false),
  error: z.enum(Object.keys(ERRORS) as [ErrorCode, ...ErrorCode[]]),
  message: z.string().min(10),
  field: z.string().optional(),
  pay: paymentAskedView.optional(),
})

/**
 * Checks an answer against what its route declares: a good one has a declared status and the declared view
 * with no field beside it, at any depth, or is a document of a declared type; a refusal is one of the table,
 * with its status and headers, that the route names.
 *
 * @throws Error naming the route and what does not fit
 */
export type AnswerCheck = (
  method: string,
  pathname: string,
  answer: { status: number; headers: Headers; json: unknown },
) => void

export function createAnswerCheck(routes: readonly Route[]): AnswerCheck {
  const known = routes.flatMap((route) =>
    pathsOf(route).map((path) => ({
      route,
      pattern: new RegExp(`^${path.replace(/\{\w+\}/g, '[^/]+')}/?$`),
    })),
  )
  return (method, pathname, { status, headers, json }) => {
    const name = `${method} ${pathname} → ${status}`
    const found = known.find(({ route, pattern }) => route.method === method && pattern.test(pathname))
    const type = headers.get('content-type')?.split(';')[0] ?? 'nothing'
    if (
      status === 200 &&
      !Object.hasOwn(json as object, 'ok') &&
      Object.hasOwn(found?.route.documents ?? {}, type)
    )
      return
    if (type !== 'application/json') throw new Error(`${name} has the type ${type}`)
    if ((json as { ok?: unknown }).ok === true) {
      if (found === undefined) throw new Error(`${name} is a good answer of no known route`)
      if (!(found.route.statuses ?? [200]).some((declared) => declared === status))
        throw new Error(`${name}: the route declares ${(found.route.statuses ?? [200]).join(', ')}`)
      const result = checkedView(found.route.view).safeParse(json)
      if (!result.success)
        throw new Error(
          `${name} does not fit the view of its route: ${z.prettifyError(result.error)}\n${JSON.stringify(json).slice(0, 2_000)}`,
        )
      return
    }
    const refusal = refusalView.safeParse(json)
    if (!refusal.success)
      throw new Error(
        `${name} is no refusal of the table: ${z.prettifyError(refusal.error)}\n${JSON.stringify(json).slice(0, 2_000)}`,
      )
    const { error, pay } = refusal.data
    if ((status === 402) !== (pay !== undefined)) throw new Error(`${name} says wrongly what is to be paid`)
    if (statusOf(error) !== status)
      throw new Error(`${name} says ${error}, whose status is ${statusOf(error)}`)
    if (status === 401 && headers.get('www-authenticate') !== 'Bearer')
      throw new Error(`${name} has no WWW-Authenticate: Bearer`)
    if (status === 503 && !/^[1-9]\d*$/.test(headers.get('retry-after') ?? ''))
      throw new Error(`${name} has no Retry-After`)
    if (status === 405 && headers.get('allow') === null) throw new Error(`${name} has no Allow`)
    if (found !== undefined && !mayRefuse(found.route).has(error))
      throw new Error(`${name} says ${error}, which the route does not declare`)
  }
}

function mayRefuse(route: Route): Set<ErrorCode> {
  const parses = route.body !== undefined || route.query !== undefined || route.params !== undefined
  return new Set([
    ...EVERYWHERE,
    ...OF_ACCESS[route.access],
    ...(parses ? OF_PARSING : []),
    ...(route.method === 'POST' ? OF_BODIES : []),
    ...(route.errors ?? []),
  ])
}

/** Once in a process, for all of its services: zod writes and compiles a program for each schema that it is asked to use. */
const checkedView = oncePer(withOk)

function withOk(view: Route['view']): z.ZodType {
  if (view instanceof z.ZodUnion) return z.union(view.options.map(withOk) as [z.ZodType, z.ZodType])
  return strictly(view.extend({ ok: z.literal(true) }))
}

/**
 * The same schema that takes no field beside the named ones, at any depth; an object declared loose stays so.
 */
function strictly(schema: z.core.$ZodType): z.ZodType {
  if (schema instanceof z.ZodObject && schema.def.catchall === undefined)
    return z.strictObject(
      Object.fromEntries(
        Object.entries(schema.shape).map(([name, field]) => [name, strictly(field as z.core.$ZodType)]),
      ),
    )
  if (schema instanceof z.ZodArray) return z.array(strictly(schema.element))
  if (schema instanceof z.ZodUnion) return z.union(schema.options.map(strictly) as [z.ZodType, z.ZodType])
  if (schema instanceof z.ZodNullable) return z.nullable(strictly(schema.unwrap()))
  if (schema instanceof z.ZodOptional) return z.optional(strictly(schema.unwrap()))
  return schema as z.ZodType
}
