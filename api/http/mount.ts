import { randomUUID } from 'node:crypto'
import type { RequestListener } from 'node:http'
import type { Express, NextFunction, Request, RequestHandler, Response } from 'express'
import { Router } from 'express'
import type { Context } from '../../shared/context.ts'
import { Refusal } from '../../shared/platform/errors.ts'
import { API_BASE, CLOSE_LIMIT_MS } from '../../shared/platform/limits.ts'
import { runInScope } from '../../shared/platform/scope.ts'
import { sendJson, sendRefusal } from './answer.ts'
import { discardRest } from './body.ts'
import { answerInTurn } from './connection.ts'
import type { Gate } from '../gate/gate.ts'
import { measureRequests } from './measure.ts'
import { isLate, noteError, type NoteRefusal } from './refusals.ts'
import type { Route } from './route.ts'
import { serve, type Frame } from './serve.ts'
import type { Visitor } from '../gate/turns.ts'

/** How long a browser may remember which methods and headers a path accepts. */
const PREFLIGHT_SECONDS = 86_400

/** Returns the one or two paths of a route, the one below the API base first. */
export function pathsOf(route: Route): string[] {
  if (route.onlyAtRoot) return [route.path]
  const below = route.path === '/' ? API_BASE : `${API_BASE}${route.path}`
  return route.alsoAtRoot ? [below, route.path] : [below]
}

/**
 * Mounts the routes, and for each path an answer to all other methods. What begins with the same word has a
 * router of its own, since to pass a hundred paths would cost more than many a handler. Paths without
 * parameters come first, so that `/claim/resolve` isn't taken for the claim with the id `resolve`.
 */
export function mountRoutes(app: Router, frame: Frame, routes: readonly Route[]): void {
  const places = routes.flatMap((route) => pathsOf(route).map((path) => ({ path, route })))
  places.sort((a, b) => Number(a.path.includes('{')) - Number(b.path.includes('{')))
  for (const [area, inArea] of Map.groupBy(places, ({ path }) => AREA.exec(path)?.[0] ?? '')) {
    const paths = Map.groupBy(inArea, ({ path }) => path)
    const router = paths.size === 1 ? app : Router({ caseSensitive: true })
    if (router !== app) app.use(area, router)
    for (const [path, ofPath] of paths) {
      const below = router === app ? path : path.slice(area.length)
      const mounted = router.route(expressPath(below, ofPath[0]?.route.endsOpen))
      for (const { route } of ofPath) mounted[EXPRESS_METHODS[route.method]](serve(frame, route, path))
      const allowed = ofPath.flatMap(({ route: { method } }) =>
        method === 'GET' ? ['GET', 'HEAD'] : [method],
      )
      mounted.all(answerOtherMethods(frame, path, [...allowed, 'OPTIONS'], ['If-None-Match']))
    }
  }
}

const EXPRESS_METHODS = { GET: 'get', POST: 'post', DELETE: 'delete' } as const

/** The first word of a path, with the base before it. */
const AREA = new RegExp(`^(${API_BASE})?/?[^/]*`)

/** Returns a path in Express's form: `{name}` as `:name`; if it `endsOpen`, the last as `*name`, with slashes. */
const expressPath = (path: string, endsOpen = false): string =>
  (endsOpen ? path.replace(/\{(\w+)\}$/, '*$1') : path).replace(/\{(\w+)\}/g, ':$1')

/**
 * Returns a handler that answers OPTIONS with a path's methods, and refuses methods that it doesn't take.
 *
 * @param headers what a page of another site may send, beside `Authorization` and `Content-Type`
 */
export function answerOtherMethods(
  { gate }: Frame,
  path: string,
  allowed: readonly string[],
  headers: readonly string[],
): RequestHandler {
  return async (req, res) => {
    res.locals['path'] = path
    res.setHeader('Allow', allowed.join(', '))
    if (req.method !== 'OPTIONS')
      throw new Refusal(
        'method_not_allowed',
        `This path does not take ${req.method}; it takes ${allowed.join(', ')}.`,
      )
    await gate.next(res.locals['visitor'] as Visitor)
    res.setHeader('Access-Control-Allow-Methods', allowed.join(', '))
    res.setHeader('Access-Control-Allow-Headers', ['Authorization', 'Content-Type', ...headers].join(', '))
    res.setHeader('Access-Control-Max-Age', PREFLIGHT_SECONDS)
    sendJson(res, 200, { ok: true, methods: allowed })
  }
}

/**
 * Returns the listener of an API's requests: it begins and measures each, has the app find its route, and
 * refuses what the app has none for. So that also holds for a request target that is not a URL, which Express
 * gives up before the first middleware.
 */
export function listenWith(
  app: Express,
  ctx: Context,
  answerError: ReturnType<typeof answerErrors>,
): RequestListener {
  const measure = measureRequests(ctx)
  const handle: RequestHandler = app
  return answerInTurn((incoming, outgoing) => {
    const req = incoming as Request
    const res = Object.assign(outgoing as Response, { locals: {} })
    const refuse = (error?: unknown): void => void answerError(error ?? noSuchRoute(req), req, res)
    beginRequest(req, res, () => measure(req, res, () => void handle(req, res, refuse)))
  })
}

/**
 * Gives each request an id, for `X-Request-Id`, the log and the jobs that it enqueues; the headers for calls
 * from web pages; `res.locals.life`, an AbortController that stops its work when its caller has left; and
 * `res.locals.visitor`, who takes its turns.
 */
export const beginRequest: RequestHandler = (req, res, next) => {
  const id = randomUUID()
  res.locals['requestId'] = id
  res.setHeader('X-Request-Id', id)
  // Any page may call: unlike a cookie, a token is never sent by a browser on its own.
  res.setHeader('Access-Control-Allow-Origin', '*')
  res.setHeader('Access-Control-Expose-Headers', 'Allow, ETag, Retry-After, WWW-Authenticate, X-Request-Id')
  const life = new AbortController()
  res.locals['life'] = life
  // Until its route has said who the caller is.
  res.locals['visitor'] = { line: 'open', caller: req.socket } satisfies Visitor
  // An answer closes once, and a listener that is not taken off again costs less.
  res.on('close', () => {
    if (!res.writableFinished)
      life.abort(new Refusal('unavailable', 'The caller has left.', { countedAs: 'caller_left' }))
  })
  runInScope({ request_id: id }, next, life.signal)
}

const noSuchRoute = ({ method }: Request): Refusal =>
  new Refusal('no_such_route', `There is no route ${method} at this path; GET ${API_BASE} lists them all.`)

/**
 * Returns the handler that answers an error with a refusal: see noteError(). If a part of the answer has been
 * sent, the connection is cut.
 */
export function answerErrors(ctx: Context, gate: Gate, note: NoteRefusal) {
  return async (error: unknown, req: Request, res: Response, _next?: NextFunction): Promise<void> => {
    // A refusal costs as much as many an answer; one whose time is over takes its turn, too.
    const visitor = res.locals['visitor'] as Visitor
    const { line, caller, signal } = visitor
    await gate.goOn(signal?.aborted === true ? { line, caller } : visitor)
    const refusal = noteError(error, ctx.log, note, String(res.locals['requestId']))
    if (res.headersSent || res.destroyed) return void res.destroy()
    if (isLate(refusal)) res.setHeader('Connection', 'close')
    sendRefusal(res, refusal)
    const next = (): Promise<void> => gate.runWhole({ line, caller }, () => undefined)
    discardRest(req, next, isLate(refusal) ? CLOSE_LIMIT_MS : undefined)
  }
}
