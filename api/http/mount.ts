import { randomUUID } from 'node:crypto'
import type { ErrorRequestHandler, Request, RequestHandler, Response, Router } from 'express'
import type { Caller } from '../../shared/agents/agent-store.ts'
import type { Context } from '../../shared/context.ts'
import { unavailable } from '../../shared/database.ts'
import { withDeadline } from '../../shared/deadline.ts'
import { Refusal } from '../../shared/errors.ts'
import { API_BASE } from '../../shared/limits.ts'
import { runInScope } from '../../shared/scope.ts'
import { createAdmission, type Admission } from './admission.ts'
import { sendDocumentText, sendJson, sendJsonText, sendRefusal, toRefusal } from './answer.ts'
import type { Authenticator } from './authenticate.ts'
import { discardRest, readBody } from './body.ts'
import { measureRequests } from './measure.ts'
import { parseFields } from './parse.ts'
import type { GivenAnswer, Route } from './route.ts'

/** `{name}` of a route's path → Express's `:name`. */
const expressPath = (path: string): string => path.replace(/\{(\w+)\}/g, ':$1')

/** The paths that a route answers at. */
export function pathsOf(route: Route): string[] {
  if (route.onlyAtRoot) return [route.path]
  const below = route.path === '/' ? API_BASE : `${API_BASE}${route.path}`
  return route.alsoAtRoot ? [below, route.path] : [below]
}

/** Mounts the routes, and for each path what every other method on it gets. Paths without parameters come first: `/claim/resolve` is no claim's id. */
export function mountRoutes(router: Router, ctx: Context, authenticator: Authenticator, routes: readonly Route[]): void {
  const admission = createAdmission()
  const byPath = new Map<string, Route[]>()
  for (const route of routes) for (const path of pathsOf(route)) byPath.set(path, [...(byPath.get(path) ?? []), route])
  for (const [path, own] of [...byPath].sort(([one], [other]) => Number(one.includes('{')) - Number(other.includes('{')))) {
    const allowed = own.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : ['POST']))
    for (const route of own) {
      if (route.method === 'GET') router.get(expressPath(path), serve(ctx, authenticator, admission, route))
      else router.post(expressPath(path), serve(ctx, authenticator, admission, route))
    }
    router.all(expressPath(path), refuseMethod([...allowed, 'OPTIONS']))
  }
}

/**
 * Authenticate → read → parse → handle → view. Until the first connection and every index stand, no uniqueness holds, so
 * nothing that needs the database is served.
 */
function serve(ctx: Context, authenticator: Authenticator, admission: Admission, route: Route): RequestHandler {
  const kind = route.method === 'POST' ? 'writes' : 'reads'
  return async (req, res) => {
    if (route.needsDatabase !== false && !ctx.database.isReady()) throw unavailable()
    const given = await answer(req)
    if (route.documents !== undefined) res.vary('Accept')
    if (given.cache !== undefined) {
      res.setHeader('ETag', given.cache.etag)
      res.setHeader('Cache-Control', given.cache.control)
      if (namesTag(req.headers['if-none-match'], given.cache.etag)) return void res.status(304).end()
    }
    if ('document' in given) sendDocumentText(res, given.document)
    else if ('json' in given) sendJsonText(res, given.status, given.json)
    else sendJson(res, given.status, { ok: true, ...(given.view as object) })
  }

  async function answer(req: Request): Promise<GivenAnswer<unknown>> {
    let leftMs = ctx.config.requestMs
    const authenticate = async (): Promise<Caller | undefined> => {
      const startedAt = performance.now()
      const found = await admission.work(kind, () =>
        withinTime(authenticator.authenticate(route.access, req.headers.authorization, route.takesBanned), leftMs),
      )
      leftMs = Math.max(0, leftMs - (performance.now() - startedAt))
      return found
    }
    const early = await authenticate()
    const isWhole = route.body === undefined || req.complete
    // The client's own time, which the server bounds, is not the service's.
    const body =
      route.body === undefined ? undefined : parseFields(route.body, await readBody(req, route.access === 'open' ? 'open' : 'token'))
    const call = {
      ctx,
      // A body may take half a minute, and meanwhile a token may have been replaced, or its agent banned.
      caller: isWhole ? early : await authenticate(),
      body,
      query: route.query === undefined ? undefined : parseFields(route.query, req.query),
      params: route.params === undefined ? undefined : parseFields(route.params, req.params),
      peek: req.method === 'HEAD',
      prefers: (types: readonly string[]) => req.accepts([...types]) || undefined,
      aside: <T>(wait: () => Promise<T>) => admission.aside(kind, wait),
    }
    return admission.work(kind, () => withinTime(Promise.resolve(route.handle(call)), leftMs + (route.patienceMs ?? 0)))
  }
}

/**
 * Whether `If-None-Match` names the etag (RFC 9110 section 13.1.2, compared weakly). Express's own `req.fresh` says no
 * wherever the request has `Cache-Control: no-cache`, which fetch adds by itself to each such request.
 */
function namesTag(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false
  return header.split(',').some((tag) => tag.trim() === '*' || tag.trim().replace(/^W\//, '') === etag)
}

/** A database that took a command and fell silent is an outage too. What was begun may still be stored, and the refusal says so. */
const withinTime = <T>(work: Promise<T>, limitMs: number): Promise<T> => withDeadline(work, limitMs, () => unavailable())

function refuseMethod(allowed: readonly string[]): RequestHandler {
  return (req, res) => {
    res.setHeader('Allow', allowed.join(', '))
    if (req.method === 'OPTIONS') {
      res.setHeader('Access-Control-Allow-Methods', allowed.filter((method) => method !== 'POST').join(', '))
      res.setHeader('Access-Control-Allow-Headers', 'Authorization, Content-Type')
      sendJson(res, 200, { ok: true, methods: allowed })
      return
    }
    sendRefusal(res, new Refusal('method_not_allowed', `This path does not take ${req.method}; it takes ${allowed.join(', ')}.`))
  }
}

/**
 * An id for each request, made here: it stands in `X-Request-Id`, in the log, and with the jobs that the request
 * enqueues, and says nothing about the caller.
 */
export const identifyRequest: RequestHandler = (req, res, next) => {
  const id = randomUUID()
  res.locals['requestId'] = id
  res.setHeader('X-Request-Id', id)
  if (req.method === 'GET' || req.method === 'HEAD' || req.method === 'OPTIONS') res.setHeader('Access-Control-Allow-Origin', '*')
  runInScope({ request_id: id }, next)
}

export const refuseUnknownPath: RequestHandler = (req, res) => {
  sendRefusal(res, new Refusal('no_such_route', `There is no route ${req.method} at this path; GET ${API_BASE} lists them all.`))
}

/**
 * The router's last word, in place of Express's own, which is a page. It comes to that for a target that is no URL: the
 * router gives it up before the first middleware.
 */
export function answerUnrouted(ctx: Context): (req: Request, res: Response) => (error?: unknown) => void {
  const [measure, answerError] = [measureRequests(ctx), answerErrors(ctx)]
  return (req, res) => (error) => {
    const ignored = (): void => undefined
    if (error !== undefined) return void answerError(error, req, res, ignored)
    identifyRequest(req, res, () => measure(req, res, () => refuseUnknownPath(req, res, ignored)))
    discardRest(req)
  }
}

export function answerErrors(ctx: Context): ErrorRequestHandler {
  return (error: unknown, req, res, _next) => {
    const refusal = toRefusal(error, ctx.log, String(res.locals['requestId']))
    if (res.headersSent) return void res.destroy()
    sendRefusal(res, refusal)
    discardRest(req)
  }
}
