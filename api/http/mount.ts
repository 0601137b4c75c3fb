import { randomUUID } from 'node:crypto'
import type { ErrorRequestHandler, Request, RequestHandler, Response, Router } from 'express'
import type { Context } from '../../shared/context.ts'
import { Refusal } from '../../shared/platform/errors.ts'
import { API_BASE, CLOSE_LIMIT_MS } from '../../shared/platform/limits.ts'
import { createDiskGuard } from '../../shared/platform/disk-guard.ts'
import { runInScope } from '../../shared/platform/scope.ts'
import { sendJson, sendRefusal } from './answer.ts'
import type { Authenticator } from './authenticate.ts'
import { discardRest, LateRequest } from './body.ts'
import type { Gate } from './gate.ts'
import { measureRequests } from './measure.ts'
import { toRefusal, type NoteRefusal } from './refusals.ts'
import type { Route } from './route.ts'
import { serve } from './serve.ts'
import type { Visitor } from './turns.ts'
import type { Waits } from '../waits.ts'

/** How long a browser may remember which methods and headers a path accepts. */
const PREFLIGHT_SECONDS = 86_400

/**
 * Returns a path in Express's form: `{name}` becomes `:name`. With `endsOpen` the last one becomes `*name`,
 * whose value may have slashes.
 */
const expressPath = (path: string, endsOpen = false): string =>
  (endsOpen ? path.replace(/\{(\w+)\}$/, '*$1') : path).replace(/\{(\w+)\}/g, ':$1')

/** Returns the one or two paths of a route, the one below the API base first. */
export function pathsOf(route: Route): string[] {
  if (route.onlyAtRoot) return [route.path]
  const below = route.path === '/' ? API_BASE : `${API_BASE}${route.path}`
  return route.alsoAtRoot ? [below, route.path] : [below]
}

/**
 * Mounts the routes, and for each path an answer to all other methods. Paths without parameters come first,
 * so that `/claim/resolve` isn't taken for the claim with the id `resolve`.
 */
export function mountRoutes(
  router: Router,
  ctx: Context,
  authenticator: Authenticator,
  gate: Gate,
  routes: readonly Route[],
  waits: Waits,
): void {
  const requireDisk = createDiskGuard(ctx)
  const frame = { ctx, authenticator, gate, requireDisk, waits }
  const byPath = new Map<string, Route[]>()
  for (const route of routes)
    for (const path of pathsOf(route)) byPath.set(path, [...(byPath.get(path) ?? []), route])
  for (const [path, routesOfPath] of [...byPath].sort(
    ([pathA], [pathB]) => Number(pathA.includes('{')) - Number(pathB.includes('{')),
  )) {
    const allowed = routesOfPath.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : ['POST']))
    for (const route of routesOfPath) {
      const handler = serve(frame, route)
      if (route.method === 'GET') router.get(expressPath(path, route.endsOpen), handler)
      else router.post(expressPath(path), handler)
    }
    router.all(
      expressPath(path, routesOfPath[0]?.endsOpen),
      answerOtherMethods(gate, [...allowed, 'OPTIONS']),
    )
  }
}

/** Who takes the turns of a request; nobody that is known until its route has said so. */
const visitorOf = (req: Request, res: Response): Visitor =>
  (res.locals['visitor'] as Visitor | undefined) ?? { line: 'open', caller: req.socket }

/**
 * Returns a handler that answers OPTIONS with the methods of a path, and refuses methods that it doesn't
 * take.
 */
function answerOtherMethods(gate: Gate, allowed: readonly string[]): RequestHandler {
  return async (req, res) => {
    res.setHeader('Allow', allowed.join(', '))
    if (req.method !== 'OPTIONS')
      throw new Refusal(
        'method_not_allowed',
        `This path does not take ${req.method}; it takes ${allowed.join(', ')}.`,
      )
    await gate.next(visitorOf(req, res))
    res.setHeader('Access-Control-Allow-Methods', allowed.join(', '))
    res.setHeader('Access-Control-Allow-Headers', 'Authorization, Content-Type, If-None-Match')
    res.setHeader('Access-Control-Max-Age', PREFLIGHT_SECONDS)
    sendJson(res, 200, { ok: true, methods: allowed })
  }
}

/**
 * Gives each request an id, for `X-Request-Id`, the log and the jobs that it enqueues; the headers for calls
 * from web pages; and an AbortController, `res.locals.life`, which stops its work when its caller has left.
 */
export const beginRequest: RequestHandler = (_req, res, next) => {
  const id = randomUUID()
  res.locals['requestId'] = id
  res.setHeader('X-Request-Id', id)
  // Any page may call: unlike a cookie, a token is never sent by a browser on its own.
  res.setHeader('Access-Control-Allow-Origin', '*')
  res.setHeader('Access-Control-Expose-Headers', 'Allow, ETag, Retry-After, WWW-Authenticate, X-Request-Id')
  const life = new AbortController()
  res.locals['life'] = life
  // An answer closes once, and a listener that is not taken off again costs less.
  res.on('close', () => {
    if (!res.writableFinished)
      life.abort(new Refusal('unavailable', 'The caller has left.', { countedAs: 'caller_left' }))
  })
  runInScope({ request_id: id }, next, life.signal)
}

/** Refuses a request to a path that no route has. @throws Refusal `no_such_route` */
export const refuseUnknownPath: RequestHandler = (req) => {
  throw noSuchRoute(req)
}

const noSuchRoute = ({ method }: Request): Refusal =>
  new Refusal('no_such_route', `There is no route ${method} at this path; GET ${API_BASE} lists them all.`)

/**
 * Returns what makes a request's final handler, in place of Express's, which answers with HTML. The router
 * calls it with an error that answerErrors() hasn't answered, or without one for a request target that is not
 * a URL, which the router gives up before the first middleware.
 */
export function answerUnrouted(
  ctx: Context,
  gate: Gate,
  note: NoteRefusal,
): (req: Request, res: Response) => (error?: unknown) => void {
  const measure = measureRequests(ctx)
  const answerError = answerErrors(ctx, gate, note)
  return (req, res) => (error) => {
    const ignored = (): void => undefined
    const answer = (reason: unknown): void => void answerError(reason, req, res, ignored)
    if (error !== undefined) return answer(error)
    beginRequest(req, res, () => measure(req, res, () => answer(noSuchRoute(req))))
  }
}

/**
 * Returns the handler that answers an error with a refusal: see toRefusal(). If a part of the answer has been
 * sent, the connection is cut.
 */
export function answerErrors(ctx: Context, gate: Gate, note: NoteRefusal): ErrorRequestHandler {
  return async (error: unknown, req, res, _next) => {
    // The turn of a request whose time is over, too: a refusal costs as much as many an answer.
    const { line, caller } = visitorOf(req, res)
    await gate.next({ line, caller })
    const refusal = toRefusal(error, ctx.log, note, String(res.locals['requestId']))
    if (res.headersSent || res.destroyed) return void res.destroy()
    if (refusal instanceof LateRequest) res.setHeader('Connection', 'close')
    sendRefusal(res, refusal)
    const limitMs = refusal instanceof LateRequest ? CLOSE_LIMIT_MS : undefined
    discardRest(req, () => gate.runWhole({ line, caller }, () => undefined), limitMs)
  }
}
